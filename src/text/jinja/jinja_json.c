/* jinja_json.c - values to JSON, as Python's json.dumps writes it, and from JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "text/jinja/jinja_builtins.h"
#include "text/jinja/jinja_number.h"
#include "text/jinja/jinja_text.h"
#include "text/unicode/unicode.h"

static bool write_at(lk_jvm *vm, lk_jbuild *out, lk_jvalue v, const lk_jjson_style *style,
                     uint32_t depth);

static bool put_escape(lk_jbuild *out, uint32_t cp, uint8_t origin) {
    char text[16];
    static const char letters[] = "bfnrt\"\\";
    static const char values[] = "\b\f\n\r\t\"\\";
    const char *at = cp < 0x80 && cp != 0 ? strchr(values, (int)cp) : NULL;
    int n = 0;
    if (at != NULL) {
        n = snprintf(text, sizeof text, "\\%c", letters[at - values]);
    } else if (cp < 0x10000) {
        n = snprintf(text, sizeof text, "\\u%04x", (unsigned)cp);
    } else {
        n = snprintf(text, sizeof text, "\\u%04x\\u%04x", (unsigned)(0xD7C0 + (cp >> 10)),
                     (unsigned)(0xDC00 | (cp & 0x3FF)));
    }
    return lk_jbuild_bytes(out, text, (size_t)n, origin);
}

static bool write_string(lk_jbuild *out, const lk_jstring *s, bool ascii) {
    size_t start = 0;
    bool ok = lk_jbuild_text(out, "\"");
    for (size_t i = 0; i < s->n && ok;) {
        size_t n = 0;
        const uint32_t cp = lk_utf8_get(s->bytes + i, &n);
        if (cp < 0x20 || cp == '"' || cp == '\\' || (ascii && cp >= 0x7F)) {
            ok = lk_jbuild_part(out, s, start, i) && put_escape(out, cp, lk_jstring_origin(s, i));
            start = i + n;
        }
        i += n;
    }
    return ok && lk_jbuild_part(out, s, start, s->n) && lk_jbuild_text(out, "\"");
}

static bool break_line(lk_jbuild *out, const lk_jjson_style *style, uint32_t depth) {
    return style->indent == NULL ||
           (lk_jbuild_text(out, "\n") && lk_jbuild_repeat(out, style->indent, depth));
}

static bool write_list(lk_jvm *vm, lk_jbuild *out, const lk_jlist *list,
                       const lk_jjson_style *style, uint32_t depth) {
    if (list->n == 0) {
        return lk_jcheck(vm, lk_jbuild_text(out, "[]"));
    }
    bool ok = lk_jbuild_text(out, "[");
    for (size_t i = 0; i < list->n && ok; i++) {
        ok = (i == 0 || lk_jbuild_string(out, style->item_separator)) &&
             break_line(out, style, depth) && write_at(vm, out, list->items[i], style, depth);
    }
    return lk_jcheck(vm, ok && break_line(out, style, depth - 1) && lk_jbuild_text(out, "]"));
}

static bool write_key(lk_jvm *vm, lk_jbuild *out, lk_jvalue key, const lk_jjson_style *style) {
    if (key.type == LK_J_STRING) {
        return lk_jcheck(vm, write_string(out, key.s, style->ascii));
    }
    return lk_jcheck(vm, lk_jbuild_text(out, "\"")) && write_at(vm, out, key, style, 0) &&
           lk_jcheck(vm, lk_jbuild_text(out, "\""));
}

static int by_key(const void *a, const void *b) {
    const lk_jentry *x = *(const lk_jentry *const *)a, *y = *(const lk_jentry *const *)b;
    return lk_jstring_compare(x->key.s, y->key.s);
}

/* The members in the order in which they are written. */
static const lk_jentry **members(lk_jvm *vm, const lk_jdict *dict, bool sorted) {
    const lk_jentry **order = lk_jheap_array(&vm->heap, dict->n, sizeof(const lk_jentry *));
    if (order == NULL || !lk_jheap_charge(&vm->heap, 16 * (uint64_t)dict->n)) {
        (void)lk_jheap_failed(vm);
        return NULL;
    }
    for (size_t i = 0; i < dict->n; i++) {
        order[i] = &dict->entries[i];
        if (sorted && order[i]->key.type != LK_J_STRING) {
            (void)lk_jfail(vm, "tojson sorts names that are texts only");
            return NULL;
        }
    }
    if (sorted) {
        qsort((void *)order, dict->n, sizeof(const lk_jentry *), by_key);
    }
    return order;
}

static bool write_dict(lk_jvm *vm, lk_jbuild *out, const lk_jdict *dict,
                       const lk_jjson_style *style, uint32_t depth) {
    if (dict->n == 0) {
        return lk_jcheck(vm, lk_jbuild_text(out, "{}"));
    }
    const lk_jentry **order = members(vm, dict, style->sorted);
    bool ok = order != NULL && lk_jbuild_text(out, "{");
    for (size_t i = 0; i < dict->n && ok; i++) {
        ok = (i == 0 || lk_jbuild_string(out, style->item_separator)) &&
             break_line(out, style, depth) && write_key(vm, out, order[i]->key, style) &&
             lk_jbuild_string(out, style->key_separator) &&
             write_at(vm, out, order[i]->value, style, depth);
    }
    return lk_jcheck(vm, ok && break_line(out, style, depth - 1) && lk_jbuild_text(out, "}"));
}

static bool write_at(lk_jvm *vm, lk_jbuild *out, lk_jvalue v, const lk_jjson_style *style,
                     uint32_t depth) {
    if (depth == LK_J_MAX_NESTING) {
        return lk_jfail_status(vm, LK_E_LIMIT, "a value is nested deeper than %d",
                               LK_J_MAX_NESTING);
    }
    if (!lk_jheap_charge(&vm->heap, 1)) {
        return lk_jheap_failed(vm);
    }
    switch (v.type) {
    case LK_J_STRING:
        return lk_jcheck(vm, write_string(out, v.s, style->ascii));
    case LK_J_NONE:
        return lk_jcheck(vm, lk_jbuild_text(out, "null"));
    case LK_J_BOOL:
        return lk_jcheck(vm, lk_jbuild_text(out, v.b ? "true" : "false"));
    case LK_J_FLOAT:
        if (v.f != v.f || v.f - v.f != 0) {
            return lk_jcheck(vm, lk_jbuild_text(out, v.f != v.f ? "NaN"
                                                     : v.f > 0  ? "Infinity"
                                                                : "-Infinity"));
        }
        return lk_jprint(vm, out, v);
    case LK_J_INT:
    case LK_J_BIG:
        return lk_jprint(vm, out, v);
    case LK_J_LIST:
    case LK_J_TUPLE:
        return write_list(vm, out, v.list, style, depth + 1);
    case LK_J_DICT:
        return write_dict(vm, out, v.dict, style, depth + 1);
    case LK_J_UNDEFINED:
        return lk_jfail_undefined(vm, v);
    default:
        return lk_jfail(vm, "a value of type '%s' cannot be written as JSON", lk_jtype_name(v));
    }
}

bool lk_jjson_write(lk_jvm *vm, lk_jbuild *out, lk_jvalue v, const lk_jjson_style *style) {
    return write_at(vm, out, v, style, 0);
}

static bool separators(lk_jvm *vm, lk_jvalue given, lk_jjson_style *style) {
    const bool is_given = given.type != LK_J_UNSET && given.type != LK_J_NONE;
    if (is_given) {
        const bool is_list = given.type == LK_J_LIST || given.type == LK_J_TUPLE;
        if (!is_list || given.list->n != 2 || given.list->items[0].type != LK_J_STRING ||
            given.list->items[1].type != LK_J_STRING) {
            return lk_jfail(vm, "separators of tojson must be two texts");
        }
        style->item_separator = given.list->items[0].s;
        style->key_separator = given.list->items[1].s;
        return true;
    }
    style->item_separator = lk_jstring_text(&vm->heap, style->indent != NULL ? "," : ", ");
    style->key_separator = lk_jstring_text(&vm->heap, ": ");
    return lk_jcheck(vm, style->item_separator != NULL && style->key_separator != NULL);
}

static bool indent(lk_jvm *vm, lk_jvalue given, lk_jjson_style *style) {
    int64_t width = 0;
    style->indent = NULL;
    if (given.type == LK_J_UNSET || given.type == LK_J_NONE) {
        return true;
    }
    if (given.type == LK_J_STRING) {
        style->indent = given.s;
        return true;
    }
    if (!lk_jarg_int(vm, given, 0, &width)) {
        return false;
    }
    lk_jbuild build;
    lk_jbuild_init(&build, &vm->heap);
    for (int64_t i = 0; i < width && lk_jbuild_text(&build, " "); i++) {
    }
    style->indent = lk_jbuild_finish(&build);
    return lk_jcheck(vm, style->indent != NULL);
}

bool lk_jfilter_tojson(lk_jvm *vm, lk_jvalue v, const lk_jvalue *p, const lk_jargs *args,
                       lk_jvalue *out) {
    (void)args;
    lk_jjson_style style = {.ascii = lk_jarg_bool(p[0], false),
                            .sorted = lk_jarg_bool(p[3], false)};
    lk_jbuild build;
    lk_jbuild_init(&build, &vm->heap);
    return indent(vm, p[1], &style) && separators(vm, p[2], &style) &&
           lk_jjson_write(vm, &build, v, &style) && lk_jreturn(vm, lk_jbuild_finish(&build), out);
}

/* ---- reading ---- */

static bool scalar(lk_jheap *heap, const lk_json *json, uint32_t i, uint8_t origin,
                   lk_jvalue *out) {
    size_t n = 0;
    const char *text = NULL;
    int64_t integer = 0;
    switch (json->values[i].type) {
    case LK_JSON_FALSE:
    case LK_JSON_TRUE:
        *out = lk_jbool(json->values[i].type == LK_JSON_TRUE);
        return true;
    case LK_JSON_STRING:
        text = lk_json_text(json, i, &n);
        *out = lk_jstr(lk_jstring_new(heap, text, n, origin));
        return out->s != NULL;
    case LK_JSON_NUMBER:
        text = lk_json_text(json, i, &n);
        if (memchr(text, '.', n) != NULL || memchr(text, 'e', n) != NULL ||
            memchr(text, 'E', n) != NULL) {
            *out = lk_jfloat(lk_jparse_float((const uint8_t *)text, n));
        } else if (lk_jparse_int((const uint8_t *)text, n, &integer)) {
            *out = lk_jint(integer);
        } else {
            *out = (lk_jvalue){.type = LK_J_BIG, .s = lk_jstring_new(heap, text, n, origin)};
            return out->s != NULL;
        }
        return true;
    default:
        *out = lk_jnone();
        return true;
    }
}

/* Depth is bounded by the limits of the parser. */
static bool convert(lk_jheap *heap, const lk_json *json, uint32_t i, uint8_t origin,
                    lk_jvalue *out) {
    const lk_json_value *value = &json->values[i];
    if (!lk_jheap_charge(heap, 1)) {
        return false;
    }
    if (value->type == LK_JSON_ARRAY) {
        lk_jlist *list = lk_jlist_new(heap, value->n);
        *out = (lk_jvalue){.type = LK_J_LIST, .list = list};
        for (uint32_t k = value->first; k != 0 && list != NULL; k = json->values[k].next) {
            lk_jvalue item = lk_jnone();
            if (!convert(heap, json, k, origin, &item) || !lk_jlist_push(heap, list, item)) {
                return false;
            }
        }
        return list != NULL;
    }
    if (value->type == LK_JSON_OBJECT) {
        lk_jdict *dict = lk_jdict_new(heap);
        *out = (lk_jvalue){.type = LK_J_DICT, .dict = dict};
        for (uint32_t k = value->first; k != 0 && dict != NULL; k = json->values[k].next) {
            lk_jvalue item = lk_jnone();
            size_t n = 0;
            const char *text = lk_json_key(json, k, &n);
            const lk_jstring *key = lk_jstring_new(heap, text, n, origin);
            if (key == NULL || !convert(heap, json, k, origin, &item) ||
                !lk_jdict_set(heap, dict, lk_jstr(key), item)) {
                return false;
            }
        }
        return dict != NULL;
    }
    return scalar(heap, json, i, origin, out);
}

lk_status lk_jjson_read(lk_jheap *heap, const char *text, size_t n, uint8_t origin,
                        const char *what, lk_jvalue *out, lk_error *err) {
    enum { MAX_DEPTH = 200 };
    const lk_json_limits limits = {LK_JSON_MAX_BYTES, MAX_DEPTH};
    lk_json json;
    lk_error reason = {.message = ""};
    *out = lk_jnone();
    lk_status status = lk_json_parse(text, n, limits, heap->allocator, &json, &reason);
    if (status != LK_OK) {
        return lk_fail(err, status, (lk_where){-1, -1, reason.offset, what}, "%s: %.300s", what,
                       reason.message);
    }
    if (!convert(heap, &json, 0, origin, out)) {
        status = heap->failure == LK_E_NOMEM
                     ? lk_fail_nomem(err, what, heap->used)
                     : lk_fail(err, LK_E_LIMIT, LK_AT_SUBJECT(what), "%s: too large", what);
    }
    lk_json_deinit(&json);
    return status;
}

bool lk_jfilter_from_json(lk_jvm *vm, lk_jvalue v, const lk_jvalue *p, const lk_jargs *args,
                          lk_jvalue *out) {
    (void)p;
    (void)args;
    lk_error err = {.message = ""};
    if (v.type != LK_J_STRING) {
        return lk_jfail(vm, "from_json needs a text");
    }
    const lk_status status = lk_jjson_read(&vm->heap, (const char *)v.s->bytes, v.s->n, LK_J_DATA,
                                           "from_json", out, &err);
    return status == LK_OK ||
           lk_jfail_status(vm, status == LK_E_FORMAT ? LK_E_TEMPLATE : status, "%s", err.message);
}

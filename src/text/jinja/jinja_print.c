/* jinja_print.c - values as text: Python's str() and repr(). */
#include <stdio.h>

#include "text/jinja/jinja_number.h"
#include "text/jinja/jinja_vm.h"
#include "text/unicode/unicode.h"

static bool repr_at(lk_jvm *vm, lk_jbuild *out, lk_jvalue v, int depth);

/* Whether repr() writes a character as it is. */
static bool is_printable(uint32_t cp) {
    if (cp < 0x7F) {
        return cp >= 0x20;
    }
    const uint32_t category = lk_unicode_prop(cp) & LK_PROP_CATEGORY;
    return category < LK_CAT_ZS;
}

static bool repr_char(lk_jbuild *out, const lk_jstring *s, size_t at, size_t n, uint8_t quote) {
    const uint32_t cp = lk_utf8_get(s->bytes + at, &n);
    const uint8_t origin = lk_jstring_origin(s, at);
    char text[16];
    if (cp == quote || cp == '\\') {
        return lk_jbuild_bytes(out, "\\", 1, origin) && lk_jbuild_part(out, s, at, at + 1);
    }
    if (is_printable(cp)) {
        return lk_jbuild_part(out, s, at, at + n);
    }
    const char *form = cp == '\n'      ? "\\n"
                       : cp == '\r'    ? "\\r"
                       : cp == '\t'    ? "\\t"
                       : cp < 0x100    ? "\\x%02x"
                       : cp < 0x10000u ? "\\u%04x"
                                       : "\\U%08x";
    const int length = cp == '\n' || cp == '\r' || cp == '\t'
                           ? snprintf(text, sizeof text, "%s", form)
                       : cp < 0x100    ? snprintf(text, sizeof text, "\\x%02x", (unsigned)cp)
                       : cp < 0x10000u ? snprintf(text, sizeof text, "\\u%04x", (unsigned)cp)
                                       : snprintf(text, sizeof text, "\\U%08x", (unsigned)cp);
    return lk_jbuild_bytes(out, text, (size_t)length, origin);
}

static bool repr_string(lk_jvm *vm, lk_jbuild *out, const lk_jstring *s) {
    bool has_single = false, has_double = false;
    for (size_t i = 0; i < s->n; i++) {
        has_single = has_single || s->bytes[i] == '\'';
        has_double = has_double || s->bytes[i] == '"';
    }
    const uint8_t quote = has_single && !has_double ? '"' : '\'';
    bool ok = lk_jbuild_bytes(out, &quote, 1, LK_J_TEMPLATE);
    for (size_t i = 0; i < s->n && ok;) {
        const size_t n = lk_utf8_length(s->bytes[i]);
        ok = repr_char(out, s, i, n, quote);
        i += n;
    }
    return lk_jcheck(vm, ok && lk_jbuild_bytes(out, &quote, 1, LK_J_TEMPLATE));
}

static bool repr_list(lk_jvm *vm, lk_jbuild *out, lk_jvalue v, int depth) {
    const bool is_tuple = v.type == LK_J_TUPLE;
    bool ok = lk_jbuild_text(out, is_tuple ? "(" : "[");
    for (size_t i = 0; i < v.list->n && ok; i++) {
        ok = (i == 0 || lk_jbuild_text(out, ", ")) && repr_at(vm, out, v.list->items[i], depth);
    }
    return lk_jcheck(vm, ok && (!is_tuple || v.list->n != 1 || lk_jbuild_text(out, ",")) &&
                             lk_jbuild_text(out, is_tuple ? ")" : "]"));
}

static bool repr_dict(lk_jvm *vm, lk_jbuild *out, const lk_jdict *dict, int depth) {
    bool ok = lk_jbuild_text(out, "{");
    for (size_t i = 0; i < dict->n && ok; i++) {
        ok = (i == 0 || lk_jbuild_text(out, ", ")) &&
             repr_at(vm, out, dict->entries[i].key, depth) && lk_jbuild_text(out, ": ") &&
             repr_at(vm, out, dict->entries[i].value, depth);
    }
    return lk_jcheck(vm, ok && lk_jbuild_text(out, "}"));
}

/* What str() and repr() write alike. */
static bool plain(lk_jvm *vm, lk_jbuild *out, lk_jvalue v, int depth) {
    char text[LK_JFLOAT_CHARS + 40];
    switch (v.type) {
    case LK_J_NONE:
        return lk_jcheck(vm, lk_jbuild_text(out, "None"));
    case LK_J_BOOL:
        return lk_jcheck(vm, lk_jbuild_text(out, v.b ? "True" : "False"));
    case LK_J_INT:
        (void)snprintf(text, sizeof text, "%lld", (long long)v.i);
        return lk_jcheck(vm, lk_jbuild_text(out, text));
    case LK_J_BIG:
        return lk_jcheck(vm, lk_jbuild_string(out, v.s));
    case LK_J_FLOAT:
        lk_jfloat_text(v.f, text);
        return lk_jcheck(vm, lk_jbuild_text(out, text));
    case LK_J_LIST:
    case LK_J_TUPLE:
        return repr_list(vm, out, v, depth + 1);
    case LK_J_DICT:
        return repr_dict(vm, out, v.dict, depth + 1);
    default:
        return lk_jfail(vm, "a value of type '%s' has no text", lk_jtype_name(v));
    }
}

static bool repr_at(lk_jvm *vm, lk_jbuild *out, lk_jvalue v, int depth) {
    if (depth == LK_J_MAX_NESTING) {
        return lk_jfail_status(vm, LK_E_LIMIT, "a value is nested deeper than %d",
                               LK_J_MAX_NESTING);
    }
    if (!lk_jheap_charge(&vm->heap, 1)) {
        return lk_jheap_failed(vm);
    }
    if (v.type == LK_J_STRING) {
        return repr_string(vm, out, v.s);
    }
    if (v.type == LK_J_UNDEFINED) {
        return lk_jcheck(vm, lk_jbuild_text(out, "Undefined"));
    }
    return plain(vm, out, v, depth);
}

bool lk_jrepr(lk_jvm *vm, lk_jbuild *out, lk_jvalue v) {
    return repr_at(vm, out, v, 0);
}

bool lk_jprint(lk_jvm *vm, lk_jbuild *out, lk_jvalue v) {
    if (v.type == LK_J_STRING) {
        return lk_jcheck(vm, lk_jbuild_string(out, v.s));
    }
    return v.type == LK_J_UNDEFINED || plain(vm, out, v, 0);
}

const lk_jstring *lk_jto_string(lk_jvm *vm, lk_jvalue v) {
    if (v.type == LK_J_STRING) {
        return v.s;
    }
    lk_jbuild out;
    lk_jbuild_init(&out, &vm->heap);
    return lk_jprint(vm, &out, v) ? lk_jbuild_finish(&out) : NULL;
}

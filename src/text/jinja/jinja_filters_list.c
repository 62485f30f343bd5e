/* jinja_filters_list.c - the filters that work on lists and dicts. */
#include <string.h>

#include "text/jinja/jinja_builtins.h"
#include "text/jinja/jinja_number.h"
#include "text/jinja/jinja_text.h"
#include "text/unicode/unicode.h"

#define FILTER(name)                                                                               \
    bool lk_jfilter_##name(lk_jvm *vm, lk_jvalue v, const lk_jvalue *p, const lk_jargs *args,      \
                           lk_jvalue *out)

static bool return_list(lk_jvm *vm, lk_jtype type, lk_jlist *list, lk_jvalue *out) {
    if (list == NULL) {
        return lk_jheap_failed(vm);
    }
    *out = (lk_jvalue){.type = type, .list = list};
    return true;
}

/* The value that "a.b.0" names inside of v; with a default for what is undefined. */
static bool get_path(lk_jvm *vm, lk_jvalue v, lk_jvalue path, lk_jvalue *out) {
    if (path.type != LK_J_STRING) {
        return lk_jget_item(vm, v, path, out);
    }
    *out = v;
    for (size_t at = 0; at <= path.s->n;) {
        size_t end = at;
        bool is_number = true;
        for (; end < path.s->n && path.s->bytes[end] != '.'; end++) {
            is_number = is_number && path.s->bytes[end] >= '0' && path.s->bytes[end] <= '9';
        }
        const lk_jstring *part = lk_jstring_slice(&vm->heap, path.s, at, end);
        int64_t index = 0;
        if (part == NULL) {
            return lk_jheap_failed(vm);
        }
        const lk_jvalue key = is_number && lk_jparse_int(part->bytes, part->n, &index)
                                  ? lk_jint(index)
                                  : lk_jstr(part);
        if (!lk_jget_item(vm, *out, key, out)) {
            return false;
        }
        at = end + 1;
    }
    return true;
}

/* What elements are compared by: an attribute, in lower case unless case matters. */
static bool sort_key(lk_jvm *vm, lk_jvalue v, lk_jvalue attribute, bool with_case, lk_jvalue *out) {
    *out = v;
    if (attribute.type != LK_J_UNSET && attribute.type != LK_J_NONE &&
        !get_path(vm, v, attribute, out)) {
        return false;
    }
    return with_case || out->type != LK_J_STRING ||
           lk_jreturn(vm, lk_jtext_case(vm, out->s, LK_JCASE_LOWER), out);
}

FILTER(length) {
    (void)p;
    (void)args;
    switch (v.type) {
    case LK_J_STRING:
        *out = lk_jint((int64_t)v.s->n_chars);
        return true;
    case LK_J_LIST:
    case LK_J_TUPLE:
        *out = lk_jint((int64_t)v.list->n);
        return true;
    case LK_J_DICT:
        *out = lk_jint((int64_t)v.dict->n);
        return true;
    case LK_J_UNDEFINED:
        *out = lk_jint(0);
        return true;
    default:
        return lk_jfail(vm, "a value of type '%s' has no length", lk_jtype_name(v));
    }
}

FILTER(default) {
    (void)vm;
    (void)args;
    const bool use = v.type == LK_J_UNDEFINED || (lk_jarg_bool(p[1], false) && !lk_jtruth(v));
    *out = v;
    if (use && p[0].type == LK_J_UNSET) {
        return lk_jreturn(vm, lk_jstring_text(&vm->heap, ""), out);
    }
    if (use) {
        *out = p[0];
    }
    return true;
}

FILTER(attr) {
    (void)args;
    if (p[0].type != LK_J_STRING) {
        return lk_jfail(vm, "attr needs the name of an attribute");
    }
    *out = (lk_jvalue){.type = LK_J_UNDEFINED, .aux = (uint8_t)v.type, .s = p[0].s};
    return v.type == LK_J_DICT || lk_jget_attr(vm, v, p[0].s, out);
}

FILTER(first) {
    (void)p;
    (void)args;
    lk_jlist *list = NULL;
    if (v.type == LK_J_STRING) {
        return lk_jget_item(vm, v, lk_jint(0), out);
    }
    if (!lk_jelements(vm, v, &list)) {
        return false;
    }
    *out = list->n != 0 ? list->items[0] : (lk_jvalue){.type = LK_J_UNDEFINED};
    return true;
}

FILTER(last) {
    (void)p;
    (void)args;
    lk_jlist *list = NULL;
    if (v.type == LK_J_STRING) {
        return lk_jget_item(vm, v, lk_jint(-1), out);
    }
    if (!lk_jelements(vm, v, &list)) {
        return false;
    }
    *out = list->n != 0 ? list->items[list->n - 1] : (lk_jvalue){.type = LK_J_UNDEFINED};
    return true;
}

static lk_jlist *copy_list(lk_jvm *vm, lk_jvalue v) {
    lk_jlist *from = NULL;
    if (!lk_jelements(vm, v, &from)) {
        return NULL;
    }
    lk_jlist *list = lk_jlist_new(&vm->heap, from->n);
    if (list == NULL || !lk_jheap_charge(&vm->heap, from->n)) {
        (void)lk_jheap_failed(vm);
        return NULL;
    }
    if (from->n != 0) {
        memcpy(list->items, from->items, from->n * sizeof *list->items);
    }
    list->n = from->n;
    return list;
}

FILTER(list) {
    (void)p;
    (void)args;
    lk_jlist *list = copy_list(vm, v);
    return list != NULL && return_list(vm, LK_J_LIST, list, out);
}

FILTER(items) {
    if (v.type == LK_J_UNDEFINED) {
        return return_list(vm, LK_J_ITERATOR, lk_jlist_new(&vm->heap, 0), out);
    }
    if (v.type != LK_J_DICT) {
        return lk_jfail(vm, "items needs a dict, not a value of type '%s'", lk_jtype_name(v));
    }
    return lk_jmethod_dict_items(vm, v, p, args, out);
}

FILTER(reverse) {
    (void)p;
    (void)args;
    const lk_jvalue bounds[3] = {lk_jnone(), lk_jnone(), lk_jint(-1)};
    if (v.type == LK_J_STRING) {
        return lk_jget_slice(vm, v, bounds, out);
    }
    lk_jlist *list = copy_list(vm, v);
    for (size_t i = 0; list != NULL && i < list->n / 2; i++) {
        const lk_jvalue other = list->items[list->n - 1 - i];
        list->items[list->n - 1 - i] = list->items[i];
        list->items[i] = other;
    }
    return list != NULL && return_list(vm, LK_J_ITERATOR, list, out);
}

FILTER(join) {
    (void)args;
    lk_jlist *list = NULL;
    const lk_jstring *d = p[0].type == LK_J_UNSET ? NULL : lk_jto_string(vm, p[0]);
    if (!lk_jelements(vm, v, &list) || (p[0].type != LK_J_UNSET && d == NULL)) {
        return lk_jheap_failed(vm);
    }
    lk_jbuild build;
    lk_jbuild_init(&build, &vm->heap);
    for (size_t i = 0; i < list->n; i++) {
        lk_jvalue item = list->items[i];
        if (p[1].type != LK_J_UNSET && p[1].type != LK_J_NONE && !get_path(vm, item, p[1], &item)) {
            return false;
        }
        if (i != 0 && d != NULL) {
            (void)lk_jbuild_string(&build, d);
        }
        if (!lk_jprint(vm, &build, item)) {
            return false;
        }
    }
    return lk_jreturn(vm, lk_jbuild_finish(&build), out);
}

/* ---- map, select, reject ---- */

/* The call of a filter or test that map() and select() were given by name. */
typedef struct inner_call {
    int number;
    lk_jargs args;
} inner_call;

static bool find_inner(lk_jvm *vm, const lk_jargs *args, uint32_t at, bool is_test,
                       inner_call *call) {
    const lk_jvalue name = args->values[at];
    if (name.type != LK_J_STRING) {
        return lk_jfail(vm, "the name of a %s must be a text", is_test ? "test" : "filter");
    }
    call->number = is_test ? lk_jlookup_test(name.s->bytes, name.s->n)
                           : lk_jlookup_filter(name.s->bytes, name.s->n);
    if (call->number < 0) {
        return lk_jfail_status(vm, LK_E_UNSUPPORTED, "there is no %s named '%.*s'",
                               is_test ? "test" : "filter", (int)(name.s->n < 64 ? name.s->n : 64),
                               (const char *)name.s->bytes);
    }
    call->args = (lk_jargs){args->values + at + 1, args->n - at - 1, args->names};
    return true;
}

/* map(attribute="x", default=y) */
static bool map_attribute(lk_jvm *vm, lk_jlist *list, const lk_jargs *args, lk_jlist *result) {
    lk_jvalue p[LK_JMAX_PARAMS];
    if (!lk_jbind(vm, "map", "attribute default", 1, args, p)) {
        return false;
    }
    for (size_t i = 0; i < list->n; i++) {
        lk_jvalue item = lk_jnone();
        if (!get_path(vm, list->items[i], p[0], &item)) {
            return false;
        }
        if (item.type == LK_J_UNDEFINED && p[1].type != LK_J_UNSET) {
            item = p[1];
        }
        if (!lk_jlist_push(&vm->heap, result, item)) {
            return lk_jheap_failed(vm);
        }
    }
    return true;
}

/* map, select and reject take anything that is false, none too, for an empty list. */
static bool elements_or_none(lk_jvm *vm, lk_jvalue v, lk_jlist **out) {
    const lk_jvalue undefined = {.type = LK_J_UNDEFINED};
    return lk_jelements(vm, lk_jtruth(v) ? v : undefined, out);
}

FILTER(map) {
    (void)p;
    lk_jlist *list = NULL;
    lk_jlist *result = lk_jlist_new(&vm->heap, 0);
    inner_call call = {-1, {NULL, 0, {NULL, 0}}};
    if (result == NULL || !elements_or_none(vm, v, &list)) {
        return lk_jheap_failed(vm);
    }
    if (lk_jargs_positional(args) == 0) {
        return map_attribute(vm, list, args, result) && return_list(vm, LK_J_ITERATOR, result, out);
    }
    if (!find_inner(vm, args, 0, false, &call)) {
        return false;
    }
    for (size_t i = 0; i < list->n; i++) {
        lk_jvalue item = lk_jnone();
        if (!lk_jfilter_call(vm, call.number, list->items[i], &call.args, &item)) {
            return false;
        }
        if (!lk_jlist_push(&vm->heap, result, item)) {
            return lk_jheap_failed(vm);
        }
    }
    return return_list(vm, LK_J_ITERATOR, result, out);
}

static bool select_by(lk_jvm *vm, lk_jvalue v, const lk_jargs *args, bool by_attribute, bool wanted,
                      lk_jvalue *out) {
    lk_jlist *list = NULL;
    lk_jlist *result = lk_jlist_new(&vm->heap, 0);
    inner_call call = {-1, {NULL, 0, {NULL, 0}}};
    const uint32_t at = by_attribute ? 1 : 0;
    if (result == NULL || !elements_or_none(vm, v, &list)) {
        return lk_jheap_failed(vm);
    }
    if (args->names.n != 0 || args->n < at) {
        return lk_jfail(vm, "select and reject need an attribute or a test");
    }
    if (args->n > at && !find_inner(vm, args, at, true, &call)) {
        return false;
    }
    for (size_t i = 0; i < list->n; i++) {
        lk_jvalue item = list->items[i];
        if (by_attribute && !get_path(vm, item, args->values[0], &item)) {
            return false;
        }
        bool is_true = lk_jtruth(item);
        if (call.number >= 0 && !lk_jtest_call(vm, call.number, item, &call.args, &is_true)) {
            return false;
        }
        if (is_true == wanted && !lk_jlist_push(&vm->heap, result, list->items[i])) {
            return lk_jheap_failed(vm);
        }
    }
    return return_list(vm, LK_J_ITERATOR, result, out);
}

FILTER(select) {
    (void)p;
    return select_by(vm, v, args, false, true, out);
}

FILTER(reject) {
    (void)p;
    return select_by(vm, v, args, false, false, out);
}

FILTER(selectattr) {
    (void)p;
    return select_by(vm, v, args, true, true, out);
}

FILTER(rejectattr) {
    (void)p;
    return select_by(vm, v, args, true, false, out);
}

/* ---- order ---- */

typedef struct keyed {
    lk_jvalue key;
    lk_jvalue value;
} keyed;

/* Merges a[0..middle) and a[middle..n), which are in order, through `scratch`. */
static bool merge(lk_jvm *vm, keyed *a, size_t middle, size_t n, keyed *scratch, bool reverse) {
    size_t i = 0, k = middle, at = 0;
    while (i < middle && k < n) {
        bool later = false; /* whether the right one comes first */
        if (!lk_jcompare_op(vm, LK_JCMP_LT, reverse ? a[i].key : a[k].key,
                            reverse ? a[k].key : a[i].key, &later)) {
            return false;
        }
        scratch[at++] = later ? a[k++] : a[i++];
    }
    memcpy(scratch + at, a + i, (middle - i) * sizeof *a);
    memcpy(a, scratch, (at + middle - i) * sizeof *a);
    return true;
}

/* Stable, from the bottom up. */
static bool sort_keyed(lk_jvm *vm, keyed *a, size_t n, bool reverse) {
    keyed *scratch = lk_jheap_array(&vm->heap, n, sizeof *scratch);
    if (scratch == NULL) {
        return lk_jheap_failed(vm);
    }
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t start = 0; start + width < n; start += 2 * width) {
            const size_t length = n - start < 2 * width ? n - start : 2 * width;
            if (!merge(vm, a + start, width, length, scratch, reverse)) {
                return false;
            }
        }
    }
    return true;
}

static keyed *keyed_list(lk_jvm *vm, const lk_jlist *list, lk_jvalue attribute, bool with_case) {
    keyed *a = lk_jheap_array(&vm->heap, list->n, sizeof *a);
    if (a == NULL) {
        (void)lk_jheap_failed(vm);
        return NULL;
    }
    for (size_t i = 0; i < list->n; i++) {
        a[i].value = list->items[i];
        if (!sort_key(vm, list->items[i], attribute, with_case, &a[i].key)) {
            return NULL;
        }
    }
    return a;
}

static bool sorted(lk_jvm *vm, lk_jvalue v, lk_jvalue attribute, bool with_case, bool reverse,
                   lk_jlist **out, keyed **keys) {
    lk_jlist *list = copy_list(vm, v);
    keyed *a = list != NULL ? keyed_list(vm, list, attribute, with_case) : NULL;
    if (a == NULL || !sort_keyed(vm, a, list->n, reverse)) {
        return false;
    }
    for (size_t i = 0; i < list->n; i++) {
        list->items[i] = a[i].value;
    }
    *out = list;
    *keys = a;
    return true;
}

FILTER(sort) {
    (void)args;
    lk_jlist *list = NULL;
    keyed *keys = NULL;
    return sorted(vm, v, p[2], lk_jarg_bool(p[1], false), lk_jarg_bool(p[0], false), &list,
                  &keys) &&
           return_list(vm, LK_J_LIST, list, out);
}

FILTER(dictsort) {
    (void)args;
    lk_jvalue pairs = lk_jnone();
    lk_jlist *list = NULL;
    keyed *keys = NULL;
    const bool by_value = p[1].type == LK_J_STRING && lk_jstring_is(p[1].s, "value");
    if (v.type != LK_J_DICT) {
        return v.type == LK_J_UNDEFINED
                   ? lk_jfail_undefined(vm, v)
                   : lk_jfail(vm, "dictsort needs a dict, not a value of type '%s'",
                              lk_jtype_name(v));
    }
    if (!by_value && p[1].type != LK_J_UNSET &&
        (p[1].type != LK_J_STRING || !lk_jstring_is(p[1].s, "key"))) {
        return lk_jfail(vm, "dictsort sorts by 'key' or 'value'");
    }
    return lk_jmethod_dict_items(vm, v, p, args, &pairs) &&
           sorted(vm, pairs, lk_jint(by_value), lk_jarg_bool(p[0], false),
                  lk_jarg_bool(p[2], false), &list, &keys) &&
           return_list(vm, LK_J_LIST, list, out);
}

FILTER(groupby) {
    (void)args;
    lk_jlist *list = NULL;
    keyed *keys = NULL;
    lk_jlist *groups = lk_jlist_new(&vm->heap, 0);
    const bool with_case = lk_jarg_bool(p[2], false);
    if (groups == NULL || !sorted(vm, v, p[0], with_case, false, &list, &keys)) {
        return lk_jheap_failed(vm);
    }
    for (size_t i = 0; i < list->n;) {
        lk_jlist *members = lk_jlist_new(&vm->heap, 0);
        lk_jlist *pair = lk_jlist_new(&vm->heap, 2);
        const size_t first = i;
        bool ok = members != NULL && pair != NULL;
        while (ok && i < list->n && lk_jequal(&vm->heap, keys[i].key, keys[first].key)) {
            ok = lk_jlist_push(&vm->heap, members, list->items[i++]);
        }
        if (!ok || i == first) {
            return lk_jheap_failed(vm);
        }
        lk_jvalue name = keys[first].key;
        if (!sort_key(vm, list->items[first], p[0], true, &name)) {
            return false;
        }
        if (name.type == LK_J_UNDEFINED && p[1].type != LK_J_UNSET) {
            name = p[1];
        }
        const lk_jvalue group = {.type = LK_J_LIST, .list = members};
        if (!lk_jlist_push(&vm->heap, pair, name) || !lk_jlist_push(&vm->heap, pair, group) ||
            !lk_jlist_push(&vm->heap, groups, (lk_jvalue){.type = LK_J_TUPLE, .list = pair})) {
            return lk_jheap_failed(vm);
        }
    }
    return return_list(vm, LK_J_LIST, groups, out);
}

FILTER(unique) {
    (void)args;
    lk_jlist *list = NULL;
    lk_jlist *result = lk_jlist_new(&vm->heap, 0);
    lk_jdict *seen = lk_jdict_new(&vm->heap);
    if (result == NULL || seen == NULL || !lk_jelements(vm, v, &list)) {
        return lk_jheap_failed(vm);
    }
    for (size_t i = 0; i < list->n; i++) {
        lk_jvalue key = lk_jnone();
        if (!sort_key(vm, list->items[i], p[1], lk_jarg_bool(p[0], false), &key)) {
            return false;
        }
        if (!lk_jis_key(key)) {
            return lk_jfail(vm, "unique needs texts or numbers, not a value of type '%s'",
                            lk_jtype_name(key));
        }
        if (lk_jdict_get(&vm->heap, seen, key) == NULL &&
            (!lk_jdict_set(&vm->heap, seen, key, lk_jnone()) ||
             !lk_jlist_push(&vm->heap, result, list->items[i]))) {
            return lk_jheap_failed(vm);
        }
    }
    return return_list(vm, LK_J_ITERATOR, result, out);
}

static bool extreme(lk_jvm *vm, lk_jvalue v, const lk_jvalue *p, int comparison, lk_jvalue *out) {
    lk_jlist *list = NULL;
    lk_jvalue best = lk_jnone();
    *out = (lk_jvalue){.type = LK_J_UNDEFINED};
    if (!lk_jelements(vm, v, &list)) {
        return false;
    }
    for (size_t i = 0; i < list->n; i++) {
        lk_jvalue key = lk_jnone();
        bool is_better = i == 0;
        if (!sort_key(vm, list->items[i], p[1], lk_jarg_bool(p[0], false), &key) ||
            (i != 0 && !lk_jcompare_op(vm, comparison, key, best, &is_better))) {
            return false;
        }
        if (is_better) {
            best = key;
            *out = list->items[i];
        }
    }
    return true;
}

FILTER(max) {
    (void)args;
    return extreme(vm, v, p, LK_JCMP_GT, out);
}

FILTER(min) {
    (void)args;
    return extreme(vm, v, p, LK_JCMP_LT, out);
}

FILTER(sum) {
    (void)args;
    lk_jlist *list = NULL;
    *out = p[1].type == LK_J_UNSET ? lk_jint(0) : p[1];
    if (!lk_jelements(vm, v, &list)) {
        return false;
    }
    for (size_t i = 0; i < list->n; i++) {
        lk_jvalue item = list->items[i];
        if (p[0].type != LK_J_UNSET && p[0].type != LK_J_NONE && !get_path(vm, item, p[0], &item)) {
            return false;
        }
        if (!lk_jadd(vm, *out, item, out)) {
            return false;
        }
    }
    return true;
}

/* ---- rows and columns ---- */

FILTER(batch) {
    (void)args;
    int64_t size = 0;
    lk_jlist *list = NULL;
    lk_jlist *rows = lk_jlist_new(&vm->heap, 0);
    lk_jlist *row = NULL;
    if (rows == NULL || !lk_jelements(vm, v, &list) || !lk_jarg_int(vm, p[0], 1, &size)) {
        return lk_jheap_failed(vm);
    }
    if (size < 1) {
        return lk_jfail(vm, "batch needs a size of at least 1");
    }
    const bool fills = p[1].type != LK_J_UNSET && p[1].type != LK_J_NONE;
    for (size_t i = 0; i < list->n || (fills && row != NULL && row->n < (size_t)size); i++) {
        if (row == NULL || row->n == (size_t)size) {
            row = lk_jlist_new(&vm->heap, 0);
            if (row == NULL ||
                !lk_jlist_push(&vm->heap, rows, (lk_jvalue){.type = LK_J_LIST, .list = row})) {
                return lk_jheap_failed(vm);
            }
        }
        if (!lk_jlist_push(&vm->heap, row, i < list->n ? list->items[i] : p[1])) {
            return lk_jheap_failed(vm);
        }
    }
    return return_list(vm, LK_J_ITERATOR, rows, out);
}

FILTER(slice) {
    (void)args;
    int64_t n_columns = 0;
    lk_jlist *list = NULL;
    lk_jlist *columns = lk_jlist_new(&vm->heap, 0);
    if (columns == NULL || !lk_jelements(vm, v, &list) || !lk_jarg_int(vm, p[0], 1, &n_columns)) {
        return lk_jheap_failed(vm);
    }
    if (n_columns < 1) {
        return lk_jfail(vm, "slice needs at least 1 column");
    }
    const bool fills = p[1].type != LK_J_UNSET && p[1].type != LK_J_NONE;
    const size_t each = list->n / (size_t)n_columns, longer = list->n % (size_t)n_columns;
    size_t at = 0;
    for (size_t c = 0; c < (size_t)n_columns; c++) {
        lk_jlist *column = lk_jlist_new(&vm->heap, 0);
        bool ok = column != NULL;
        for (size_t k = 0; k < each + (c < longer) && ok; k++) {
            ok = lk_jlist_push(&vm->heap, column, list->items[at++]);
        }
        if (ok && fills && c >= longer) {
            ok = lk_jlist_push(&vm->heap, column, p[1]);
        }
        if (!ok ||
            !lk_jlist_push(&vm->heap, columns, (lk_jvalue){.type = LK_J_LIST, .list = column})) {
            return lk_jheap_failed(vm);
        }
    }
    return return_list(vm, LK_J_ITERATOR, columns, out);
}

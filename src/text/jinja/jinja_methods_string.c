/* jinja_methods_string.c - the methods of strings, as Python's. */
#include <string.h>

#include "text/jinja/jinja_builtins.h"
#include "text/jinja/jinja_text.h"
#include "text/unicode/unicode.h"

#define METHOD(name)                                                                               \
    bool lk_jmethod_##name(lk_jvm *vm, lk_jvalue v, const lk_jvalue *p, const lk_jargs *args,      \
                           lk_jvalue *out)

/* An argument that must be a text; NULL fails. */
static const lk_jstring *text_arg(lk_jvm *vm, lk_jvalue v) {
    if (v.type == LK_J_STRING) {
        return v.s;
    }
    (void)(v.type == LK_J_UNDEFINED
               ? lk_jfail_undefined(vm, v)
               : lk_jfail(vm, "an argument must be a text, not a value of type '%s'",
                          lk_jtype_name(v)));
    return NULL;
}

static bool strip(lk_jvm *vm, lk_jvalue v, lk_jvalue chars, int sides, lk_jvalue *out) {
    const bool is_given = chars.type != LK_J_UNSET && chars.type != LK_J_NONE;
    const lk_jstring *set = is_given ? text_arg(vm, chars) : NULL;
    return (!is_given || set != NULL) && lk_jreturn(vm, lk_jtext_strip(vm, v.s, set, sides), out);
}

METHOD(strip) {
    (void)args;
    return strip(vm, v, p[0], LK_JSTRIP_BOTH, out);
}

METHOD(lstrip) {
    (void)args;
    return strip(vm, v, p[0], LK_JSTRIP_LEFT, out);
}

METHOD(rstrip) {
    (void)args;
    return strip(vm, v, p[0], LK_JSTRIP_RIGHT, out);
}

#define CASE_METHOD(name, how)                                                                     \
    METHOD(name) {                                                                                 \
        (void)p;                                                                                   \
        (void)args;                                                                                \
        return lk_jreturn(vm, lk_jtext_case(vm, v.s, how), out);                                   \
    }

CASE_METHOD(upper, LK_JCASE_UPPER)
CASE_METHOD(lower, LK_JCASE_LOWER)
CASE_METHOD(swapcase, LK_JCASE_SWAP)
CASE_METHOD(capitalize, LK_JCASE_CAPITALIZE)
CASE_METHOD(title, LK_JCASE_TITLE)

METHOD(replace) {
    (void)args;
    const lk_jstring *from = text_arg(vm, p[0]);
    const lk_jstring *to = from != NULL ? text_arg(vm, p[1]) : NULL;
    int64_t count = 0;
    return to != NULL && lk_jarg_int(vm, p[2], -1, &count) &&
           lk_jreturn(vm, lk_jtext_replace(vm, v.s, from, to, count), out);
}

METHOD(format) {
    (void)p;
    return lk_jtext_format(vm, v.s, args, out);
}

METHOD(join) {
    (void)args;
    lk_jlist *list = NULL;
    if (!lk_jelements(vm, p[0], &list)) {
        return false;
    }
    lk_jbuild build;
    lk_jbuild_init(&build, &vm->heap);
    for (size_t i = 0; i < list->n; i++) {
        const lk_jstring *item = text_arg(vm, list->items[i]);
        if (item == NULL) {
            return false;
        }
        if (i != 0) {
            (void)lk_jbuild_string(&build, v.s);
        }
        (void)lk_jbuild_string(&build, item);
    }
    return lk_jreturn(vm, lk_jbuild_finish(&build), out);
}

/* ---- parts ---- */

/* The part of a string that start and end name, in bytes. */
static bool range_of(lk_jvm *vm, const lk_jstring *s, lk_jvalue start, lk_jvalue end, size_t *from,
                     size_t *to) {
    const int64_t n = (int64_t)s->n_chars;
    int64_t a = 0, b = 0;
    if (!lk_jarg_int(vm, start, 0, &a) || !lk_jarg_int(vm, end, n, &b)) {
        return false;
    }
    a = a < 0 ? a + n : a;
    b = b < 0 ? b + n : b;
    a = a < 0 ? 0 : a;
    b = b < 0 ? 0 : b > n ? n : b;
    *from = a > n ? SIZE_MAX : lk_jstring_at(s, (size_t)a);
    *to = lk_jstring_at(s, (size_t)b);
    return true;
}

static bool ends_at(const lk_jstring *s, size_t from, size_t to, const lk_jstring *part,
                    bool at_end) {
    return from <= to && to - from >= part->n &&
           memcmp(s->bytes + (at_end ? to - part->n : from), part->bytes, part->n) == 0;
}

static bool has_end(lk_jvm *vm, lk_jvalue v, const lk_jvalue *p, bool at_end, lk_jvalue *out) {
    size_t from = 0, to = 0;
    if (!range_of(vm, v.s, p[1], p[2], &from, &to)) {
        return false;
    }
    *out = lk_jbool(false);
    if (p[0].type != LK_J_TUPLE) {
        const lk_jstring *part = text_arg(vm, p[0]);
        *out = lk_jbool(part != NULL && ends_at(v.s, from, to, part, at_end));
        return part != NULL;
    }
    for (size_t i = 0; i < p[0].list->n; i++) {
        const lk_jstring *part = text_arg(vm, p[0].list->items[i]);
        if (part == NULL) {
            return false;
        }
        if (ends_at(v.s, from, to, part, at_end)) {
            *out = lk_jbool(true);
        }
    }
    return true;
}

METHOD(startswith) {
    (void)args;
    return has_end(vm, v, p, false, out);
}

METHOD(endswith) {
    (void)args;
    return has_end(vm, v, p, true, out);
}

static bool search(lk_jvm *vm, lk_jvalue v, const lk_jvalue *p, bool from_right, lk_jvalue *out) {
    size_t from = 0, to = 0;
    const lk_jstring *part = text_arg(vm, p[0]);
    if (part == NULL || !range_of(vm, v.s, p[1], p[2], &from, &to)) {
        return false;
    }
    size_t at = SIZE_MAX;
    if (from <= to) {
        at = from_right ? lk_jstring_rfind(&vm->heap, v.s, from, to, part)
                        : lk_jstring_find(&vm->heap, v.s, from, to, part);
    }
    if (vm->heap.failure != LK_OK) {
        return lk_jheap_failed(vm);
    }
    *out = lk_jint(-1);
    if (at != SIZE_MAX) {
        const lk_jstring *before = lk_jstring_slice(&vm->heap, v.s, 0, at);
        if (before == NULL) {
            return lk_jheap_failed(vm);
        }
        *out = lk_jint((int64_t)before->n_chars);
    }
    return true;
}

METHOD(find) {
    (void)args;
    return search(vm, v, p, false, out);
}

METHOD(rfind) {
    (void)args;
    return search(vm, v, p, true, out);
}

METHOD(index) {
    (void)args;
    return search(vm, v, p, false, out) &&
           (out->i >= 0 || lk_jfail(vm, "index: the text does not occur"));
}

METHOD(count) {
    (void)args;
    size_t from = 0, to = 0;
    int64_t n = 0;
    const lk_jstring *part = text_arg(vm, p[0]);
    if (part == NULL || !range_of(vm, v.s, p[1], p[2], &from, &to)) {
        return false;
    }
    if (part->n == 0 && from <= to) {
        const lk_jstring *range = lk_jstring_slice(&vm->heap, v.s, from, to);
        *out = lk_jint(range != NULL ? (int64_t)range->n_chars + 1 : 0);
        return lk_jcheck(vm, range != NULL);
    }
    while (part->n != 0 && from <= to) {
        const size_t at = lk_jstring_find(&vm->heap, v.s, from, to, part);
        if (at == SIZE_MAX) {
            break;
        }
        n++;
        from = at + part->n;
    }
    *out = lk_jint(n);
    return lk_jcheck(vm, vm->heap.failure == LK_OK);
}

METHOD(removeprefix) {
    (void)args;
    const lk_jstring *part = text_arg(vm, p[0]);
    if (part == NULL) {
        return false;
    }
    const size_t from = ends_at(v.s, 0, v.s->n, part, false) ? part->n : 0;
    return lk_jreturn(vm, lk_jstring_slice(&vm->heap, v.s, from, v.s->n), out);
}

METHOD(removesuffix) {
    (void)args;
    const lk_jstring *part = text_arg(vm, p[0]);
    if (part == NULL) {
        return false;
    }
    const size_t to = ends_at(v.s, 0, v.s->n, part, true) ? v.s->n - part->n : v.s->n;
    return lk_jreturn(vm, lk_jstring_slice(&vm->heap, v.s, 0, to), out);
}

/* ---- splitting ---- */

static bool push_part(lk_jvm *vm, lk_jlist *list, const lk_jstring *s, size_t from, size_t to) {
    const lk_jstring *part = lk_jstring_slice(&vm->heap, s, from, to);
    return lk_jcheck(vm, part != NULL && lk_jlist_push(&vm->heap, list, lk_jstr(part)));
}

/* At white space; n_max splits, negative: all. */
static bool split_space(lk_jvm *vm, const lk_jstring *s, int64_t n_max, lk_jlist *list) {
    size_t i = 0;
    for (;;) {
        size_t n = 0;
        while (i < s->n && lk_jis_space(lk_utf8_get(s->bytes + i, &n))) {
            i += n;
        }
        if (i == s->n) {
            return true;
        }
        size_t end = i;
        while (end < s->n && !lk_jis_space(lk_utf8_get(s->bytes + end, &n))) {
            end += n;
        }
        if (n_max == 0) {
            end = s->n;
        }
        n_max -= n_max > 0;
        if (!push_part(vm, list, s, i, end)) {
            return false;
        }
        i = end;
    }
}

static bool split_at(lk_jvm *vm, const lk_jstring *s, const lk_jstring *sep, int64_t n_max,
                     lk_jlist *list) {
    size_t start = 0;
    for (; n_max != 0; n_max -= n_max > 0) {
        const size_t at = lk_jstring_find(&vm->heap, s, start, s->n, sep);
        if (at == SIZE_MAX) {
            break;
        }
        if (!push_part(vm, list, s, start, at)) {
            return false;
        }
        start = at + sep->n;
    }
    return lk_jcheck(vm, vm->heap.failure == LK_OK) && push_part(vm, list, s, start, s->n);
}

/* From the right: the parts come in reverse. */
static bool rsplit_space(lk_jvm *vm, const lk_jstring *s, int64_t n_max, lk_jlist *list) {
    const lk_jstring *rest = s;
    for (;;) {
        rest = lk_jtext_strip(vm, rest, NULL, LK_JSTRIP_RIGHT);
        if (rest == NULL) {
            return lk_jheap_failed(vm);
        }
        if (rest->n == 0) {
            return true;
        }
        size_t at = rest->n;
        while (at > 0 && n_max != 0) {
            size_t before = at - 1, n = 0;
            while ((rest->bytes[before] & 0xC0) == 0x80) {
                before--;
            }
            if (lk_jis_space(lk_utf8_get(rest->bytes + before, &n))) {
                break;
            }
            at = before;
        }
        at = n_max == 0 ? 0 : at;
        if (!push_part(vm, list, rest, at, rest->n)) {
            return false;
        }
        n_max -= n_max > 0;
        rest = lk_jstring_slice(&vm->heap, rest, 0, at);
        if (rest == NULL) {
            return lk_jheap_failed(vm);
        }
    }
}

static bool rsplit_at(lk_jvm *vm, const lk_jstring *s, const lk_jstring *sep, int64_t n_max,
                      lk_jlist *list) {
    size_t end = s->n;
    for (; n_max != 0; n_max -= n_max > 0) {
        const size_t at = lk_jstring_rfind(&vm->heap, s, 0, end, sep);
        if (at == SIZE_MAX) {
            break;
        }
        if (!push_part(vm, list, s, at + sep->n, end)) {
            return false;
        }
        end = at;
    }
    return lk_jcheck(vm, vm->heap.failure == LK_OK) && push_part(vm, list, s, 0, end);
}

static bool split(lk_jvm *vm, lk_jvalue v, const lk_jvalue *p, bool from_right, lk_jvalue *out) {
    const bool at_space = p[0].type == LK_J_UNSET || p[0].type == LK_J_NONE;
    const lk_jstring *sep = at_space ? NULL : text_arg(vm, p[0]);
    lk_jlist *list = lk_jlist_new(&vm->heap, 0);
    int64_t n_max = 0;
    if ((!at_space && sep == NULL) || list == NULL || !lk_jarg_int(vm, p[1], -1, &n_max)) {
        return lk_jheap_failed(vm);
    }
    if (sep != NULL && sep->n == 0) {
        return lk_jfail(vm, "split at an empty text");
    }
    const bool ok =
        from_right
            ? (at_space ? rsplit_space(vm, v.s, n_max, list) : rsplit_at(vm, v.s, sep, n_max, list))
            : (at_space ? split_space(vm, v.s, n_max, list) : split_at(vm, v.s, sep, n_max, list));
    for (size_t i = 0; ok && from_right && i < list->n / 2; i++) {
        const lk_jvalue other = list->items[list->n - 1 - i];
        list->items[list->n - 1 - i] = list->items[i];
        list->items[i] = other;
    }
    *out = (lk_jvalue){.type = LK_J_LIST, .list = list};
    return ok;
}

METHOD(split) {
    (void)args;
    return split(vm, v, p, false, out);
}

METHOD(rsplit) {
    (void)args;
    return split(vm, v, p, true, out);
}

METHOD(splitlines) {
    (void)args;
    lk_jlist *list = lk_jlist_new(&vm->heap, 0);
    if (list == NULL) {
        return lk_jheap_failed(vm);
    }
    *out = (lk_jvalue){.type = LK_J_LIST, .list = list};
    return lk_jtext_lines(vm, v.s, lk_jarg_bool(p[0], false), list);
}

static bool partition(lk_jvm *vm, lk_jvalue v, lk_jvalue separator, bool from_right,
                      lk_jvalue *out) {
    const lk_jstring *sep = text_arg(vm, separator);
    lk_jlist *list = lk_jlist_new(&vm->heap, 3);
    if (sep == NULL || list == NULL) {
        return lk_jheap_failed(vm);
    }
    if (sep->n == 0) {
        return lk_jfail(vm, "partition at an empty text");
    }
    const size_t at = from_right ? lk_jstring_rfind(&vm->heap, v.s, 0, v.s->n, sep)
                                 : lk_jstring_find(&vm->heap, v.s, 0, v.s->n, sep);
    const bool found = at != SIZE_MAX;
    const size_t a = found ? at : from_right ? 0 : v.s->n;
    const size_t b = found ? at + sep->n : a;
    *out = (lk_jvalue){.type = LK_J_TUPLE, .list = list};
    return lk_jcheck(vm, vm->heap.failure == LK_OK) && push_part(vm, list, v.s, 0, a) &&
           push_part(vm, list, v.s, a, b) && push_part(vm, list, v.s, b, v.s->n);
}

METHOD(partition) {
    (void)args;
    return partition(vm, v, p[0], false, out);
}

METHOD(rpartition) {
    (void)args;
    return partition(vm, v, p[0], true, out);
}

/* ---- padding ---- */

static bool pad(lk_jvm *vm, lk_jvalue v, const lk_jvalue *p, int sides, lk_jvalue *out) {
    int64_t width = 0;
    const lk_jstring *fill = p[1].type == LK_J_UNSET ? NULL : text_arg(vm, p[1]);
    if ((p[1].type != LK_J_UNSET && fill == NULL) || !lk_jarg_int(vm, p[0], 0, &width)) {
        return false;
    }
    if (fill != NULL && fill->n_chars != 1) {
        return lk_jfail(vm, "the fill character must be one character");
    }
    return lk_jreturn(vm, lk_jtext_pad(vm, v.s, width, fill, sides), out);
}

METHOD(ljust) {
    (void)args;
    return pad(vm, v, p, LK_JSTRIP_RIGHT, out);
}

METHOD(rjust) {
    (void)args;
    return pad(vm, v, p, LK_JSTRIP_LEFT, out);
}

METHOD(center) {
    (void)args;
    return pad(vm, v, p, LK_JSTRIP_BOTH, out);
}

METHOD(zfill) {
    (void)args;
    int64_t width = 0;
    if (!lk_jarg_int(vm, p[0], 0, &width)) {
        return false;
    }
    lk_jbuild build;
    lk_jbuild_init(&build, &vm->heap);
    (void)lk_jtext_align(&build, v.s, width > 0 ? (size_t)width : 0, '=', '0');
    return lk_jreturn(vm, lk_jbuild_finish(&build), out);
}

/* ---- kinds of characters ---- */

/* Whether there is a character, and all have a category of the set (a bit each). */
static bool all_in(lk_jvm *vm, const lk_jstring *s, uint32_t set, lk_jvalue *out) {
    bool all = s->n != 0;
    for (size_t i = 0; i < s->n && all;) {
        size_t n = 0;
        all =
            (set >> (lk_unicode_prop(lk_utf8_get(s->bytes + i, &n)) & LK_PROP_CATEGORY) & 1u) != 0;
        i += n;
    }
    *out = lk_jbool(all);
    return lk_jcheck(vm, lk_jheap_charge_bytes(&vm->heap, s->n));
}

#define BIT(category) (1u << LK_CAT_##category)
#define LETTERS (BIT(LU) | BIT(LL) | BIT(LT) | BIT(LM) | BIT(LO))

#define KIND_METHOD(name, set)                                                                     \
    METHOD(name) {                                                                                 \
        (void)p;                                                                                   \
        (void)args;                                                                                \
        return all_in(vm, v.s, set, out);                                                          \
    }

KIND_METHOD(isalpha, LETTERS)
KIND_METHOD(isalnum, LETTERS | BIT(ND) | BIT(NL) | BIT(NO))
KIND_METHOD(isdecimal, BIT(ND))
KIND_METHOD(isdigit, BIT(ND))
KIND_METHOD(isnumeric, BIT(ND) | BIT(NL) | BIT(NO))

METHOD(isspace) {
    (void)p;
    (void)args;
    const lk_jstring *rest = lk_jtext_strip(vm, v.s, NULL, LK_JSTRIP_LEFT);
    *out = lk_jbool(rest != NULL && rest->n == 0 && v.s->n != 0);
    return lk_jcheck(vm, rest != NULL);
}

METHOD(isascii) {
    (void)vm;
    (void)p;
    (void)args;
    *out = lk_jbool(v.s->n == v.s->n_chars);
    return true;
}

/* Some letter has a case, and none has the other one. */
static bool one_case(lk_jvm *vm, const lk_jstring *s, uint32_t wanted, lk_jvalue *out) {
    bool some = false, other = false;
    for (size_t i = 0; i < s->n;) {
        size_t n = 0;
        const uint32_t category = lk_unicode_prop(lk_utf8_get(s->bytes + i, &n)) & LK_PROP_CATEGORY;
        some = some || category == wanted;
        other = other || (category != wanted && category <= LK_CAT_LT);
        i += n;
    }
    *out = lk_jbool(some && !other);
    return lk_jcheck(vm, lk_jheap_charge_bytes(&vm->heap, s->n));
}

METHOD(islower) {
    (void)p;
    (void)args;
    return one_case(vm, v.s, LK_CAT_LL, out);
}

METHOD(isupper) {
    (void)p;
    (void)args;
    return one_case(vm, v.s, LK_CAT_LU, out);
}

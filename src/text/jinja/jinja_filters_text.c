/* jinja_filters_text.c - the filters that work on texts and numbers. */
#include <string.h>

#include "text/jinja/jinja_builtins.h"
#include "text/jinja/jinja_number.h"
#include "text/jinja/jinja_text.h"
#include "text/unicode/unicode.h"

#define FILTER(name)                                                                               \
    bool lk_jfilter_##name(lk_jvm *vm, lk_jvalue v, const lk_jvalue *p, const lk_jargs *args,      \
                           lk_jvalue *out)

/* The value as a text, for filters that take any. */
static const lk_jstring *text_of(lk_jvm *vm, lk_jvalue v) {
    const lk_jstring *s = lk_jto_string(vm, v);
    if (s == NULL) {
        (void)lk_jheap_failed(vm);
    }
    return s;
}

static bool with_case(lk_jvm *vm, lk_jvalue v, lk_jcase how, lk_jvalue *out) {
    const lk_jstring *s = text_of(vm, v);
    return s != NULL && lk_jreturn(vm, lk_jtext_case(vm, s, how), out);
}

FILTER(upper) {
    (void)p;
    (void)args;
    return with_case(vm, v, LK_JCASE_UPPER, out);
}

FILTER(lower) {
    (void)p;
    (void)args;
    return with_case(vm, v, LK_JCASE_LOWER, out);
}

FILTER(capitalize) {
    (void)p;
    (void)args;
    return with_case(vm, v, LK_JCASE_CAPITALIZE, out);
}

FILTER(title) {
    (void)p;
    (void)args;
    return with_case(vm, v, LK_JCASE_TITLE_WORDS, out);
}

FILTER(trim) {
    (void)args;
    const lk_jstring *s = text_of(vm, v);
    const bool has_chars = p[0].type != LK_J_UNSET && p[0].type != LK_J_NONE;
    if (has_chars && p[0].type != LK_J_STRING) {
        return lk_jfail(vm, "trim needs a text of characters");
    }
    return s != NULL &&
           lk_jreturn(vm, lk_jtext_strip(vm, s, has_chars ? p[0].s : NULL, LK_JSTRIP_BOTH), out);
}

FILTER(string) {
    (void)p;
    (void)args;
    const lk_jstring *s = text_of(vm, v);
    return s != NULL && lk_jreturn(vm, s, out);
}

FILTER(safe) {
    (void)p;
    (void)args;
    const lk_jstring *s = text_of(vm, v);
    lk_jstring *marked = s != NULL ? lk_jheap_alloc(&vm->heap, sizeof *marked) : NULL;
    if (marked == NULL) {
        return lk_jheap_failed(vm);
    }
    *marked = *s;
    marked->is_markup = true;
    marked->grow = NULL;
    return lk_jreturn(vm, marked, out);
}

FILTER(forceescape) {
    static const char chars[] = "&<>\"'";
    static const char *const forms[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
    const lk_jstring *s = text_of(vm, v);
    if (s == NULL) {
        return false;
    }
    lk_jbuild build;
    lk_jbuild_init(&build, &vm->heap);
    size_t start = 0;
    for (size_t i = 0; i < s->n; i++) {
        const char *at = s->bytes[i] != 0 ? strchr(chars, (int)s->bytes[i]) : NULL;
        if (at != NULL) {
            (void)lk_jbuild_part(&build, s, start, i);
            (void)lk_jbuild_bytes(&build, forms[at - chars], strlen(forms[at - chars]),
                                  lk_jstring_origin(s, i));
            start = i + 1;
        }
    }
    (void)lk_jbuild_part(&build, s, start, s->n);
    return lk_jreturn(vm, lk_jbuild_finish(&build), out) && lk_jfilter_safe(vm, *out, p, args, out);
}

FILTER(escape) {
    if (v.type == LK_J_STRING && v.s->is_markup) {
        *out = v;
        return true;
    }
    return lk_jfilter_forceescape(vm, v, p, args, out);
}

FILTER(replace) {
    (void)args;
    int64_t count = 0;
    const lk_jstring *s = text_of(vm, v), *from = text_of(vm, p[0]), *to = text_of(vm, p[1]);
    return s != NULL && from != NULL && to != NULL && lk_jarg_int(vm, p[2], -1, &count) &&
           lk_jreturn(vm, lk_jtext_replace(vm, s, from, to, count), out);
}

FILTER(center) {
    (void)args;
    int64_t width = 0;
    const lk_jstring *s = text_of(vm, v);
    return s != NULL && lk_jarg_int(vm, p[0], 80, &width) &&
           lk_jreturn(vm, lk_jtext_pad(vm, s, width, NULL, LK_JSTRIP_BOTH), out);
}

FILTER(format) {
    (void)p;
    const lk_jstring *s = text_of(vm, v);
    return s != NULL && lk_jtext_percent(vm, s, args, out);
}

/* What one level of indentation is: a text, or blanks. */
static const lk_jstring *indentation(lk_jvm *vm, lk_jvalue width) {
    int64_t n = 0;
    if (width.type == LK_J_STRING) {
        return width.s;
    }
    if (!lk_jarg_int(vm, width, 4, &n)) {
        return NULL;
    }
    lk_jbuild build;
    lk_jbuild_init(&build, &vm->heap);
    for (int64_t i = 0; i < n && lk_jbuild_text(&build, " "); i++) {
    }
    return lk_jbuild_finish(&build);
}

FILTER(indent) {
    (void)args;
    const lk_jstring *s = text_of(vm, v);
    const lk_jstring *by = s != NULL ? indentation(vm, p[0]) : NULL;
    const bool first = lk_jarg_bool(p[1], false), blank = lk_jarg_bool(p[2], false);
    lk_jlist *lines = lk_jlist_new(&vm->heap, 0);
    const lk_jstring *end = lk_jstring_text(&vm->heap, "\n");
    if (by == NULL || lines == NULL || end == NULL) {
        return lk_jheap_failed(vm);
    }
    /* A line end more keeps a last empty line. */
    const lk_jstring *whole = lk_jstring_concat(&vm->heap, s, end);
    if (whole == NULL || !lk_jtext_lines(vm, whole, false, lines)) {
        return lk_jheap_failed(vm);
    }
    lk_jbuild build;
    lk_jbuild_init(&build, &vm->heap);
    for (size_t i = 0; i < lines->n; i++) {
        const lk_jstring *line = lines->items[i].s;
        if (i != 0) {
            (void)lk_jbuild_text(&build, "\n");
        }
        if (i == 0 ? first : blank || line->n != 0) {
            (void)lk_jbuild_string(&build, by);
        }
        (void)lk_jbuild_string(&build, line);
    }
    return lk_jreturn(vm, lk_jbuild_finish(&build), out);
}

FILTER(truncate) {
    (void)args;
    int64_t length = 0, leeway = 0;
    const lk_jstring *s = text_of(vm, v);
    const lk_jstring *end =
        p[2].type == LK_J_UNSET ? lk_jstring_text(&vm->heap, "...") : text_of(vm, p[2]);
    if (s == NULL || end == NULL || !lk_jarg_int(vm, p[0], 255, &length) ||
        !lk_jarg_int(vm, p[3], 5, &leeway)) {
        return lk_jheap_failed(vm);
    }
    if (length < (int64_t)end->n_chars || leeway < 0) {
        return lk_jfail(vm, "truncate needs a length of at least that of the end");
    }
    if ((int64_t)s->n_chars <= length + leeway) {
        return lk_jreturn(vm, s, out);
    }
    size_t to = lk_jstring_at(s, (size_t)length - end->n_chars);
    if (!lk_jarg_bool(p[1], false)) { /* back to the last blank */
        size_t at = to;
        while (at > 0 && s->bytes[at - 1] != ' ') {
            at--;
        }
        to = at > 0 ? at - 1 : to;
    }
    const lk_jstring *part = lk_jstring_slice(&vm->heap, s, 0, to);
    return part != NULL ? lk_jreturn(vm, lk_jstring_concat(&vm->heap, part, end), out)
                        : lk_jheap_failed(vm);
}

FILTER(wordcount) {
    (void)p;
    (void)args;
    const lk_jstring *s = text_of(vm, v);
    int64_t n_words = 0;
    bool in_word = false;
    for (size_t i = 0; s != NULL && i < s->n;) {
        size_t n = 0;
        const uint32_t cp = lk_utf8_get(s->bytes + i, &n);
        const uint32_t category = lk_unicode_prop(cp) & LK_PROP_CATEGORY;
        const bool is_word =
            cp == '_' || category <= LK_CAT_LO || (category >= LK_CAT_ND && category <= LK_CAT_NO);
        n_words += is_word && !in_word;
        in_word = is_word;
        i += n;
    }
    *out = lk_jint(n_words);
    return s != NULL;
}

FILTER(urlencode) {
    static const char digits[] = "0123456789ABCDEF";
    (void)p;
    (void)args;
    const lk_jstring *s = text_of(vm, v);
    if (s == NULL || v.type == LK_J_DICT || lk_jis_sequence(v)) {
        return lk_jfail(vm, "urlencode needs a text");
    }
    lk_jbuild build;
    lk_jbuild_init(&build, &vm->heap);
    for (size_t i = 0; i < s->n; i++) {
        const uint8_t c = s->bytes[i];
        const bool is_kept = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                             (c >= '0' && c <= '9') || (c != 0 && strchr("_.-~/", (int)c) != NULL);
        const char form[3] = {'%', digits[c >> 4], digits[c & 15]};
        (void)lk_jbuild_bytes(&build, is_kept ? (const void *)&c : form, is_kept ? 1 : 3,
                              lk_jstring_origin(s, i));
    }
    return lk_jreturn(vm, lk_jbuild_finish(&build), out);
}

FILTER(abs) {
    (void)p;
    (void)args;
    if (lk_jis_number(v) && (v.type == LK_J_FLOAT ? v.f < 0 : lk_jint_of(v) < 0)) {
        return lk_jarithmetic(vm, LK_JOP_negate, v, lk_jint(-1), out);
    }
    return lk_jarithmetic(vm, LK_JOP_positive, v, lk_jint(1), out);
}

FILTER(round) {
    (void)args;
    int64_t precision = 0;
    char text[400];
    if (!lk_jarg_int(vm, p[0], 0, &precision)) {
        return false;
    }
    const bool has_method = p[1].type == LK_J_STRING;
    const bool up = has_method && lk_jstring_is(p[1].s, "ceil");
    const bool down = has_method && lk_jstring_is(p[1].s, "floor");
    if (!lk_jis_number(v) || precision < 0 || precision > 20 ||
        (has_method && !up && !down && !lk_jstring_is(p[1].s, "common"))) {
        return lk_jfail(vm, "round needs a number, 0 to 20 digits, and common, ceil or floor");
    }
    if (!up && !down && v.type != LK_J_FLOAT) {
        *out = lk_jint(lk_jint_of(v));
        return true;
    }
    double x = lk_jfloat_of(v);
    if (up || down) {
        double scale = 1;
        for (int64_t i = 0; i < precision; i++) {
            scale *= 10;
        }
        x *= scale;
        if (x > -9e15 && x < 9e15) {
            const double whole = (double)(int64_t)x;
            x = up ? whole + (whole < x) : whole - (whole > x);
        }
        *out = lk_jfloat(x / scale);
        return true;
    }
    if (x - x != 0 || !lk_jfixed_text(x, (int)precision, text, sizeof text)) {
        *out = v;
        return true;
    }
    *out = lk_jfloat(lk_jparse_float((const uint8_t *)text, strlen(text)));
    return true;
}

/* A decimal floating-point number: sign, digits, fraction, exponent. */
static bool is_float_text(const lk_jstring *s) {
    size_t i = 0, n_digits = 0;
    i += i < s->n && (s->bytes[i] == '-' || s->bytes[i] == '+');
    for (; i < s->n && s->bytes[i] >= '0' && s->bytes[i] <= '9'; i++) {
        n_digits++;
    }
    if (i < s->n && s->bytes[i] == '.') {
        for (i++; i < s->n && s->bytes[i] >= '0' && s->bytes[i] <= '9'; i++) {
            n_digits++;
        }
    }
    if (n_digits != 0 && i < s->n && (s->bytes[i] == 'e' || s->bytes[i] == 'E')) {
        size_t n_exponent = 0;
        i++;
        i += i < s->n && (s->bytes[i] == '-' || s->bytes[i] == '+');
        for (; i < s->n && s->bytes[i] >= '0' && s->bytes[i] <= '9'; i++) {
            n_exponent++;
        }
        return n_exponent != 0 && i == s->n;
    }
    return n_digits != 0 && i == s->n;
}

/* The number that a text or value stands for. */
static bool to_float(lk_jvm *vm, lk_jvalue v, double *out) {
    if (lk_jis_number(v)) {
        *out = lk_jfloat_of(v);
        return true;
    }
    if (v.type != LK_J_STRING && v.type != LK_J_BIG) {
        return false;
    }
    const lk_jstring *s = lk_jtext_strip(vm, v.s, NULL, LK_JSTRIP_BOTH);
    if (s == NULL || !is_float_text(s)) {
        return false;
    }
    *out = lk_jparse_float(s->bytes, s->n);
    return true;
}

FILTER(float) {
    (void)args;
    double x = 0;
    if (v.type == LK_J_UNDEFINED) {
        return lk_jfail_undefined(vm, v);
    }
    if (to_float(vm, v, &x)) {
        *out = lk_jfloat(x);
    } else {
        *out = p[0].type == LK_J_UNSET ? lk_jfloat(0) : p[0];
    }
    return lk_jcheck(vm, vm->heap.failure == LK_OK);
}

static bool int_of_text(lk_jvm *vm, const lk_jstring *text, int64_t base, int64_t *out) {
    const lk_jstring *s = lk_jtext_strip(vm, text, NULL, LK_JSTRIP_BOTH);
    if (s == NULL || s->n == 0 || s->n > 70) {
        return false;
    }
    const bool has_sign = s->bytes[0] == '+' || s->bytes[0] == '-';
    const bool has_prefix =
        s->n > has_sign + 2u && s->bytes[has_sign] == '0' && s->bytes[has_sign + 1u] > '9';
    const uint8_t prefix = has_prefix ? s->bytes[has_sign + 1u] | 0x20 : 0;
    char digits[80];
    size_t n = 0;
    if (s->bytes[0] == '-') {
        digits[n++] = '-';
    }
    const bool fits = !has_prefix || (base == 16 && prefix == 'x') ||
                      (base == 8 && prefix == 'o') || (base == 2 && prefix == 'b');
    if (!fits) {
        return false;
    }
    if (base == 16 || base == 8 || base == 2) {
        digits[n++] = '0';
        digits[n++] = base == 16 ? 'x' : base == 8 ? 'o' : 'b';
    }
    const size_t start = has_sign + (has_prefix ? 2u : 0u);
    if (start >= s->n || s->bytes[start] == '-' || s->bytes[start] == '_') {
        return false;
    }
    memcpy(digits + n, s->bytes + start, s->n - start);
    return lk_jparse_int((const uint8_t *)digits, n + s->n - start, out);
}

FILTER(int) {
    (void)args;
    int64_t base = 0, value = 0;
    double x = 0;
    if (!lk_jarg_int(vm, p[1], 10, &base)) {
        return false;
    }
    if (v.type == LK_J_UNDEFINED) {
        return lk_jfail_undefined(vm, v);
    }
    if (base != 10 && base != 2 && base != 8 && base != 16) {
        return lk_jfail_status(vm, LK_E_UNSUPPORTED, "int of a base other than 2, 8, 10 and 16");
    }
    if (lk_jis_int(v)) {
        *out = lk_jint(lk_jint_of(v));
    } else if (v.type == LK_J_BIG) {
        *out = v;
    } else if (v.type == LK_J_STRING && int_of_text(vm, v.s, base, &value)) {
        *out = lk_jint(value);
    } else if (to_float(vm, v, &x) && x > -9.2e18 && x < 9.2e18) {
        *out = lk_jint((int64_t)x);
    } else {
        *out = p[0].type == LK_J_UNSET ? lk_jint(0) : p[0];
    }
    return lk_jcheck(vm, vm->heap.failure == LK_OK);
}

/* jinja_format.c - "%s" % x and "{}".format(x), with the conversions and the format specifications
 * that texts and numbers have in Python. */
#include <stdio.h>
#include <string.h>

#include "text/jinja/jinja_builtins.h"
#include "text/jinja/jinja_number.h"
#include "text/jinja/jinja_text.h"
#include "text/unicode/unicode.h"

#define MAX_WIDTH 10000u /* of one formatted value */

/* [[fill]align][sign][#][0][width][,][.precision][type] */
typedef struct spec {
    uint32_t fill;
    char align; /* '\0': as the type has it */
    char sign;
    bool alternate, zero, comma;
    bool has_precision;
    uint32_t width, precision;
    char type; /* '\0': none */
} spec;

typedef struct scanner {
    const uint8_t *bytes;
    size_t n;
    size_t at;
} scanner;

static char peek(const scanner *s) {
    return s->at < s->n ? (char)s->bytes[s->at] : '\0';
}

static bool take(scanner *s, const char *set, char *out) {
    const char c = peek(s);
    if (c == '\0' || strchr(set, c) == NULL) {
        return false;
    }
    *out = c;
    s->at++;
    return true;
}

static bool take_number(scanner *s, uint32_t *out) {
    *out = 0;
    const size_t start = s->at;
    while (s->at < s->n && s->bytes[s->at] >= '0' && s->bytes[s->at] <= '9') {
        *out = *out <= MAX_WIDTH ? *out * 10 + (s->bytes[s->at] - (uint32_t)'0') : *out;
        s->at++;
    }
    return s->at != start;
}

static bool parse_spec(const uint8_t *bytes, size_t n, spec *out) {
    scanner s = {bytes, n, 0};
    char c = '\0';
    *out = (spec){.fill = ' ', .sign = '-'};
    if (n != 0) {
        const size_t first = lk_utf8_length(bytes[0]);
        if (first < n && strchr("<>^=", bytes[first]) != NULL && bytes[first] != 0) {
            size_t length = 0;
            out->fill = lk_utf8_get(bytes, &length);
            s.at = first;
        }
    }
    (void)take(&s, "<>^=", &out->align);
    (void)take(&s, "+- ", &out->sign);
    out->alternate = take(&s, "#", &c);
    out->zero = take(&s, "0", &c);
    (void)take_number(&s, &out->width);
    out->comma = take(&s, ",", &c);
    if (take(&s, ".", &c)) {
        out->has_precision = true;
        if (!take_number(&s, &out->precision)) {
            return false;
        }
    }
    (void)take(&s, "sdifFeEgGxXobcr%", &out->type);
    return s.at == s.n && out->width <= MAX_WIDTH && out->precision <= 300;
}

/* A number's digits with a comma every three. */
static const lk_jstring *with_commas(lk_jvm *vm, const char *text) {
    lk_jbuild build;
    const size_t sign = text[0] == '-' || text[0] == '+' || text[0] == ' ';
    const size_t n_digits = strspn(text + sign, "0123456789");
    lk_jbuild_init(&build, &vm->heap);
    (void)lk_jbuild_bytes(&build, text, sign, LK_J_TEMPLATE);
    for (size_t i = 0; i < n_digits; i++) {
        if (i != 0 && (n_digits - i) % 3 == 0) {
            (void)lk_jbuild_text(&build, ",");
        }
        (void)lk_jbuild_bytes(&build, text + sign + i, 1, LK_J_TEMPLATE);
    }
    (void)lk_jbuild_text(&build, text + sign + n_digits);
    return lk_jbuild_finish(&build);
}

static bool integer_text(lk_jvm *vm, int64_t v, const spec *f, char *out, size_t capacity) {
    char digits[80];
    const char *sign = v < 0 ? "-" : f->sign == '-' ? "" : f->sign == '+' ? "+" : " ";
    uint64_t x = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    const unsigned base = f->type == 'x' || f->type == 'X' ? 16
                          : f->type == 'o'                 ? 8
                          : f->type == 'b'                 ? 2
                                                           : 10;
    size_t at = sizeof digits;
    digits[--at] = '\0';
    do {
        digits[--at] = (f->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[x % base];
        x /= base;
    } while (x != 0);
    const char *prefix = !f->alternate || base == 10 ? ""
                         : base == 2                 ? "0b"
                         : base == 8                 ? "0o"
                         : f->type == 'X'            ? "0X"
                                                     : "0x";
    return snprintf(out, capacity, "%s%s%s", sign, prefix, digits + at) < (int)capacity ||
           lk_jfail(vm, "a number is too long");
}

static bool float_text(lk_jvm *vm, double v, const spec *f, char *out, size_t capacity) {
    char body[400];
    const bool percent = f->type == '%';
    const int precision = f->has_precision ? (int)f->precision : 6;
    const bool is_number = v - v == 0;
    if (!is_number || (f->type == '\0' && !f->has_precision)) {
        lk_jfloat_text(v, body);
    } else if (f->type == 'f' || f->type == 'F' || percent) {
        if (!lk_jfixed_text(percent ? v * 100 : v, precision, body, sizeof body)) {
            return lk_jfail(vm, "a number is too long");
        }
    } else {
        return lk_jfail_status(vm, LK_E_UNSUPPORTED,
                               "the number formats e and g are not supported");
    }
    const char *sign = body[0] == '-' ? "" : f->sign == '-' ? "" : f->sign == '+' ? "+" : " ";
    return snprintf(out, capacity, "%s%s%s", sign, body, percent ? "%" : "") < (int)capacity ||
           lk_jfail(vm, "a number is too long");
}

static bool put_number(lk_jvm *vm, lk_jbuild *out, lk_jvalue v, const spec *f) {
    char text[500];
    const bool as_float = v.type == LK_J_FLOAT || (f->type != '\0' && strchr("fFeEgG%", f->type));
    if (as_float ? !float_text(vm, lk_jfloat_of(v), f, text, sizeof text)
                 : !integer_text(vm, lk_jint_of(v), f, text, sizeof text)) {
        return false;
    }
    const lk_jstring *s = f->comma ? with_commas(vm, text) : lk_jstring_text(&vm->heap, text);
    const bool pads = f->zero && f->align == '\0';
    return lk_jcheck(vm, s != NULL && lk_jtext_align(out, s, f->width,
                                                     pads               ? '='
                                                     : f->align == '\0' ? '>'
                                                                        : f->align,
                                                     pads ? '0' : f->fill));
}

static bool put_text(lk_jvm *vm, lk_jbuild *out, const lk_jstring *s, const spec *f, char align) {
    if (s == NULL) {
        return lk_jheap_failed(vm);
    }
    if (f->has_precision && f->precision < s->n_chars) {
        s = lk_jstring_slice(&vm->heap, s, 0, lk_jstring_at(s, f->precision));
    }
    return lk_jcheck(vm, s != NULL && lk_jtext_align(out, s, f->width,
                                                     f->align != '\0' ? f->align : align, f->fill));
}

static const lk_jstring *repr_of(lk_jvm *vm, lk_jvalue v) {
    lk_jbuild build;
    lk_jbuild_init(&build, &vm->heap);
    return lk_jrepr(vm, &build, v) ? lk_jbuild_finish(&build) : NULL;
}

/* ---- "%" ---- */

typedef struct values {
    const lk_jargs *args;
    uint32_t next;
} values;

static bool next_value(lk_jvm *vm, values *from, lk_jvalue *out) {
    if (from->next >= lk_jargs_positional(from->args)) {
        return lk_jfail(vm, "not enough arguments for the format text");
    }
    *out = from->args->values[from->next++];
    return true;
}

/* "%(name)s": the member of the one dict, or a named argument. */
static bool named_value(lk_jvm *vm, scanner *s, const values *from, lk_jvalue *out) {
    const size_t start = ++s->at;
    while (s->at < s->n && s->bytes[s->at] != ')') {
        s->at++;
    }
    const lk_jstring *name =
        lk_jstring_new(&vm->heap, s->bytes + start, s->at - start, LK_J_TEMPLATE);
    s->at++;
    if (name == NULL) {
        return lk_jheap_failed(vm);
    }
    const uint32_t n_positional = lk_jargs_positional(from->args);
    for (uint32_t i = 0; i < from->args->names.n; i++) {
        if (lk_jstring_equal(vm->program->names[from->args->names.names[i]], name)) {
            *out = from->args->values[n_positional + i];
            return true;
        }
    }
    if (n_positional == 1 && from->args->values[0].type == LK_J_DICT) {
        const lk_jvalue *value = lk_jdict_get(&vm->heap, from->args->values[0].dict, lk_jstr(name));
        if (value != NULL) {
            *out = *value;
            return true;
        }
    }
    return lk_jfail(vm, "the format text names '%.*s', which is not given",
                    (int)(name->n < 64 ? name->n : 64), (const char *)name->bytes);
}

static bool percent_spec(lk_jvm *vm, scanner *s, spec *f) {
    char c = '\0';
    *f = (spec){.fill = ' ', .sign = '-'};
    while (take(s, "-+ #0", &c)) {
        if (c == '-') {
            f->align = '<';
        } else if (c == '0') {
            f->zero = true;
        } else if (c == '#') {
            f->alternate = true;
        } else {
            f->sign = c;
        }
    }
    (void)take_number(s, &f->width);
    if (take(s, ".", &c)) {
        f->has_precision = true;
        (void)take_number(s, &f->precision);
    }
    (void)take(s, "hlL", &c);
    if (!take(s, "sridufFeEgGxXoc%a", &f->type) || f->width > MAX_WIDTH || f->precision > 300) {
        return lk_jfail(vm, "a format that is not supported: '%%%c'",
                        peek(s) != '\0' ? peek(s) : ' ');
    }
    return true;
}

static bool put_percent(lk_jvm *vm, lk_jbuild *out, lk_jvalue v, spec *f) {
    char number[40];
    switch (f->type) {
    case 's':
        return put_text(vm, out, lk_jto_string(vm, v), f, '>');
    case 'r':
    case 'a':
        return put_text(vm, out, repr_of(vm, v), f, '>');
    case 'c':
        if (lk_jis_int(v)) {
            const int64_t cp = lk_jint_of(v);
            const bool ok = cp >= 0 && cp <= 0x10FFFF && (cp < 0xD800 || cp > 0xDFFF);
            return ok ? lk_jcheck(vm, lk_jbuild_cp(out, (uint32_t)cp, LK_J_TEMPLATE))
                      : lk_jfail(vm, "%%c of a number that is no character");
        }
        return v.type == LK_J_STRING && v.s->n_chars == 1 ? put_text(vm, out, v.s, f, '>')
                                                          : lk_jfail(vm, "%%c needs a character");
    default:
        break;
    }
    if (!lk_jis_number(v)) {
        return lk_jfail(vm, "%%%c needs a number, not a value of type '%s'", f->type,
                        lk_jtype_name(v));
    }
    if (strchr("diuxXo", f->type) != NULL) {
        if (v.type == LK_J_FLOAT) {
            if (!(v.f > -9.2e18 && v.f < 9.2e18)) {
                return lk_jfail(vm, "a number that is no integer of 64 bits");
            }
            v = lk_jint((int64_t)v.f);
        }
        if (f->has_precision) {
            (void)snprintf(number, sizeof number, "%lld", (long long)lk_jint_of(v));
            f->zero = true;
            f->width = f->width > f->precision ? f->width : f->precision + (number[0] == '-');
        }
    }
    return put_number(vm, out, v, f);
}

bool lk_jtext_percent(lk_jvm *vm, const lk_jstring *text, const lk_jargs *args, lk_jvalue *out) {
    scanner s = {text->bytes, text->n, 0};
    values from = {args, 0};
    bool by_name = false;
    lk_jbuild build;
    lk_jbuild_init(&build, &vm->heap);
    while (s.at < s.n) {
        const size_t start = s.at;
        while (s.at < s.n && s.bytes[s.at] != '%') {
            s.at++;
        }
        if (!lk_jbuild_part(&build, text, start, s.at)) {
            return lk_jheap_failed(vm);
        }
        if (s.at == s.n) {
            break;
        }
        lk_jvalue v = lk_jnone();
        spec f;
        s.at++;
        const bool is_named = peek(&s) == '(';
        by_name = by_name || is_named;
        if ((is_named && !named_value(vm, &s, &from, &v)) || !percent_spec(vm, &s, &f)) {
            return false;
        }
        if (f.type == '%') {
            (void)lk_jbuild_text(&build, "%");
        } else if ((!is_named && !next_value(vm, &from, &v)) || !put_percent(vm, &build, v, &f)) {
            return false;
        }
    }
    if (!by_name && from.next < lk_jargs_positional(args) &&
        !(args->n == 1 && args->values[0].type == LK_J_DICT)) {
        return lk_jfail(vm, "more arguments than the format text uses");
    }
    return lk_jreturn(vm, lk_jbuild_finish(&build), out);
}

/* ---- "{}" ---- */

/* The argument that "0", "name" or "" (the next one) names, and what follows: .attr and [item]. */
static bool field_value(lk_jvm *vm, const uint8_t *bytes, size_t n, values *from, lk_jvalue *out) {
    size_t end = 0;
    uint32_t index = 0;
    while (end < n && bytes[end] != '.' && bytes[end] != '[') {
        end++;
    }
    scanner number = {bytes, end, 0};
    const uint32_t n_positional = lk_jargs_positional(from->args);
    if (end == 0 || (take_number(&number, &index) && number.at == end)) {
        index = end == 0 ? from->next++ : index;
        if (index >= n_positional) {
            return lk_jfail(vm, "the format text names argument %u of %u", index, n_positional);
        }
        *out = from->args->values[index];
    } else {
        uint32_t i = 0;
        for (; i < from->args->names.n; i++) {
            const lk_jstring *name = vm->program->names[from->args->names.names[i]];
            if (name->n == end && memcmp(name->bytes, bytes, end) == 0) {
                break;
            }
        }
        if (i == from->args->names.n) {
            return lk_jfail(vm, "the format text names '%.*s', which is not given",
                            (int)(end < 64 ? end : 64), (const char *)bytes);
        }
        *out = from->args->values[n_positional + i];
    }
    while (end < n) {
        const bool is_item = bytes[end] == '[';
        const size_t start = ++end;
        while (end < n && (is_item ? bytes[end] != ']' : bytes[end] != '.' && bytes[end] != '[')) {
            end++;
        }
        const lk_jstring *key =
            lk_jstring_new(&vm->heap, bytes + start, end - start, LK_J_TEMPLATE);
        int64_t i = 0;
        if (key == NULL) {
            return lk_jheap_failed(vm);
        }
        const bool is_index = is_item && lk_jparse_int(key->bytes, key->n, &i);
        if (is_item ? !lk_jget_item(vm, *out, is_index ? lk_jint(i) : lk_jstr(key), out)
                    : !lk_jget_attr(vm, *out, key, out)) {
            return false;
        }
        end += is_item && end < n;
    }
    return true;
}

static bool put_value(lk_jvm *vm, lk_jbuild *out, lk_jvalue v, char conversion, const spec *f) {
    if (conversion == 'r') {
        return put_text(vm, out, repr_of(vm, v), f, '<');
    }
    const bool as_text = conversion == 's' || !lk_jis_number(v) || v.type == LK_J_BOOL;
    if (as_text ||
        (f->type == '\0' && f->width == 0 && !f->comma && !f->has_precision && f->sign == '-')) {
        if (!as_text || f->type == '\0' || f->type == 's') {
            return put_text(vm, out, lk_jto_string(vm, v), f, '<');
        }
        if (!lk_jis_number(v)) {
            return lk_jfail(vm, "the format '%c' needs a number, not a value of type '%s'", f->type,
                            lk_jtype_name(v));
        }
    }
    if (v.type != LK_J_FLOAT && f->has_precision && (f->type == '\0' || f->type == 'd')) {
        return lk_jfail(vm, "an integer takes no precision");
    }
    return put_number(vm, out, v, f);
}

/* One "{...}", whose inside is given. */
static bool put_field(lk_jvm *vm, lk_jbuild *out, const uint8_t *bytes, size_t n, values *from) {
    size_t end = 0;
    char conversion = '\0';
    lk_jvalue v = lk_jnone();
    spec f;
    while (end < n && bytes[end] != '!' && bytes[end] != ':') {
        end++;
    }
    size_t rest = end;
    if (rest + 1 < n && bytes[rest] == '!') {
        conversion = (char)bytes[rest + 1];
        rest += 2;
    }
    const bool has_spec = rest < n && bytes[rest] == ':';
    rest += has_spec;
    if ((!has_spec && rest != n) || !parse_spec(bytes + rest, n - rest, &f) ||
        (conversion != '\0' && conversion != 's' && conversion != 'r')) {
        return lk_jfail(vm, "a format that is not supported: '{%.*s}'", (int)(n < 40 ? n : 40),
                        (const char *)bytes);
    }
    return field_value(vm, bytes, end, from, &v) && put_value(vm, out, v, conversion, &f);
}

bool lk_jtext_format(lk_jvm *vm, const lk_jstring *s, const lk_jargs *args, lk_jvalue *out) {
    values from = {args, 0};
    lk_jbuild build;
    lk_jbuild_init(&build, &vm->heap);
    for (size_t i = 0; i < s->n;) {
        const uint8_t c = s->bytes[i];
        const bool is_double = i + 1 < s->n && s->bytes[i + 1] == c;
        if (c != '{' && c != '}') {
            const size_t start = i;
            while (i < s->n && s->bytes[i] != '{' && s->bytes[i] != '}') {
                i++;
            }
            (void)lk_jbuild_part(&build, s, start, i);
        } else if (is_double) {
            (void)lk_jbuild_part(&build, s, i, i + 1);
            i += 2;
        } else {
            const uint8_t *close = c == '{' ? memchr(s->bytes + i, '}', s->n - i) : NULL;
            if (close == NULL) {
                return lk_jfail(vm, "a single '%c' in the format text", (char)c);
            }
            const size_t end = (size_t)(close - s->bytes);
            if (!put_field(vm, &build, s->bytes + i + 1, end - i - 1, &from)) {
                return false;
            }
            i = end + 1;
        }
        if (build.failed) {
            return lk_jheap_failed(vm);
        }
    }
    return lk_jreturn(vm, lk_jbuild_finish(&build), out);
}

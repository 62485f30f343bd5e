/* jinja_number.c - see jinja_number.h. The C library converts; its decimal point, which depends on
 * the locale, never gets in or out: numbers are read as an integer and an exponent, and written
 * from the digits of %e. */
#include "text/jinja/jinja_number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int digit_of(uint8_t c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'z' ? c - 'a' + 10
           : c >= 'A' && c <= 'Z' ? c - 'A' + 10
                                  : 99;
}

bool lk_jparse_int(const uint8_t *text, size_t n, int64_t *out) {
    int base = 10;
    size_t i = 0;
    const bool negative = n != 0 && text[0] == '-';
    i += negative;
    if (n - i > 2 && text[i] == '0') {
        base = text[i + 1] == 'x' || text[i + 1] == 'X'   ? 16
               : text[i + 1] == 'o' || text[i + 1] == 'O' ? 8
               : text[i + 1] == 'b' || text[i + 1] == 'B' ? 2
                                                          : 10;
        i += base != 10 ? 2 : 0;
    }
    int64_t value = 0;
    size_t n_digits = 0;
    for (; i < n; i++) {
        if (text[i] == '_') {
            continue;
        }
        const int digit = digit_of(text[i]);
        if (digit >= base || value < (INT64_MIN + digit) / base) {
            return false;
        }
        value = value * base - digit;
        n_digits++;
    }
    if (n_digits == 0 || (!negative && value == INT64_MIN)) {
        return false;
    }
    *out = negative ? value : -value;
    return true;
}

double lk_jparse_float(const uint8_t *text, size_t n) {
    enum { MAX_DIGITS = 800 }; /* more cannot change the nearest double but by being not zero */
    char digits[MAX_DIGITS + 40];
    size_t n_out = 0, i = 0;
    long exponent = 0;
    bool has_point = false, lost = false;
    if (n != 0 && (text[0] == '-' || text[0] == '+')) {
        digits[n_out++] = (char)text[i++];
    }
    for (; i < n && text[i] != 'e' && text[i] != 'E'; i++) {
        if (text[i] == '.') {
            has_point = true;
        } else if (text[i] >= '0' && text[i] <= '9') {
            if (n_out < MAX_DIGITS) {
                digits[n_out++] = (char)text[i];
                exponent -= has_point;
            } else {
                lost = lost || text[i] != '0';
                exponent += !has_point;
            }
        }
    }
    if (lost) {
        digits[n_out++] = '1';
        exponent--;
    }
    if (i < n) {
        long written = 0;
        const bool negative = i + 1 < n && text[i + 1] == '-';
        for (i++; i < n; i++) {
            if (text[i] >= '0' && text[i] <= '9' && written < 100000000) {
                written = written * 10 + (text[i] - '0');
            }
        }
        exponent += negative ? -written : written;
    }
    (void)snprintf(digits + n_out, sizeof digits - n_out, "e%ld", exponent);
    return strtod(digits, NULL);
}

/* The digits of value > 0 with `precision` of them, and the exponent of the first. */
static int to_digits(double value, int precision, char digits[32]) {
    char text[64];
    int n = 0;
    (void)snprintf(text, sizeof text, "%.*e", precision - 1, value);
    char *e = strchr(text, 'e');
    for (const char *c = text; c < e; c++) {
        if (*c >= '0' && *c <= '9') {
            digits[n++] = *c;
        }
    }
    digits[n] = '\0';
    return (int)strtol(e + 1, NULL, 10);
}

void lk_jfloat_text(double value, char out[LK_JFLOAT_CHARS]) {
    char digits[32] = "0";
    char back[64];
    int exponent = 0;
    if (value != value || value - value != 0) {
        (void)snprintf(out, LK_JFLOAT_CHARS, "%s",
                       value != value ? "nan"
                       : value > 0    ? "inf"
                                      : "-inf");
        return;
    }
    const bool negative = value < 0 || (value == 0 && 1 / value < 0);
    const double size = negative ? -value : value;
    for (int precision = 1; size != 0 && precision <= 17; precision++) {
        exponent = to_digits(size, precision, digits);
        (void)snprintf(back, sizeof back, "%se%d", digits, exponent - precision + 1);
        if (strtod(back, NULL) == size) {
            break;
        }
    }
    int n = (int)strlen(digits);
    while (n > 1 && digits[n - 1] == '0') {
        n--;
    }
    const char *sign = negative ? "-" : "";
    if (exponent < -4 || exponent >= 16) {
        (void)snprintf(out, LK_JFLOAT_CHARS, n > 1 ? "%s%.1s.%.*se%s%02d" : "%s%.1s%.*se%s%02d",
                       sign, digits, n - 1, digits + 1, exponent < 0 ? "-" : "+",
                       exponent < 0 ? -exponent : exponent);
    } else if (exponent < 0) {
        (void)snprintf(out, LK_JFLOAT_CHARS, "%s0.%.*s%.*s", sign, -exponent - 1, "0000", n,
                       digits);
    } else if (n <= exponent + 1) {
        (void)snprintf(out, LK_JFLOAT_CHARS, "%s%.*s%.*s.0", sign, n, digits, exponent + 1 - n,
                       "0000000000000000");
    } else {
        (void)snprintf(out, LK_JFLOAT_CHARS, "%s%.*s.%.*s", sign, exponent + 1, digits,
                       n - exponent - 1, digits + exponent + 1);
    }
}

bool lk_jfixed_text(double value, int n_digits, char *out, size_t capacity) {
    const int n = snprintf(out, capacity, "%.*f", n_digits, value);
    if (n < 0 || (size_t)n >= capacity) {
        return false;
    }
    for (size_t i = 0, k = 0;; i++) { /* the point may be of several bytes */
        const char c = out[i];
        const bool is_digit = (c >= '0' && c <= '9') || c == '-' || c == '\0';
        const bool is_letter = c >= 'a' && c <= 'z';
        if (is_digit || is_letter) {
            out[k++] = c;
        } else if (k == 0 || out[k - 1] != '.') {
            out[k++] = '.';
        }
        if (c == '\0') {
            break;
        }
    }
    return true;
}

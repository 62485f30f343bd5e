/* jinja_number.h - numbers of templates and JSON as text, as Python reads and writes them, whatever
 * the locale of the process. */
#ifndef LK_TEXT_JINJA_NUMBER_H
#define LK_TEXT_JINJA_NUMBER_H

#include "text/jinja/jinja_value.h"

#define LK_JFLOAT_CHARS 40

/* Decimal digits with underscores between them, or 0x, 0o, 0b. False: not valid, or beyond 64 bits
 */
bool lk_jparse_int(const uint8_t *text, size_t n, int64_t *out);
/* A decimal floating-point number whose form is already checked; underscores are skipped. */
double lk_jparse_float(const uint8_t *text, size_t n);
/* Python's repr: the shortest text that reads back as the same number. */
void lk_jfloat_text(double value, char out[LK_JFLOAT_CHARS]);
/* `value` with n_digits after the point, rounded to nearest even, without the locale's point. False
 * when it does not fit. */
bool lk_jfixed_text(double value, int n_digits, char *out, size_t capacity);

#endif

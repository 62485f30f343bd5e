/* printable.h - bytes from a file on a terminal: nothing that they hold can move the cursor, change
 * colours or reorder text. */
#ifndef LK_PRINTABLE_H
#define LK_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Writes at most max_chars characters of the bytes: printable UTF-8 as it is, a quote and a
 * backslash with a backslash, line ends and tabs as \n, \r, \t, other control, format and
 * bidirectional characters as \u{XXXX}, ill-formed bytes as \xXX (each counts as one character).
 * Returns the number of bytes that were shown. */
size_t lk_print_escaped(FILE *out, const char *bytes, size_t n_bytes, size_t max_chars);

bool lk_is_utf8(const char *bytes, size_t n_bytes);

#endif

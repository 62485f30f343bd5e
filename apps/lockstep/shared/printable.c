/* printable.c - see printable.h. Knows which characters are dangerous, not how wide one is. */
#include "printable.h"

#include <stdint.h>

/* Decodes one character (Unicode 15, table 3-7); returns its length, 0 when ill-formed. */
static size_t decode(const uint8_t *s, size_t n, uint32_t *code) {
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    const uint8_t b = s[0];
    if (b < 0x80) {
        *code = b;
        return 1;
    }
    const size_t length = b >= 0xf0 ? 4 : b >= 0xe0 ? 3 : 2;
    if (b < 0xc2 || b > 0xf4 || length > n) {
        return 0;
    }
    uint32_t c = b & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
        c = (c << 6) | (s[i] & 0x3fu);
    }
    if (c < least[length] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) {
        return 0;
    }
    *code = c;
    return length;
}

/* C0, DEL, C1, line and paragraph separators, zero-width, bidirectional and tag characters,
 * interlinear annotation, the byte order mark, private use and noncharacters. */
static bool is_hidden(uint32_t c) {
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x61c || c == 0x180e ||
           (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || (c >= 0xe000 && c <= 0xf8ff) ||
           (c >= 0xfff0 && c <= 0xfffb) || (c & 0xfffe) == 0xfffe || c >= 0xe0000;
}

static void print_hidden(FILE *out, uint32_t c) {
    switch (c) {
    case '\n':
        (void)fputs("\\n", out);
        return;
    case '\r':
        (void)fputs("\\r", out);
        return;
    case '\t':
        (void)fputs("\\t", out);
        return;
    default:
        (void)fprintf(out, "\\u{%x}", c);
    }
}

size_t lk_print_escaped(FILE *out, const char *bytes, size_t n_bytes, size_t max_chars) {
    const uint8_t *s = (const uint8_t *)bytes;
    size_t i = 0;
    for (size_t n_chars = 0; i < n_bytes && n_chars < max_chars; n_chars++) {
        uint32_t c = 0;
        const size_t length = decode(s + i, n_bytes - i, &c);
        if (length == 0) {
            (void)fprintf(out, "\\x%02x", s[i]);
            i++;
            continue;
        }
        if (is_hidden(c)) {
            print_hidden(out, c);
        } else {
            if (c == '"' || c == '\\') {
                (void)fputc('\\', out);
            }
            (void)fwrite(s + i, 1, length, out);
        }
        i += length;
    }
    return i;
}

bool lk_is_utf8(const char *bytes, size_t n_bytes) {
    const uint8_t *s = (const uint8_t *)bytes;
    for (size_t i = 0; i < n_bytes;) {
        uint32_t c = 0;
        const size_t length = decode(s + i, n_bytes - i, &c);
        if (length == 0) {
            return false;
        }
        i += length;
    }
    return true;
}

/* byte_chars.h - the characters by which byte-level vocabularies write bytes: printable Latin-1
 * bytes stand for themselves, the other 68 are U+0100 .. U+0143 in ascending order (GPT-2's
 * convention). */
#ifndef LK_TEXT_BYTE_CHARS_H
#define LK_TEXT_BYTE_CHARS_H

#include "text/unicode/unicode.h"

/* The byte that a character stands for, or -1. */
static inline int lk_byte_of_char(uint32_t cp) {
    if ((cp > 0x20 && cp < 0x7F) || (cp > 0xA0 && cp <= 0xFF && cp != 0xAD)) {
        return (int)cp;
    }
    if (cp < 0x100 || cp > 0x143) {
        return -1;
    }
    const uint32_t i = cp - 0x100; /* 33 bytes from 0x00, 34 from 0x7F, then 0xAD */
    return (int)(i < 33 ? i : i < 67 ? i - 33 + 0x7F : 0xAD);
}

static inline uint32_t lk_char_of_byte(uint8_t byte) {
    if (byte <= 0x20) {
        return 0x100u + byte;
    }
    if (byte >= 0x7F && byte <= 0xA0) {
        return 0x100u + 33u + (uint32_t)(byte - 0x7F);
    }
    return byte == 0xAD ? 0x143u : byte;
}

#endif

/* normalize.h - texts as the tokenizers read them: well-formed, and in NFC where the model asks for
 * it. Both work in O(n); a text that needs no change is not copied. */
#ifndef LK_TEXT_NORMALIZE_H
#define LK_TEXT_NORMALIZE_H

#include "text/text_buffer.h"

/* Whether the text is well-formed UTF-8. */
bool lk_utf8_is_valid(const uint8_t *text, size_t n);
/* Appends the text with each maximal ill-formed subpart replaced by U+FFFD; false when memory is
 * short. */
bool lk_utf8_repair(const uint8_t *text, size_t n, lk_text_buffer *out);

/* Whether a well-formed text is in NFC for certain, by its quick-check properties. */
bool lk_nfc_is_certain(const uint8_t *text, size_t n);
/* Appends the NFC form of a well-formed text; false when memory is short. */
bool lk_nfc(const uint8_t *text, size_t n, lk_text_buffer *out);

#endif

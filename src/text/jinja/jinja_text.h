/* jinja_text.h - what filters and methods do to strings, in one place; the origin of every byte is
 * kept. */
#ifndef LK_TEXT_JINJA_TEXT_H
#define LK_TEXT_JINJA_TEXT_H

#include "text/jinja/jinja_vm.h"

bool lk_jis_space(uint32_t cp); /* Python's str.isspace */

enum { LK_JSTRIP_LEFT = 1, LK_JSTRIP_RIGHT = 2, LK_JSTRIP_BOTH = 3 };
/* Without the characters of `chars` (NULL: white space) at the ends. */
const lk_jstring *lk_jtext_strip(lk_jvm *vm, const lk_jstring *s, const lk_jstring *chars,
                                 int sides);
typedef enum lk_jcase {
    LK_JCASE_UPPER,
    LK_JCASE_LOWER,
    LK_JCASE_SWAP,
    LK_JCASE_CAPITALIZE, /* the first character upper, the rest lower */
    LK_JCASE_TITLE,      /* str.title: after everything that is no letter */
    LK_JCASE_TITLE_WORDS /* the filter title: after white space and - ( { [ < */
} lk_jcase;
const lk_jstring *lk_jtext_case(lk_jvm *vm, const lk_jstring *s, lk_jcase how);
/* At most `count` replacements; negative: all. */
const lk_jstring *lk_jtext_replace(lk_jvm *vm, const lk_jstring *s, const lk_jstring *from,
                                   const lk_jstring *to, int64_t count);
/* Lines as Python's str.splitlines. */
bool lk_jtext_lines(lk_jvm *vm, const lk_jstring *s, bool keep_ends, lk_jlist *out);
/* Padding to a width in characters: left, right or both. */
const lk_jstring *lk_jtext_pad(lk_jvm *vm, const lk_jstring *s, int64_t width,
                               const lk_jstring *fill, int sides);
/* "%d items" % values, and "{} items".format(...). */
bool lk_jtext_percent(lk_jvm *vm, const lk_jstring *s, const lk_jargs *args, lk_jvalue *out);
bool lk_jtext_format(lk_jvm *vm, const lk_jstring *s, const lk_jargs *args, lk_jvalue *out);
/* Pads one formatted value: sign-aware zeros, alignment '<', '>', '^' or '='. */
bool lk_jtext_align(lk_jbuild *out, const lk_jstring *s, size_t width, char align, uint32_t fill);
/* strftime of a local time, in English. */
const lk_jstring *lk_jtext_time(lk_jvm *vm, const lk_jstring *form, int64_t now_s);

/* JSON. */
typedef struct lk_jjson_style {
    bool ascii;               /* \u escapes beyond ASCII */
    bool sorted;              /* members by name */
    const lk_jstring *indent; /* NULL: one line */
    const lk_jstring *item_separator;
    const lk_jstring *key_separator;
} lk_jjson_style;
bool lk_jjson_write(lk_jvm *vm, lk_jbuild *out, lk_jvalue v, const lk_jjson_style *style);
/* A value from JSON text; strings get this origin. */
lk_status lk_jjson_read(lk_jheap *heap, const char *text, size_t n, uint8_t origin,
                        const char *what, lk_jvalue *out, lk_error *err);

#endif

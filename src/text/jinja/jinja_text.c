/* jinja_text.c - stripping, cases, replacing, lines and padding of strings. */
#include "text/jinja/jinja_text.h"

#include "text/unicode/unicode.h"

bool lk_jis_space(uint32_t cp) {
    return (lk_unicode_prop(cp) & LK_PROP_WHITE_SPACE) != 0 || (cp >= 0x1C && cp <= 0x1F);
}

static bool is_stripped(const lk_jstring *chars, uint32_t cp) {
    if (chars == NULL) {
        return lk_jis_space(cp);
    }
    for (size_t i = 0; i < chars->n;) {
        size_t n = 0;
        if (lk_utf8_get(chars->bytes + i, &n) == cp) {
            return true;
        }
        i += n;
    }
    return false;
}

const lk_jstring *lk_jtext_strip(lk_jvm *vm, const lk_jstring *s, const lk_jstring *chars,
                                 int sides) {
    size_t from = 0, to = s->n;
    if (chars != NULL && !lk_jheap_charge(&vm->heap, (s->n / 16 + 1) * (chars->n / 16 + 1))) {
        return NULL;
    }
    while ((sides & LK_JSTRIP_LEFT) != 0 && from < to) {
        size_t n = 0;
        if (!is_stripped(chars, lk_utf8_get(s->bytes + from, &n))) {
            break;
        }
        from += n;
    }
    while ((sides & LK_JSTRIP_RIGHT) != 0 && to > from) {
        size_t at = to - 1, n = 0;
        while ((s->bytes[at] & 0xC0) == 0x80) {
            at--;
        }
        if (!is_stripped(chars, lk_utf8_get(s->bytes + at, &n))) {
            break;
        }
        to = at;
    }
    return lk_jstring_slice(&vm->heap, s, from, to);
}

static bool is_letter(uint32_t cp) { /* one that has a case */
    const uint32_t category = lk_unicode_prop(cp) & LK_PROP_CATEGORY;
    return category <= LK_CAT_LT;
}

static bool put_upper(lk_jbuild *out, uint32_t cp, uint8_t origin) {
    if (cp == 0xDF) { /* sharp s has no capital of one character */
        return lk_jbuild_bytes(out, "SS", 2, origin);
    }
    return lk_jbuild_cp(out, lk_unicode_upper(cp), origin);
}

static bool begins_word(lk_jcase how, uint32_t before) {
    return how == LK_JCASE_TITLE ? !is_letter(before)
                                 : lk_jis_space(before) || before == '-' || before == '(' ||
                                       before == '{' || before == '[' || before == '<';
}

const lk_jstring *lk_jtext_case(lk_jvm *vm, const lk_jstring *s, lk_jcase how) {
    lk_jbuild out;
    lk_jbuild_init(&out, &vm->heap);
    uint32_t before = ' ';
    for (size_t i = 0; i < s->n;) {
        size_t n = 0;
        const uint32_t cp = lk_utf8_get(s->bytes + i, &n);
        const uint8_t origin = lk_jstring_origin(s, i);
        bool upper = how == LK_JCASE_UPPER;
        if (how == LK_JCASE_SWAP) {
            upper = lk_unicode_upper(cp) != cp || cp == 0xDF;
        } else if (how == LK_JCASE_CAPITALIZE) {
            upper = i == 0;
        } else if (how == LK_JCASE_TITLE || how == LK_JCASE_TITLE_WORDS) {
            upper = begins_word(how, before);
        }
        if (!(upper ? put_upper(&out, cp, origin)
                    : lk_jbuild_cp(&out, lk_unicode_lower(cp), origin))) {
            return NULL;
        }
        before = cp;
        i += n;
    }
    return lk_jbuild_finish(&out);
}

const lk_jstring *lk_jtext_replace(lk_jvm *vm, const lk_jstring *s, const lk_jstring *from,
                                   const lk_jstring *to, int64_t count) {
    lk_jbuild out;
    lk_jbuild_init(&out, &vm->heap);
    size_t at = 0;
    if (count == 0) {
        return s;
    }
    while (count != 0) {
        size_t found = 0;
        if (from->n == 0) { /* before every character, and at the end */
            if (!lk_jbuild_string(&out, to) || !lk_jheap_charge(&vm->heap, 1)) {
                return NULL;
            }
            if (at == s->n) {
                break;
            }
            found = at + lk_utf8_length(s->bytes[at]);
            (void)lk_jbuild_part(&out, s, at, found);
            at = found;
        } else {
            found = lk_jstring_find(&vm->heap, s, at, s->n, from);
            if (found == SIZE_MAX) {
                break;
            }
            if (!lk_jbuild_part(&out, s, at, found) || !lk_jbuild_string(&out, to)) {
                return NULL;
            }
            at = found + from->n;
        }
        count -= count > 0;
    }
    if (vm->heap.failure != LK_OK) {
        return NULL;
    }
    if (at == 0 && from->n != 0) {
        return s;
    }
    (void)lk_jbuild_part(&out, s, at, s->n);
    return lk_jbuild_finish(&out);
}

static bool ends_line(uint32_t cp) {
    return (cp >= 0x0A && cp <= 0x0D) || (cp >= 0x1C && cp <= 0x1E) || cp == 0x85 || cp == 0x2028 ||
           cp == 0x2029;
}

bool lk_jtext_lines(lk_jvm *vm, const lk_jstring *s, bool keep_ends, lk_jlist *out) {
    size_t start = 0;
    for (size_t i = 0; i <= s->n;) {
        size_t n = 0;
        const uint32_t cp = i < s->n ? lk_utf8_get(s->bytes + i, &n) : '\n';
        if (!ends_line(cp)) {
            i += n;
            continue;
        }
        if (i == s->n && start == i) {
            break;
        }
        const size_t end = i;
        i += i == s->n ? 1 : n;
        if (cp == '\r' && i < s->n && s->bytes[i] == '\n') {
            i++;
        }
        const lk_jstring *line =
            lk_jstring_slice(&vm->heap, s, start, keep_ends && end < s->n ? i : end);
        if (line == NULL || !lk_jlist_push(&vm->heap, out, lk_jstr(line))) {
            return lk_jheap_failed(vm);
        }
        start = i;
    }
    return true;
}

bool lk_jtext_align(lk_jbuild *out, const lk_jstring *s, size_t width, char align, uint32_t fill) {
    const size_t pad = width > s->n_chars ? width - s->n_chars : 0;
    const size_t sign = align == '=' && s->n != 0 && (s->bytes[0] == '-' || s->bytes[0] == '+');
    const size_t left = align == '<' ? 0 : align == '^' ? pad / 2 : pad;
    bool ok = lk_jbuild_part(out, s, 0, sign);
    for (size_t i = 0; i < left && ok; i++) {
        ok = lk_jbuild_cp(out, fill, LK_J_TEMPLATE);
    }
    ok = ok && lk_jbuild_part(out, s, sign, s->n);
    for (size_t i = left; i < pad && ok; i++) {
        ok = lk_jbuild_cp(out, fill, LK_J_TEMPLATE);
    }
    return ok;
}

const lk_jstring *lk_jtext_pad(lk_jvm *vm, const lk_jstring *s, int64_t width,
                               const lk_jstring *fill, int sides) {
    if (width <= (int64_t)s->n_chars) {
        return s;
    }
    size_t n = 0;
    const uint32_t cp = fill != NULL && fill->n != 0 ? lk_utf8_get(fill->bytes, &n) : ' ';
    lk_jbuild out;
    lk_jbuild_init(&out, &vm->heap);
    if (sides == LK_JSTRIP_BOTH) { /* Python puts the odd one to the left when the width is odd */
        const size_t pad = (size_t)width - s->n_chars;
        const size_t left = pad / 2 + (pad & (size_t)width & 1u);
        (void)lk_jtext_align(&out, s, s->n_chars + left, '>', cp);
        for (size_t i = left; i < pad && !out.failed; i++) {
            (void)lk_jbuild_cp(&out, cp, LK_J_TEMPLATE);
        }
    } else {
        (void)lk_jtext_align(&out, s, (size_t)width, sides == LK_JSTRIP_LEFT ? '>' : '<', cp);
    }
    return lk_jbuild_finish(&out);
}

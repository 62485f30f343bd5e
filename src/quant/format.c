/* format.c - the table of the supported formats, made of formats.def. Geometry of formats that are
 * only known by size is in format_size.c. */
#include "quant/format.h"

#define LK_FORMAT(NAME, name, id, block_elems, block_bytes, act_group)                             \
    extern const lk_format lk_format_##name;
#define LK_FORMAT_KNOWN(NAME, id, block_elems, block_bytes)
#include "quant/formats.def"
#undef LK_FORMAT
#undef LK_FORMAT_KNOWN

static const lk_format *const formats[] = {
#define LK_FORMAT(NAME, name, id, block_elems, block_bytes, act_group) &lk_format_##name,
#define LK_FORMAT_KNOWN(NAME, id, block_elems, block_bytes)
#include "quant/formats.def"
#undef LK_FORMAT
#undef LK_FORMAT_KNOWN
};

size_t lk_format_count(void) {
    return sizeof formats / sizeof formats[0];
}

const lk_format *lk_format_at(size_t i) {
    return i < lk_format_count() ? formats[i] : NULL;
}

const lk_format *lk_format_find(uint32_t type) {
    for (size_t i = 0; i < lk_format_count(); i++) {
        if (formats[i]->type == type) {
            return formats[i];
        }
    }
    return NULL;
}

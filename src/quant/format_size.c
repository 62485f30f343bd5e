/* format_size.c - block geometry and names of all tensor formats, supported or merely known, from
 * formats.def. It decodes nothing and refers to no format's code.
 * Invariant: a format number has at most one line in formats.def (a duplicate does not compile). */
#include "lk/gguf.h"
#include "quant/format.h"

bool lk_format_get_size(uint32_t type, lk_format_size *out) {
    switch (type) {
#define LK_FORMAT(NAME, name_, id, block_elems_, block_bytes_, act_group_)                         \
    case id:                                                                                       \
        *out = (lk_format_size){#NAME, (block_elems_), (block_bytes_), true};                      \
        return true;
#define LK_FORMAT_KNOWN(NAME, id, block_elems_, block_bytes_)                                      \
    case id:                                                                                       \
        *out = (lk_format_size){#NAME, (block_elems_), (block_bytes_), false};                     \
        return true;
#include "quant/formats.def"
#undef LK_FORMAT
#undef LK_FORMAT_KNOWN
    default:
        *out = (lk_format_size){NULL, 0, 0, false};
        return false;
    }
}

const char *lk_format_name(uint32_t type) {
    lk_format_size size;
    return lk_format_get_size(type, &size) ? size.name : NULL;
}

int lk_format_is_supported(uint32_t type) {
    lk_format_size size;
    return lk_format_get_size(type, &size) && size.supported;
}

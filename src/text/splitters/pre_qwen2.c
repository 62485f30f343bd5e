/* pre_qwen2.c - the words of Qwen 2 and 3: every digit alone. See pre_llama.h. */
#include "text/splitters/pre_llama.h"
#include "text/splitters/pre_splitter.h"

size_t lk_pre_qwen2(const uint8_t *text, size_t n, size_t pos) {
    return lk_pre_llama(text, n, pos, 1);
}

/* pre_llama_bpe.c - the words of Llama 3: numbers in groups of at most three. See pre_llama.h. */
#include "text/splitters/pre_llama.h"
#include "text/splitters/pre_splitter.h"

size_t lk_pre_llama_bpe(const uint8_t *text, size_t n, size_t pos) {
    return lk_pre_llama(text, n, pos, 3);
}

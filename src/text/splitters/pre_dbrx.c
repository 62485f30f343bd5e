/* pre_dbrx.c - the words of cl100k (DBRX, OLMo 2, Phi 4): the expression of Llama 3, but words are
 * merged even where they are a token, and no BOS is added. See pre_llama.h. */
#include "text/splitters/pre_llama.h"
#include "text/splitters/pre_splitter.h"

size_t lk_pre_dbrx(const uint8_t *text, size_t n, size_t pos) {
    return lk_pre_llama(text, n, pos, 3);
}

/* pre_glm4.c - the words of GLM-4: the expression of Llama 3; a word that is a token is taken
 * whole, and no BOS is added. See pre_llama.h. */
#include "text/splitters/pre_llama.h"
#include "text/splitters/pre_splitter.h"

size_t lk_pre_glm4(const uint8_t *text, size_t n, size_t pos) {
    return lk_pre_llama(text, n, pos, 3);
}

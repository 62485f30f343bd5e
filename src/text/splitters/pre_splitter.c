/* pre_splitter.c - finds a pre-splitter by the name that a file uses for it. */
#include "text/splitters/pre_splitter.h"

#include <string.h>

#include "base/error.h"

static const lk_pre_splitter splitters[] = {
#define LK_PRE_SPLITTER(name, gguf_name, names, flags) {gguf_name, names, lk_pre_##name, flags},
#include "text/splitters/pre_splitters.def"
#undef LK_PRE_SPLITTER
};

const lk_pre_splitter *lk_pre_splitter_list(size_t *n) {
    *n = sizeof splitters / sizeof splitters[0];
    return splitters;
}

/* Whether `name` is one of the words of `names`. */
static int is_among(const char *name, const char *names) {
    const size_t n = strlen(name);
    for (const char *word = names; word != NULL && n != 0; word = strchr(word, ' ')) {
        word += *word == ' ';
        if (strncmp(word, name, n) == 0 && (word[n] == ' ' || word[n] == '\0')) {
            return strchr(name, ' ') == NULL;
        }
    }
    return 0;
}

lk_status lk_pre_splitter_find(const char *name, const lk_pre_splitter **out, lk_error *err) {
    *out = NULL;
    if (name == NULL) {
        name = "default";
    }
    for (size_t i = 0; i < sizeof splitters / sizeof splitters[0]; i++) {
        if (strcmp(name, splitters[i].name) == 0 || is_among(name, splitters[i].names)) {
            *out = &splitters[i];
            return LK_OK;
        }
    }
    return lk_fail(err, LK_E_UNSUPPORTED, LK_AT_SUBJECT("tokenizer.ggml.pre"),
                   "unknown pre-splitter \"%.64s\"", name);
}

/* run_grammar.c - `lockstep run` under a grammar or a JSON schema. */
#include <stdlib.h>
#include <string.h>

#include "lk/grammar.h"
#include "run.h"

/* Is the value of an option the text itself, and not the name of a file? */
static bool is_grammar_text(const char *value) {
    return strstr(value, "::=") != NULL;
}

static bool is_schema_text(const char *value) {
    const char *c = value + strspn(value, " \t\r\n");
    return *c == '{' || strcmp(c, "true") == 0 || strcmp(c, "false") == 0;
}

/* The text that an option gives; free() *owned. NULL after a failure that has been printed. */
static const char *text_of(const char *value, bool is_text, size_t *n, char **owned) {
    *owned = NULL;
    *n = strlen(value);
    if (!is_text) {
        *owned = lk_console_read("run", value, LK_GRAMMAR_MAX_BYTES + 1, n);
        return *owned;
    }
    return value;
}

static bool compile(run *r) {
    const run_options *o = r->options;
    lk_error err;
    char *owned = NULL;
    size_t n = 0;
    lk_status status = LK_OK;
    if (o->json_object) {
        status = lk_grammar_create_json_object(NULL, &r->grammar, &err);
    } else if (o->grammar != NULL) {
        const char *text = text_of(o->grammar, is_grammar_text(o->grammar), &n, &owned);
        if (text == NULL) {
            return false;
        }
        status = lk_grammar_create_gbnf(text, n, NULL, &r->grammar, &err);
    } else {
        const char *text = text_of(o->json_schema, is_schema_text(o->json_schema), &n, &owned);
        if (text == NULL) {
            return false;
        }
        status = lk_grammar_create_json_schema(text, n, NULL, &r->grammar, &err);
    }
    free(owned);
    return status == LK_OK || lk_console_failed("run", &err) == 0;
}

bool run_check_grammar(const run_options *o) {
    const int n = (o->grammar != NULL) + (o->json_schema != NULL) + o->json_object;
    if (n > 1) {
        (void)lk_console_error("run", "--grammar, --json-schema and --json-object exclude another");
        return false;
    }
    if (n == 1 && o->ignore_eos) {
        (void)lk_console_error("run", "--ignore-eos excludes a grammar, whose text has an end");
        return false;
    }
    return true;
}

bool run_compile_grammar(run *r) {
    const run_options *o = r->options;
    lk_error err;
    if (o->grammar == NULL && o->json_schema == NULL && !o->json_object) {
        return true;
    }
    if (!compile(r)) {
        return false;
    }
    if (lk_token_trie_create(r->tokenizer, NULL, &r->trie, &err) != LK_OK) {
        return lk_console_failed("run", &err) == 0;
    }
    return true;
}

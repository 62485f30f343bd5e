/* cmd_replay.c - `lockstep replay`: computes what a receipt says again, alone, and names the first
 * token whose logits or choice differ. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "lk/grammar.h"
#include "replay.h"
#include "shared/listener.h"
#include "shared/open_model.h"
#include "shared/options.h"

static const char help[] =
    "usage: lockstep replay MODEL RECEIPT [OPTIONS]\n"
    "Computes a receipt again (a file, or - for standard input): the object itself, or the answer\n"
    "of a server that holds some. Exit status 0 when all tokens and digests agree, 1 when one "
    "does\n"
    "not; it is named.\n\n"
    "  --mmproj FILE --audio FILE    the encoder and the recordings of the prompt, in their order\n"
    "  -t, --threads N         threads (default: one per processor); never changes the result\n\n"
    "example: curl -s localhost:8080/v1/completions -d '{\"prompt\": \"Hi\", \"receipt\": true}' "
    "|\n"
    "         lockstep replay model.gguf -\n";

enum { PIECE = 64, MAX_RECEIPT_BYTES = 1 << 28 };

typedef struct replay {
    lk_model *model;
    lk_model_info info;
    lk_context *context;
    lk_sampler *sampler;
    lk_grammar *grammar;
    lk_token_trie *trie;
    const replay_receipt *receipt;
    int64_t n_threads;
    const char *mmproj;
    lk_option_list audio;
    lk_audio_vectors clips[LK_OPTION_LIST_MAX]; /* [audio.n] */
} replay;

static void forget(replay *r) {
    for (size_t i = 0; i < r->audio.n; i++) {
        free(r->clips[i].values);
    }
}

static bool hear(replay *r) {
    lk_audio_input input;
    if ((r->audio.n != 0) != (r->mmproj != NULL)) {
        return lk_console_error("replay", "--audio needs the encoder's file with --mmproj, and "
                                          "--mmproj a recording with --audio") == 0;
    }
    if (r->audio.n == 0) {
        return true;
    }
    bool ok =
        lk_listener_open(&input, "replay", r->mmproj, r->model, r->n_threads, true, LK_DEVICE_CPU);
    for (size_t i = 0; ok && i < r->audio.n; i++) {
        ok = lk_listener_hear(&input, "replay", r->audio.items[i], &r->clips[i], NULL);
    }
    lk_audio_input_close(&input);
    return ok;
}

/* Whether what was heard is what the receipt is of. */
static bool check_clips(const replay *r) {
    const replay_receipt *receipt = r->receipt;
    if (receipt->n_clips != r->audio.n) {
        return lk_console_error("replay",
                                "the receipt is of a prompt with %zu recordings, and %zu are given "
                                "(--mmproj FILE --audio FILE)",
                                receipt->n_clips, r->audio.n) == 0;
    }
    for (size_t i = 0; i < receipt->n_clips; i++) {
        char samples[65];
        char vectors[33];
        lk_hex(r->clips[i].samples, 32, samples);
        lk_hex(r->clips[i].digest, 16, vectors);
        if (receipt->clips[i].n != r->clips[i].n) {
            return lk_console_error("replay",
                                    "recording %zu gives %zu tokens, the receipt says %zu", i,
                                    r->clips[i].n, receipt->clips[i].n) == 0;
        }
        if (strcmp(samples, receipt->clips[i].samples) != 0) {
            return lk_console_error("replay",
                                    "recording %zu is not that of the receipt: its samples have "
                                    "the digest %.64s, the receipt says %.64s",
                                    i, samples, receipt->clips[i].samples) == 0;
        }
        if (strcmp(vectors, receipt->clips[i].vectors) != 0) {
            (void)printf("recording %zu differs: its vectors have the digest %.32s, the receipt "
                         "says %.32s\n",
                         i, vectors, receipt->clips[i].vectors);
            return false;
        }
    }
    return true;
}

/* What stands in the place of a token of the prompt; NULL: nothing does. */
static const float *vector_at(const replay *r, size_t pos) {
    for (size_t i = 0; i < r->receipt->n_clips; i++) {
        const size_t first = r->receipt->clips[i].first;
        if (pos >= first && pos < first + r->receipt->clips[i].n) {
            return r->clips[i].values + (pos - first) * r->clips[i].width;
        }
    }
    return NULL;
}

static bool check_model(const replay *r) {
    lk_error err;
    uint8_t digest[32];
    char hex[65];
    if (strcmp(r->receipt->numerics, lk_numerics_version()) != 0) {
        return lk_console_error("replay", "the receipt was computed by the numerics %s, this is %s",
                                r->receipt->numerics, lk_numerics_version()) == 0;
    }
    if (lk_model_digest(r->model, (uint32_t)r->n_threads, NULL, NULL, digest, &err) != LK_OK) {
        return lk_console_failed("replay", &err) == 0;
    }
    lk_hex(digest, 32, hex);
    if (strcmp(hex, r->receipt->model) != 0) {
        return lk_console_error("replay", "the receipt is of the model %.64s, this is %s",
                                r->receipt->model, hex) == 0;
    }
    return true;
}

/* Puts the sampler under the receipt's grammar. */
static bool constrain(replay *r) {
    lk_error err;
    const char *kind = json_string_value(json_object_get(r->receipt->grammar, "kind"));
    const char *text = json_string_value(json_object_get(r->receipt->grammar, "text"));
    const size_t n = text != NULL ? strlen(text) : 0;
    const lk_tokenizer *tokenizer = lk_model_tokenizer(r->model);
    const char *syntax = NULL;
    lk_status status = LK_OK;
    if (r->receipt->grammar == NULL) {
        return true;
    }
    if (kind != NULL && strcmp(kind, "json_object") == 0) {
        status = lk_grammar_create_json_object(NULL, &r->grammar, &err);
    } else if (kind != NULL && text != NULL && strcmp(kind, "gbnf") == 0) {
        status = lk_grammar_create_gbnf(text, n, NULL, &r->grammar, &err);
    } else if (kind != NULL && text != NULL && strcmp(kind, "json_schema") == 0) {
        status = lk_grammar_create_json_schema(text, n, NULL, &r->grammar, &err);
    } else if (kind != NULL && text != NULL && strcmp(kind, "tool_calls") == 0) {
        status = lk_grammar_create_tool_calls(text, n, NULL, &r->grammar, &err);
        json_t *rules = json_loads(text, 0, NULL);
        syntax = json_string_value(json_object_get(rules, "syntax"));
        status = status == LK_OK
                     ? lk_token_trie_create_chat(tokenizer, syntax, NULL, &r->trie, &err)
                     : status;
        json_decref(rules);
    } else {
        return lk_console_error("replay", "the receipt's 'grammar' has no kind that is known") == 0;
    }
    if (status == LK_OK && r->trie == NULL) {
        status = lk_token_trie_create(tokenizer, NULL, &r->trie, &err);
    }
    if (status == LK_OK) {
        status = lk_sampler_set_grammar(r->sampler, r->grammar, r->trie, &err);
    }
    return status == LK_OK || lk_console_failed("replay", &err) == 0;
}

static bool prepare(replay *r) {
    lk_error err;
    const replay_receipt *receipt = r->receipt;
    lk_context_params params = LK_CONTEXT_PARAMS_INIT;
    params.n_threads = (uint32_t)r->n_threads;
    params.kv_positions = (int64_t)(receipt->n_prompt + receipt->n_ids);
    params.max_logits = PIECE;
    params.k_type = receipt->k_type;
    params.v_type = receipt->v_type;
    if (lk_context_create(r->model, &params, &r->context, &err) != LK_OK ||
        lk_sampler_create(&receipt->sampler, r->info.n_vocab, &r->sampler, &err) != LK_OK) {
        return lk_console_failed("replay", &err) == 0;
    }
    for (size_t i = 0; i < receipt->n_prompt; i++) {
        if (lk_sampler_accept(r->sampler, receipt->tokens[i], &err) != LK_OK) {
            return lk_console_failed("replay", &err) == 0;
        }
    }
    return constrain(r);
}

/* Holds token i of the receipt against the logits of the row before it. */
static bool check_token(const replay *r, size_t i, const float *logits) {
    lk_error err;
    uint8_t digest[16];
    char hex[33];
    lk_sample sample;
    const replay_receipt *receipt = r->receipt;
    const size_t pos = receipt->n_prompt + i;
    const char *wanted = json_string_value(json_array_get(receipt->digests, i));
    lk_logits_digest(logits, (size_t)r->info.n_vocab, digest);
    lk_hex(digest, 16, hex);
    if (strcmp(hex, wanted) != 0) {
        (void)printf("token %zu (position %zu) differs: its logits have the digest %s, the receipt "
                     "says %.32s\n",
                     i, pos, hex, wanted);
        return false;
    }
    if (lk_sampler_sample(r->sampler, logits, (int64_t)pos - 1, &sample, &err) != LK_OK) {
        return lk_console_failed("replay", &err) == 0;
    }
    if (sample.token != receipt->tokens[pos]) {
        (void)printf("token %zu (position %zu) differs: %d is sampled from the same logits, the "
                     "receipt says %d\n",
                     i, pos, sample.token, receipt->tokens[pos]);
        return false;
    }
    return lk_sampler_accept(r->sampler, sample.token, &err) == LK_OK ||
           lk_console_failed("replay", &err) == 0;
}

static bool compute(const replay *r) {
    lk_error err;
    lk_row rows[PIECE];
    const float *vectors[PIECE];
    const replay_receipt *receipt = r->receipt;
    const size_t n_rows = receipt->n_prompt + receipt->n_ids - (receipt->n_ids > 0);
    for (size_t first = 0; first < n_rows; first += PIECE) {
        size_t n = 0;
        for (; n < PIECE && first + n < n_rows; n++) {
            const size_t pos = first + n;
            rows[n] = (lk_row){receipt->tokens[pos], 0, (int64_t)pos,
                               pos + 1 >= receipt->n_prompt ? LK_ROW_LOGITS : 0, 0};
            vectors[n] = vector_at(r, pos);
        }
        if (lk_context_decode_embeddings(r->context, rows, vectors, n, NULL, &err) != LK_OK) {
            return lk_console_failed("replay", &err) == 0;
        }
        for (size_t k = 0; k < n; k++) {
            const float *logits = NULL;
            if ((rows[k].flags & LK_ROW_LOGITS) == 0 || receipt->n_ids == 0) {
                continue;
            }
            if (lk_context_logits(r->context, k, &logits, &err) != LK_OK) {
                return lk_console_failed("replay", &err) == 0;
            }
            if (!check_token(r, first + k + 1 - receipt->n_prompt, logits)) {
                return false;
            }
        }
    }
    return true;
}

static bool replay_one(replay *r, const json_t *json, size_t i) {
    replay_receipt receipt;
    if (!replay_read(json, &receipt)) {
        return false;
    }
    r->receipt = &receipt;
    const bool ok = check_model(r) && check_clips(r) && prepare(r) && compute(r);
    if (ok) {
        (void)printf("receipt %zu: %zu tokens after a prompt of %zu agree\n", i, receipt.n_ids,
                     receipt.n_prompt);
    }
    lk_sampler_destroy(r->sampler);
    lk_grammar_destroy(r->grammar);
    lk_token_trie_destroy(r->trie);
    lk_context_destroy(r->context);
    r->sampler = NULL;
    r->grammar = NULL;
    r->trie = NULL;
    r->context = NULL;
    r->receipt = NULL;
    replay_free(&receipt);
    return ok;
}

static json_t *load(const char *path) {
    json_error_t error;
    size_t n = 0;
    char *text = lk_console_read("replay", path, MAX_RECEIPT_BYTES, &n);
    if (text == NULL) {
        return NULL;
    }
    json_t *root = json_loadb(text, n, 0, &error);
    free(text);
    if (root == NULL) {
        (void)lk_console_error("replay", "%s is not valid JSON: line %d, column %d", path,
                               error.line, error.column);
    } else if (replay_find(root, 0) == NULL) {
        (void)lk_console_error("replay", "%s holds no receipt", path);
        json_decref(root);
        root = NULL;
    }
    return root;
}

int lk_command_replay(int argc, char **argv) {
    const char *model = NULL;
    const char *path = NULL;
    int exit_status = 0;
    replay r = {.model = NULL, .info = LK_MODEL_INFO_INIT};
    const lk_option options[] = {
        {"--threads", "-t", LK_OPTION_INT, &r.n_threads, 1, 256, NULL},
        {"--mmproj", NULL, LK_OPTION_TEXT, &r.mmproj, 0, 0, NULL},
        {"--audio", NULL, LK_OPTION_LIST, &r.audio, 0, 0, NULL},
    };
    const lk_positional positionals[] = {{"MODEL", &model, true}, {"RECEIPT", &path, true}};
    const lk_command_line line = {"replay", help, options, 3, positionals, 2};
    if (!lk_options_parse(&line, argc, argv, &exit_status)) {
        return exit_status;
    }
    json_t *root = load(path);
    bool ok = root != NULL;
    if (ok) {
        r.model = lk_open_model("replay", model, r.n_threads, true);
        ok = r.model != NULL && lk_model_get_info(r.model, &r.info, NULL) == LK_OK && hear(&r);
    }
    const json_t *json = NULL;
    for (size_t i = 0; ok && (json = replay_find(root, i)) != NULL; i++) {
        ok = replay_one(&r, json, i);
    }
    forget(&r);
    lk_model_close(r.model);
    json_decref(root);
    return lk_console_finish("replay", ok ? 0 : 1);
}

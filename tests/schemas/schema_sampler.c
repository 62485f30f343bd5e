/* schema_sampler.c - samples from a model under each schema of some files and writes one JSON
 * object a line: the file, the number of the schema, whether it was refused, the text, whether it
 * is finished, tokens, and the time that its masks took. check_schemas.sh has the texts validated.
 *
 * With --calls the schemas are those of a tool, which must be called in a syntax (auto: may be),
 * and the texts are the arguments as the parser of answers gives them; schemas of other values than
 * objects are left out.
 *
 *     schema_sampler MODEL TOKENS SEED [--calls SYNTAX | --auto SYNTAX] FILE... */
#include <jansson.h>
#include <time.h>

#include "lk/lk.h"
#include "lk_test.h"

enum { N_SLOTS = 16, MAX_PROMPT = 64 };

typedef struct job {
    const char *file;
    size_t index;
    lk_grammar *grammar;
    lk_sampler *sampler;
    char text[1 << 16];
    size_t n_text;
    int n_tokens;
    int is_finished;
    int64_t pos;
    int32_t next;
    double mask_ms, worst_ms;
} job;

typedef struct sampler_run {
    lk_model *model;
    const lk_tokenizer *tokenizer;
    lk_token_trie *trie;
    lk_context *context;
    int32_t n_vocab;
    int n_max;
    uint64_t seed;
    const char *syntax; /* of calls; NULL: the texts are JSON */
    int is_auto;
    lk_chat_template *chat_template; /* that the parser of answers is created with */
    int32_t prompt[MAX_PROMPT];
    size_t n_prompt;
    double step_ms;
    uint64_t n_steps;
    job *slots[N_SLOTS];
    json_t *files[64];
    const char *names[64];
    size_t n_files, i_file, i_schema;
} sampler_run;

static double cpu_ms(clockid_t clock) {
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void print_json(json_t *object) {
    (void)json_dumpf(object, stdout, JSON_COMPACT);
    (void)putchar('\n');
    json_decref(object);
}

/* ---- calls ---- */

static lk_status make_call_grammar(const sampler_run *r, const json_t *schema, lk_grammar **out,
                                   lk_error *err) {
    json_t *rules =
        json_pack("{s:s, s:b, s:[{s:{s:s, s:O}}], s:s}", "syntax", r->syntax, "parallel_tool_calls",
                  0, "tools", "function", "name", "f", "parameters", schema, "tool_choice",
                  r->is_auto ? "auto" : "required");
    char *text = json_dumps(rules, JSON_COMPACT);
    const lk_status status = lk_grammar_create_tool_calls(text, strlen(text), NULL, out, err);
    free(text);
    json_decref(rules);
    return status;
}

typedef struct arguments {
    char text[1 << 17];
    size_t n;
    int n_complete;
} arguments;

static void on_delta(void *ctx, const lk_chat_delta *delta) {
    arguments *a = ctx;
    if (delta->kind == LK_DELTA_CALL_ARGUMENTS && a->n + delta->n_text < sizeof a->text) {
        memcpy(a->text + a->n, delta->text, delta->n_text);
        a->n += delta->n_text;
    }
    a->n_complete += delta->kind == LK_DELTA_CALL_END && delta->is_complete != 0;
}

/* Puts the arguments of the one call in the place of the answer. */
static void take_arguments(const sampler_run *r, job *j, const json_t *schema) {
    static arguments a;
    lk_chat_parser_params params = LK_CHAT_PARSER_PARAMS_INIT;
    lk_chat_parser *parser = NULL;
    lk_error err = {0};
    json_t *list = json_pack("[{s:{s:s, s:O}}]", "function", "name", "f", "parameters", schema);
    char *tools = json_dumps(list, JSON_COMPACT);
    a.n = 0;
    a.n_complete = 0;
    params.syntax = r->syntax;
    params.tools = tools;
    params.n_tools = strlen(tools);
    params.on_delta = on_delta;
    params.ctx = &a;
    REQUIRE_OK(lk_chat_parser_create(r->chat_template, &params, &parser, &err), err);
    REQUIRE_OK(lk_chat_parser_push(parser, j->text, j->n_text, &err), err);
    REQUIRE_OK(lk_chat_parser_finish(parser, &err), err);
    if (a.n_complete != 1 || a.n >= sizeof j->text) {
        (void)fprintf(stderr, "%zu: %d calls in %.*s\n", j->index, a.n_complete, (int)j->n_text,
                      j->text);
        a.n = 0; /* no JSON: the check fails */
    }
    memcpy(j->text, a.text, a.n);
    j->n_text = a.n;
    lk_chat_parser_destroy(parser);
    free(tools);
    json_decref(list);
}

static const json_t *schema_of(const sampler_run *r, const job *j) {
    for (size_t i = 0; i < r->n_files; i++) {
        if (r->names[i] == j->file) {
            return json_array_get(r->files[i], j->index);
        }
    }
    return NULL;
}

static int is_object(const json_t *schema) {
    const char *type = json_string_value(json_object_get(schema, "type"));
    return type != NULL && strcmp(type, "object") == 0;
}

/* A text that was cut may end in half a character: it is left out. */
static void finish(const sampler_run *r, job *j) {
    if (r->syntax != NULL && j->is_finished && !r->is_auto) {
        take_arguments(r, j, schema_of(r, j));
    }
    print_json(json_pack(
        "{s:s, s:i, s:o, s:b, s:i, s:f, s:f}", "file", j->file, "index", (int)j->index, "text",
        json_stringn_nocheck(j->text, j->is_finished ? j->n_text : 0), "finished", j->is_finished,
        "tokens", j->n_tokens, "mask_ms", j->mask_ms, "worst_ms", j->worst_ms));
    lk_sampler_destroy(j->sampler);
    lk_grammar_destroy(j->grammar);
    free(j);
}

/* The next schema that compiles; NULL at the end. */
static job *next_job(sampler_run *r) {
    for (; r->i_file < r->n_files; r->i_file++, r->i_schema = 0) {
        while (r->i_schema < json_array_size(r->files[r->i_file])) {
            lk_error err = {0};
            const json_t *schema = json_array_get(r->files[r->i_file], r->i_schema);
            if (r->syntax != NULL && !is_object(schema)) {
                r->i_schema++;
                continue;
            }
            job *j = calloc(1, sizeof *j);
            j->file = r->names[r->i_file];
            j->index = r->i_schema;
            r->i_schema++;
            char *text = json_dumps(schema, JSON_ENCODE_ANY | JSON_COMPACT);
            const lk_status status =
                r->syntax != NULL
                    ? make_call_grammar(r, schema, &j->grammar, &err)
                    : lk_grammar_create_json_schema(text, strlen(text), NULL, &j->grammar, &err);
            free(text);
            if (status != LK_OK) {
                print_json(json_pack("{s:s, s:i, s:s}", "file", j->file, "index", (int)j->index,
                                     "refused", err.message));
                free(j);
                continue;
            }
            lk_sampler_params params = LK_SAMPLER_PARAMS_INIT;
            params.temperature = 1.5F;
            params.top_k = 0;
            params.top_p = 1.0F;
            params.min_p = 0.0F;
            params.seed = r->seed + r->i_schema;
            params.choice = (uint32_t)r->i_file;
            REQUIRE_OK(lk_sampler_create(&params, r->n_vocab, &j->sampler, &err), err);
            REQUIRE_OK(lk_sampler_set_grammar(j->sampler, j->grammar, r->trie, &err), err);
            return j;
        }
    }
    return NULL;
}

/* Chooses the token after a row; true when the text goes on. */
static int advance(sampler_run *r, job *j, size_t i_row) {
    lk_error err = {0};
    const float *logits = NULL;
    lk_sample sample;
    uint32_t *words = malloc(((size_t)r->n_vocab + 31) / 32 * sizeof words[0]);
    REQUIRE_OK(lk_context_logits(r->context, i_row, &logits, &err), err);
    const double before = cpu_ms(CLOCK_THREAD_CPUTIME_ID);
    REQUIRE_OK(lk_sampler_grammar_mask(j->sampler, words, ((size_t)r->n_vocab + 31) / 32, &err),
               err);
    const double took = cpu_ms(CLOCK_THREAD_CPUTIME_ID) - before;
    j->mask_ms += took;
    j->worst_ms = took > j->worst_ms ? took : j->worst_ms;
    free(words);
    REQUIRE_OK(lk_sampler_sample(j->sampler, logits, j->pos, &sample, &err), err);
    REQUIRE_OK(lk_sampler_accept(j->sampler, sample.token, &err), err);
    j->n_tokens++;
    j->pos++;
    j->next = sample.token;
    size_t n = 0;
    if (!lk_tokenizer_is_end(r->tokenizer, sample.token)) {
        REQUIRE_OK(lk_tokenizer_token_bytes(
                       r->tokenizer, sample.token, r->syntax != NULL ? LK_DETOKENIZE_SPECIAL : 0,
                       j->text + j->n_text, sizeof j->text - j->n_text, &n, &err),
                   err);
        j->n_text += n;
    }
    j->is_finished = lk_sampler_grammar_progress(j->sampler) == LK_GRAMMAR_COMPLETE;
    return !j->is_finished && j->n_tokens < r->n_max;
}

static void start(sampler_run *r, int slot) {
    lk_error err = {0};
    lk_row rows[MAX_PROMPT];
    while ((r->slots[slot] = next_job(r)) != NULL) {
        job *j = r->slots[slot];
        REQUIRE_OK(lk_sequence_clear(r->context, slot, &err), err);
        for (size_t i = 0; i < r->n_prompt; i++) {
            rows[i] = (lk_row){r->prompt[i], slot, (int64_t)i,
                               i + 1 == r->n_prompt ? LK_ROW_LOGITS : 0, 0};
        }
        REQUIRE_OK(lk_context_decode(r->context, rows, r->n_prompt, NULL, &err), err);
        j->pos = (int64_t)r->n_prompt - 1;
        if (advance(r, j, r->n_prompt - 1)) {
            return;
        }
        finish(r, j);
    }
}

static int step(sampler_run *r) {
    lk_error err = {0};
    lk_row rows[N_SLOTS];
    int slots[N_SLOTS];
    size_t n = 0;
    for (int i = 0; i < N_SLOTS; i++) {
        if (r->slots[i] != NULL) {
            rows[n] = (lk_row){r->slots[i]->next, i, r->slots[i]->pos, LK_ROW_LOGITS, 0};
            slots[n++] = i;
        }
    }
    if (n == 0) {
        return 0;
    }
    const double before = cpu_ms(CLOCK_PROCESS_CPUTIME_ID);
    REQUIRE_OK(lk_context_decode(r->context, rows, n, NULL, &err), err);
    r->step_ms += cpu_ms(CLOCK_PROCESS_CPUTIME_ID) - before;
    r->n_steps += n;
    int over[N_SLOTS];
    for (size_t i = 0; i < n; i++) {
        over[i] = !advance(r, r->slots[slots[i]], i);
    }
    for (size_t i = 0; i < n; i++) {
        if (over[i]) {
            finish(r, r->slots[slots[i]]);
            start(r, slots[i]);
        }
    }
    return 1;
}

int main(int argc, char **argv) {
    static const char prompt[] = "Answer in JSON:\n";
    sampler_run r = {0};
    lk_error err = {0};
    const int has_calls =
        argc > 5 && (strcmp(argv[4], "--calls") == 0 || strcmp(argv[4], "--auto") == 0);
    const int first = has_calls ? 6 : 4;
    if (argc <= first || argc > first + 64) {
        (void)fprintf(stderr, "usage: schema_sampler MODEL TOKENS SEED [--calls SYNTAX | --auto "
                              "SYNTAX] FILE...\n");
        return 2;
    }
    r.syntax = has_calls ? argv[5] : NULL;
    r.is_auto = has_calls && strcmp(argv[4], "--auto") == 0;
    r.n_max = atoi(argv[2]);
    r.seed = strtoull(argv[3], NULL, 10);
    for (int i = first; i < argc; i++) {
        json_error_t why;
        r.names[r.n_files] = argv[i];
        r.files[r.n_files] = json_load_file(argv[i], 0, &why);
        if (!json_is_array(r.files[r.n_files])) {
            (void)fprintf(stderr, "%s: %s\n", argv[i], why.text);
            return 1;
        }
        r.n_files++;
    }
    REQUIRE_OK(lk_model_open(argv[1], NULL, &r.model, &err), err);
    r.tokenizer = lk_model_tokenizer(r.model);
    lk_model_info info = LK_MODEL_INFO_INIT;
    REQUIRE_OK(lk_model_get_info(r.model, &info, &err), err);
    r.n_vocab = info.n_vocab;
    if (has_calls) {
        REQUIRE_OK(lk_chat_template_builtin("chatml", NULL, &r.chat_template, &err), err);
        REQUIRE_OK(lk_token_trie_create_chat(r.tokenizer, r.syntax, NULL, &r.trie, &err), err);
    } else {
        REQUIRE_OK(lk_token_trie_create(r.tokenizer, NULL, &r.trie, &err), err);
    }
    REQUIRE_OK(lk_tokenizer_encode(r.tokenizer, prompt, sizeof prompt - 1, LK_TOKENIZE_ADD_SPECIAL,
                                   r.prompt, MAX_PROMPT, &r.n_prompt, &err),
               err);
    lk_context_params params = LK_CONTEXT_PARAMS_INIT;
    params.n_sequences = N_SLOTS;
    params.kv_positions = (int64_t)N_SLOTS * (r.n_max + MAX_PROMPT + 64);
    REQUIRE_OK(lk_context_create(r.model, &params, &r.context, &err), err);
    for (int i = 0; i < N_SLOTS; i++) {
        start(&r, i);
    }
    while (step(&r)) {
    }
    print_json(json_pack("{s:f, s:I}", "step_ms", r.step_ms, "rows", (json_int_t)r.n_steps));
    lk_context_destroy(r.context);
    lk_token_trie_destroy(r.trie);
    lk_chat_template_close(r.chat_template);
    lk_model_close(r.model);
    for (size_t i = 0; i < r.n_files; i++) {
        json_decref(r.files[i]);
    }
    return 0;
}

/* test_grammar_isolation.c - masks and samples under grammars do not depend on the schedule:
 * sequences with different grammars (schemas, calls of tools), each sampled alone and then together
 * with others, that join at random times, in random order, in prompts cut at random, with other
 * numbers of threads and other instruction sets; and as requests to an engine. Every mask and every
 * token must be the same. labels: threads */
#include "lk/lk.h"
#include "lk_test.h"

enum { N_SCHEMAS = 5, N_CALLS = 3, N_SEQUENCES = N_SCHEMAS + N_CALLS, N_TOKENS = 40, N_PROMPT = 6 };

static const char two_members[] =
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"maxLength\":12},\"b\":{"
    "\"type\":\"integer\",\"minimum\":3,\"maximum\":77}},\"required\":[\"a\",\"b\"]}";

static const char *const grammars[N_SCHEMAS] = {
    two_members,
    "{\"type\":\"array\",\"items\":{\"enum\":[\"red\",\"green\",1.5,null]},\"minItems\":4}",
    "{\"type\":\"object\"}",
    "{\"type\":\"string\",\"pattern\":\"^[a-z]+( [a-z]+){3,}$\"}",
    "{\"anyOf\":[{\"type\":\"string\",\"format\":\"date-time\"},{\"type\":\"number\"}]}",
};

#define TOOLS                                                                                      \
    "\"tools\":[{\"function\":{\"name\":\"weather\",\"parameters\":{\"properties\":{\"city\":{"    \
    "\"type\":\"string\"},\"days\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":14}},"          \
    "\"required\":["                                                                               \
    "\"days\"]}}},{\"function\":{\"name\":\"now\"}}]"
/* Calls of tools: forced ones as JSON and between tags, and left to the model behind a mark. */
static const struct {
    const char *syntax, *rules;
} calls[N_CALLS] = {
    {"hermes", "{\"syntax\":\"hermes\",\"tool_choice\":\"required\"," TOOLS "}"},
    {"qwen-coder",
     "{\"syntax\":\"qwen-coder\",\"tool_choice\":{\"type\":\"function\",\"function\":{"
     "\"name\":\"weather\"}}," TOOLS "}"},
    {"hermes", "{\"syntax\":\"hermes\",\"begins\":\"calls\"," TOOLS "}"}};

/* What became of a sequence. */
typedef struct trace {
    int32_t tokens[N_TOKENS];
    uint64_t masks[N_TOKENS]; /* hashes */
    size_t n;
} trace;

typedef struct sequence {
    lk_sampler *sampler;
    trace seen;
    size_t n_rows; /* computed */
    int is_over;
} sequence;

typedef struct setup {
    lk_model *model;
    const lk_tokenizer *tokenizer;
    lk_token_trie *trie;
    lk_token_trie *call_tries[N_CALLS]; /* with the control tokens that are marks */
    lk_grammar *compiled[N_SEQUENCES];
    int32_t n_vocab;
    int32_t prompts[N_SEQUENCES][N_PROMPT];
} setup;

static void open_setup(setup *s) {
    lk_error err = {0};
    lk_model_info info = LK_MODEL_INFO_INIT;
    REQUIRE_OK(lk_model_open(lk_test_data("models/tiny-q4_k_m.gguf"), NULL, &s->model, &err), err);
    REQUIRE_OK(lk_model_get_info(s->model, &info, &err), err);
    s->n_vocab = info.n_vocab;
    s->tokenizer = lk_model_tokenizer(s->model);
    REQUIRE_OK(lk_token_trie_create(s->tokenizer, NULL, &s->trie, &err), err);
    for (int i = 0; i < N_SCHEMAS; i++) {
        REQUIRE_OK(lk_grammar_create_json_schema(grammars[i], strlen(grammars[i]), NULL,
                                                 &s->compiled[i], &err),
                   err);
    }
    for (int i = 0; i < N_CALLS; i++) {
        REQUIRE_OK(
            lk_token_trie_create_chat(s->tokenizer, calls[i].syntax, NULL, &s->call_tries[i], &err),
            err);
        REQUIRE_OK(lk_grammar_create_tool_calls(calls[i].rules, strlen(calls[i].rules), NULL,
                                                &s->compiled[N_SCHEMAS + i], &err),
                   err);
    }
    for (int i = 0; i < N_SEQUENCES; i++) {
        for (int k = 0; k < N_PROMPT; k++) {
            s->prompts[i][k] = (37 * i + 11 * k + 5) % 300;
        }
    }
}

static const lk_token_trie *trie_of(const setup *s, int i) {
    return i < N_SCHEMAS ? s->trie : s->call_tries[i - N_SCHEMAS];
}

static void begin(const setup *s, sequence *q, int i) {
    lk_error err = {0};
    lk_sampler_params params = LK_SAMPLER_PARAMS_INIT;
    params.seed = 100 + (uint64_t)i;
    params.temperature = 1.5F;
    *q = (sequence){0};
    REQUIRE_OK(lk_sampler_create(&params, s->n_vocab, &q->sampler, &err), err);
    REQUIRE_OK(lk_sampler_set_grammar(q->sampler, s->compiled[i], trie_of(s, i), &err), err);
}

static void sample(const setup *s, lk_context *context, sequence *q, size_t i_row) {
    lk_error err = {0};
    const float *logits = NULL;
    lk_sample chosen;
    uint32_t words[4096];
    const size_t n_words = ((size_t)s->n_vocab + 31) / 32;
    uint64_t hash = 1469598103934665603u;
    REQUIRE_OK(lk_context_logits(context, i_row, &logits, &err), err);
    REQUIRE_OK(lk_sampler_grammar_mask(q->sampler, words, n_words, &err), err);
    for (size_t w = 0; w < n_words; w++) {
        hash = (hash ^ words[w]) * 1099511628211u;
    }
    REQUIRE_OK(lk_sampler_sample(q->sampler, logits, (int64_t)q->n_rows - 1, &chosen, &err), err);
    REQUIRE_OK(lk_sampler_accept(q->sampler, chosen.token, &err), err);
    q->seen.tokens[q->seen.n] = chosen.token;
    q->seen.masks[q->seen.n++] = hash;
    q->is_over = q->seen.n == N_TOKENS || lk_tokenizer_is_end(s->tokenizer, chosen.token) ||
                 lk_sampler_grammar_progress(q->sampler) == LK_GRAMMAR_COMPLETE;
}

/* One decode with rows of the sequences in `order`: some of the prompt, or the last token. */
static void step(const setup *s, lk_context *context, sequence *all, const int *order, size_t n,
                 uint64_t *random) {
    lk_error err = {0};
    lk_row rows[N_SEQUENCES * N_PROMPT];
    size_t ends[N_SEQUENCES];
    size_t n_rows = 0;
    for (size_t k = 0; k < n; k++) {
        sequence *q = &all[order[k]];
        size_t wanted = 1;
        if (q->n_rows < N_PROMPT) {
            wanted = 1 + (size_t)(lk_test_random(random) % (N_PROMPT - q->n_rows));
        }
        for (; wanted > 0; wanted--, q->n_rows++) {
            const int32_t token = q->n_rows < N_PROMPT ? s->prompts[order[k]][q->n_rows]
                                                       : q->seen.tokens[q->n_rows - N_PROMPT];
            rows[n_rows++] = (lk_row){token, order[k], (int64_t)q->n_rows, LK_ROW_LOGITS, 0};
        }
        ends[k] = n_rows - 1;
    }
    REQUIRE_OK(lk_context_decode(context, rows, n_rows, NULL, &err), err);
    for (size_t k = 0; k < n; k++) {
        if (all[order[k]].n_rows >= N_PROMPT) {
            sample(s, context, &all[order[k]], ends[k]);
        }
    }
}

/* Runs the sequences of `mask` together. Each joins at a random step. */
static void run(const setup *s, uint32_t mask, uint32_t n_threads, uint32_t isa, uint64_t *random,
                trace *out) {
    lk_error err = {0};
    lk_context *context = NULL;
    lk_context_params params = LK_CONTEXT_PARAMS_INIT;
    sequence all[N_SEQUENCES];
    int joins[N_SEQUENCES];
    params.n_threads = n_threads;
    params.isa_mask = isa;
    params.n_sequences = N_SEQUENCES;
    params.kv_positions = N_SEQUENCES * 128;
    REQUIRE_OK(lk_context_create(s->model, &params, &context, &err), err);
    for (int i = 0; i < N_SEQUENCES; i++) {
        begin(s, &all[i], i);
        all[i].is_over = (mask >> i & 1u) == 0;
        joins[i] = (int)(lk_test_random(random) % 20);
    }
    for (int time = 0;; time++) {
        int order[N_SEQUENCES];
        size_t n = 0;
        int n_left = 0;
        for (int i = 0; i < N_SEQUENCES; i++) {
            n_left += !all[i].is_over;
            if (!all[i].is_over && time >= joins[i] && lk_test_random(random) % 4 != 0) {
                order[n++] = i;
            }
        }
        for (size_t k = n; k > 1; k--) {
            const size_t other = (size_t)(lk_test_random(random) % k);
            const int moving = order[k - 1];
            order[k - 1] = order[other];
            order[other] = moving;
        }
        if (n_left == 0) {
            break;
        }
        if (n > 0) {
            step(s, context, all, order, n, random);
        }
    }
    for (int i = 0; i < N_SEQUENCES; i++) {
        if ((mask >> i & 1u) != 0) {
            out[i] = all[i].seen;
        }
        lk_sampler_destroy(all[i].sampler);
    }
    lk_context_destroy(context);
}

/* What a request of an engine gave. */
typedef struct answer {
    int32_t tokens[N_TOKENS];
    size_t n;
    lk_finish finish;
} answer;

static int on_event(void *ctx, const lk_event *event) {
    answer *a = ctx;
    if (event->kind == LK_EVENT_TOKEN && a->n < N_TOKENS) {
        a->tokens[a->n++] = event->token;
    } else if (event->kind == LK_EVENT_END) {
        a->finish = event->finish;
    }
    return 1;
}

/* The same sequences as requests to an engine with fewer slots than requests. */
static void run_engine(const setup *s, const trace *alone) {
    lk_error err = {0};
    lk_engine *engine = NULL;
    lk_request *requests[N_SEQUENCES];
    static answer answers[N_SEQUENCES];
    lk_engine_params params = LK_ENGINE_PARAMS_INIT;
    params.n_slots = 4;
    params.kv_positions = 512;
    params.n_ctx = 128;
    REQUIRE_OK(lk_engine_create(s->model, &params, &engine, &err), err);
    for (int i = 0; i < N_SEQUENCES; i++) {
        lk_sampler_params sampler = LK_SAMPLER_PARAMS_INIT;
        lk_request_params request = LK_REQUEST_PARAMS_INIT;
        sampler.seed = 100 + (uint64_t)i;
        sampler.temperature = 1.5F;
        answers[i] = (answer){.n = 0};
        request.prompt = s->prompts[i];
        request.n_prompt = N_PROMPT;
        request.sampler = &sampler;
        request.max_tokens = N_TOKENS;
        request.on_event = on_event;
        request.ctx = &answers[i];
        request.grammar = s->compiled[i];
        CHECK_STATUS(LK_E_ARG, lk_engine_submit(engine, &request, &requests[i], &err));
        request.trie = trie_of(s, i);
        REQUIRE_OK(lk_engine_submit(engine, &request, &requests[i], &err), err);
    }
    for (int i = 0; i < N_SEQUENCES; i++) {
        REQUIRE_OK(lk_request_wait(requests[i], 0, &err), err);
        lk_request_release(requests[i]);
        CHECK_MSG(answers[i].n == alone[i].n &&
                      memcmp(answers[i].tokens, alone[i].tokens, sizeof answers[i].tokens) == 0,
                  "request %d differs from the sequence alone", i);
        CHECK(answers[i].finish == (alone[i].n < N_TOKENS ? LK_FINISH_END : LK_FINISH_LENGTH) ||
              alone[i].n == N_TOKENS);
    }
    lk_engine_destroy(engine);
}

LK_TEST(masks_and_samples_keep_to_their_sequence) {
    setup s = {0};
    static trace alone[N_SEQUENCES];
    static trace together[N_SEQUENCES];
    uint64_t random = lk_test_seed(21);
    const uint64_t n = lk_test_size(2, 6, 100);
    open_setup(&s);
    size_t n_tokens = 0;
    for (int i = 0; i < N_SEQUENCES; i++) {
        /* Scalar; in the short form, which sanitizers run, only some. */
        const uint32_t isa =
            (uint64_t)i < lk_test_size(1, N_SEQUENCES, N_SEQUENCES) ? 0 : LK_CPU_ALL;
        run(&s, 1u << i, 1, isa, &random, alone);
        n_tokens += alone[i].n;
    }
    CHECK(n_tokens > 60);
    run_engine(&s, alone);
    for (uint64_t k = 0; k < n; k++) {
        const uint32_t isa = k % 3 == 0 ? LK_CPU_ALL : k % 3 == 1 ? LK_CPU_AVX2 : 0;
        run(&s, (1u << N_SEQUENCES) - 1, 1 + (uint32_t)(k % 3), isa, &random, together);
        for (int i = 0; i < N_SEQUENCES; i++) {
            CHECK_MSG(memcmp(&alone[i], &together[i], sizeof alone[i]) == 0,
                      "schedule %llu: sequence %d differs from its own run", (unsigned long long)k,
                      i);
        }
    }
    for (int i = 0; i < N_SEQUENCES; i++) {
        lk_grammar_destroy(s.compiled[i]);
    }
    for (int i = 0; i < N_CALLS; i++) {
        CHECK(alone[N_SCHEMAS + i].n > 4);
        lk_token_trie_destroy(s.call_tries[i]);
    }
    lk_token_trie_destroy(s.trie);
    lk_model_close(s.model);
}

LK_TEST_MAIN(LK_RUN(masks_and_samples_keep_to_their_sequence))

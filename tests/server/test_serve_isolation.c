/* test_serve_isolation.c - requests over HTTP, many at once: with any number of slots, cold and
 * cached, streamed and whole, beside clients that leave, with so few KV pages that sequences are
 * put back, under load, each gets the ids and the digests of logits that a fresh process (`lockstep
 * run`) gives it alone; embeddings those of a fresh server.
 *
 * LK_FULL=1: 500 requests, 16 slots too, any number of slots also with few KV pages, and a round in
 * which other threads want all processors. LK_SLOTS=n: only n slots (1, 2, 4, 8, 16).
 * LK_SOAK=n: n requests to one server, drawn from these, its memory watched. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <strings.h>
#include <unistd.h>

#include "lk_test.h"
#include "server_process.h"

enum { MAX_JOBS = 512, MAX_TOKENS = 150, N_CLIENTS = 24 };

/* Settings of the sampler in the words of a request, and in those of the command line. */
typedef struct sampler_kind {
    const char *fields;
    const char *options[9]; /* NULL at the end */
} sampler_kind;

static const sampler_kind samplers[] = {
    {"", {NULL}},
    {"\"top_p\": 0.5, \"min_p\": 0, ", {"--top-p", "0.5", "--min-p", "0"}},
    {"\"min_p\": 0.2, \"typical_p\": 0.7, ", {"--min-p", "0.2", "--typical", "0.7"}},
    {"\"repeat_penalty\": 1.3, \"presence_penalty\": 0.5, \"repeat_last_n\": -1, ",
     {"--repeat-penalty", "1.3", "--presence-penalty", "0.5", "--penalty-last-n", "-1"}},
    {"\"frequency_penalty\": -0.25, \"logit_bias\": {\"17\": 2.5, \"40\": -100}, ",
     {"--frequency-penalty", "-0.25", "--logit-bias", "17=2.5", "--logit-bias", "40=-100"}},
};

typedef struct job {
    char prompt[512];
    char body[1024];
    int max_tokens;
    uint64_t seed;
    double temperature;
    int top_k;
    const sampler_kind *sampler;
    bool stream;
    bool ignores_end;
    int leave_after; /* events; 0: stays */
    size_t n;        /* reference */
    int32_t ids[MAX_TOKENS];
    char digests[MAX_TOKENS][33];
    char *embedding; /* base64; NULL: the job generates */
} job;

static job jobs[MAX_JOBS];
static int n_jobs;

static const char story[] =
    "Once upon a time there was a small fox who lived near a river and liked to count the stones. "
    "Every morning she went out, and every evening she came back with one more question than the "
    "day before, which she wrote down with great care. ";

static void draw_job(job *j, uint64_t *rng, int i) {
    static const size_t n_samplers = sizeof samplers / sizeof samplers[0];
    char prompt[sizeof j->prompt];
    memset(j, 0, sizeof *j);
    /* Every second one grows from one page to three, so that pages run out. */
    const bool is_long = i % 2 == 0;
    const int n_common = (int)(lk_test_random(rng) % (is_long ? 60 : sizeof story - 1));
    (void)snprintf(prompt, sizeof prompt, "%.*sThe code word is k%dq%llu.", n_common, story, i,
                   (unsigned long long)(lk_test_random(rng) % 100000));
    memcpy(j->prompt, prompt, sizeof prompt);
    j->max_tokens = is_long ? MAX_TOKENS : 1 + (int)(lk_test_random(rng) % 40);
    j->ignores_end = is_long;
    j->seed = lk_test_random(rng) >> 16;
    j->temperature = lk_test_random(rng) % 3 == 0 ? 0 : 0.25 * (double)(lk_test_random(rng) % 6);
    j->top_k = (int)(lk_test_random(rng) % 30);
    j->sampler = &samplers[lk_test_random(rng) % n_samplers];
    j->stream = lk_test_random(rng) % 2 == 0;
    j->leave_after =
        j->stream && lk_test_random(rng) % 4 == 0 ? 1 + (int)(lk_test_random(rng) % 6) : 0;
    const int n_body = snprintf(
        j->body, sizeof j->body,
        "{\"prompt\": \"%s\", \"max_tokens\": %d, \"seed\": %llu, \"temperature\": %g, "
        "\"top_k\": %d, %s\"stream\": %s, \"ignore_eos\": %s, \"receipt\": true, "
        "\"return_token_ids\": true}",
        prompt, j->max_tokens, (unsigned long long)j->seed, j->temperature, j->top_k,
        j->sampler->fields, j->stream ? "true" : "false", j->ignores_end ? "true" : "false");
    CHECK(n_body > 0 && (size_t)n_body < sizeof j->body);
}

/* What a fresh process gives. */
static void compute_alone(job *j) {
    char n[16];
    char seed[32];
    char temperature[32];
    char top_k[16];
    int status = 0;
    (void)snprintf(n, sizeof n, "%d", j->max_tokens);
    (void)snprintf(seed, sizeof seed, "%llu", (unsigned long long)j->seed);
    (void)snprintf(temperature, sizeof temperature, "%g", j->temperature);
    (void)snprintf(top_k, sizeof top_k, "%d", j->top_k);
    const char *arguments[32] = {"run",     lk_test_data("models/tiny-q4_k_m.gguf"),
                                 "-p",      j->prompt,
                                 "-n",      n,
                                 "-t",      "1",
                                 "--seed",  seed,
                                 "--temp",  temperature,
                                 "--top-k", top_k,
                                 "--ids",   "--digests"};
    size_t n_arguments = 16;
    for (size_t i = 0; j->sampler->options[i] != NULL; i++) {
        arguments[n_arguments++] = j->sampler->options[i];
    }
    arguments[n_arguments] = j->ignores_end ? "--ignore-eos" : NULL;
    char *text = tool_output(arguments, &status);
    CHECK(status == 0);
    for (char *line = text; *line != '\0' && j->n < MAX_TOKENS;) {
        char *next = line + strcspn(line, "\n");
        char *tab = strchr(line, '\t');
        if (tab != NULL && tab < next) {
            j->ids[j->n] = (int32_t)atoi(line);
            (void)snprintf(j->digests[j->n++], 33, "%.32s", tab + 1);
        }
        line = next + (*next == '\n');
    }
    CHECK(j->n > 0);
    free(text);
}

static char *embedding_of(const json_t *answer) {
    const json_t *item = json_array_get(json_object_get(answer, "data"), 0);
    const char *text = json_string_value(json_object_get(item, "embedding"));
    return strdup(text != NULL ? text : "");
}

/* A job that wants an embedding, and what a fresh server gives. */
static void draw_embedding(job *j, int i) {
    static const char *const arguments[] = {"-np", "1", "-c", "2048", "-b", "1", "-t", "1", NULL};
    static const char *const poolings[] = {"mean", "last", "first"};
    char prompt[sizeof j->prompt];
    memcpy(prompt, j->prompt, sizeof prompt);
    (void)snprintf(j->body, sizeof j->body,
                   "{\"input\": \"%s\", \"pooling\": \"%s\", \"encoding_format\": \"base64\"}",
                   prompt, poolings[i % 3]);
    server_process process = server_start(arguments);
    json_t *answer = http_json(process.port, "POST", "/v1/embeddings", j->body, 200);
    j->embedding = embedding_of(answer);
    CHECK(strlen(j->embedding) > 100);
    json_decref(answer);
    server_stop(&process);
}

static void check_receipt(const job *j, const json_t *receipt, const char *when) {
    const json_t *ids = json_object_get(receipt, "ids");
    const json_t *digests = json_object_get(receipt, "digests");
    CHECK_MSG(json_array_size(ids) == j->n && json_array_size(digests) == j->n,
              "%s: %zu tokens, alone %zu: %s", when, json_array_size(ids), j->n, j->body);
    for (size_t i = 0; i < json_array_size(ids) && i < j->n; i++) {
        const char *digest = json_string_value(json_array_get(digests, i));
        const bool same = json_integer_value(json_array_get(ids, i)) == j->ids[i] &&
                          digest != NULL && strcmp(digest, j->digests[i]) == 0;
        CHECK_MSG(same, "%s: token %zu is not that of the run alone: %s", when, i, j->body);
        if (!same) {
            break;
        }
    }
}

/* The ids of a chunk continue those that came before. */
static size_t check_ids(const job *j, const json_t *choice, size_t n_before, const char *when) {
    const json_t *id = NULL;
    size_t i = 0;
    json_array_foreach(json_object_get(choice, "token_ids"), i, id) {
        const size_t k = n_before + i;
        CHECK_MSG(k < j->n && json_integer_value(id) == j->ids[k],
                  "%s: streamed token %zu is not that of the run alone: %s", when, k, j->body);
    }
    return n_before + i;
}

static bool read_event(FILE *file, char *line, size_t size) {
    while (fgets(line, (int)size, file) != NULL) {
        if (strncmp(line, "data: ", 6) == 0) {
            return true;
        }
    }
    return false;
}

static void run_stream(const job *j, int fd, const char *when) {
    static const size_t size = 65536;
    FILE *file = fdopen(dup(fd), "r");
    char *line = malloc(size);
    size_t n = 0;
    bool has_end = false;
    int n_events = 0;
    errno = 0;
    while (file != NULL && line != NULL && read_event(file, line, size)) {
        if (strncmp(line, "data: [DONE]", 12) == 0) {
            has_end = true;
            break;
        }
        json_t *event = json_loads(line + 6, 0, NULL);
        const json_t *choice = json_array_get(json_object_get(event, "choices"), 0);
        CHECK_MSG(choice != NULL, "%s: an event without choice: %.300s", when, line);
        n = check_ids(j, choice, n, when);
        if (json_object_get(choice, "receipt") != NULL) {
            check_receipt(j, json_object_get(choice, "receipt"), when);
        }
        json_decref(event);
        if (j->leave_after != 0 && ++n_events == j->leave_after) {
            break;
        }
    }
    const char *why = has_end ? "with too few tokens" : http_why_ended();
    CHECK_MSG(j->leave_after != 0 || (has_end && n == j->n),
              "%s: the stream ended after %zu of %zu tokens, %s: %s", when, n, j->n, why, j->body);
    free(line);
    if (file != NULL) {
        (void)fclose(file);
    }
}

static void run_embedding(const job *j, int port, const char *when) {
    json_t *answer = http_json(port, "POST", "/v1/embeddings", j->body, 200);
    char *embedding = embedding_of(answer);
    CHECK_MSG(strcmp(embedding, j->embedding) == 0, "%s: another embedding than alone: %s", when,
              j->body);
    free(embedding);
    json_decref(answer);
}

static void run_job(const job *j, int port, const char *when) {
    if (j->embedding != NULL) {
        run_embedding(j, port, when);
        return;
    }
    const int fd = http_connect(port);
    CHECK_MSG(http_send_request(fd, "POST", "/v1/completions", NULL, j->body),
              "%s: a request could not be sent: %s", when, j->body);
    if (j->stream) {
        run_stream(j, fd, when);
    } else {
        http_answer a = http_read(fd);
        CHECK_MSG(a.status == 200, "%s: status %d (%s): %s\n%s", when, a.status,
                  a.timed_out ? "TIME-OUT, nothing came for a minute" : "no time-out",
                  a.body != NULL ? a.body : "", j->body);
        json_t *answer = a.body != NULL ? json_loads(a.body, 0, NULL) : NULL;
        const json_t *choice = json_array_get(json_object_get(answer, "choices"), 0);
        if (a.status == 200) {
            check_receipt(j, json_object_get(choice, "receipt"), when);
            const size_t n = check_ids(j, choice, 0, when);
            CHECK_MSG(n == j->n, "%s: %zu ids, alone %zu: %s", when, n, j->n, j->body);
        }
        json_decref(answer);
        http_free(&a);
    }
    (void)close(fd);
}

typedef struct client {
    int port;
    int first;
    uint64_t rng;
    char when[64];
} client;

static void *run_client(void *arg) {
    client *c = arg;
    for (int i = c->first; i < n_jobs; i += N_CLIENTS) {
        sleep_ms((long)(lk_test_random(&c->rng) % 8));
        run_job(&jobs[i], c->port, c->when);
    }
    return NULL;
}

static void run_round(int port, const char *slots, int round, uint64_t seed) {
    client clients[N_CLIENTS];
    pthread_t threads[N_CLIENTS];
    for (int i = 0; i < N_CLIENTS; i++) {
        clients[i] = (client){.port = port, .first = i, .rng = seed + (uint64_t)(100 * round + i)};
        (void)snprintf(clients[i].when, sizeof clients[i].when, "-np %s, round %d", slots, round);
        CHECK(pthread_create(&threads[i], NULL, run_client, &clients[i]) == 0);
    }
    for (int i = 0; i < N_CLIENTS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
}

/* ---- load ---- */

enum { N_SPINNERS = 8 };

typedef struct spinners {
    pthread_t threads[N_SPINNERS];
    atomic_bool wants_stop;
} spinners;

static void *spin(void *arg) {
    spinners *s = arg;
    volatile uint64_t n = 0;
    while (!atomic_load(&s->wants_stop)) {
        n = n + 1;
    }
    return NULL;
}

static void spinners_start(spinners *s) {
    atomic_init(&s->wants_stop, false);
    for (int i = 0; i < N_SPINNERS; i++) {
        CHECK(pthread_create(&s->threads[i], NULL, spin, s) == 0);
    }
}

static void spinners_stop(spinners *s) {
    atomic_store(&s->wants_stop, true);
    for (int i = 0; i < N_SPINNERS; i++) {
        (void)pthread_join(s->threads[i], NULL);
    }
}

static void draw_jobs(int n, uint64_t *rng) {
    for (n_jobs = 0; n_jobs < n; n_jobs++) {
        job *j = &jobs[n_jobs];
        draw_job(j, rng, n_jobs);
        if (n_jobs % 9 == 5) {
            draw_embedding(j, n_jobs / 9);
        } else {
            compute_alone(j);
        }
    }
}

static void free_jobs(void) {
    for (int i = 0; i < n_jobs; i++) {
        free(jobs[i].embedding);
    }
}

/* ---- a long time ---- */

typedef struct soak_client {
    int port;
    uint64_t rng;
    atomic_int *n_left;
} soak_client;

static void *run_soak_client(void *arg) {
    soak_client *c = arg;
    while (atomic_fetch_sub(c->n_left, 1) > 0) {
        run_job(&jobs[lk_test_random(&c->rng) % (uint64_t)n_jobs], c->port, "soak");
    }
    return NULL;
}

/* Prints memory at every tenth; returns that at the second one. */
static long watch_memory(const server_process *process, atomic_int *n_left, int n) {
    long early_kb = 0;
    for (int tenth = 1; tenth < 10; tenth++) {
        while (atomic_load(n_left) > n / 10 * (10 - tenth)) {
            sleep_ms(50);
        }
        const long kb = resident_kb(process->pid);
        early_kb = tenth == 2 ? kb : early_kb;
        (void)printf("  %d of %d requests: %ld KiB in memory\n", n / 10 * tenth, n, kb);
        (void)fflush(stdout);
    }
    return early_kb;
}

LK_TEST(soak) {
    static const char *const arguments[] = {"-np", "8", "-c", "400", "-b", "64", "-t", "2", NULL};
    const char *text = getenv("LK_SOAK");
    const int n = text != NULL ? atoi(text) : 0;
    if (n <= 0) {
        return;
    }
    uint64_t rng = lk_test_seed(7);
    soak_client clients[N_CLIENTS];
    pthread_t threads[N_CLIENTS];
    atomic_int n_left;
    draw_jobs(n < 500 ? n : 500, &rng);
    server_process process = server_start(arguments);
    const double start = seconds_now();
    atomic_init(&n_left, n);
    for (int i = 0; i < N_CLIENTS; i++) {
        clients[i] = (soak_client){process.port, rng + (uint64_t)i, &n_left};
        CHECK(pthread_create(&threads[i], NULL, run_soak_client, &clients[i]) == 0);
    }
    const long early_kb = watch_memory(&process, &n_left, n);
    for (int i = 0; i < N_CLIENTS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    CHECK(metric_falls_to(process.port, "http_requests_open", 0));
    const long late_kb = resident_kb(process.pid);
    (void)printf("%d requests in %.0f s: %.0f tokens, %.0f from the cache, %.0f put back, %.0f "
                 "clients left; %ld KiB in memory, %ld after a fifth\n",
                 n, seconds_now() - start, metric(process.port, "generated_tokens_total"),
                 metric(process.port, "cached_tokens_total"),
                 metric(process.port, "preempted_total"),
                 metric(process.port, "clients_gone_total"), late_kb, early_kb);
    CHECK(late_kb < early_kb + early_kb / 20 + 1024);
    server_stop(&process);
    free_jobs();
}

/* Slots, KV positions (220: two long requests do not fit), rows of a step, threads. */
static const char *const settings[][4] = {
    {"1", "2048", "64", "1"},   {"2", "2048", "16", "2"}, {"4", "2048", "256", "2"},
    {"8", "220", "48", "2"}, /* the bounded form ends here */
    {"2", "220", "64", "1"},    {"4", "220", "24", "2"},  {"8", "2048", "256", "1"},
    {"16", "2048", "128", "2"}, {"16", "220", "96", "2"},
};

/* All requests cold, cached, and in the full form under load; sequences put back. */
static double run_setting(const char *const setting[4], uint64_t seed) {
    const char *const arguments[] = {"-np",      setting[0], "-c",       setting[1], "-b",
                                     setting[2], "-t",       setting[3], NULL};
    char name[32];
    (void)snprintf(name, sizeof name, "%s -c %s", setting[0], setting[1]);
    server_process process = server_start(arguments);
    run_round(process.port, name, 0, seed);
    run_round(process.port, name, 1, seed);
    if (lk_test_size(0, 0, 1) != 0) {
        spinners load;
        spinners_start(&load);
        run_round(process.port, name, 2, seed);
        spinners_stop(&load);
    }
    CHECK(metric_falls_to(process.port, "http_requests_open", 0));
    CHECK(metric(process.port, "cached_tokens_total") > 0);
    const double n_preempted = metric(process.port, "preempted_total");
    (void)printf("-np %s: %.0f tokens, %.0f from the cache, %.0f sequences put back, %.0f clients "
                 "left, %d failures so far\n",
                 name, metric(process.port, "generated_tokens_total"),
                 metric(process.port, "cached_tokens_total"), n_preempted,
                 metric(process.port, "clients_gone_total"), lk_test_failures());
    (void)fflush(stdout);
    server_stop(&process);
    return n_preempted;
}

LK_TEST(http_isolation) {
    const uint64_t seed = lk_test_seed(20261130);
    const size_t n_settings = lk_test_size(2, 4, sizeof settings / sizeof settings[0]);
    const char *only = getenv("LK_SLOTS");
    uint64_t rng = seed;
    draw_jobs((int)lk_test_size(8, 36, 500), &rng);
    for (size_t i = 0; i < n_settings; i++) {
        if (only != NULL && strcmp(only, settings[i][0]) != 0) {
            continue;
        }
        const double n_preempted = run_setting(settings[i], seed);
        CHECK(atoi(settings[i][1]) > 220 || n_preempted > 0);
    }
    (void)printf("%d requests, %zu settings\n", n_jobs, n_settings);
    free_jobs();
}

LK_TEST_MAIN(LK_RUN(http_isolation), LK_RUN(soak))

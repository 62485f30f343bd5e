/* server_metrics.c - /metrics: what Prometheus reads. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "server.h"

static void add(lk_buffer *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(lk_buffer *out, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n > 0) {
        (void)lk_buffer_add(out, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
    }
}

static void add_one(lk_buffer *out, const char *name, const char *type, const char *help,
                    double value) {
    add(out, "# HELP lockstep_%s %s\n# TYPE lockstep_%s %s\nlockstep_%s %.17g\n", name, help, name,
        type, name, value);
}

static void add_histogram(lk_buffer *out, const char *name, const char *help,
                          const serve_histogram *h) {
    uint64_t sum = 0;
    add(out, "# HELP lockstep_%s %s\n# TYPE lockstep_%s histogram\n", name, help, name);
    for (int i = 0; i < SERVE_N_BUCKETS; i++) {
        sum += h->buckets[i];
        add(out, "lockstep_%s_bucket{le=\"%g\"} %llu\n", name, serve_bounds[i],
            (unsigned long long)sum);
    }
    sum += h->buckets[SERVE_N_BUCKETS];
    add(out,
        "lockstep_%s_bucket{le=\"+Inf\"} %llu\nlockstep_%s_sum %.17g\nlockstep_%s_count %llu\n",
        name, (unsigned long long)sum, name, h->sum, name, (unsigned long long)sum);
}

static void add_engine(lk_buffer *out, const lk_engine_stats *e) {
    static const char *const names[] = {"",          "end",      "stop", "length",
                                        "cancelled", "deadline", "error"};
    const double n_used = (double)(e->pages_total - e->pages_free);
    const struct {
        const char *name, *type, *help;
        double value;
    } ones[] = {
        {"slots", "gauge", "Sequences that can be computed at once.", e->n_slots},
        {"slots_busy", "gauge", "Sequences that are being computed.", e->n_running},
        {"queue_length", "gauge", "Sequences that wait for a slot.", e->n_waiting},
        {"queue_limit", "gauge", "Sequences that may wait.", e->max_queued},
        {"requests_total", "counter", "Requests to the engine.", (double)e->n_requests},
        {"prompt_tokens_total", "counter", "Tokens of prompts.", (double)e->n_prompt_tokens},
        {"cached_tokens_total", "counter", "Tokens of prompts found in the prefix cache.",
         (double)e->n_cached_tokens},
        {"computed_tokens_total", "counter", "Tokens of prompts computed, again included.",
         (double)e->n_computed_tokens},
        {"generated_tokens_total", "counter", "Tokens sampled.", (double)e->n_generated_tokens},
        {"preempted_total", "counter", "Sequences put back for want of KV pages.",
         (double)e->n_preempted},
        {"steps_total", "counter", "Steps of the engine.", (double)e->n_steps},
        {"rows_total", "counter", "Rows computed.", (double)e->n_rows},
        {"step_seconds_total", "counter", "Time inside steps.", (double)e->step_ns * 1e-9},
        {"kv_pages", "gauge", "KV pages of 64 positions.", (double)e->pages_total},
        {"kv_pages_free", "gauge", "KV pages that hold nothing.", (double)e->pages_free},
        {"kv_pages_cached", "gauge", "KV pages in the prefix cache.", (double)e->pages_cached},
        {"kv_pages_copied_total", "counter", "Shared KV pages copied before a write.",
         (double)e->pages_copied},
        {"kv_use_ratio", "gauge", "Part of the KV pages that holds something.",
         e->pages_total > 0 ? n_used / (double)e->pages_total : 0},
    };
    for (size_t i = 0; i < sizeof ones / sizeof ones[0]; i++) {
        add_one(out, ones[i].name, ones[i].type, ones[i].help, ones[i].value);
    }
    add(out, "# HELP lockstep_finished_total Sequences that ended, by reason.\n"
             "# TYPE lockstep_finished_total counter\n");
    for (size_t i = 1; i < sizeof names / sizeof names[0]; i++) {
        add(out, "lockstep_finished_total{reason=\"%s\"} %llu\n", names[i],
            (unsigned long long)e->n_finished[i]);
    }
}

/* With the lock of the counters. */
static void add_counters(lk_buffer *out, const serve_counters *c) {
    add(out, "# HELP lockstep_http_responses_total Answers, by status.\n"
             "# TYPE lockstep_http_responses_total counter\n");
    for (int i = 100; i < SERVE_N_CODES; i++) {
        if (c->responses[i] > 0 || i == MHD_HTTP_OK) {
            add(out, "lockstep_http_responses_total{code=\"%d\"} %llu\n", i,
                (unsigned long long)c->responses[i]);
        }
    }
    add(out, "# HELP lockstep_errors_total Sequences that failed, by status.\n"
             "# TYPE lockstep_errors_total counter\n");
    for (int i = 1; i < 32; i++) {
        if (c->errors[i] > 0) {
            add(out, "lockstep_errors_total{status=\"%s\"} %llu\n", lk_status_name((lk_status)i),
                (unsigned long long)c->errors[i]);
        }
    }
    add_one(out, "clients_gone_total", "counter", "Clients that left before their answer.",
            (double)c->gone);
    add_one(out, "http_requests_open", "gauge", "Requests for text that are not done.",
            (double)c->open_jobs);
    add_histogram(out, "first_token_seconds", "From the request to its first token.",
                  &c->first_token_s);
    add_histogram(out, "next_token_seconds", "From token to token.", &c->next_token_s);
    add_histogram(out, "request_seconds", "From the request to its end.", &c->whole_s);
}

enum MHD_Result server_metrics(exchange *x) {
    server *s = x->server;
    lk_buffer out = {NULL, 0, 0};
    lk_engine_stats stats = LK_ENGINE_STATS_INIT;
    (void)lk_engine_get_stats(s->engine, &stats, NULL);
    add_engine(&out, &stats);
    (void)pthread_mutex_lock(&s->counters.lock);
    const serve_counters counters = s->counters;
    (void)pthread_mutex_unlock(&s->counters.lock);
    add_counters(&out, &counters);
    add_one(&out, "slot_actions_open", "gauge", "Actions on slots that are not answered yet.",
            (double)atomic_load(&s->n_slot_actions));
    if (out.data == NULL) {
        return MHD_NO;
    }
    return server_reply_text(x, MHD_HTTP_OK, "text/plain; version=0.0.4", out.data, out.n, false);
}

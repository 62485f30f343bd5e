/* run_report.c - what `lockstep run` says at the end: speeds on standard error, or one JSON object.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "run.h"

static const char *const stop_names[] = {
    [RUN_STOP_LENGTH] = "length",       [RUN_STOP_END] = "end",
    [RUN_STOP_TEXT] = "stop",           [RUN_STOP_CONTEXT] = "context",
    [RUN_STOP_CANCELLED] = "cancelled",
};

static double speed(size_t n, double seconds) {
    return seconds > 0.0 ? (double)n / seconds : 0.0;
}

/* Tokens whose computation falls into the generating part: the first one comes from the prompt. */
static size_t n_decoded(const run *r) {
    return r->n_ids > 0 ? r->n_ids - 1 : 0;
}

static void print_speeds(const run *r) {
    (void)fprintf(stderr,
                  "\nprompt %zu tokens, %.1f t/s; generated %zu tokens, %.1f t/s; stop: %s\n",
                  r->n_prompt_done, speed(r->n_prompt_done, r->prompt_seconds), r->n_ids,
                  speed(n_decoded(r), r->generate_seconds), stop_names[r->stop]);
    if (r->options->temperature > 0.0) {
        (void)fprintf(stderr, "seed %" PRIu64 "%s\n", r->seed,
                      r->options->has_seed ? "" : " (repeat with --seed)");
    }
}

static json_t *ids_of(const int32_t *ids, size_t n) {
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++) {
        (void)json_array_append_new(array, json_integer(ids[i]));
    }
    return array;
}

static json_t *digests_of(const run *r) {
    json_t *array = json_array();
    char hex[33];
    for (size_t i = 0; i < r->n_ids; i++) {
        lk_hex(r->digests[i], 16, hex);
        (void)json_array_append_new(array, json_string(hex));
    }
    return array;
}

/* A seed above 2^63 - 1 does not fit a JSON integer of this library: it goes as its bits. */
static json_t *object_of(const run *r) {
    const run_options *o = r->options;
    char seed[24];
    (void)snprintf(seed, sizeof seed, "%" PRIu64, r->seed);
    json_t *usage =
        json_pack("{s:I, s:I, s:I}", "prompt_tokens", (json_int_t)r->n_prompt, "generated_tokens",
                  (json_int_t)r->n_ids, "context_positions", (json_int_t)r->n_ctx);
    json_t *speeds = json_pack(
        "{s:f, s:f, s:f, s:f}", "prompt_seconds", r->prompt_seconds, "prompt_tokens_per_second",
        speed(r->n_prompt_done, r->prompt_seconds), "generate_seconds", r->generate_seconds,
        "generated_tokens_per_second", speed(n_decoded(r), r->generate_seconds));
    json_t *object =
        json_pack("{s:s, s:o, s:o, s:o, s:s, s:s, s:s, s:s, s:o, s:o}", "model", o->model, "text",
                  json_stringn(r->text.n > 0 ? r->text.data : "", r->text.n), "ids",
                  ids_of(r->ids, r->n_ids), "prompt_ids", ids_of(r->prompt, r->n_prompt), "seed",
                  seed, "stop_reason", stop_names[r->stop], "numerics", lk_numerics_version(),
                  "version", lk_version(), "usage", usage, "speed", speeds);
    (void)json_object_set_new(
        object, "kv_type",
        json_pack("[s, s]", lk_kv_type_name(o->k_type), lk_kv_type_name(o->v_type)));
    if (o->digests) {
        (void)json_object_set_new(object, "digests", digests_of(r));
    }
    return object;
}

static bool add_model_digest(const run *r, json_t *object) {
    lk_error err;
    uint8_t digest[32];
    char hex[65];
    if (lk_model_digest(r->model, (uint32_t)r->options->n_threads, NULL, NULL, digest, &err) !=
        LK_OK) {
        return lk_console_failed("run", &err) == 0;
    }
    lk_hex(digest, sizeof digest, hex);
    return json_object_set_new(object, "model_digest", json_string(hex)) == 0;
}

bool run_report(run *r) {
    if (!r->options->json) {
        print_speeds(r);
        return true;
    }
    json_t *object = object_of(r);
    bool ok = object != NULL && (!r->options->model_digest || add_model_digest(r, object));
    if (ok && json_dumpf(object, stdout, JSON_INDENT(2)) == 0) {
        (void)putchar('\n');
    } else if (ok || object == NULL) {
        (void)lk_console_error("run", "the JSON object could not be written");
        ok = false;
    }
    json_decref(object);
    return ok;
}

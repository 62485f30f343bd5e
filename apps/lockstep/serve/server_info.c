/* server_info.c - what the server says of itself and the model: /health, /v1/models, /props. */
#include <stdlib.h>
#include <string.h>

#include "server.h"
#include "shared/open_model.h"

enum MHD_Result server_health(exchange *x) {
    if (atomic_load(&x->server->is_draining)) {
        serve_problem problem;
        (void)serve_fail(&problem, 503, "shutting_down", NULL, "the server is shutting down");
        return server_reply_problem(x, &problem);
    }
    return server_reply_json(x, MHD_HTTP_OK, json_pack("{s:s}", "status", "ok"));
}

static json_t *model_object(const server *s) {
    return json_pack("{s:o, s:s, s:I, s:s, s:{s:s, s:s, s:i, s:I, s:I, s:I, s:I}}", "id",
                     server_text(s->model_id, strlen(s->model_id)), "object", "model", "created",
                     (json_int_t)s->started, "owned_by", "lockstep", "meta", "digest", s->digest,
                     "architecture", s->info.arch, "n_vocab", s->info.n_vocab, "n_ctx_train",
                     (json_int_t)s->info.n_ctx_train, "n_embd", (json_int_t)s->info.n_embd,
                     "n_params", (json_int_t)s->info.n_params, "size", (json_int_t)s->info.n_bytes);
}

enum MHD_Result server_models(exchange *x) {
    return server_reply_json(
        x, MHD_HTTP_OK,
        json_pack("{s:s, s:[o]}", "object", "list", "data", model_object(x->server)));
}

enum MHD_Result server_model(exchange *x) {
    const server *s = x->server;
    if (x->tail != NULL && strcmp(x->tail, s->model_id) == 0) {
        return server_reply_json(x, MHD_HTTP_OK, model_object(s));
    }
    serve_problem problem;
    (void)serve_fail(&problem, 404, "model_not_found", "model",
                     "the model '%.200s' does not exist here, '%.200s' does",
                     x->tail != NULL ? x->tail : "", s->model_id);
    return server_reply_problem(x, &problem);
}

static json_t *sampler_object(const lk_sampler_params *p) {
    return json_pack("{s:f, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:i}", "temperature",
                     (double)p->temperature, "top_k", p->top_k, "top_p", (double)p->top_p, "min_p",
                     (double)p->min_p, "typical_p", (double)p->typical_p, "repeat_penalty",
                     (double)p->repeat_penalty, "presence_penalty", (double)p->presence_penalty,
                     "frequency_penalty", (double)p->frequency_penalty, "repeat_last_n",
                     p->penalty_last_n);
}

enum MHD_Result server_props(exchange *x) {
    const server *s = x->server;
    lk_engine_stats stats = LK_ENGINE_STATS_INIT;
    (void)lk_engine_get_stats(s->engine, &stats, NULL);
    size_t n_template = 0;
    const char *chat_template =
        s->chat_template != NULL ? lk_chat_template_source(s->chat_template, 0, &n_template) : "";
    char build[96];
    (void)snprintf(build, sizeof build, "lockstep %s (build %u, %s)", lk_version(),
                   lk_version_build(), lk_version_commit());
    return server_reply_json(
        x, MHD_HTTP_OK,
        json_pack(
            "{s:o, s:s, s:s, s:[s, s], s:I, s:I, s:i, s:i, s:{s:I, s:o}, s:o, s:s, s:{s:b, s:b}}",
            "model_alias", server_text(s->model_id, strlen(s->model_id)), "system_fingerprint",
            s->fingerprint, "numerics", lk_numerics_version(), "kv_types",
            lk_kv_type_name(s->options.k_type), lk_kv_type_name(s->options.v_type), "n_ctx",
            (json_int_t)stats.n_ctx, "kv_positions", (json_int_t)stats.kv_positions, "total_slots",
            stats.n_slots, "max_queued", stats.max_queued, "default_generation_settings", "n_ctx",
            (json_int_t)stats.n_ctx, "params", sampler_object(&s->defaults.sampler),
            "chat_template", server_text(chat_template, n_template), "build_info", build,
            "modalities", "vision", 0, "audio", s->has_audio));
}

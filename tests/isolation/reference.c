/* reference.c - what a stream gives alone: one process per stream and KV pair. See runner.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lk_test.h"
#include "runner.h"

int reference_compute(const char *model_path, int k_type, int v_type, int stream,
                      const char *out_path) {
    lk_error err;
    lk_model *model = NULL;
    REQUIRE_OK(lk_model_open(model_path, NULL, &model, &err), err);
    lk_model_info info = LK_MODEL_INFO_INIT;
    REQUIRE_OK(lk_model_get_info(model, &info, &err), err);
    const int32_t n_rows = stream_rows(stream);
    lk_context_params params = LK_CONTEXT_PARAMS_INIT;
    params.n_threads = 1;
    params.isa_mask = 0;
    params.kv_positions = 1024;
    params.max_rows = n_rows;
    params.max_logits = n_rows;
    params.max_hidden = (uint32_t)n_rows;
    params.k_type = (lk_kv_type)k_type;
    params.v_type = (lk_kv_type)v_type;
    lk_context *context = NULL;
    REQUIRE_OK(lk_context_create(model, &params, &context, &err), err);
    lk_row *rows = calloc((size_t)n_rows, sizeof *rows);
    FILE *out = fopen(out_path, "wb");
    if (rows == NULL || out == NULL) {
        return 1;
    }
    for (int32_t i = 0; i < n_rows; i++) {
        rows[i].token = stream_token(stream, i, info.n_vocab);
        rows[i].pos = i;
        rows[i].flags = LK_ROW_LOGITS | LK_ROW_HIDDEN;
    }
    REQUIRE_OK(lk_context_decode(context, rows, (size_t)n_rows, NULL, &err), err);
    int ok = 1;
    for (int32_t i = 0; i < n_rows; i++) {
        const float *values = NULL;
        row_digests digests;
        REQUIRE_OK(lk_context_logits(context, (size_t)i, &values, &err), err);
        lk_logits_digest(values, (size_t)info.n_vocab, digests.logits);
        REQUIRE_OK(lk_context_hidden(context, (size_t)i, &values, &err), err);
        lk_logits_digest(values, (size_t)info.n_embd, digests.hidden);
        ok = ok && fwrite(&digests, sizeof digests, 1, out) == 1;
    }
    ok = fclose(out) == 0 && ok;
    free(rows);
    lk_context_destroy(context);
    lk_model_close(model);
    return ok ? 0 : 1;
}

static pid_t start_child(const reference_set *set, int k, int v, int stream, const char *path) {
    char k_text[16];
    char v_text[16];
    char stream_text[16];
    (void)snprintf(k_text, sizeof k_text, "%d", k);
    (void)snprintf(v_text, sizeof v_text, "%d", v);
    (void)snprintf(stream_text, sizeof stream_text, "%d", stream);
    const pid_t child = fork();
    if (child == 0) {
        (void)execl(set->program, set->program, "--reference", set->model_path, k_text, v_text,
                    stream_text, path, (char *)NULL);
        _exit(127);
    }
    return child;
}

/* Marks the streams that a schedule may reach: those assigned and the families switched to. */
static void needed_streams(const schedule *s, int needed[N_STREAMS]) {
    memset(needed, 0, N_STREAMS * sizeof needed[0]);
    for (int32_t i = 0; i < s->n_ops; i++) {
        if (s->ops[i].kind == OP_ASSIGN || s->ops[i].kind == OP_SWITCH) {
            needed[s->ops[i].b] = 1;
        }
    }
}

void reference_prepare(reference_set *set, const schedule *s) {
    int needed[N_STREAMS];
    int waiting[N_STREAMS];
    char paths[N_STREAMS][64];
    int n_running = 0;
    needed_streams(s, needed);
    for (int stream = 0; stream < N_STREAMS; stream++) {
        waiting[stream] = needed[stream] && set->digests[s->k_type][s->v_type][stream] == NULL;
        if (!waiting[stream]) {
            continue;
        }
        (void)snprintf(paths[stream], sizeof paths[stream], "reference-%d-%d.tmp", (int)getpid(),
                       stream);
        if (start_child(set, s->k_type, s->v_type, stream, paths[stream]) < 0) {
            (void)fprintf(stderr, "cannot start a reference process\n");
            exit(1);
        }
        n_running++;
        if (n_running >= 2) { /* two at a time */
            int status = 0;
            (void)waitpid(-1, &status, 0);
            n_running--;
            if (status != 0) {
                (void)fprintf(stderr, "a reference process failed\n");
                exit(1);
            }
        }
    }
    int status = 0;
    while (n_running-- > 0 && waitpid(-1, &status, 0) > 0) {
        if (status != 0) {
            (void)fprintf(stderr, "a reference process failed\n");
            exit(1);
        }
    }
    for (int stream = 0; stream < N_STREAMS; stream++) {
        if (waiting[stream]) {
            size_t size = 0;
            set->digests[s->k_type][s->v_type][stream] =
                (row_digests *)(void *)lk_test_read(paths[stream], &size);
            (void)unlink(paths[stream]);
            if (size != (size_t)stream_rows(stream) * sizeof(row_digests)) {
                (void)fprintf(stderr, "a reference is incomplete\n");
                exit(1);
            }
        }
    }
}

void reference_free(reference_set *set) {
    for (int k = 0; k < 3; k++) {
        for (int v = 0; v < 3; v++) {
            for (int stream = 0; stream < N_STREAMS; stream++) {
                free(set->digests[k][v][stream]);
                set->digests[k][v][stream] = NULL;
            }
        }
    }
}

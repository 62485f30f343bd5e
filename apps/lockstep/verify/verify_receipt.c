/* verify_receipt.c - see verify_receipt.h. A receipt is JSON; one that another model, numerics
 * version or set of prompts made is refused with the reason. */
#include "verify_receipt.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "shared/open_model.h"
#include "verify_receipt_read.h"

enum { N_RUNS = 4, DIGEST_TEXT = 33 };
static_assert((int)VERIFY_RECEIPT_RUNS <= (int)VERIFY_MAX_STREAMS,
              "a line has a trace for each run");

static json_t *json_of_run(const verify_stream *stream, int64_t i_prompt, const verify_output *o) {
    json_t *ids = json_array();
    json_t *digests = json_array();
    for (int32_t i = 0; i < stream->n && i < o->n_tokens; i++) {
        char hex[DIGEST_TEXT] = "";
        const size_t pos = stream->n_prompt + (size_t)i - 1;
        if (pos < o->n_rows && o->rows[pos].has_digest) {
            lk_hex(o->rows[pos].digest, 16, hex);
        }
        (void)json_array_append_new(ids, json_integer(o->ids[i]));
        (void)json_array_append_new(digests, json_string(hex));
    }
    return json_pack("{s:I, s:i, s:o, s:o}", "prompt", (json_int_t)i_prompt, "n", stream->n, "ids",
                     ids, "digests", digests);
}

static json_t *json_of_type(verify *v, int64_t k, int64_t values, char why[VERIFY_WHY]) {
    json_t *runs = json_array();
    for (int64_t i = 0; i < N_RUNS; i++) {
        verify_point p = v->base;
        verify_stream stream;
        verify_status status = VERIFY_RAN;
        p.value[VERIFY_K_TYPE] = k;
        p.value[VERIFY_V_TYPE] = values;
        verify_prompt(v, i, &stream);
        stream.n = (int32_t)p.value[VERIFY_N];
        const verify_output *o = verify_solo(v, &stream, &p, false, &status, why);
        if (o != NULL) {
            (void)json_array_append_new(runs, json_of_run(&stream, i, o));
        } else if (status != VERIFY_NOT_POSSIBLE) { /* too long for this model, for instance */
            json_decref(runs);
            return NULL;
        }
    }
    if (json_array_size(runs) == 0) {
        json_decref(runs);
        return NULL;
    }
    return json_pack("{s:s, s:s, s:o}", "k_type", lk_kv_type_name((lk_kv_type)k), "v_type",
                     lk_kv_type_name((lk_kv_type)values), "runs", runs);
}

bool verify_receipt_write(verify *v, const char *path) {
    char hex[65];
    char why[VERIFY_WHY] = "";
    json_t *types = json_array();
    lk_hex(v->model_digest, 32, hex);
    for (int64_t k = LK_KV_F32; k <= LK_KV_Q8_0; k++) {
        const bool is_base = k == v->base.value[VERIFY_K_TYPE];
        if (!is_base && !verify_is_full(v)) {
            continue;
        }
        json_t *type = json_of_type(v, k, is_base ? v->base.value[VERIFY_V_TYPE] : k, why);
        if (type == NULL) {
            json_decref(types);
            (void)lk_console_error("verify", "no receipt: %s", why);
            return false;
        }
        (void)json_array_append_new(types, type);
    }
    json_t *root = json_pack("{s:i, s:s, s:i, s:s, s:s, s:s, s:o}", "lockstep_verify_receipt",
                             VERIFY_RECEIPT_VERSION, "numerics", lk_numerics_version(), "prompts",
                             VERIFY_PROMPTS_VERSION, "model", hex, "machine", v->machine, "target",
                             v->target->description, "types", types);
    const bool ok = root != NULL && json_dump_file(root, path, JSON_INDENT(1)) == 0;
    json_decref(root);
    if (!ok) {
        (void)lk_console_error("verify", "%s could not be written", path);
    }
    return ok;
}

/* Why a receipt does not speak of what is here; "" when it does. */
static void check_head(const verify *v, const verify_receipt *receipt, char why[VERIFY_WHY]) {
    char hex[65];
    lk_hex(v->model_digest, 32, hex);
    why[0] = '\0';
    if (strcmp(receipt->model, hex) != 0) {
        (void)snprintf(why, VERIFY_WHY, "it is of the model %.64s, this is %s", receipt->model,
                       hex);
    } else if (strcmp(receipt->numerics, lk_numerics_version()) != 0) {
        (void)snprintf(why, VERIFY_WHY, "it is of the numerics %s, this is %s", receipt->numerics,
                       lk_numerics_version());
    } else if (receipt->prompts != VERIFY_PROMPTS_VERSION) {
        (void)snprintf(why, VERIFY_WHY, "it is of another set of prompts");
    }
}

/* An output as the receipt's machine had it. */
static void take_run(const verify_receipt_run *run, const verify_stream *stream, verify_output *o) {
    for (size_t i = 0; i < (size_t)run->n_tokens; i++) {
        verify_row *row = &o->rows[stream->n_prompt + i - 1];
        o->ids[i] = run->ids[i];
        row->has_digest = run->has_digest[i];
        memcpy(row->digest, run->digests + i * VERIFY_RECEIPT_DIGEST, sizeof row->digest);
    }
    o->n_tokens = run->n_tokens;
}

/* One run against what is computed here. */
static bool compare_run(verify *v, verify_line *line, const verify_receipt_run *run,
                        verify_status *status, char why[VERIFY_WHY]) {
    verify_schedule s;
    verify_result theirs;
    verify_trace *t = &line->traces[line->n_traces];
    verify_schedule_init(&s);
    s.n_streams = 1;
    verify_prompt(v, run->i_prompt, &s.streams[0]);
    s.streams[0].n = run->n;
    const verify_output *own = verify_solo(v, &s.streams[0], &line->point, false, status, why);
    if (own == NULL) {
        return false;
    }
    *status = VERIFY_BROKEN;
    (void)snprintf(why, VERIFY_WHY, "out of memory");
    if (!verify_result_init(&theirs, &s, true)) {
        return false;
    }
    (void)snprintf(t->name, sizeof t->name, "prompt %d", run->i_prompt);
    take_run(run, &s.streams[0], &theirs.outputs[0]);
    const bool ok = verify_compare(v, &s.streams[0], own, &theirs.outputs[0], t);
    if (ok) {
        line->n_traces++;
        line->n_runs++;
        line->n_differ += t->verdict != VERDICT_EQUAL;
        line->verdict = t->verdict != VERDICT_EQUAL ? t->verdict : line->verdict;
    }
    verify_result_deinit(&theirs);
    return ok;
}

/* The runs of one KV type are a line. */
static bool compare_type(verify *v, const verify_receipt_type *type, const char *path,
                         const char *label) {
    char name[VERIFY_LABEL];
    char why[VERIFY_WHY];
    verify_status status = VERIFY_RAN;
    (void)snprintf(name, sizeof name, "%s, KV %s,%s", label, lk_kv_type_name(type->k_type),
                   lk_kv_type_name(type->v_type));
    verify_line *line = verify_line_add(v, name);
    if (line == NULL) {
        return false;
    }
    line->point.value[VERIFY_K_TYPE] = type->k_type;
    line->point.value[VERIFY_V_TYPE] = type->v_type;
    bool ok = true;
    for (size_t i = 0; i < type->n_runs && ok; i++) {
        ok = compare_run(v, line, &type->runs[i], &status, why);
    }
    if (!ok) {
        verify_line_give_up(v, line, status, why);
    }
    verify_command_start(v, line->command, sizeof line->command);
    const size_t n = strlen(line->command);
    (void)snprintf(line->command + n, sizeof line->command - n, " --across %s", path);
    verify_table_line(v, line);
    return true;
}

void verify_receipt_compare(verify *v, const char *path, const char *label) {
    size_t n_bytes = 0;
    char why[VERIFY_WHY] = "";
    char *text = lk_console_read("verify", path, VERIFY_RECEIPT_BYTES, &n_bytes);
    verify_receipt *receipt = malloc(sizeof *receipt);
    if (text == NULL || receipt == NULL) {
        v->is_broken = true;
    } else if (verify_receipt_read(text, n_bytes, receipt, why, sizeof why)) {
        check_head(v, receipt, why);
        for (size_t i = 0; i < receipt->n_types && why[0] == '\0'; i++) {
            if (!compare_type(v, &receipt->types[i], path, label)) {
                break;
            }
        }
        verify_receipt_free(receipt);
    }
    free(text);
    free(receipt);
    if (why[0] != '\0') {
        v->is_broken = true;
        (void)lk_console_error("verify", "%s: %s", path, why);
    }
}

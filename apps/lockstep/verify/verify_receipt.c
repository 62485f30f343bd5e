/* verify_receipt.c - see verify_receipt.h. A receipt is JSON; one that another model, numerics
 * version or set of prompts made is refused with the reason. */
#include "verify_receipt.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "shared/open_model.h"

enum { N_RUNS = 4, RECEIPT_VERSION = 1, MAX_RECEIPT_BYTES = 64 << 20, DIGEST_TEXT = 33 };

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
    json_t *root =
        json_pack("{s:i, s:s, s:i, s:s, s:s, s:s, s:o}", "lockstep_verify_receipt", RECEIPT_VERSION,
                  "numerics", lk_numerics_version(), "prompts", VERIFY_PROMPTS_VERSION, "model",
                  hex, "machine", v->machine, "target", v->target->description, "types", types);
    const bool ok = root != NULL && json_dump_file(root, path, JSON_INDENT(1)) == 0;
    json_decref(root);
    if (!ok) {
        (void)lk_console_error("verify", "%s could not be written", path);
    }
    return ok;
}

/* Why a receipt does not speak of what is here; "" when it does. */
static void check_head(const verify *v, const json_t *root, char why[VERIFY_WHY]) {
    char hex[65];
    const char *model = json_string_value(json_object_get(root, "model"));
    const char *numerics = json_string_value(json_object_get(root, "numerics"));
    lk_hex(v->model_digest, 32, hex);
    why[0] = '\0';
    if (json_integer_value(json_object_get(root, "lockstep_verify_receipt")) != RECEIPT_VERSION ||
        model == NULL || numerics == NULL) {
        (void)snprintf(why, VERIFY_WHY, "this is no receipt of `lockstep verify --record`");
    } else if (strcmp(model, hex) != 0) {
        (void)snprintf(why, VERIFY_WHY, "it is of the model %.64s, this is %s", model, hex);
    } else if (strcmp(numerics, lk_numerics_version()) != 0) {
        (void)snprintf(why, VERIFY_WHY, "it is of the numerics %.16s, this is %s", numerics,
                       lk_numerics_version());
    } else if (json_integer_value(json_object_get(root, "prompts")) != VERIFY_PROMPTS_VERSION) {
        (void)snprintf(why, VERIFY_WHY, "it is of another set of prompts");
    }
}

static int hex_value(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_digest(const char *text, uint8_t digest[16]) {
    for (size_t i = 0; text != NULL && i < 16; i++) {
        const int high = hex_value(text[2 * i]);
        const int low = high >= 0 ? hex_value(text[2 * i + 1]) : -1;
        if (low < 0) {
            return false;
        }
        digest[i] = (uint8_t)(high << 4 | low);
    }
    return text != NULL && text[32] == '\0';
}

/* An output as the receipt's machine had it. False: the run does not have the form. */
static bool read_run(const json_t *run, const verify_stream *stream, verify_output *o) {
    const json_t *ids = json_object_get(run, "ids");
    const json_t *digests = json_object_get(run, "digests");
    const size_t n = json_array_size(ids);
    if (n > (size_t)stream->n || json_array_size(digests) != n) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        const json_int_t id = json_integer_value(json_array_get(ids, i));
        verify_row *row = &o->rows[stream->n_prompt + i - 1];
        if (id < 0 || id > INT32_MAX) {
            return false;
        }
        o->ids[i] = (int32_t)id;
        row->has_digest = read_digest(json_string_value(json_array_get(digests, i)), row->digest);
    }
    o->n_tokens = (int32_t)n;
    return true;
}

/* The runs of one KV type, as a schedule of one stream each. */
static void compare_type(verify *v, verify_line *line, const json_t *type, char why[VERIFY_WHY]) {
    const json_t *runs = json_object_get(type, "runs");
    for (size_t i = 0; i < json_array_size(runs) && i < VERIFY_MAX_STREAMS; i++) {
        const json_t *run = json_array_get(runs, i);
        const json_int_t n = json_integer_value(json_object_get(run, "n"));
        verify_schedule s;
        verify_result theirs;
        verify_status status = VERIFY_RAN;
        verify_schedule_init(&s);
        s.n_streams = 1;
        verify_prompt(v, json_integer_value(json_object_get(run, "prompt")), &s.streams[0]);
        if (n < 1 || n > 1 << 20) {
            (void)snprintf(why, VERIFY_WHY, "run %zu does not have the form of a receipt", i);
            return;
        }
        s.streams[0].n = (int32_t)n;
        const verify_output *own = verify_solo(v, &s.streams[0], &line->point, false, &status, why);
        if (own == NULL) {
            verify_line_give_up(v, line, status, why);
            return;
        }
        verify_trace *t = &line->traces[line->n_traces];
        if (!verify_result_init(&theirs, &s, true)) {
            verify_line_give_up(v, line, VERIFY_BROKEN, "out of memory");
            return;
        }
        (void)snprintf(t->name, sizeof t->name, "prompt %lld",
                       (long long)json_integer_value(json_object_get(run, "prompt")));
        if (!read_run(run, &s.streams[0], &theirs.outputs[0])) {
            (void)snprintf(why, VERIFY_WHY, "run %zu does not have the form of a receipt", i);
        } else if (verify_compare(v, &s.streams[0], own, &theirs.outputs[0], t)) {
            line->n_traces++;
            line->n_runs++;
            line->n_differ += t->verdict != VERDICT_EQUAL;
            line->verdict = t->verdict != VERDICT_EQUAL ? t->verdict : line->verdict;
        }
        verify_result_deinit(&theirs);
    }
}

void verify_receipt_compare(verify *v, const char *path, const char *label) {
    json_error_t error;
    size_t n_bytes = 0;
    char why[VERIFY_WHY] = "";
    char *text = lk_console_read("verify", path, MAX_RECEIPT_BYTES, &n_bytes);
    json_t *root = text != NULL ? json_loadb(text, n_bytes, 0, &error) : NULL;
    free(text);
    const json_t *types = json_object_get(root, "types");
    check_head(v, root, why);
    const size_t n_types = why[0] == '\0' ? json_array_size(types) : 0;
    for (size_t i = 0; i < n_types && why[0] == '\0'; i++) {
        const json_t *type = json_array_get(types, i);
        const char *k = json_string_value(json_object_get(type, "k_type"));
        const char *values = json_string_value(json_object_get(type, "v_type"));
        char name[VERIFY_LABEL];
        char both[64];
        lk_kv_type k_type = LK_KV_F16;
        lk_kv_type v_type = LK_KV_F16;
        (void)snprintf(both, sizeof both, "%.16s,%.16s", k != NULL ? k : "?",
                       values != NULL ? values : "?");
        if (!lk_parse_kv_type("verify", both, &k_type, &v_type)) {
            (void)snprintf(why, sizeof why, "there is no KV type '%s'", both);
            break;
        }
        (void)snprintf(name, sizeof name, "%s, KV %s", label, both);
        verify_line *line = verify_line_add(v, name);
        if (line == NULL) {
            break;
        }
        line->point.value[VERIFY_K_TYPE] = k_type;
        line->point.value[VERIFY_V_TYPE] = v_type;
        compare_type(v, line, type, why);
        verify_command_start(v, line->command, sizeof line->command);
        const size_t n = strlen(line->command);
        (void)snprintf(line->command + n, sizeof line->command - n, " --across %s", path);
        verify_table_line(v, line);
    }
    if (why[0] != '\0' || n_types == 0) {
        v->is_broken = true;
        (void)lk_console_error("verify", "%s: %s", path, why[0] != '\0' ? why : "it holds no runs");
    }
    json_decref(root);
}

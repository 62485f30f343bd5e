/* verify_report.c - the reports in JSON and JUnit's XML, and what they share with the page. */
#include "verify_report.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shared/open_model.h"

FILE *verify_report_open(const char *path) {
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        (void)lk_console_error("verify", "%s cannot be written: %s", path, strerror(errno));
    }
    return file;
}

bool verify_report_close(FILE *file, const char *path) {
    const bool had_error = ferror(file) != 0;
    if (fclose(file) != 0 || had_error) {
        (void)lk_console_error("verify", "%s could not be written whole", path);
        return false;
    }
    return true;
}

void verify_report_escaped(FILE *file, const char *text) {
    for (const char *c = text; *c != '\0'; c++) {
        switch (*c) {
        case '<':
            (void)fputs("&lt;", file);
            break;
        case '>':
            (void)fputs("&gt;", file);
            break;
        case '&':
            (void)fputs("&amp;", file);
            break;
        case '"':
            (void)fputs("&quot;", file);
            break;
        default:
            (void)fputc((unsigned char)*c < 32 ? ' ' : *c, file);
        }
    }
}

static json_t *text_of(const char *text) {
    json_t *s = json_string(text);
    return s != NULL ? s : json_string("(not UTF-8)");
}

static json_t *json_of_trace(const verify_trace *t) {
    json_t *o =
        json_pack("{s:o, s:s, s:i, s:i, s:i, s:i, s:i}", "name", text_of(t->name), "verdict",
                  verify_verdict_name(t->verdict), "n", t->n, "n_tokens", t->n_tokens, "first_div",
                  t->first_div, "maxrun", t->maxrun, "distinct", t->distinct);
    if (t->has_bits) {
        (void)json_object_set_new(o, "bits_differ_from_position",
                                  t->first_bit_pos >= 0 ? json_integer(t->first_bit_pos)
                                                        : json_null());
        (void)json_object_set_new(o, "call",
                                  t->i_step >= 0 ? json_integer(t->i_step) : json_null());
        (void)json_object_set_new(o, "row", t->i_row >= 0 ? json_integer(t->i_row) : json_null());
    }
    if (!isnan(t->logprob_gap)) {
        (void)json_object_set_new(o, "logprob_gap", json_real(t->logprob_gap));
    }
    if (t->detail[0] != '\0') {
        (void)json_object_set_new(o, "detail", text_of(t->detail));
    }
    /* One character for each token: . equal, b other bits, X another token, - none. */
    static const char letters[] = {'.', 'b', 'X', '-'};
    char *marks = calloc((size_t)t->n + 1, 1);
    for (int32_t i = 0; marks != NULL && i < t->n; i++) {
        marks[i] = letters[t->marks[i]];
    }
    (void)json_object_set_new(o, "marks", json_string(marks != NULL ? marks : ""));
    free(marks);
    return o;
}

static json_t *json_of_cell(const verify_cell *cell) {
    return json_pack("{s:s, s:I, s:i, s:i, s:b}", "factor", verify_factor_name(cell->factor),
                     "value", (json_int_t)cell->value, "runs", cell->n_runs, "differ",
                     cell->n_differ, "possible", cell->is_possible);
}

static json_t *json_of_point(const verify_point *p) {
    json_t *o = json_object();
    for (int f = 0; f < VERIFY_N_FACTORS; f++) {
        (void)json_object_set_new(o, verify_factor_name((verify_factor)f),
                                  json_integer(p->value[f]));
    }
    return o;
}

static json_t *json_of_line(const verify_line *line) {
    json_t *o =
        json_pack("{s:s, s:o, s:s, s:i, s:i, s:f, s:o, s:o}", "experiment", line->experiment,
                  "case", text_of(line->label), "verdict", verify_verdict_name(line->verdict),
                  "runs", line->n_runs, "differ", line->n_differ, "seconds", line->seconds,
                  "command", text_of(line->command), "factors", json_of_point(&line->point));
    json_t *traces = json_array();
    json_t *cells = json_array();
    if (line->detail[0] != '\0') {
        (void)json_object_set_new(o, "detail", text_of(line->detail));
    }
    for (int32_t i = 0; i < line->n_traces; i++) {
        (void)json_array_append_new(traces, json_of_trace(&line->traces[i]));
    }
    for (int32_t i = 0; i < line->n_cells; i++) {
        (void)json_array_append_new(cells, json_of_cell(&line->cells[i]));
    }
    (void)json_object_set_new(o, "sequences", traces);
    (void)json_object_set_new(o, "matrix", cells);
    (void)json_object_set_new(o, "smallest_change",
                              line->smallest.n_runs > 0 ? json_of_cell(&line->smallest)
                                                        : json_null());
    return o;
}

bool verify_report_json(const verify *v, const char *path) {
    FILE *file = verify_report_open(path);
    if (file == NULL) {
        return false;
    }
    char hex[65] = "";
    if (v->has_digest) {
        lk_hex(v->model_digest, 32, hex);
    }
    json_t *lines = json_array();
    for (size_t i = 0; i < v->n_lines; i++) {
        (void)json_array_append_new(lines, json_of_line(v->lines[i]));
    }
    json_t *root = json_pack(
        "{s:{s:s, s:s, s:s, s:i}, s:o, s:o, s:o, s:o, s:s, s:I, s:f, s:o}", "program", "version",
        lk_version(), "commit", lk_version_commit(), "numerics", lk_numerics_version(), "prompts",
        VERIFY_PROMPTS_VERSION, "target", text_of(v->target->name), "target_description",
        text_of(v->target->description), "machine", text_of(v->machine), "model",
        v->options->model != NULL ? text_of(v->options->model) : json_null(), "model_digest", hex,
        "seed", (json_int_t)v->options->seed, "seconds", lk_console_seconds() - v->start, "lines",
        lines);
    bool ok = root != NULL;
    for (int64_t i = 0; ok && v->options->with_prompts && i < VERIFY_N_PROMPTS; i++) {
        verify_stream stream;
        json_t *prompts = json_object_get(root, "prompts");
        verify_prompt(v, i, &stream);
        if (prompts == NULL) {
            (void)json_object_set_new(root, "prompts", json_array());
            prompts = json_object_get(root, "prompts");
        }
        (void)json_array_append_new(prompts, text_of(stream.text));
    }
    ok = ok && json_dumpf(root, file, JSON_INDENT(1) | JSON_ENSURE_ASCII) == 0;
    (void)fputc('\n', file);
    json_decref(root);
    return verify_report_close(file, path) && ok;
}

static bool has_failed(const verify_line *line) {
    return line->verdict != VERDICT_EQUAL && line->verdict != VERDICT_UNABLE;
}

static void write_junit_case(FILE *file, const verify_line *line) {
    (void)fprintf(file, "  <testcase classname=\"verify.%s\" name=\"", line->experiment);
    verify_report_escaped(file, line->label);
    (void)fprintf(file, "\" time=\"%.3f\">", line->seconds);
    if (line->verdict == VERDICT_UNABLE) {
        (void)fputs("<skipped message=\"", file);
        verify_report_escaped(file, line->detail);
        (void)fputs("\"/>", file);
    } else if (has_failed(line)) {
        (void)fprintf(file, "<%s message=\"%s, %d of %d runs\">",
                      line->verdict == VERDICT_ERROR ? "error" : "failure",
                      verify_verdict_name(line->verdict), line->n_differ, line->n_runs);
        for (int32_t i = 0; i < line->n_traces; i++) {
            const verify_trace *t = &line->traces[i];
            (void)fprintf(file, "%s: first_div %d of %d, maxrun %d, distinct %d ", t->name,
                          t->first_div, t->n, t->maxrun, t->distinct);
            verify_report_escaped(file, t->detail);
            (void)fputc('\n', file);
        }
        verify_report_escaped(file, line->detail);
        (void)fputs("\nagain: ", file);
        verify_report_escaped(file, line->command);
        (void)fprintf(file, "</%s>", line->verdict == VERDICT_ERROR ? "error" : "failure");
    }
    (void)fputs("</testcase>\n", file);
}

bool verify_report_junit(const verify *v, const char *path) {
    FILE *file = verify_report_open(path);
    size_t n_failures = 0;
    size_t n_errors = 0;
    size_t n_skipped = 0;
    if (file == NULL) {
        return false;
    }
    for (size_t i = 0; i < v->n_lines; i++) {
        n_skipped += v->lines[i]->verdict == VERDICT_UNABLE;
        n_errors += v->lines[i]->verdict == VERDICT_ERROR;
        n_failures += has_failed(v->lines[i]) && v->lines[i]->verdict != VERDICT_ERROR;
    }
    (void)fprintf(file,
                  "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"lockstep verify\" "
                  "tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" skipped=\"%zu\" time=\"%.3f\">\n",
                  v->n_lines, n_failures, n_errors, n_skipped, lk_console_seconds() - v->start);
    for (size_t i = 0; i < v->n_lines; i++) {
        write_junit_case(file, v->lines[i]);
    }
    (void)fputs("</testsuite>\n", file);
    return verify_report_close(file, path);
}

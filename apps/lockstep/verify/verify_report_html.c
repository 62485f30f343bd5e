/* verify_report_html.c - the report as one page: no network, no script. What differs comes first
 * and is unfolded; each sequence has a timeline that shows where it left its solo run, each matrix
 * is a heat map. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shared/open_model.h"
#include "verify_conclusion.h"
#include "verify_report.h"

static const char style[] =
    ":root{--bg:#fff;--fg:#1b1f24;--dim:#5c6670;--line:#d8dde2;--soft:#f4f6f8;--equal:#2e8b6f;"
    "--noise:#c98500;--different:#c8362b;--error:#8a3ea8;--unable:#8b949e;--none:#c9cfd5}\n"
    "@media(prefers-color-scheme:dark){:root{--bg:#15181c;--fg:#e4e8ec;--dim:#9aa5b0;"
    "--line:#343b43;--soft:#1e2329;--equal:#4bb592;--noise:#e0a63a;--different:#f0695e;"
    "--error:#c487dd;--unable:#7d8790;--none:#4a525b}}\n"
    "*{box-sizing:border-box}body{margin:0 "
    "auto;padding:1.2rem;max-width:64rem;background:var(--bg);"
    "color:var(--fg);font:16px/1.5 system-ui,sans-serif}\n"
    "h1{font-size:1.5rem;margin:0 0 .2rem}h2{font-size:1.15rem;margin:2rem 0 .6rem}"
    "h3{font-size:.95rem;margin:1rem 0 .3rem}p{margin:.3rem 0}\n"
    ".banner{border-left:.4rem solid;padding:.5rem .9rem;background:var(--soft);margin:1rem 0;"
    "font-size:1.1rem}\n"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;margin:1rem 0}"
    "dt{color:var(--dim)}dd{margin:0;overflow-wrap:anywhere}\n"
    "code{font:.85rem/1.45 ui-monospace,monospace;overflow-wrap:anywhere}"
    ".again{display:block;background:var(--soft);padding:.45rem .6rem;margin:.5rem 0}\n"
    "details{border-top:1px solid var(--line)}details>div{padding:.1rem 0 1rem}"
    "summary{display:grid;grid-template-columns:6.5rem 1fr 7rem 3.5rem;gap:.7rem;padding:.35rem 0;"
    "cursor:pointer;align-items:baseline}summary span{overflow-wrap:anywhere}\n"
    ".x{color:var(--dim)}.r{text-align:right;font-variant-numeric:tabular-nums}"
    ".v{font-weight:600;white-space:nowrap}\n"
    ".equal{color:var(--equal)}.noise{color:var(--noise)}.different{color:var(--different)}"
    ".error{color:var(--error)}.unable{color:var(--unable)}\n"
    ".lane{display:grid;grid-template-columns:7rem 1fr 15rem;gap:.7rem;align-items:center;"
    "margin:.25rem 0}.lane svg{width:100%;height:1.1rem;display:block}"
    ".lane small{color:var(--dim)}\n"
    ".heat{display:flex;flex-wrap:wrap;gap:.4rem}.heat svg{width:9rem;height:3.1rem}\n"
    ".key{display:flex;flex-wrap:wrap;gap:.2rem 1rem;color:var(--dim);font-size:.85rem}"
    ".key i{display:inline-block;width:.8rem;height:.8rem;margin-right:.35rem;"
    "vertical-align:-.05rem}\n"
    "@media(max-width:40rem){summary{grid-template-columns:6.6rem 1fr}summary .r{text-align:left}"
    ".lane{grid-template-columns:1fr;gap:.1rem;margin:.6rem 0}"
    "dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:.4rem}}\n"
    "@media print{details{break-inside:avoid}}\n";

static const char *class_of(verify_verdict verdict) {
    static const char *const names[VERIFY_N_VERDICTS] = {
        [VERDICT_EQUAL] = "equal", [VERDICT_NOISE] = "noise",   [VERDICT_DIFFERENT] = "different",
        [VERDICT_ERROR] = "error", [VERDICT_UNABLE] = "unable",
    };
    return names[verdict];
}

static void write_fact(FILE *file, const char *name, const char *value) {
    (void)fprintf(file, "<dt>%s</dt><dd>", name);
    verify_report_escaped(file, value);
    (void)fputs("</dd>\n", file);
}

static void write_head(const verify *v, FILE *file) {
    const verify_conclusion end = verify_conclude(v);
    const int32_t *counts = end.counts;
    char hex[65] = "";
    char text[256];
    (void)fprintf(file,
                  "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                  "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
                  "<title>lockstep verify</title><style>\n%s</style></head><body>\n"
                  "<h1>lockstep verify</h1>\n"
                  "<p class=\"x\">Does what a sequence gets depend on anything but itself?</p>\n"
                  "<div class=\"banner %s\">%s</div>\n<dl>\n",
                  style, class_of(end.verdict), end.text);
    write_fact(file, "target", v->target->name);
    write_fact(file, "", v->target->description);
    write_fact(file, "machine", v->machine);
    if (v->options->model != NULL) {
        write_fact(file, "model", v->options->model);
    }
    if (v->has_digest) {
        lk_hex(v->model_digest, 32, hex);
        write_fact(file, "model digest", hex);
    }
    (void)snprintf(text, sizeof text, "lockstep %s, commit %s, numerics %s, prompts %d",
                   lk_version(), lk_version_commit(), lk_numerics_version(),
                   VERIFY_PROMPTS_VERSION);
    write_fact(file, "verifier", text);
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)v->options->seed);
    write_fact(file, "seed", text);
    (void)snprintf(text, sizeof text,
                   "%.1f s, %d equal, %d noise, %d different, %d errors, %d not "
                   "possible",
                   lk_console_seconds() - v->start, counts[VERDICT_EQUAL], counts[VERDICT_NOISE],
                   counts[VERDICT_DIFFERENT], counts[VERDICT_ERROR], counts[VERDICT_UNABLE]);
    write_fact(file, "cases", text);
    (void)fputs("</dl>\n", file);
}

/* Runs of equal marks are one rectangle each. */
static void write_timeline(FILE *file, const verify_trace *t) {
    static const char *const colours[] = {"--equal", "--noise", "--different", "--none"};
    (void)fputs("<div class=\"lane\"><span>", file);
    verify_report_escaped(file, t->name);
    (void)fprintf(file,
                  "</span><svg viewBox=\"0 0 %d 10\" preserveAspectRatio=\"none\" role=\"img\">"
                  "<title>token by token; it leaves its solo run at %d of %d</title>",
                  t->n > 0 ? t->n : 1, t->first_div, t->n);
    for (int32_t i = 0; i < t->n;) {
        int32_t end = i + 1;
        while (end < t->n && t->marks[end] == t->marks[i]) {
            end++;
        }
        (void)fprintf(file, "<rect x=\"%d\" width=\"%d\" height=\"10\" fill=\"var(%s)\"/>", i,
                      end - i, colours[t->marks[i]]);
        i = end;
    }
    (void)fprintf(file, "</svg><small>%s %d/%d, maxrun %d, distinct %d</small></div>\n",
                  t->first_div < t->n ? "leaves at" : "equal", t->first_div, t->n, t->maxrun,
                  t->distinct);
}

static void write_trace_details(FILE *file, const verify_trace *t) {
    if (t->first_bit_pos >= 0) {
        (void)fprintf(file, "<p>");
        verify_report_escaped(file, t->name);
        (void)fprintf(file, ": bits of the logits differ from position %lld",
                      (long long)t->first_bit_pos);
        if (t->i_step >= 0) {
            (void)fprintf(file, " (call %d, row %d)", t->i_step, t->i_row);
        }
        (void)fputs("</p>\n", file);
    }
    if (t->detail[0] != '\0') {
        (void)fputs("<p>", file);
        verify_report_escaped(file, t->name);
        (void)fputs(": ", file);
        verify_report_escaped(file, t->detail);
        (void)fputs("</p>\n", file);
    }
}

static void write_matrix(FILE *file, const verify_line *line) {
    if (line->n_cells == 0) {
        return;
    }
    (void)fputs("<h3>Isolation matrix: one factor changed, runs that still differ</h3>\n"
                "<div class=\"heat\">",
                file);
    for (int32_t i = 0; i < line->n_cells; i++) {
        const verify_cell *c = &line->cells[i];
        const double share = c->n_runs > 0 ? (double)c->n_differ / c->n_runs : 0;
        const char *colour = !c->is_possible ? "--none" : share > 0 ? "--different" : "--equal";
        (void)fprintf(file,
                      "<svg viewBox=\"0 0 144 50\" role=\"img\"><title>%s</title>"
                      "<rect width=\"144\" height=\"50\" fill=\"var(%s)\" opacity=\"%.2f\"/>"
                      "<text x=\"8\" y=\"20\" font-size=\"14\" fill=\"var(--fg)\">%s=%lld</text>",
                      verify_factor_meaning(c->factor), colour,
                      !c->is_possible ? 0.3
                      : share > 0     ? 0.25 + 0.55 * share
                                      : 0.45,
                      verify_factor_name(c->factor), (long long)c->value);
        if (c->is_possible) {
            (void)fprintf(file,
                          "<text x=\"8\" y=\"41\" font-size=\"16\" font-weight=\"600\" "
                          "fill=\"var(--fg)\">%d/%d</text></svg>\n",
                          c->n_differ, c->n_runs);
        } else {
            (void)fputs("<text x=\"8\" y=\"41\" font-size=\"14\" fill=\"var(--fg)\">not possible"
                        "</text></svg>\n",
                        file);
        }
    }
    (void)fputs("</div>\n", file);
    if (line->smallest.n_runs > 0) {
        (void)fprintf(file, "<p>Smallest change without the difference: <b>%s=%lld</b> (%s).</p>\n",
                      verify_factor_name(line->smallest.factor), (long long)line->smallest.value,
                      verify_factor_meaning(line->smallest.factor));
    } else {
        (void)fputs("<p>No single change removes it.</p>\n", file);
    }
}

static bool is_bad(const verify_line *line) {
    return line->verdict != VERDICT_EQUAL && line->verdict != VERDICT_UNABLE;
}

static void write_line(FILE *file, const verify_line *line) {
    (void)fprintf(file, "<details%s><summary><span class=\"x\">%s</span><span>",
                  is_bad(line) ? " open" : "", line->experiment);
    verify_report_escaped(file, line->label);
    (void)fprintf(file, "</span><span class=\"v %s\">%s</span><span class=\"r\">",
                  class_of(line->verdict), verify_verdict_name(line->verdict));
    if (line->n_runs > 0) {
        (void)fprintf(file, "%d/%d", line->n_differ, line->n_runs);
    }
    (void)fputs("</span></summary><div>\n", file);
    if (line->detail[0] != '\0') {
        (void)fputs("<p>", file);
        verify_report_escaped(file, line->detail);
        (void)fputs("</p>\n", file);
    }
    for (int32_t i = 0; i < line->n_traces; i++) {
        write_timeline(file, &line->traces[i]);
    }
    for (int32_t i = 0; i < line->n_traces; i++) {
        write_trace_details(file, &line->traces[i]);
    }
    write_matrix(file, line);
    (void)fputs("<code class=\"again\">", file);
    verify_report_escaped(file, line->command);
    (void)fputs("</code></div></details>\n", file);
}

static void write_lines(const verify *v, FILE *file, bool bad, const char *title) {
    bool any = false;
    for (size_t i = 0; i < v->n_lines; i++) {
        if (is_bad(v->lines[i]) == bad) {
            if (!any) {
                (void)fprintf(file, "<h2>%s</h2>\n", title);
            }
            any = true;
            write_line(file, v->lines[i]);
        }
    }
}

bool verify_report_html(const verify *v, const char *path) {
    FILE *file = verify_report_open(path);
    if (file == NULL) {
        return false;
    }
    write_head(v, file);
    (void)fputs("<p class=\"key\"><span><i style=\"background:var(--equal)\"></i>as alone</span>"
                "<span><i style=\"background:var(--noise)\"></i>same token, other bits</span>"
                "<span><i style=\"background:var(--different)\"></i>another token</span>"
                "<span><i style=\"background:var(--none)\"></i>no token</span>"
                "<span>counts: runs that differ / runs</span></p>\n",
                file);
    write_lines(v, file, true, "What differs");
    write_lines(v, file, false, "The other cases");
    for (int64_t i = 0; v->options->with_prompts && i < VERIFY_N_PROMPTS; i++) {
        verify_stream stream;
        verify_prompt(v, i, &stream);
        (void)fprintf(file, "%s<p><b>%lld</b> ", i == 0 ? "<h2>Prompts</h2>\n" : "", (long long)i);
        verify_report_escaped(file, stream.text);
        (void)fputs("</p>\n", file);
    }
    (void)fputs("</body></html>\n", file);
    return verify_report_close(file, path);
}

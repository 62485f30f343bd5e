/* verify_main.c - opens model and target, runs the experiments that were asked for, ends with the
 * verdict. */
#include "verify_main.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "verify_options.h"
#include "verify_receipt.h"
#include "verify_report.h"

typedef struct experiment {
    const char *name;
    void (*run)(verify *v);
    verify_suite suite; /* the smallest that has it */
    uint32_t needs;
    const char *meaning;
} experiment;

static const experiment experiments[] = {
#define VERIFY_EXPERIMENT(name, suite, needs, meaning)                                             \
    {#name, verify_experiment_##name, suite, needs, meaning},
#include "experiments.def"
#undef VERIFY_EXPERIMENT
};
enum { N_EXPERIMENTS = sizeof experiments / sizeof experiments[0] };

static bool is_wanted(const verify *v, const experiment *e) {
    if (v->options->only != NULL) {
        return verify_options_has(v->options, e->name);
    }
    return e->suite <= v->options->suite &&
           ((e->needs & VERIFY_CAN_HEAR) == 0 || v->options->audio != NULL);
}

static bool check_names(const verify_options *o) {
    for (const char *at = o->only; at != NULL && *at != '\0';) {
        const size_t n = strcspn(at, ",");
        size_t i = 0;
        while (i < N_EXPERIMENTS &&
               (strlen(experiments[i].name) != n || strncmp(experiments[i].name, at, n) != 0)) {
            i++;
        }
        if (i == N_EXPERIMENTS) {
            (void)lk_console_error("verify", "there is no experiment '%.*s'; --only list shows all",
                                   n < 60 ? (int)n : 60, at);
            return false;
        }
        at += n + (at[n] == ',');
    }
    return true;
}

static void list_experiments(void) {
    for (size_t i = 0; i < N_EXPERIMENTS; i++) {
        (void)printf("%-10s %s%s\n", experiments[i].name, experiments[i].meaning,
                     experiments[i].suite == VERIFY_QUICK  ? ""
                     : experiments[i].suite == VERIFY_FULL ? " (suite full)"
                                                           : " (suite soak)");
    }
}

/* "Linux 6.1 x86_64, 2 processors, NAME" */
static void describe_machine(char *text, size_t size) {
    struct utsname u;
    char cpu[128] = "";
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file != NULL && cpu[0] == '\0' && fgets(line, sizeof line, file) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon != NULL) {
            (void)snprintf(cpu, sizeof cpu, ",%.100s", colon + 1);
            cpu[strcspn(cpu, "\n")] = '\0';
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    if (uname(&u) != 0) {
        (void)snprintf(u.sysname, sizeof u.sysname, "unknown system");
        u.release[0] = u.machine[0] = '\0';
    }
    (void)snprintf(text, size, "%.30s %.60s %.30s, %ld processors%s", u.sysname, u.release,
                   u.machine, sysconf(_SC_NPROCESSORS_ONLN), cpu);
}

/* The model as the verifier itself needs it: its tokenizer and digest. Computed from the mapped
 * file, which takes no time and memory. */
static bool open_model(verify *v) {
    lk_error err;
    lk_model_params params = LK_MODEL_PARAMS_INIT;
    params.flags = LK_MODEL_NO_REPACK;
    if (v->options->model == NULL) {
        return true;
    }
    if (lk_model_open(v->options->model, &params, &v->model, &err) != LK_OK ||
        lk_model_digest(v->model, 0, NULL, NULL, v->model_digest, &err) != LK_OK) {
        (void)lk_console_failed("verify", &err);
        return false;
    }
    v->has_digest = true;
    v->tokenizer = lk_model_tokenizer(v->model);
    if (v->tokenizer == NULL) {
        (void)lk_console_error("verify", "%s has no tokenizer", v->options->model);
    }
    return v->tokenizer != NULL;
}

static bool open_target(verify *v) {
    char why[VERIFY_WHY] = "";
    const verify_options *o = v->options;
    const verify_source source = {.model = o->model,
                                  .mmproj = o->mmproj,
                                  .clip = o->audio != NULL ? &v->clips[VERIFY_FORWARDS] : NULL,
                                  .api_key = o->api_key,
                                  .max_requests = o->max_requests,
                                  .max_seconds = o->max_seconds,
                                  .base = &v->base};
    if (strncmp(o->target, "http", 4) != 0 && o->model == NULL) {
        (void)lk_console_error("verify", "MODEL is missing; 'lockstep verify --help' lists what it "
                                         "takes");
        return false;
    }
    if (!open_model(v) || (o->audio != NULL && !verify_clips_read(v->clips, o->audio))) {
        return false;
    }
    if (v->open(o->target, &source, &v->target, why) != VERIFY_RAN) {
        (void)lk_console_error("verify", "%s", why);
        return false;
    }
    return true;
}

/* A setting that was asked for and that the target has not: no run would be what it says. */
static bool check_settings(const verify *v) {
    if (v->base.value[VERIFY_CLIP] != 0 && v->options->audio == NULL) {
        (void)lk_console_error("verify", "--set clip: a recording is missing (--audio FILE)");
        return false;
    }
    for (int f = 0; f < VERIFY_N_FACTORS; f++) {
        if (verify_factor_kind_of((verify_factor)f) == VERIFY_TARGET &&
            v->base.value[f] != verify_factor_base((verify_factor)f) &&
            (v->target->factors & VERIFY_BIT(f)) == 0) {
            (void)lk_console_error("verify", "the target %s has no setting '%s' (%s)",
                                   v->target->name, verify_factor_name((verify_factor)f),
                                   verify_factor_meaning((verify_factor)f));
            return false;
        }
    }
    return true;
}

static void run_one(verify *v, const experiment *e) {
    v->experiment = e->name;
    v->i_experiment++;
    if ((e->needs & ~v->target->can) == 0) {
        e->run(v);
        return;
    }
    verify_line *line = verify_line_add(v, e->meaning);
    if (line != NULL) {
        line->verdict = VERDICT_UNABLE;
        (void)snprintf(line->detail, sizeof line->detail, "%s",
                       verify_capability_name(e->needs & ~v->target->can));
        verify_table_line(v, line);
    }
}

static int verdict_of(const verify *v) {
    bool differs = false;
    bool any = false;
    for (size_t i = 0; i < v->n_lines; i++) {
        const verify_verdict verdict = v->lines[i]->verdict;
        differs = differs || (verdict != VERDICT_EQUAL && verdict != VERDICT_UNABLE);
        any = any || verdict != VERDICT_UNABLE;
    }
    return v->is_broken || !any ? 2 : differs ? 1 : 0;
}

void verify_command_start(const verify *v, char *text, size_t size) {
    const verify_options *o = v->options;
    const bool is_self = strcmp(o->target, "self") == 0;
    (void)snprintf(text, size, "lockstep verify%s%s%s%s%s%s%s%s%s%s", o->model != NULL ? " " : "",
                   o->model != NULL ? o->model : "", is_self ? "" : " --target ",
                   is_self ? "" : o->target, o->mmproj != NULL ? " --mmproj " : "",
                   o->mmproj != NULL ? o->mmproj : "", o->audio != NULL ? " --audio " : "",
                   o->audio != NULL ? o->audio : "",
                   o->chat_template != NULL ? " --chat-template " : "",
                   o->chat_template != NULL ? o->chat_template : "");
}

static bool write_reports(const verify *v) {
    const verify_options *o = v->options;
    const bool page = o->report == NULL || verify_report_html(v, o->report);
    const bool json = o->json == NULL || verify_report_json(v, o->json);
    const bool junit = o->junit == NULL || verify_report_junit(v, o->junit);
    return page && json && junit;
}

/* --record: no experiment, solo runs in a file. */
static int record(verify *v) {
    const char *path = v->options->record;
    if ((v->target->can & VERIFY_CAN_BITS) == 0 || v->model == NULL) {
        (void)lk_console_error("verify", "--record needs a target whose logits can be seen");
        return 2;
    }
    if (!verify_receipt_write(v, path)) {
        return 2;
    }
    (void)printf("%s written\n", path);
    return 0;
}

static bool make_prompts(verify *v) {
    const bool has_place = v->options->mmproj != NULL && v->model != NULL;
    if (has_place &&
        !verify_clips_place(v->clips, v->options->mmproj, v->options->chat_template, v->model)) {
        return false;
    }
    if (!verify_prompts_init(v)) {
        (void)lk_console_error("verify",
                               "the prompts could not be made: this tokenizer cannot read "
                               "them, or memory is short");
        return false;
    }
    return true;
}

bool verify_begin(verify *v, const verify_options *o, verify_opener *open) {
    *v = (verify){.options = o, .base = o->base, .open = open, .start = lk_console_seconds()};
    describe_machine(v->machine, sizeof v->machine);
    return check_names(o) && open_target(v) && check_settings(v) && make_prompts(v);
}

void verify_experiments(verify *v) {
    for (size_t i = 0; i < N_EXPERIMENTS; i++) {
        v->n_experiments += is_wanted(v, &experiments[i]);
    }
    verify_table_head(v);
    for (size_t i = 0; i < N_EXPERIMENTS && !v->is_broken; i++) {
        if (is_wanted(v, &experiments[i])) {
            run_one(v, &experiments[i]);
        }
    }
    verify_table_end(v);
}

void verify_end(verify *v) {
    verify_lines_free(v);
    verify_references_free(v);
    verify_prompts_free(v);
    verify_clips_deinit(v->clips);
    if (v->target != NULL) {
        v->target->ops->close(v->target);
    }
    lk_model_close(v->model);
}

int verify_main(const verify_options *o) {
    verify v;
    int exit_status = 2;
    if (o->only != NULL && strcmp(o->only, "list") == 0) {
        list_experiments();
        return lk_console_finish("verify", 0);
    }
    lk_console_catch_interrupt(NULL);
    if (verify_begin(&v, o, verify_target_open_named)) {
        if (o->record != NULL) {
            exit_status = record(&v);
        } else {
            verify_experiments(&v);
            exit_status = write_reports(&v) ? verdict_of(&v) : 2;
        }
    }
    verify_end(&v);
    const int interrupted = lk_console_interrupt_status();
    return lk_console_finish("verify", interrupted != 0 ? interrupted : exit_status);
}

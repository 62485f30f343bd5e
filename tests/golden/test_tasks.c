/* test_tasks.c - the held-out tasks of the model card (tasks.jsonl), greedy, on the small Q8_0
 * model: within 3 points of the card's 1,023 of 1,338. Eight prompts are generated side by side.
 * Runs with LK_FULL=1 and the shared references; `LK_TASKS_EVERY=n` takes every n-th prompt. */
#include <ctype.h>
#include <jansson.h>

#include "golden.h"
#include "lk_test.h"

enum { N_SLOTS = 8, MAX_PROMPT = 2000, MAX_NEW = 130, MAX_TEXT = 4096 };

typedef struct task_slot {
    json_t *task; /* NULL: idle */
    int32_t prompt[MAX_PROMPT];
    size_t n_prompt;
    int32_t n_new, limit;
    int32_t next; /* token to feed */
    char text[MAX_TEXT];
    size_t n_text;
} task_slot;

static char *trim(char *text) {
    while (isspace((unsigned char)*text)) {
        text++;
    }
    size_t n = strlen(text);
    while (n > 0 && isspace((unsigned char)text[n - 1])) {
        text[--n] = '\0';
    }
    return text;
}

/* The reply without its <think> block, trimmed; in place. */
static char *clean_reply(char *text) {
    char *open = strstr(text, "<think>");
    char *close = open != NULL ? strstr(open, "</think>") : NULL;
    if (close != NULL) {
        close += strlen("</think>");
        memmove(open, close, strlen(close) + 1);
    }
    return trim(text);
}

static int contains_ignoring_case(const char *text, const char *part) {
    const size_t n = strlen(part);
    for (; *text != '\0'; text++) {
        size_t i = 0;
        while (i < n && text[i] != '\0' &&
               tolower((unsigned char)text[i]) == tolower((unsigned char)part[i])) {
            i++;
        }
        if (i == n) {
            return 1;
        }
    }
    return n == 0;
}

/* The last integer in the text, digits only; "" when there is none. */
static void last_number(const char *text, char out[32]) {
    out[0] = '\0';
    for (size_t i = strlen(text); i > 0; i--) {
        if (isdigit((unsigned char)text[i - 1])) {
            size_t from = i - 1;
            while (from > 0 && isdigit((unsigned char)text[from - 1])) {
                from--;
            }
            const size_t n = i - from < 31 ? i - from : 31;
            memcpy(out, text + from, n);
            out[n] = '\0';
            return;
        }
    }
}

static int same_json(const char *a, const char *b) {
    json_t *x = json_loads(a, 0, NULL);
    json_t *y = json_loads(b, 0, NULL);
    const int equal = x != NULL && y != NULL && json_equal(x, y);
    json_decref(x);
    json_decref(y);
    return equal;
}

static int is_right(const char *reply, const char *answer, const char *match) {
    const size_t n = strlen(reply);
    const size_t m = strlen(answer);
    if (strcmp(match, "exact") == 0) {
        return strcmp(reply, answer) == 0;
    }
    if (strcmp(match, "contains") == 0) {
        return contains_ignoring_case(reply, answer);
    }
    if (strcmp(match, "startswith") == 0) {
        return strncmp(reply, answer, m) == 0;
    }
    if (strcmp(match, "endswith") == 0) {
        return n >= m && strcmp(reply + n - m, answer) == 0;
    }
    if (strcmp(match, "last_number") == 0) {
        char found[32];
        last_number(reply, found);
        return strcmp(found, answer) == 0;
    }
    return same_json(reply, answer);
}

static int start_task(task_slot *slot, const lk_tokenizer *tokenizer, FILE *file, uint32_t every) {
    static char line[65536];
    static uint32_t n_read;
    lk_error err;
    slot->task = NULL;
    while (fgets(line, sizeof line, file) != NULL) {
        if (n_read++ % every != 0) {
            continue;
        }
        slot->task = json_loads(line, 0, NULL);
        const char *prompt = json_string_value(json_object_get(slot->task, "prompt"));
        const char *name = json_string_value(json_object_get(slot->task, "task"));
        REQUIRE_OK(lk_tokenizer_encode(tokenizer, prompt, strlen(prompt), LK_TOKENIZE_PARSE_SPECIAL,
                                       slot->prompt, MAX_PROMPT, &slot->n_prompt, &err),
                   err);
        slot->n_new = 0;
        slot->limit = strstr(name, "_think") != NULL ? 130 : 72;
        slot->n_text = 0;
        slot->text[0] = '\0';
        return 1;
    }
    return 0;
}

/* Takes a new token; nonzero when the reply is complete. */
static int take_token(task_slot *slot, const lk_tokenizer *tokenizer, const float *logits,
                      int32_t n_vocab) {
    lk_error err;
    int32_t best = 0;
    for (int32_t i = 1; i < n_vocab; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    if (lk_tokenizer_is_end(tokenizer, best)) {
        return 1;
    }
    size_t n = 0;
    REQUIRE_OK(lk_tokenizer_token_bytes(tokenizer, best, LK_DETOKENIZE_SPECIAL,
                                        slot->text + slot->n_text, MAX_TEXT - 1 - slot->n_text, &n,
                                        &err),
               err);
    slot->n_text += n;
    slot->text[slot->n_text] = '\0';
    slot->next = best;
    return ++slot->n_new >= slot->limit;
}

typedef struct score {
    int32_t n_asked, n_right;
} score;

static void finish_task(task_slot *slot, score *total) {
    const char *answer = json_string_value(json_object_get(slot->task, "answer"));
    const char *match = json_string_value(json_object_get(slot->task, "match"));
    total->n_asked++;
    total->n_right += is_right(clean_reply(slot->text), answer, match);
    json_decref(slot->task);
    slot->task = NULL;
}

/* Rows of one step: whole prompts of new slots, one token of the others; the last row of each wants
 * logits. */
static size_t lay_out(task_slot slots[N_SLOTS], lk_row *rows, size_t last[N_SLOTS]) {
    size_t n = 0;
    for (int32_t s = 0; s < N_SLOTS; s++) {
        task_slot *slot = &slots[s];
        if (slot->task == NULL) {
            continue;
        }
        if (slot->n_new == 0) {
            for (size_t i = 0; i < slot->n_prompt; i++) {
                rows[n++] = (lk_row){slot->prompt[i], s, (int64_t)i, 0, 0};
            }
        } else {
            rows[n++] = (lk_row){slot->next, s, (int64_t)slot->n_prompt + slot->n_new - 1, 0, 0};
        }
        rows[n - 1].flags = LK_ROW_LOGITS;
        last[s] = n - 1;
    }
    return n;
}

static score run_tasks(lk_model *model, FILE *file, uint32_t every) {
    lk_error err;
    score total = {0, 0};
    const lk_tokenizer *tokenizer = lk_model_tokenizer(model);
    const int32_t n_vocab = lk_tokenizer_n_vocab(tokenizer);
    lk_context_params params = LK_CONTEXT_PARAMS_INIT;
    params.n_sequences = N_SLOTS;
    params.kv_positions = N_SLOTS * 2304;
    params.max_logits = N_SLOTS;
    lk_context *context = NULL;
    REQUIRE_OK(lk_context_create(model, &params, &context, &err), err);
    task_slot *slots = calloc(N_SLOTS, sizeof *slots);
    lk_row *rows = calloc((size_t)N_SLOTS * MAX_PROMPT, sizeof *rows);
    for (int more = 1; more;) {
        size_t last[N_SLOTS];
        for (int32_t s = 0; s < N_SLOTS; s++) {
            if (slots[s].task == NULL) {
                REQUIRE_OK(lk_sequence_clear(context, s, &err), err);
                (void)start_task(&slots[s], tokenizer, file, every);
            }
        }
        const size_t n = lay_out(slots, rows, last);
        more = n != 0;
        if (more) {
            REQUIRE_OK(lk_context_decode(context, rows, n, NULL, &err), err);
        }
        for (int32_t s = 0; s < N_SLOTS; s++) {
            const float *logits = NULL;
            if (slots[s].task != NULL) {
                REQUIRE_OK(lk_context_logits(context, last[s], &logits, &err), err);
                if (take_token(&slots[s], tokenizer, logits, n_vocab)) {
                    finish_task(&slots[s], &total);
                }
            }
        }
    }
    free(rows);
    free(slots);
    lk_context_destroy(context);
    return total;
}

int main(void) {
    const char *tasks_path = lk_test_shared("models/tasks.jsonl");
    const char *every_text = getenv("LK_TASKS_EVERY");
    if (getenv("LK_FULL") == NULL && every_text == NULL) {
        (void)printf("held-out tasks run with LK_FULL=1 (make test-full) only\n");
        return 0;
    }
    if (tasks_path == NULL) {
        lk_test_skip("the shared references are absent");
    }
    FILE *file = fopen(tasks_path, "r");
    lk_model *model = golden_open(lk_test_shared("models/small-q8_0.gguf"));
    const score total =
        run_tasks(model, file, every_text != NULL ? (uint32_t)strtoul(every_text, NULL, 10) : 1);
    const double percent = 100.0 * total.n_right / total.n_asked;
    (void)printf("tasks: %d of %d right, %.1f per cent (card: 1023 of 1338, 76.5)\n", total.n_right,
                 total.n_asked, percent);
    if (every_text == NULL) {
        CHECK(total.n_asked == 1338);
        CHECK(percent >= 76.5 - 3.0 && percent <= 76.5 + 3.0);
    }
    (void)fclose(file);
    lk_model_close(model);
    return lk_test_failures() == 0 ? 0 : 1;
}

/* test_chat_templates.c - chat templates against the models' own software: prompts, every row of
 * the shared references where that folder is present, and always a sample of them in tests/data;
 * the language, piece by piece; token ids of whole conversations. */
#include <jansson.h>
#include <stdbool.h>

#include "lk/chat.h"
#include "lk_test.h"

#define NOON_2024_07_26 INT64_C(1721995200) /* what strftime_now answers in the references */

static lk_chat_template *open_template(const char *folder, const char *name, bool shared) {
    char path[512];
    size_t n = 0;
    lk_chat_template *t = NULL;
    lk_error err = {.message = ""};
    (void)snprintf(path, sizeof path, "%s/templates/%s.jinja", folder, name);
    uint8_t *source = lk_test_read(shared ? lk_test_shared(path) : lk_test_data(path), &n);
    const lk_status status = lk_chat_template_create((const char *)source, n, NULL, &t, &err);
    CHECK_MSG(status == LK_OK, "%s: %s", name, err.message);
    free(source);
    return t;
}

static char *dump(const json_t *value) {
    return json_is_null(value) || value == NULL ? NULL : json_dumps(value, JSON_ENSURE_ASCII);
}

/* Renders a row as it stands. */
static lk_status render(const lk_chat_template *t, const json_t *row, lk_chat_prompt **prompt,
                        lk_error *err) {
    lk_chat_params params = LK_CHAT_PARAMS_INIT;
    char *messages = dump(json_object_get(row, "messages"));
    char *tools = dump(json_object_get(row, "tools"));
    char *extra = dump(json_object_get(row, "extra"));
    params.messages = messages;
    params.n_messages = strlen(messages);
    params.tools = tools;
    params.n_tools = tools != NULL ? strlen(tools) : 0;
    params.variables = extra;
    params.n_variables = extra != NULL ? strlen(extra) : 0;
    params.bos_token = json_string_value(json_object_get(row, "bos_token"));
    params.n_bos_token = json_string_length(json_object_get(row, "bos_token"));
    params.n_eos_token = json_string_length(json_object_get(row, "eos_token"));
    params.eos_token = json_string_value(json_object_get(row, "eos_token"));
    params.local_time_s = NOON_2024_07_26;
    params.flags = LK_CHAT_AS_GIVEN;
    if (json_is_true(json_object_get(row, "add_generation_prompt"))) {
        params.flags |= LK_CHAT_GENERATION_PROMPT;
    }
    const lk_status status = lk_chat_render(t, &params, prompt, err);
    free(messages);
    free(tools);
    free(extra);
    return status;
}

/* Shows where two texts part. */
static void show_difference(const char *got, const char *wanted) {
    size_t i = 0;
    while (got[i] != '\0' && got[i] == wanted[i]) {
        i++;
    }
    const size_t from = i > 60 ? i - 60 : 0;
    (void)fprintf(stderr, "    got:      ...%.160s\n    expected: ...%.160s\n", got + from,
                  wanted + from);
}

static bool row_agrees(const lk_chat_template *t, const json_t *row) {
    const char *expected = json_string_value(json_object_get(row, "expected"));
    const char *refusal = json_string_value(json_object_get(row, "error"));
    lk_chat_prompt *prompt = NULL;
    lk_error err = {.message = ""};
    const lk_status status = render(t, row, &prompt, &err);
    bool agrees = false;
    size_t n = 0;
    if (refusal != NULL) {
        agrees = status == LK_E_REFUSED && strcmp(err.message, refusal) == 0;
    } else if (status == LK_OK) {
        const char *text = lk_chat_prompt_text(prompt, &n);
        const size_t n_expected = json_string_length(json_object_get(row, "expected"));
        agrees = n == n_expected && memcmp(text, expected, n) == 0;
    }
    if (!agrees) {
        (void)fprintf(stderr, "%s / %s: %s %s\n",
                      json_string_value(json_object_get(row, "template")),
                      json_string_value(json_object_get(row, "case")), lk_status_name(status),
                      status != LK_OK ? err.message : "");
        if (status == LK_OK && expected != NULL) {
            show_difference(lk_chat_prompt_text(prompt, &n), expected);
        }
    }
    lk_chat_prompt_close(prompt);
    return agrees;
}

/* Every row of a file; rows of one template follow each other. */
static void check_file(const char *folder, const char *file, bool shared, size_t n_wanted) {
    char path[512];
    char name[128] = "";
    size_t size = 0, n_rows = 0, n_agree = 0;
    lk_chat_template *t = NULL;
    (void)snprintf(path, sizeof path, "%s/%s", folder, file);
    char *data = (char *)lk_test_read(shared ? lk_test_shared(path) : lk_test_data(path), &size);
    for (char *line = data, *next = NULL; line != NULL && *line != '\0'; line = next) {
        next = strchr(line, '\n');
        if (next != NULL) {
            *next++ = '\0';
        }
        json_t *row = json_loads(line, JSON_ALLOW_NUL, NULL);
        CHECK(row != NULL);
        const char *wanted = json_string_value(json_object_get(row, "template"));
        if (strcmp(name, wanted) != 0) {
            lk_chat_template_close(t);
            (void)snprintf(name, sizeof name, "%s", wanted);
            t = open_template(folder, name, shared);
        }
        n_rows++;
        n_agree += t != NULL && row_agrees(t, row);
        json_decref(row);
    }
    lk_chat_template_close(t);
    free(data);
    (void)printf("%s: %zu of %zu rows agree\n", file, n_agree, n_rows);
    CHECK(n_agree == n_rows);
    CHECK(n_rows >= n_wanted);
}

static void check_shared(const char *file, size_t n_wanted) {
    if (lk_test_shared("refs/chat-templates") == NULL) {
        (void)printf("the shared references are not there\n");
        return;
    }
    check_file("refs/chat-templates", file, true, n_wanted);
}

LK_TEST(sample_renders) {
    check_file("chat-templates", "cases.jsonl", false, 87);
}

LK_TEST(shared_renders) {
    check_shared("cases.jsonl", 1715);
}

/* Rows on which another engine than Python's differs or fails. */
LK_TEST(shared_unconfirmed_renders) {
    check_shared("cases_unconfirmed.jsonl", 123);
}

/* ---- the language ---- */

static bool piece_agrees(const char *source, const char *expected, size_t n_expected,
                         const char *variables) {
    lk_chat_params params = LK_CHAT_PARAMS_INIT;
    lk_chat_template *t = NULL;
    lk_chat_prompt *prompt = NULL;
    lk_error err = {.message = ""};
    size_t n = 0;
    params.messages = "[]";
    params.n_messages = 2;
    params.variables = variables;
    params.n_variables = strlen(variables);
    params.local_time_s = NOON_2024_07_26;
    params.flags = LK_CHAT_AS_GIVEN;
    lk_status status = lk_chat_template_create(source, strlen(source), NULL, &t, &err);
    if (status == LK_OK) {
        status = lk_chat_render(t, &params, &prompt, &err);
    }
    bool agrees = expected == NULL && status != LK_OK && err.message[0] != '\0';
    if (expected != NULL && status == LK_OK) {
        const char *text = lk_chat_prompt_text(prompt, &n);
        agrees = n == n_expected && memcmp(text, expected, n) == 0;
    }
    if (!agrees) {
        (void)fprintf(stderr, "%s\n    got:      %s %s\n    expected: %s\n", source,
                      lk_status_name(status),
                      status == LK_OK ? lk_chat_prompt_text(prompt, &n) : err.message,
                      expected != NULL ? expected : "a failure");
    }
    lk_chat_prompt_close(prompt);
    lk_chat_template_close(t);
    return agrees;
}

/* The rows of a .jsonl file in tests/data, as a list. */
static json_t *read_rows(const char *name) {
    size_t size = 0;
    char *data = (char *)lk_test_read(lk_test_data(name), &size);
    json_t *rows = json_array();
    for (char *line = data, *next = NULL; line != NULL && *line != '\0'; line = next) {
        next = strchr(line, '\n');
        if (next != NULL) {
            *next++ = '\0';
        }
        (void)json_array_append_new(rows, json_loads(line, JSON_ALLOW_NUL, NULL));
    }
    free(data);
    return rows;
}

LK_TEST(language) {
    json_t *rows = read_rows("chat-templates/language.jsonl");
    size_t size = 0, n_agree = 0;
    char *variables =
        (char *)lk_test_read(lk_test_data("chat-templates/language.variables.json"), &size);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const json_t *expected = json_object_get(row, "expected");
        n_agree +=
            piece_agrees(json_string_value(json_object_get(row, "template")),
                         json_string_value(expected), json_string_length(expected), variables);
    }
    (void)printf("%zu of %zu pieces agree\n", n_agree, json_array_size(rows));
    CHECK(n_agree == json_array_size(rows));
    CHECK(n_agree >= 649);
    free(variables);
    json_decref(rows);
}

/* ---- token ids ---- */

static bool same_ids(const lk_chat_prompt *prompt, const lk_tokenizer *tokenizer, uint32_t flags,
                     const json_t *expected) {
    size_t n_text = 0, n = 0;
    lk_error err = {.message = ""};
    (void)lk_chat_prompt_text(prompt, &n_text);
    const size_t capacity = LK_IDS_BOUND(n_text);
    int32_t *ids = malloc(capacity * sizeof *ids);
    const lk_status status =
        lk_chat_prompt_encode(prompt, tokenizer, flags, ids, capacity, &n, &err);
    bool same = status == LK_OK && n == json_array_size(expected);
    for (size_t i = 0; same && i < n; i++) {
        same = ids[i] == json_integer_value(json_array_get(expected, i));
    }
    free(ids);
    return same;
}

/* The ids of the model's own software, which reads special tokens in messages too. Without that
 * only conversations with such texts differ. */
static void check_ids_row(const lk_chat_template *t, const lk_tokenizer *tokenizer,
                          const json_t *row) {
    const char *name = json_string_value(json_object_get(row, "case"));
    lk_chat_prompt *prompt = NULL;
    lk_error err = {.message = ""};
    const lk_status status = render(t, row, &prompt, &err);
    CHECK_MSG(status == LK_OK, "%s: %s", name, err.message);
    if (status == LK_OK) {
        const json_t *ids = json_object_get(row, "ids");
        const bool is_lookalike = json_is_true(json_object_get(row, "special_in_message"));
        CHECK_MSG(strcmp(lk_chat_prompt_text(prompt, NULL),
                         json_string_value(json_object_get(row, "expected"))) == 0,
                  "%s: another prompt", name);
        CHECK_MSG(same_ids(prompt, tokenizer, LK_CHAT_PARSE_SPECIAL, ids), "%s: other ids", name);
        CHECK_MSG(same_ids(prompt, tokenizer, 0, ids) == !is_lookalike,
                  "%s: a special token in a message", name);
    }
    lk_chat_prompt_close(prompt);
}

/* Rows of one vocabulary, whose file also has the template. */
static void check_ids(const char *path, const json_t *rows, const char *tokenizer_name,
                      size_t n_wanted) {
    lk_gguf *gguf = NULL;
    lk_tokenizer *tokenizer = NULL;
    lk_chat_template *t = NULL;
    lk_error err = {.message = ""};
    size_t n_rows = 0;
    REQUIRE_OK(lk_gguf_open(path, NULL, &gguf, &err), err);
    REQUIRE_OK(lk_tokenizer_open(path, NULL, &tokenizer, &err), err);
    REQUIRE_OK(lk_chat_template_open(gguf, NULL, NULL, &t, &err), err);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (strcmp(json_string_value(json_object_get(row, "tokenizer")), tokenizer_name) == 0) {
            check_ids_row(t, tokenizer, row);
            n_rows++;
        }
    }
    (void)printf("%s: %zu conversations\n", tokenizer_name, n_rows);
    CHECK(n_rows == n_wanted);
    lk_chat_template_close(t);
    lk_tokenizer_close(tokenizer);
    lk_gguf_close(gguf);
}

LK_TEST(tiny_ids) {
    json_t *rows = read_rows("chat-templates/ids_tiny.jsonl");
    check_ids(lk_test_data("models/tiny-q4_k_m.gguf"), rows, "tiny", 26);
    json_decref(rows);
}

LK_TEST(shared_ids) {
    static const struct {
        const char *name;
        size_t n_rows;
    } tokenizers[] = {{"qwen3", 25}, {"llama3", 23}, {"deepseek_v3", 25}, {"gemma3", 18}};
    json_t *rows = read_rows("chat-templates/ids_shared.jsonl");
    for (size_t i = 0; i < sizeof tokenizers / sizeof tokenizers[0]; i++) {
        char path[128];
        (void)snprintf(path, sizeof path, "refs/tokenizers/%s.vocab.gguf", tokenizers[i].name);
        const char *shared = lk_test_shared(path);
        if (shared != NULL) {
            check_ids(shared, rows, tokenizers[i].name, tokenizers[i].n_rows);
        }
    }
    json_decref(rows);
}

LK_TEST_MAIN(LK_RUN(sample_renders), LK_RUN(shared_renders), LK_RUN(shared_unconfirmed_renders),
             LK_RUN(language), LK_RUN(tiny_ids), LK_RUN(shared_ids))

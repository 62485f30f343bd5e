/* server_transcribe.c - /v1/audio/transcriptions: a form with a recording becomes a chat that asks
 * for its words, greedily unless a temperature is given; the answer is its text. There are no
 * timestamps: the model gives none, and none are made up. */
#include <stdlib.h>
#include <string.h>

#include "server_media.h"

enum { MAX_FIELD_BYTES = 65536, N_FIELDS = 9 };

static const char default_prompt[] = "Transcribe the following audio.";

typedef enum transcript_format {
    TRANSCRIPT_JSON,
    TRANSCRIPT_TEXT,
    TRANSCRIPT_VERBOSE
} transcript_format;

struct server_transcript {
    transcript_format format;
    char language[32]; /* as it was given */
};

/* The fields of the form that are known; all others are left alone. */
typedef enum field_id {
    FIELD_MODEL,
    FIELD_PROMPT,
    FIELD_FORMAT,
    FIELD_TEMPERATURE,
    FIELD_LANGUAGE,
    FIELD_STREAM,
    FIELD_GRANULARITIES,
    FIELD_INCLUDE,
    FIELD_SEED
} field_id;

static const char *const field_names[N_FIELDS] = {
    "model",    "prompt", "response_format",           "temperature",
    "language", "stream", "timestamp_granularities[]", "include[]",
    "seed"};

typedef struct form {
    lk_buffer file;
    lk_buffer fields[N_FIELDS];
    bool has_file;
    bool is_short_of_memory;
    const char *too_long; /* a field's name */
} form;

static enum MHD_Result on_field(void *ctx, enum MHD_ValueKind kind, const char *key,
                                const char *filename, const char *content_type,
                                const char *transfer_encoding, const char *data, uint64_t offset,
                                size_t n) {
    form *f = ctx;
    (void)kind;
    (void)filename;
    (void)content_type;
    (void)transfer_encoding;
    (void)offset;
    lk_buffer *buffer = NULL;
    if (strcmp(key, "file") == 0) {
        f->has_file = true;
        buffer = &f->file;
    }
    for (size_t i = 0; i < N_FIELDS && buffer == NULL; i++) {
        if (strcmp(key, field_names[i]) == 0) {
            buffer = &f->fields[i];
            if (n > MAX_FIELD_BYTES - buffer->n) {
                f->too_long = field_names[i];
                return MHD_NO;
            }
        }
    }
    if (buffer != NULL && !lk_buffer_add(buffer, data, n)) {
        f->is_short_of_memory = true;
        return MHD_NO;
    }
    return MHD_YES;
}

static void form_free(form *f) {
    free(f->file.data);
    for (size_t i = 0; i < N_FIELDS; i++) {
        free(f->fields[i].data);
    }
}

static bool read_form(exchange *x, form *f, serve_problem *problem) {
    struct MHD_PostProcessor *processor =
        MHD_create_post_processor(x->connection, 65536, on_field, f);
    if (processor == NULL) {
        return serve_fail(
            problem, 400, "invalid_type", NULL,
            "the body must be multipart/form-data with the fields 'file' and 'model'");
    }
    bool ok = x->n_body == 0 || MHD_post_process(processor, x->body, x->n_body) == MHD_YES;
    ok = MHD_destroy_post_processor(processor) == MHD_YES && ok;
    free(x->body);
    x->body = NULL;
    x->n_body = 0;
    if (f->too_long != NULL) {
        return serve_fail(problem, 400, "out_of_range", f->too_long, "'%s' has more than %d bytes",
                          f->too_long, MAX_FIELD_BYTES);
    }
    if (f->is_short_of_memory) {
        return serve_fail(problem, 500, "out_of_memory", NULL, "out of memory for the form");
    }
    if (!ok) {
        return serve_fail(problem, 400, "invalid_value", NULL,
                          "the body is no complete multipart/form-data");
    }
    if (!f->has_file || f->file.n == 0) {
        return serve_fail(problem, 400, "missing_parameter", "file",
                          f->has_file ? "'file' is empty" : "'file' is missing");
    }
    return true;
}

/* A field as a string; empty when it is not there, and false when it holds a zero byte. */
static bool field_string(form *f, field_id id, const char **text, serve_problem *problem) {
    lk_buffer *buffer = &f->fields[id];
    *text = "";
    if (buffer->n == 0) {
        return true;
    }
    if (memchr(buffer->data, '\0', buffer->n) != NULL) {
        return serve_fail(problem, 400, "invalid_value", field_names[id], "'%s' holds a zero byte",
                          field_names[id]);
    }
    if (!lk_buffer_add(buffer, "", 1)) {
        return serve_fail(problem, 500, "out_of_memory", NULL, "out of memory for the form");
    }
    *text = buffer->data;
    return true;
}

static bool read_format(form *f, struct server_transcript *t, serve_problem *problem) {
    static const char *const names[] = {"json", "text", "verbose_json"};
    const char *given = NULL;
    if (!field_string(f, FIELD_FORMAT, &given, problem)) {
        return false;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(given, names[i]) == 0 || given[0] == '\0') {
            t->format = (transcript_format)i;
            return true;
        }
    }
    return serve_fail(problem, 400, "unsupported_value", "response_format",
                      "'response_format' is '%.32s', expected json, text or verbose_json; the "
                      "model gives no timestamps",
                      given);
}

/* Fields that ask for what cannot be given. */
static bool check_unsupported(form *f, serve_problem *problem) {
    static const field_id refused[] = {FIELD_STREAM, FIELD_GRANULARITIES, FIELD_INCLUDE};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const char *given = NULL;
        if (!field_string(f, refused[i], &given, problem)) {
            return false;
        }
        if (given[0] != '\0' && strcmp(given, "false") != 0) {
            return serve_fail(problem, 400, "unsupported_parameter", field_names[refused[i]],
                              "'%s' is not supported by this server", field_names[refused[i]]);
        }
    }
    return true;
}

/* A number of the form, as JSON; an absent one is `absent`. */
static json_t *number(const char *text, json_t *absent, const char *name, serve_problem *problem) {
    if (text[0] == '\0') {
        return absent;
    }
    json_decref(absent);
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
    if (!json_is_number(value)) {
        json_decref(value);
        (void)serve_fail(problem, 400, "invalid_type", name, "'%s' is '%.32s', expected a number",
                         name, text);
        return NULL;
    }
    return value;
}

/* The chat as a request of its own: the text of its JSON. */
static char *make_chat(form *f, serve_problem *problem) {
    const char *model = NULL;
    const char *prompt = NULL;
    const char *temperature = NULL;
    const char *seed = NULL;
    if (!field_string(f, FIELD_MODEL, &model, problem) ||
        !field_string(f, FIELD_PROMPT, &prompt, problem) ||
        !field_string(f, FIELD_TEMPERATURE, &temperature, problem) ||
        !field_string(f, FIELD_SEED, &seed, problem)) {
        return NULL;
    }
    json_t *warmth = number(temperature, json_integer(0), "temperature", problem);
    json_t *start = warmth != NULL ? number(seed, json_integer(0), "seed", problem) : NULL;
    if (start == NULL) {
        json_decref(warmth);
        return NULL;
    }
    json_t *text = server_text(prompt[0] != '\0' ? prompt : default_prompt,
                               strlen(prompt[0] != '\0' ? prompt : default_prompt));
    json_t *root = json_pack("{s:[{s:s, s:[{s:s}, {s:s, s:o}]}], s:o, s:o}", "messages", "role",
                             "user", "content", "type", "audio", "type", "text", "text", text,
                             "temperature", warmth, "seed", start);
    if (root != NULL && model[0] != '\0') {
        (void)json_object_set_new(root, "model", server_text(model, strlen(model)));
    }
    char *dumped = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (dumped == NULL) {
        (void)serve_fail(problem, 500, "out_of_memory", NULL, "out of memory for the form");
    }
    return dumped;
}

static bool take_form(exchange *x, form *f, serve_clips *clips, serve_problem *problem) {
    const char *language = NULL;
    if (!read_form(x, f, problem) || !read_format(f, x->transcript, problem) ||
        !check_unsupported(f, problem) || !field_string(f, FIELD_LANGUAGE, &language, problem)) {
        return false;
    }
    if (strlen(language) >= sizeof x->transcript->language) {
        return serve_fail(problem, 400, "invalid_value", "language",
                          "'language' is a code such as 'en'");
    }
    memcpy(x->transcript->language, language, strlen(language) + 1);
    x->body = make_chat(f, problem);
    if (x->body == NULL) {
        return false;
    }
    x->n_body = strlen(x->body);
    clips->items[0].bytes = (uint8_t *)f->file.data;
    clips->items[0].n = f->file.n;
    clips->n = 1;
    f->file.data = NULL;
    return true;
}

enum MHD_Result server_transcriptions(exchange *x) {
    serve_problem problem;
    if (x->job != NULL) {
        return server_generate(x, SERVE_CHAT, NULL); /* woken */
    }
    x->transcript = calloc(1, sizeof *x->transcript);
    if (x->transcript == NULL) {
        return MHD_NO;
    }
    form f = {.has_file = false};
    serve_clips clips = {.n = 0};
    const bool ok = take_form(x, &f, &clips, &problem);
    form_free(&f);
    return ok ? server_generate(x, SERVE_CHAT, &clips) : server_reply_problem(x, &problem);
}

enum MHD_Result server_reply_transcript(exchange *x) {
    const serve_choice *choice = &x->job->choices[0];
    const struct server_transcript *t = x->transcript;
    if (choice->finish == LK_FINISH_LENGTH) {
        serve_problem problem;
        (void)serve_fail(&problem, 400, "context_length_exceeded", "file",
                         "the transcript does not fit in the model's context");
        return server_reply_problem(x, &problem);
    }
    if (t->format == TRANSCRIPT_TEXT) {
        lk_buffer text = {0};
        if (!lk_buffer_add(&text, choice->text.n != 0 ? choice->text.data : "", choice->text.n) ||
            !lk_buffer_add(&text, "\n", 1)) {
            free(text.data);
            return MHD_NO;
        }
        return server_reply_text(x, MHD_HTTP_OK, "text/plain; charset=utf-8", text.data, text.n,
                                 false);
    }
    json_t *answer = json_pack("{s:o}", "text", server_text(choice->text.data, choice->text.n));
    if (t->format == TRANSCRIPT_VERBOSE) {
        (void)json_object_set_new(answer, "task", json_string("transcribe"));
        (void)json_object_set_new(answer, "duration", json_real(x->job->clip_seconds));
        if (t->language[0] != '\0') {
            (void)json_object_set_new(answer, "language",
                                      server_text(t->language, strlen(t->language)));
        }
    }
    return server_reply_json(x, MHD_HTTP_OK, answer);
}

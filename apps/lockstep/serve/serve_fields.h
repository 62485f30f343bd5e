/* serve_fields.h - reading the fields of a JSON object, each with its type and range. A field that
 * is absent or null leaves the value as it was. What does not fit becomes a problem that names the
 * field, what was found and what was expected. */
#ifndef LK_SERVE_FIELDS_H
#define LK_SERVE_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* What is told to a client instead of an answer: the error object of OpenAI's API. */
typedef struct serve_problem {
    int status;       /* of HTTP */
    const char *type; /* static: "invalid_request_error", ... */
    const char *code; /* static, or NULL */
    char param[64];   /* the field, or "" */
    char message[512];
} serve_problem;

/* Fills a problem and returns false. */
bool serve_fail(serve_problem *problem, int status, const char *code, const char *param,
                const char *format, ...) __attribute__((format(printf, 5, 6)));

bool field_int(const json_t *object, const char *name, int64_t min, int64_t max, int64_t *value,
               serve_problem *problem);
bool field_real(const json_t *object, const char *name, double min, double max, double *value,
                serve_problem *problem);
bool field_bool(const json_t *object, const char *name, bool *value, serve_problem *problem);
/* Borrowed from the object. At most max_bytes. */
bool field_text(const json_t *object, const char *name, size_t max_bytes, const char **value,
                serve_problem *problem);
/* Whether a text is one of those in "this|that". */
bool field_is_one_of(const char *text, const char *list);
/* "a string", "an object", ... */
const char *field_kind(const json_t *value);

#endif

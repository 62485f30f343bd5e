/* serve_fields.c - see serve_fields.h. */
#include "serve_fields.h"

#include <string.h>

const char *field_kind(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a number";
    case JSON_NULL:
        return "null";
    default:
        return "a boolean";
    }
}

static bool fail_kind(serve_problem *problem, const char *name, const char *wanted,
                      const json_t *value) {
    return serve_fail(problem, 400, "invalid_type", name, "'%s' must be %s, not %s", name, wanted,
                      field_kind(value));
}

/* The field, or NULL when it is absent or null. */
static const json_t *find(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    return json_is_null(value) ? NULL : value;
}

bool field_int(const json_t *object, const char *name, int64_t min, int64_t max, int64_t *value,
               serve_problem *problem) {
    const json_t *found = find(object, name);
    if (found == NULL) {
        return true;
    }
    if (!json_is_integer(found)) {
        return fail_kind(problem, name, "an integer", found);
    }
    const int64_t number = json_integer_value(found);
    if (number < min || number > max) {
        return serve_fail(problem, 400, "out_of_range", name, "'%s' is %lld, expected %lld .. %lld",
                          name, (long long)number, (long long)min, (long long)max);
    }
    *value = number;
    return true;
}

bool field_real(const json_t *object, const char *name, double min, double max, double *value,
                serve_problem *problem) {
    const json_t *found = find(object, name);
    if (found == NULL) {
        return true;
    }
    if (!json_is_number(found)) {
        return fail_kind(problem, name, "a number", found);
    }
    const double number = json_number_value(found);
    if (!(number >= min && number <= max)) {
        return serve_fail(problem, 400, "out_of_range", name, "'%s' is %g, expected %g .. %g", name,
                          number, min, max);
    }
    *value = number;
    return true;
}

bool field_bool(const json_t *object, const char *name, bool *value, serve_problem *problem) {
    const json_t *found = find(object, name);
    if (found == NULL) {
        return true;
    }
    if (!json_is_boolean(found)) {
        return fail_kind(problem, name, "a boolean", found);
    }
    *value = json_is_true(found);
    return true;
}

bool field_text(const json_t *object, const char *name, size_t max_bytes, const char **value,
                serve_problem *problem) {
    const json_t *found = find(object, name);
    if (found == NULL) {
        return true;
    }
    if (!json_is_string(found)) {
        return fail_kind(problem, name, "a string", found);
    }
    if (json_string_length(found) > max_bytes) {
        return serve_fail(problem, 400, "out_of_range", name, "'%s' has %zu bytes, at most %zu",
                          name, json_string_length(found), max_bytes);
    }
    *value = json_string_value(found);
    return true;
}

bool field_is_one_of(const char *text, const char *list) {
    const size_t n = strlen(text);
    for (const char *c = list; *c != '\0'; c += strcspn(c, "|"), c += *c == '|') {
        if (strcspn(c, "|") == n && strncmp(c, text, n) == 0) {
            return true;
        }
    }
    return false;
}

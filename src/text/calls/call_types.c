/* call_types.c - see call_types.h. */
#include "text/calls/call_types.h"

#include <string.h>

enum { MAX_DEPTH = 16, MAX_WORK = 4096 };

/* The schema of a tool's arguments, and how much may still be looked at. */
typedef struct looker {
    const lk_json *json;
    uint32_t root;
    int work;
} looker;

unsigned lk_call_type_of(const lk_json *json, uint32_t value) {
    switch (json->values[value].type) {
    case LK_JSON_NULL:
        return LK_CALL_NULL;
    case LK_JSON_FALSE:
    case LK_JSON_TRUE:
        return LK_CALL_BOOLEAN;
    case LK_JSON_NUMBER:
        return LK_CALL_NUMBER;
    case LK_JSON_STRING:
        return LK_CALL_STRING;
    case LK_JSON_ARRAY:
        return LK_CALL_ARRAY;
    case LK_JSON_OBJECT:
        return LK_CALL_OBJECT;
    }
    return 0;
}

unsigned lk_call_type_named(const char *name, size_t n) {
    static const struct {
        const char *name;
        unsigned type;
    } types[] = {{"null", LK_CALL_NULL},     {"boolean", LK_CALL_BOOLEAN},
                 {"number", LK_CALL_NUMBER}, {"integer", LK_CALL_NUMBER},
                 {"string", LK_CALL_STRING}, {"array", LK_CALL_ARRAY},
                 {"object", LK_CALL_OBJECT}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strlen(types[i].name) == n && memcmp(types[i].name, name, n) == 0) {
            return types[i].type;
        }
    }
    return 0;
}

static unsigned named(const lk_json *j, uint32_t value) {
    size_t n = 0;
    if (j->values[value].type != LK_JSON_STRING) {
        return 0;
    }
    const char *name = lk_json_text(j, value, &n);
    return lk_call_type_named(name, n);
}

/* The types that are listed, or named; all where that says nothing. */
static unsigned of_type(const lk_json *j, uint32_t type) {
    unsigned all = named(j, type);
    if (j->values[type].type == LK_JSON_ARRAY) {
        for (uint32_t v = j->values[type].first; v != 0; v = j->values[v].next) {
            all |= named(j, v);
        }
    }
    return all != 0 ? all : LK_CALL_ANY;
}

static unsigned of_values(const lk_json *j, uint32_t list) {
    unsigned all = 0;
    for (uint32_t v = j->values[list].first; v != 0; v = j->values[v].next) {
        all |= lk_call_type_of(j, v);
    }
    return all != 0 ? all : LK_CALL_ANY;
}

/* What "#/a/b" points to inside the schema; 0: nothing that is found. */
static uint32_t resolve(const looker *l, uint32_t ref) {
    size_t n = 0;
    const char *text = lk_json_text(l->json, ref, &n);
    uint32_t at = l->root;
    if (l->json->values[ref].type != LK_JSON_STRING || n == 0 || text[0] != '#') {
        return 0;
    }
    for (size_t i = 1; i < n && at != 0;) {
        const size_t begin = i + 1;
        for (i = begin; i < n && text[i] != '/'; i++) {
        }
        at = text[begin - 1] == '/' ? lk_json_find_bytes(l->json, at, text + begin, i - begin) : 0;
    }
    return at;
}

static unsigned of_schema(looker *l, uint32_t schema, int depth);

static unsigned of_branches(looker *l, uint32_t list, int depth) {
    unsigned all = 0;
    for (uint32_t v = l->json->values[list].first; v != 0; v = l->json->values[v].next) {
        all |= of_schema(l, v, depth);
    }
    return all != 0 ? all : LK_CALL_ANY;
}

static unsigned of_schema(looker *l, uint32_t schema, int depth) {
    const lk_json *j = l->json;
    unsigned all = LK_CALL_ANY;
    if (depth == 0 || l->work-- <= 0 || j->values[schema].type != LK_JSON_OBJECT) {
        return all;
    }
    const uint32_t type = lk_json_find(j, schema, "type");
    const uint32_t list = lk_json_find(j, schema, "enum");
    const uint32_t one = lk_json_find(j, schema, "const");
    const uint32_t ref = lk_json_find(j, schema, "$ref");
    const uint32_t any = lk_json_find(j, schema, "anyOf");
    const uint32_t either = lk_json_find(j, schema, "oneOf");
    const uint32_t each = lk_json_find(j, schema, "allOf");
    const uint32_t target = ref != 0 ? resolve(l, ref) : 0;
    all &= type != 0 ? of_type(j, type) : LK_CALL_ANY;
    all &= list != 0 ? of_values(j, list) : LK_CALL_ANY;
    all &= one != 0 ? lk_call_type_of(j, one) : LK_CALL_ANY;
    all &= target != 0 ? of_schema(l, target, depth - 1) : LK_CALL_ANY;
    all &= any != 0 ? of_branches(l, any, depth - 1) : LK_CALL_ANY;
    all &= either != 0 ? of_branches(l, either, depth - 1) : LK_CALL_ANY;
    for (uint32_t v = each != 0 ? j->values[each].first : 0; v != 0; v = j->values[v].next) {
        all &= of_schema(l, v, depth - 1);
    }
    return all != 0 ? all : LK_CALL_ANY;
}

/* A branch that declares arguments, but not this one. */
static bool leaves_out(const lk_json *j, uint32_t schema, const char *name, size_t n) {
    const uint32_t properties = lk_json_find(j, schema, "properties");
    return properties != 0 && lk_json_find_bytes(j, properties, name, n) == 0 &&
           lk_json_find(j, schema, "additionalProperties") == 0;
}

/* What the schema of the arguments says of one of them, wherever it says so. */
static unsigned of_argument(looker *l, uint32_t schema, const char *name, size_t n, int depth) {
    const lk_json *j = l->json;
    if (depth == 0 || l->work-- <= 0 || j->values[schema].type != LK_JSON_OBJECT) {
        return LK_CALL_ANY;
    }
    const uint32_t properties = lk_json_find(j, schema, "properties");
    const uint32_t own = properties != 0 ? lk_json_find_bytes(j, properties, name, n) : 0;
    const uint32_t others = lk_json_find(j, schema, "additionalProperties");
    const uint32_t ref = lk_json_find(j, schema, "$ref");
    const uint32_t target = ref != 0 ? resolve(l, ref) : 0;
    static const char *const lists[] = {"anyOf", "oneOf", "allOf"};
    unsigned all = own != 0      ? of_schema(l, own, MAX_DEPTH)
                   : others != 0 ? of_schema(l, others, MAX_DEPTH)
                                 : LK_CALL_ANY;
    all &= target != 0 ? of_argument(l, target, name, n, depth - 1) : LK_CALL_ANY;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        const uint32_t list = lk_json_find(j, schema, lists[i]);
        unsigned branches = i == 2 ? LK_CALL_ANY : 0;
        for (uint32_t v = list != 0 ? j->values[list].first : 0; v != 0; v = j->values[v].next) {
            if (i == 2 || !leaves_out(j, v, name, n)) {
                const unsigned branch = of_argument(l, v, name, n, depth - 1);
                branches = i == 2 ? branches & branch : branches | branch;
            }
        }
        all &= list != 0 && branches != 0 ? branches : LK_CALL_ANY;
    }
    return all != 0 ? all : LK_CALL_ANY;
}

unsigned lk_call_types(const lk_json *tools, const char *tool, size_t n_tool, const char *argument,
                       size_t n_argument) {
    if (tools->n_values == 0) {
        return LK_CALL_ANY;
    }
    for (uint32_t v = tools->values[0].first; v != 0; v = tools->values[v].next) {
        const uint32_t wrapped = lk_json_find(tools, v, "function");
        const uint32_t function = wrapped != 0 ? wrapped : v;
        const uint32_t name = lk_json_find(tools, function, "name");
        const uint32_t parameters = lk_json_find(tools, function, "parameters");
        if (name != 0 && parameters != 0 && tools->values[name].type == LK_JSON_STRING &&
            tools->values[name].n_text == n_tool &&
            memcmp(tools->text + tools->values[name].text, tool, n_tool) == 0) {
            looker l = {tools, parameters, MAX_WORK};
            return of_argument(&l, parameters, argument, n_argument, MAX_DEPTH);
        }
    }
    return LK_CALL_ANY;
}

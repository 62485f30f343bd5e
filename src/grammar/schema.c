/* schema.c - sets of schemas become rules: $ref and allOf are resolved, anyOf and oneOf become
 * alternatives, and what is left is a value of some types (schema_types.c). */
#include "grammar/schema.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "grammar/schema_internal.h"

/* ---- failures ---- */

/* Writes the JSON pointer of a value (and a keyword of it) as far as there is room. */
static void write_pointer(const lk_schema *s, uint32_t value, const char *keyword, char *out,
                          size_t capacity) {
    uint32_t path[LK_SCHEMA_MAX_DEPTH + 1];
    size_t n_path = 0;
    size_t n = 0;
    for (uint32_t v = value; v != 0; v = s->json.values[v].parent) {
        path[n_path++] = v;
    }
    out[0] = '\0';
    while (n_path > 0 && n + 1 < capacity) {
        const uint32_t v = path[--n_path];
        const lk_json_value *parent = &s->json.values[s->json.values[v].parent];
        if (parent->type == LK_JSON_ARRAY) {
            unsigned long index = 0;
            for (uint32_t i = parent->first; i != v; i = s->json.values[i].next) {
                index++;
            }
            n += (size_t)snprintf(out + n, capacity - n, "/%lu", index);
            continue;
        }
        size_t n_key = 0;
        const char *key = lk_json_key(&s->json, v, &n_key);
        out[n++] = '/';
        for (size_t i = 0; i < n_key && n + 3 < capacity; i++) {
            if (key[i] == '~' || key[i] == '/') {
                out[n++] = '~';
                out[n++] = key[i] == '~' ? '0' : '1';
            } else {
                out[n++] = key[i];
            }
        }
        out[n] = '\0';
    }
    if (keyword != NULL && n < capacity) {
        (void)snprintf(out + n, capacity - n, "/%s", keyword);
    }
}

lk_status lk_schema_fail(lk_schema *s, lk_status status, uint32_t value, const char *keyword,
                         const char *format, ...) {
    if (!lk_schema_is_good(s)) {
        return s->b.status;
    }
    char pointer[128];
    char message[300];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    write_pointer(s, value, keyword, pointer, sizeof pointer);
    return lk_grammar_fail(&s->b, status, LK_AT_OFFSET(s->json.values[value].offset, pointer),
                           "schema, %s: %s", pointer[0] != '\0' ? pointer : "the whole", message);
}

/* ---- sets ---- */

uint32_t lk_schema_get(const lk_schema *s, uint32_t item, const char *keyword) {
    return lk_json_find(&s->json, lk_schema_value(item), keyword);
}

static bool has_value(const lk_schema_set *set, uint32_t value) {
    for (uint32_t i = 0; i < set->n; i++) {
        if (lk_schema_value(set->items[i]) == value) {
            return true;
        }
    }
    return false;
}

void lk_schema_add(lk_schema *s, lk_schema_set *set, uint32_t value) {
    if (has_value(set, value)) {
        return;
    }
    if (set->n == LK_SCHEMA_MAX_SET) {
        (void)lk_schema_fail(s, LK_E_LIMIT, value, NULL, "more than %d schemas hold at one place",
                             LK_SCHEMA_MAX_SET);
        return;
    }
    set->items[set->n++] = value * 16;
}

bool lk_schema_is_false(const lk_schema *s, const lk_schema_set *set) {
    for (uint32_t i = 0; i < set->n; i++) {
        if (s->json.values[lk_schema_value(set->items[i])].type == LK_JSON_FALSE) {
            return true;
        }
    }
    return false;
}

/* ---- references ---- */

/* One step of a JSON pointer: the bytes up to the next '/', decoded. */
static size_t read_token(const char *text, size_t n, size_t *pos, char *out, size_t capacity) {
    size_t length = 0;
    while (*pos < n && text[*pos] != '/' && length < capacity) {
        unsigned value = (unsigned char)text[*pos];
        if (value == '%' && *pos + 2 < n + 0 && sscanf(text + *pos + 1, "%2x", &value) == 1) {
            *pos += 2;
        } else if (value == '~' && *pos + 1 < n) {
            (*pos)++;
            value = text[*pos] == '0' ? '~' : text[*pos] == '1' ? '/' : '?';
        }
        out[length++] = (char)value;
        (*pos)++;
    }
    return length;
}

/* The child of an array or object by a step of a pointer; 0: there is none. */
static uint32_t child_of(const lk_json *j, uint32_t value, const char *token, size_t n) {
    if (j->values[value].type == LK_JSON_OBJECT) {
        return lk_json_find_bytes(j, value, token, n);
    }
    if (j->values[value].type != LK_JSON_ARRAY || n == 0 || n > 7) {
        return 0;
    }
    uint32_t index = 0;
    for (size_t i = 0; i < n; i++) {
        if (token[i] < '0' || token[i] > '9') {
            return 0;
        }
        index = index * 10 + (uint32_t)(token[i] - '0');
    }
    uint32_t child = j->values[value].first;
    while (child != 0 && index > 0) {
        child = j->values[child].next;
        index--;
    }
    return child;
}

/* The schema with this $anchor; false when there is none. */
static bool find_anchor(const lk_json *j, const char *name, size_t n, uint32_t *schema) {
    for (uint32_t i = 0; i < j->n_values; i++) {
        const uint32_t anchor = lk_json_find(j, i, "$anchor");
        if (anchor != 0 && j->values[anchor].type == LK_JSON_STRING &&
            j->values[anchor].n_text == n &&
            memcmp(j->text + j->values[anchor].text, name, n) == 0) {
            *schema = i;
            return true;
        }
    }
    return false;
}

uint32_t lk_schema_resolve(lk_schema *s, uint32_t ref) {
    const lk_json *j = &s->json;
    size_t n = 0;
    const char *text = lk_json_text(j, ref, &n);
    const uint32_t id = lk_json_find(j, 0, "$id");
    size_t n_id = 0;
    const char *own =
        id != 0 && j->values[id].type == LK_JSON_STRING ? lk_json_text(j, id, &n_id) : "";
    while (n_id > 0 && own[n_id - 1] == '#') {
        n_id--;
    }
    size_t pos = 0;
    if (n_id > 0 && n >= n_id && memcmp(text, own, n_id) == 0) {
        pos = n_id;
    }
    bool ok = pos == n || text[pos] == '#';
    pos += pos < n;
    uint32_t target = 0;
    if (ok && pos < n && text[pos] != '/') {
        ok = find_anchor(j, text + pos, n - pos, &target);
        pos = n;
    }
    while (ok && pos < n) {
        char token[256];
        pos++;
        const size_t length = read_token(text, n, &pos, token, sizeof token);
        target = child_of(j, target, token, length);
        ok = target != 0;
    }
    if (!ok) {
        (void)lk_schema_fail(s, LK_E_UNSUPPORTED, ref, NULL,
                             "'%.80s' is nothing inside this schema", text);
        return 0;
    }
    const lk_json_type type = j->values[target].type;
    if (type != LK_JSON_OBJECT && type != LK_JSON_TRUE && type != LK_JSON_FALSE) {
        (void)lk_schema_fail(s, LK_E_FORMAT, ref, NULL, "'%.80s' is no schema", text);
        return 0;
    }
    return target;
}

/* ---- $ref and allOf ---- */

/* Adds a value that item `from` brings in. `from_of` says for each item which one brought it. */
static void bring_in(lk_schema *s, lk_schema_set *set, uint32_t value, uint32_t from,
                     uint32_t *from_of) {
    for (uint32_t i = from; i != UINT32_MAX; i = from_of[i]) {
        if (lk_schema_value(set->items[i]) == value) {
            (void)lk_schema_fail(s, LK_E_UNSUPPORTED, value, NULL,
                                 "$ref and allOf lead back here without a value between");
            return;
        }
    }
    for (uint32_t i = 0; i < set->n; i++) { /* through a branch that has been chosen */
        if (lk_schema_value(set->items[i]) == value &&
            (set->items[i] & (LK_DONE_ANY | LK_DONE_ONE)) != 0) {
            (void)lk_schema_fail(s, LK_E_UNSUPPORTED, value, NULL,
                                 "$ref, anyOf and oneOf lead back here without a value between");
            return;
        }
    }
    const uint32_t n = set->n;
    lk_schema_add(s, set, value);
    if (set->n != n) {
        from_of[n] = from;
    }
}

static void sort_items(lk_schema_set *set) {
    for (uint32_t i = 1; i < set->n; i++) {
        const uint32_t moving = set->items[i];
        uint32_t k = i;
        for (; k > 0 && set->items[k - 1] > moving; k--) {
            set->items[k] = set->items[k - 1];
        }
        set->items[k] = moving;
    }
}

void lk_schema_flatten(lk_schema *s, lk_schema_set *set) {
    uint32_t from_of[LK_SCHEMA_MAX_SET];
    const lk_json *j = &s->json;
    for (uint32_t i = 0; i < LK_SCHEMA_MAX_SET; i++) {
        from_of[i] = UINT32_MAX;
    }
    for (uint32_t i = 0; i < set->n && lk_schema_is_good(s); i++) {
        const uint32_t item = set->items[i];
        const uint32_t value = lk_schema_value(item);
        if (j->values[value].type != LK_JSON_OBJECT) {
            continue;
        }
        lk_schema_check(s, value);
        const uint32_t ref = lk_json_find(j, value, "$ref");
        if (lk_schema_is_good(s) && ref != 0 && (item & LK_DONE_REF) == 0) {
            set->items[i] |= LK_DONE_REF;
            const uint32_t target = lk_schema_resolve(s, ref);
            if (lk_schema_is_good(s)) {
                bring_in(s, set, target, i, from_of);
            }
        }
        const uint32_t all = lk_json_find(j, value, "allOf");
        if (lk_schema_is_good(s) && all != 0 && (item & LK_DONE_ALL) == 0) {
            set->items[i] |= LK_DONE_ALL;
            for (uint32_t v = j->values[all].first; v != 0 && lk_schema_is_good(s);
                 v = j->values[v].next) {
                bring_in(s, set, v, i, from_of);
            }
        }
    }
    sort_items(set);
}

/* ---- anyOf and oneOf ---- */

bool lk_schema_find_branches(const lk_schema *s, const lk_schema_set *set, uint32_t *item,
                             uint32_t *branches, uint32_t *done) {
    for (uint32_t i = 0; i < set->n; i++) {
        const uint32_t any = lk_schema_get(s, set->items[i], "anyOf");
        const uint32_t one = lk_schema_get(s, set->items[i], "oneOf");
        *item = i;
        if (any != 0 && (set->items[i] & LK_DONE_ANY) == 0) {
            *branches = any;
            *done = LK_DONE_ANY;
            return true;
        }
        if (one != 0 && (set->items[i] & LK_DONE_ONE) == 0) {
            *branches = one;
            *done = LK_DONE_ONE;
            return true;
        }
    }
    return false;
}

lk_schema_set lk_schema_take_branch(lk_schema *s, const lk_schema_set *set, uint32_t item,
                                    uint32_t done, uint32_t branch) {
    lk_schema_set out = *set;
    out.items[item] |= done;
    lk_schema_add(s, &out, branch);
    lk_schema_flatten(s, &out);
    return out;
}

/* No two branches of a oneOf may accept one value. */
static void check_one_of(lk_schema *s, const lk_schema_set *set, uint32_t item, uint32_t one) {
    const lk_json *j = &s->json;
    for (uint32_t x = j->values[one].first; x != 0; x = j->values[x].next) {
        const lk_schema_set first = lk_schema_take_branch(s, set, item, LK_DONE_ONE, x);
        for (uint32_t y = j->values[x].next; y != 0 && lk_schema_is_good(s);
             y = j->values[y].next) {
            const lk_schema_set second = lk_schema_take_branch(s, set, item, LK_DONE_ONE, y);
            if (lk_schema_is_good(s) && lk_schema_disjoint(s, &first, &second) != LK_YES) {
                (void)lk_schema_fail(s, LK_E_UNSUPPORTED, y, NULL,
                                     "'oneOf' cannot be enforced: a value of this branch may be "
                                     "one of an earlier branch too (anyOf allows that)");
            }
        }
    }
}

static uint32_t compile_branches(lk_schema *s, const lk_schema_set *set, uint32_t item,
                                 uint32_t branches, uint32_t done) {
    const lk_json *j = &s->json;
    const size_t n = j->values[branches].n;
    uint32_t *starts = lk_alloc_array(s->a, n, sizeof starts[0]);
    if (starts == NULL) {
        (void)lk_schema_fail(s, LK_E_NOMEM, branches, NULL, "no memory for %zu branches", n);
        return LK_GRAMMAR_NOTHING;
    }
    if (done == LK_DONE_ONE) {
        check_one_of(s, set, item, branches);
    }
    size_t n_starts = 0;
    for (uint32_t v = j->values[branches].first; v != 0 && lk_schema_is_good(s);
         v = j->values[v].next) {
        lk_schema_set branch = lk_schema_take_branch(s, set, item, done, v);
        starts[n_starts++] =
            lk_grammar_call(&s->b, lk_schema_rule_in(s, &branch, s->form), LK_GRAMMAR_END);
    }
    const uint32_t start = lk_grammar_split(&s->b, starts, n_starts);
    lk_free_array(s->a, starts, n, sizeof starts[0]);
    return start;
}

/* ---- the whole ---- */

uint32_t lk_schema_rule(lk_schema *s, lk_schema_set *set) {
    return lk_schema_rule_in(s, set, LK_FORM_JSON);
}

uint32_t lk_schema_rule_in(lk_schema *s, lk_schema_set *set, uint32_t form) {
    uint32_t items[LK_SCHEMA_MAX_SET + 1];
    lk_schema_flatten(s, set);
    if (!lk_schema_is_good(s)) {
        return 0;
    }
    memcpy(items, set->items, set->n * sizeof items[0]);
    items[set->n] = form;
    const size_t n_bytes = (set->n + (form != LK_FORM_JSON)) * sizeof items[0];
    const uint32_t known = lk_strings_find(&s->sets, items, n_bytes);
    if (known != LK_NO_STRING) {
        return s->set_rules[known];
    }
    lk_strings *sets = &s->sets;
    if (sets->n == sets->capacity || sets->offsets[sets->n] + n_bytes > sets->data_bytes ||
        !lk_strings_push(sets, items, n_bytes, true)) {
        (void)lk_schema_fail(s, LK_E_LIMIT, set->n != 0 ? lk_schema_value(set->items[0]) : 0, NULL,
                             "anyOf, oneOf and allOf together make more than %lu combinations",
                             (unsigned long)sets->capacity);
        return 0;
    }
    const uint32_t rule = lk_grammar_rule(&s->b);
    s->set_rules[sets->n - 1] = rule;
    return rule;
}

static void compile_set(lk_schema *s, uint32_t number) {
    lk_schema_set set = {.n = 0};
    size_t n_bytes = 0;
    const uint8_t *bytes = lk_strings_get(&s->sets, number, &n_bytes);
    uint32_t item = 0;
    uint32_t branches = 0;
    uint32_t done = 0;
    set.n = (uint32_t)(n_bytes / sizeof set.items[0]);
    s->form = LK_FORM_JSON;
    if (set.n != 0) {
        memcpy(&s->form, bytes + n_bytes - sizeof s->form, sizeof s->form);
        s->form = s->form >= LK_FORM_VALUE ? s->form : LK_FORM_JSON;
        set.n -= s->form != LK_FORM_JSON;
        memcpy(set.items, bytes, set.n * sizeof set.items[0]);
    }
    s->rule_at = set.n != 0 ? lk_schema_value(set.items[0]) : 0;
    uint32_t start = LK_GRAMMAR_NOTHING;
    if (!lk_schema_is_false(s, &set)) {
        start = lk_schema_find_branches(s, &set, &item, &branches, &done)
                    ? compile_branches(s, &set, item, branches, done)
                    : lk_schema_base(s, &set);
    }
    lk_grammar_set_rule(&s->b, s->set_rules[number], start);
}

static const char *name_of(void *ctx, uint32_t rule) {
    (void)ctx;
    (void)rule;
    return "the schema";
}

static void make_shared(lk_schema *s) {
    const lk_decimal_range any = {.has_min = false};
    const lk_decimal_range whole = {.is_whole = true};
    s->string_rule = lk_grammar_rule(&s->b);
    s->number_rule = lk_grammar_rule(&s->b);
    s->integer_rule = lk_grammar_rule(&s->b);
    s->space_rule = lk_grammar_rule(&s->b);
    lk_grammar_set_rule(&s->b, s->string_rule,
                        lk_json_string(&s->b, 0, LK_GRAMMAR_NO_MAX, LK_GRAMMAR_END));
    lk_grammar_set_rule(&s->b, s->number_rule, lk_decimal_build(&s->b, &any, LK_GRAMMAR_END));
    lk_grammar_set_rule(&s->b, s->integer_rule, lk_decimal_build(&s->b, &whole, LK_GRAMMAR_END));
    lk_grammar_set_rule(&s->b, s->space_rule, lk_json_space(&s->b, LK_GRAMMAR_END));
}

static uint32_t compile(lk_schema *s) {
    const lk_json_type type = s->json.values[0].type;
    if (type != LK_JSON_OBJECT && type != LK_JSON_TRUE && type != LK_JSON_FALSE) {
        (void)lk_schema_fail(s, LK_E_FORMAT, 0, NULL,
                             "a schema is an object, true or false, found %s %s",
                             type == LK_JSON_ARRAY ? "an" : "a", lk_json_type_name(type));
        return 0;
    }
    const size_t capacity = 4096 + 16 * s->json.n_values;
    s->set_rules = lk_alloc_array(s->a, capacity, sizeof s->set_rules[0]);
    if (s->set_rules == NULL ||
        !lk_strings_init(&s->sets, s->a, (uint32_t)capacity, 32 * capacity, true)) {
        (void)lk_schema_fail(s, LK_E_NOMEM, 0, NULL, "no memory for a schema of %zu values",
                             s->json.n_values);
        lk_free_array(s->a, s->set_rules, capacity, sizeof s->set_rules[0]);
        return 0;
    }
    make_shared(s);
    lk_schema_set root_set = {.n = 0};
    lk_schema_add(s, &root_set, 0);
    const bool is_call = s->notation != NULL;
    const uint32_t root = lk_schema_rule_in(s, &root_set, is_call ? LK_FORM_ARGUMENTS : 0);
    for (uint32_t i = 0; i < s->sets.n && lk_schema_is_good(s); i++) {
        compile_set(s, i);
    }
    lk_free_array(s->a, s->set_rules, capacity, sizeof s->set_rules[0]);
    lk_strings_deinit(&s->sets);
    return root;
}

uint32_t lk_schema_compile_rule(lk_grammar_builder *b, const char *text, size_t n_bytes,
                                const lk_call_notation *notation) {
    const bool is_json = notation == NULL || notation->kind == LK_NOTATION_JSON;
    lk_schema s = {.b = *b, .a = b->grammar->allocator, .notation = is_json ? NULL : notation};
    const lk_json_limits limits = {LK_GRAMMAR_MAX_BYTES, LK_SCHEMA_MAX_DEPTH};
    uint32_t rule = 0;
    if (b->status != LK_OK) {
        return 0;
    }
    b->status = lk_json_parse(text, n_bytes, limits, s.a, &s.json, b->err);
    if (b->status != LK_OK) {
        return 0;
    }
    rule = compile(&s);
    for (size_t i = 0; i < sizeof s.patterns / sizeof s.patterns[0]; i++) {
        lk_language_free(&s.patterns[i], s.a);
    }
    lk_json_deinit(&s.json);
    *b = s.b;
    return rule;
}

lk_status lk_schema_compile(const char *text, size_t n_bytes, const lk_allocator *allocator,
                            lk_grammar **out, lk_error *err) {
    lk_grammar_builder b;
    uint32_t root = 0;
    *out = NULL;
    if (lk_grammar_begin(&b, allocator, err) == LK_OK) {
        root = lk_schema_compile_rule(&b, text, n_bytes, NULL);
    }
    return lk_grammar_finish(&b, root, name_of, NULL, out);
}

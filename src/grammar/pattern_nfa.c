/* pattern_nfa.c - the syntax of patterns. What is not understood is refused; groups are kept on a
 * stack while they are open. */
#include "grammar/pattern_nfa.h"

#include <stdio.h>
#include <string.h>

/* A part of the pattern: where it begins, and the SPLIT without a way on in which it ends. */
typedef struct part {
    uint32_t start, end;
} part;

/* A group that is open: the alternatives before the sequence in work, and that sequence. */
typedef struct level {
    size_t first_state; /* all states of the group stand from here on */
    part before;        /* start LK_NFA_NONE: none yet */
    part sequence;
} level;

typedef struct parser {
    lk_nfa *nfa;
    const uint8_t *text;
    size_t n;
    size_t pos;
    level levels[LK_NFA_MAX_GROUPS];
    size_t n_levels;
    lk_status status;
    lk_error *err;
} parser;

static void fail(parser *p, lk_status status, const char *what) {
    if (p->status == LK_OK) {
        p->status = lk_fail(p->err, status, LK_AT_OFFSET(p->pos, "pattern"),
                            "pattern '%.60s', byte %zu: %s", (const char *)p->text, p->pos, what);
    }
}

static void fail_memory(parser *p) {
    if (p->status == LK_OK) {
        p->status = lk_fail_nomem(p->err, "a pattern", p->n);
    }
}

static int peek(const parser *p) {
    return p->pos < p->n ? p->text[p->pos] : -1;
}

static bool looks_at(const parser *p, const char *text) {
    const size_t n = strlen(text);
    return p->n - p->pos >= n && memcmp(p->text + p->pos, text, n) == 0;
}

/* ---- states and sets ---- */

static uint32_t add_state(parser *p, lk_nfa_kind kind, uint32_t next, uint32_t other) {
    lk_nfa *nfa = p->nfa;
    void *states = nfa->states;
    if (p->status != LK_OK) {
        return 0;
    }
    if (nfa->n_states == LK_NFA_MAX_STATES) {
        fail(p, LK_E_LIMIT, "the pattern is too long when its repetitions are written out");
        return 0;
    }
    if (!lk_grow_array(nfa->a, &states, nfa->n_states, &nfa->states_capacity, nfa->n_states + 1,
                       sizeof nfa->states[0])) {
        fail_memory(p);
        return 0;
    }
    nfa->states = states;
    nfa->states[nfa->n_states] = (lk_nfa_state){kind, next, other};
    return (uint32_t)nfa->n_states++;
}

static uint32_t add_split(parser *p, uint32_t next, uint32_t other) {
    return add_state(p, LK_NFA_SPLIT, next, other);
}

/* A part that is one state and its end. */
static part add_part(parser *p, lk_nfa_kind kind, uint32_t other) {
    const uint32_t start = add_state(p, kind, LK_NFA_NONE, other);
    const uint32_t end = add_split(p, LK_NFA_NONE, LK_NFA_NONE);
    if (p->status == LK_OK) {
        p->nfa->states[start].next = end;
    }
    return (part){start, end};
}

static part add_empty(parser *p) {
    const uint32_t state = add_split(p, LK_NFA_NONE, LK_NFA_NONE);
    return (part){state, state};
}

static void connect(parser *p, uint32_t end, uint32_t to) {
    if (p->status == LK_OK) {
        p->nfa->states[end].next = to;
    }
}

/* Takes the set over. */
static part add_set(parser *p, lk_code_points *set) {
    lk_nfa *nfa = p->nfa;
    void *sets = nfa->sets;
    if (p->status == LK_OK && nfa->n_sets == LK_NFA_MAX_SETS) {
        fail(p, LK_E_LIMIT, "too many classes and characters");
    }
    if (p->status == LK_OK && !lk_grow_array(nfa->a, &sets, nfa->n_sets, &nfa->sets_capacity,
                                             nfa->n_sets + 1, sizeof nfa->sets[0])) {
        fail_memory(p);
    }
    if (p->status != LK_OK) {
        lk_code_points_free(set, nfa->a);
        return (part){0, 0};
    }
    nfa->sets = sets;
    nfa->sets[nfa->n_sets] = *set;
    return add_part(p, LK_NFA_SET, (uint32_t)nfa->n_sets++);
}

static void add_range(parser *p, lk_code_points *set, uint32_t low, uint32_t high) {
    if (p->status == LK_OK && !lk_code_points_add(set, low, high, p->nfa->a)) {
        fail_memory(p);
    }
}

static void invert(parser *p, lk_code_points *set) {
    if (p->status == LK_OK && !lk_code_points_invert(set, p->nfa->a)) {
        fail_memory(p);
    }
}

/* ---- escapes ---- */

/* \d \w \s and their opposites. False when `c` is none of them. */
static bool add_class_escape(parser *p, int c, lk_code_points *set) {
    static const lk_code_range digits[] = {{'0', '9'}};
    static const lk_code_range words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    static const lk_code_range spaces[] = {
        {0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
        {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
    const struct {
        const lk_code_range *ranges;
        size_t n;
    } known[] = {{digits, sizeof digits / sizeof digits[0]},
                 {words, sizeof words / sizeof words[0]},
                 {spaces, sizeof spaces / sizeof spaces[0]}};
    static const char names[] = "dws";
    static const char opposites[] = "DWS";
    const char *found = c > 0 ? strchr(names, c) : NULL;
    const char *opposite = c > 0 ? strchr(opposites, c) : NULL;
    if (found == NULL && opposite == NULL) {
        return false;
    }
    const size_t k = (size_t)(found != NULL ? found - names : opposite - opposites);
    lk_code_points own = {NULL, 0, 0};
    for (size_t i = 0; i < known[k].n; i++) {
        add_range(p, &own, known[k].ranges[i].low, known[k].ranges[i].high);
    }
    if (opposite != NULL) {
        invert(p, &own);
    }
    for (size_t i = 0; i < own.n; i++) {
        add_range(p, set, own.ranges[i].low, own.ranges[i].high);
    }
    lk_code_points_free(&own, p->nfa->a);
    return true;
}

/* {Name} after \p or \P. */
static void add_property(parser *p, bool is_inverted, lk_code_points *set) {
    lk_code_points own = {NULL, 0, 0};
    bool known = false;
    if (peek(p) != '{') {
        fail(p, LK_E_FORMAT, "expected {NAME} after \\p");
        return;
    }
    const size_t begin = ++p->pos;
    while (peek(p) >= 0 && peek(p) != '}') {
        p->pos++;
    }
    if (!lk_pattern_category((const char *)p->text + begin, p->pos - begin, &own, p->nfa->a,
                             &known)) {
        fail_memory(p);
    } else if (!known) {
        fail(p, LK_E_UNSUPPORTED, "only general categories as in \\p{Lu} are supported");
    }
    p->pos++;
    if (is_inverted) {
        invert(p, &own);
    }
    for (size_t i = 0; i < own.n; i++) {
        add_range(p, set, own.ranges[i].low, own.ranges[i].high);
    }
    lk_code_points_free(&own, p->nfa->a);
}

static uint32_t read_hex(parser *p, int n_digits) {
    uint32_t value = 0;
    for (int i = 0; n_digits > 0 ? i < n_digits : peek(p) != '}'; i++) {
        const int c = peek(p);
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0 || i >= 6) {
            fail(p, LK_E_FORMAT, "expected hexadecimal digits");
            return 0;
        }
        value = value * 16 + (uint32_t)digit;
        p->pos++;
    }
    return value;
}

/* After \u: four digits, a pair of surrogates, or {digits}. */
static uint32_t read_unicode(parser *p) {
    uint32_t cp = 0;
    if (peek(p) == '{') {
        p->pos++;
        cp = read_hex(p, 0);
        p->pos++;
    } else {
        cp = read_hex(p, 4);
        if (cp >= 0xD800 && cp < 0xDC00 && looks_at(p, "\\u")) {
            p->pos += 2;
            const uint32_t low = read_hex(p, 4);
            if (low >= 0xDC00 && low <= 0xDFFF) {
                return 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00);
            }
        }
    }
    if (cp > LK_MAX_CODE_POINT || (cp >= 0xD800 && cp <= 0xDFFF)) {
        fail(p, LK_E_FORMAT, "not a character");
    }
    return cp;
}

/* An escape that is one character; pos is after the backslash. */
static uint32_t read_escape(parser *p, bool in_class) {
    static const char syntax[] = "^$\\.*+?()[]{}|/-";
    const int c = peek(p);
    p->pos++;
    switch (c) {
    case 't':
        return '\t';
    case 'n':
        return '\n';
    case 'v':
        return 0x0B;
    case 'f':
        return 0x0C;
    case 'r':
        return '\r';
    case 'x':
        return read_hex(p, 2);
    case 'u':
        return read_unicode(p);
    case 'c': {
        const int letter = peek(p);
        if ((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z')) {
            p->pos++;
            return (uint32_t)letter % 32;
        }
        break;
    }
    case '0':
        if (peek(p) < '0' || peek(p) > '9') {
            return 0;
        }
        break;
    case 'b':
        if (in_class) {
            return 0x08;
        }
        fail(p, LK_E_UNSUPPORTED, "\\b is not supported");
        return 0;
    case 'B':
        fail(p, LK_E_UNSUPPORTED, "\\B is not supported");
        return 0;
    default:
        break;
    }
    if (c > 0 && strchr(syntax, c) != NULL) {
        return (uint32_t)c;
    }
    if ((c >= '1' && c <= '9') || c == 'k') {
        fail(p, LK_E_UNSUPPORTED, "references to groups are not supported");
    }
    fail(p, LK_E_FORMAT, "unknown escape");
    return 0;
}

static uint32_t read_plain(parser *p) {
    size_t n = 0;
    const uint32_t cp = lk_utf8_get(p->text + p->pos, &n);
    p->pos += n;
    return cp;
}

/* ---- classes ---- */

/* A character of the pattern, or one member of a class: a character (true, *cp) or an escape for
 * several (false). */
static bool read_member(parser *p, bool in_class, lk_code_points *set, uint32_t *cp) {
    if (peek(p) != '\\') {
        *cp = read_plain(p);
        return true;
    }
    p->pos++;
    const int c = peek(p);
    if (c == 'p' || c == 'P') {
        p->pos++;
        add_property(p, c == 'P', set);
        return false;
    }
    if (add_class_escape(p, c, set)) {
        p->pos++;
        return false;
    }
    *cp = read_escape(p, in_class);
    return true;
}

static part read_class(parser *p) {
    lk_code_points set = {NULL, 0, 0};
    p->pos++;
    const bool is_inverted = peek(p) == '^';
    p->pos += is_inverted;
    while (p->status == LK_OK && peek(p) != ']') {
        uint32_t low = 0;
        uint32_t high = 0;
        if (peek(p) < 0) {
            fail(p, LK_E_FORMAT, "expected ']'");
            break;
        }
        if (!read_member(p, true, &set, &low)) {
            continue;
        }
        high = low;
        if (peek(p) == '-' && p->pos + 1 < p->n && p->text[p->pos + 1] != ']') {
            p->pos++;
            if (!read_member(p, true, &set, &high)) {
                fail(p, LK_E_FORMAT, "a range ends in a class");
            } else if (high < low) {
                fail(p, LK_E_FORMAT, "a range ends before it begins");
            }
        }
        add_range(p, &set, low, high);
    }
    p->pos++;
    if (is_inverted) {
        invert(p, &set);
    }
    return add_set(p, &set);
}

/* ---- repetitions ---- */

static bool read_number(parser *p, uint32_t *number) {
    const size_t begin = p->pos;
    *number = 0;
    for (int c = peek(p); c >= '0' && c <= '9'; c = peek(p)) {
        *number =
            *number < LK_NFA_MAX_STATES ? *number * 10 + (uint32_t)(c - '0') : LK_NFA_MAX_STATES;
        p->pos++;
    }
    return p->pos != begin;
}

/* {m}, {m,} or {m,n}. */
static void read_braces(parser *p, uint32_t *min, uint32_t *max) {
    p->pos++;
    bool ok = read_number(p, min);
    *max = *min;
    if (ok && peek(p) == ',') {
        p->pos++;
        if (peek(p) == '}') {
            *max = UINT32_MAX;
        } else {
            ok = read_number(p, max);
        }
    }
    if (!ok || peek(p) != '}') {
        fail(p, LK_E_FORMAT, "expected {m}, {m,} or {m,n}");
    } else if (*max < *min) {
        fail(p, LK_E_FORMAT, "a repetition ends before it begins");
    }
    p->pos++;
}

/* A copy of the states from `first` to `end`. */
static part copy(parser *p, part from, size_t first, size_t end) {
    const uint32_t offset = (uint32_t)(p->nfa->n_states - first);
    for (size_t i = first; i < end && p->status == LK_OK; i++) {
        lk_nfa_state s = p->nfa->states[i];
        s.next += s.next != LK_NFA_NONE ? offset : 0;
        s.other += s.kind == LK_NFA_SPLIT && s.other != LK_NFA_NONE ? offset : 0;
        (void)add_state(p, s.kind, s.next, s.other);
    }
    return (part){from.start + offset, from.end + offset};
}

/* The part whose states stand from `first` to the end, repeated. */
static part repeat(parser *p, part body, size_t first, uint32_t min, uint32_t max) {
    const size_t end = p->nfa->n_states;
    if (max == 0) {
        return add_empty(p);
    }
    const uint32_t n = max != UINT32_MAX ? max : min != 0 ? min : 1;
    part whole = {0, 0};
    part last = body;
    uint32_t chain = LK_NFA_NONE; /* of the SPLITs of optional rounds, through `other` */
    /* All copies are made before the first is connected to anything. */
    const size_t size = end - first;
    for (uint32_t i = 1; i < n && p->status == LK_OK; i++) {
        (void)copy(p, body, first, end);
    }
    for (uint32_t i = 0; i < n && p->status == LK_OK; i++) {
        const uint32_t offset = (uint32_t)(i * size);
        const part round = {body.start + offset, body.end + offset};
        uint32_t entry = round.start;
        if (i >= min) {
            entry = add_split(p, round.start, chain);
            chain = entry; /* `other` is the one before, until all are connected below */
        }
        if (i == 0) {
            whole.start = entry;
        } else {
            connect(p, last.end, entry);
        }
        last = round;
    }
    whole.end = add_split(p, LK_NFA_NONE, LK_NFA_NONE);
    if (p->status != LK_OK) {
        return whole;
    }
    while (chain != LK_NFA_NONE) {
        const uint32_t before = p->nfa->states[chain].other;
        p->nfa->states[chain].other = whole.end;
        chain = before;
    }
    if (max == UINT32_MAX) {
        const uint32_t again = add_split(p, last.start, whole.end);
        connect(p, last.end, again);
    } else {
        connect(p, last.end, whole.end);
    }
    return whole;
}

static part read_repetition(parser *p, part body, size_t first, bool may_repeat) {
    uint32_t min = 1;
    uint32_t max = 1;
    switch (peek(p)) {
    case '*':
        min = 0;
        max = UINT32_MAX;
        break;
    case '+':
        max = UINT32_MAX;
        break;
    case '?':
        min = 0;
        break;
    case '{':
        break;
    default:
        return body;
    }
    if (!may_repeat) {
        fail(p, LK_E_FORMAT, "nothing to repeat");
        return body;
    }
    if (peek(p) == '{') {
        read_braces(p, &min, &max);
    } else {
        p->pos++;
    }
    p->pos += peek(p) == '?'; /* lazy: the same texts */
    return p->status == LK_OK ? repeat(p, body, first, min, max) : body;
}

/* ---- the whole ---- */

static void open_level(parser *p) {
    if (p->n_levels == LK_NFA_MAX_GROUPS) {
        fail(p, LK_E_LIMIT, "too many groups are open");
        return;
    }
    level *l = &p->levels[p->n_levels++];
    l->first_state = p->nfa->n_states;
    l->before = (part){LK_NFA_NONE, LK_NFA_NONE};
    l->sequence = add_empty(p);
}

static void add_to_sequence(parser *p, part next) {
    level *l = &p->levels[p->n_levels - 1];
    connect(p, l->sequence.end, next.start);
    l->sequence.end = next.end;
}

/* Ends an alternative. */
static void end_alternative(parser *p) {
    level *l = &p->levels[p->n_levels - 1];
    if (l->before.start == LK_NFA_NONE) {
        l->before = l->sequence;
    } else {
        const uint32_t start = add_split(p, l->before.start, l->sequence.start);
        const uint32_t end = add_split(p, LK_NFA_NONE, LK_NFA_NONE);
        connect(p, l->before.end, end);
        connect(p, l->sequence.end, end);
        l->before = (part){start, end};
    }
}

static part close_level(parser *p) {
    end_alternative(p);
    return p->levels[--p->n_levels].before;
}

static void read_open(parser *p) {
    static const char *const assertions[] = {"(?=", "(?!", "(?<=", "(?<!"};
    for (size_t i = 0; i < sizeof assertions / sizeof assertions[0]; i++) {
        if (looks_at(p, assertions[i])) {
            fail(p, LK_E_UNSUPPORTED, "looking ahead and behind is not supported");
            return;
        }
    }
    if (looks_at(p, "(?:")) {
        p->pos += 3;
    } else if (looks_at(p, "(?<")) {
        while (peek(p) >= 0 && peek(p) != '>') {
            p->pos++;
        }
        p->pos++;
    } else if (looks_at(p, "(?")) {
        fail(p, LK_E_FORMAT, "unknown kind of group");
        return;
    } else {
        p->pos++;
    }
    open_level(p);
}

/* A character, class, escape or dot. */
static part read_atom(parser *p) {
    lk_code_points set = {NULL, 0, 0};
    const int c = peek(p);
    if (c == '[') {
        return read_class(p);
    }
    if (c == '.') {
        add_range(p, &set, '\n', '\n');
        add_range(p, &set, '\r', '\r');
        add_range(p, &set, 0x2028, 0x2029);
        invert(p, &set);
        p->pos++;
        return add_set(p, &set);
    }
    uint32_t cp = 0;
    if (read_member(p, false, &set, &cp)) {
        add_range(p, &set, cp, cp);
    }
    return add_set(p, &set);
}

static void read_item(parser *p) {
    const int c = peek(p);
    const size_t first = p->nfa->n_states;
    if (c == '(') {
        read_open(p);
    } else if (c == '|') {
        end_alternative(p);
        p->levels[p->n_levels - 1].sequence = add_empty(p);
        p->pos++;
    } else if (c == ')') {
        if (p->n_levels == 1) {
            fail(p, LK_E_FORMAT, "')' without '('");
            return;
        }
        const size_t group_first = p->levels[p->n_levels - 1].first_state;
        const part group = close_level(p);
        p->pos++;
        add_to_sequence(p, read_repetition(p, group, group_first, true));
    } else if (c == '^' || c == '$') {
        const part anchor = add_part(p, c == '^' ? LK_NFA_BEGIN : LK_NFA_END, LK_NFA_NONE);
        p->pos++;
        add_to_sequence(p, read_repetition(p, anchor, first, false));
    } else if (strchr("*+?{}]", c) != NULL) {
        fail(p, LK_E_FORMAT, c == '}' || c == ']' ? "must be escaped" : "nothing to repeat");
    } else {
        const part atom = read_atom(p);
        add_to_sequence(p, read_repetition(p, atom, first, true));
    }
}

lk_status lk_nfa_parse(const char *text, size_t n, const lk_allocator *a, lk_nfa *nfa,
                       lk_error *err) {
    parser p = {.nfa = nfa, .text = (const uint8_t *)text, .n = n, .err = err};
    *nfa = (lk_nfa){.a = a};
    open_level(&p);
    while (p.status == LK_OK && p.pos < n) {
        if (peek(&p) == 0) {
            fail(&p, LK_E_UNSUPPORTED, "a zero byte must be written \\0");
            break;
        }
        read_item(&p);
    }
    if (p.status == LK_OK && p.n_levels != 1) {
        fail(&p, LK_E_FORMAT, "expected ')'");
    }
    if (p.status != LK_OK) {
        return p.status;
    }
    /* The pattern may begin and end anywhere. */
    const part whole = close_level(&p);
    lk_code_points any = {NULL, 0, 0};
    add_range(&p, &any, 0, LK_MAX_CODE_POINT);
    const part skip = add_set(&p, &any);
    nfa->start = add_split(&p, skip.start, whole.start);
    connect(&p, skip.end, nfa->start);
    connect(&p, whole.end, add_state(&p, LK_NFA_FOUND, LK_NFA_NONE, LK_NFA_NONE));
    return p.status;
}

void lk_nfa_free(lk_nfa *nfa) {
    for (size_t i = 0; i < nfa->n_sets; i++) {
        lk_code_points_free(&nfa->sets[i], nfa->a);
    }
    lk_free_array(nfa->a, nfa->sets, nfa->sets_capacity, sizeof nfa->sets[0]);
    lk_free_array(nfa->a, nfa->states, nfa->states_capacity, sizeof nfa->states[0]);
    *nfa = (lk_nfa){.a = nfa->a};
}

/* grammar_check.c - completes a grammar: which states may pass without a byte, left recursion, how
 * deep the stack must become, classes of bytes. Time and memory are proportional to the number of
 * states and edges; nothing recurses. */
#include <string.h>

#include "grammar/grammar_builder.h"

typedef struct checker {
    lk_grammar_builder *b;
    lk_grammar *g;
    uint32_t *first_user; /* [n_states + 2] users[first_user[s + 1] ..] are the states whose value
                             follows from that of s */
    uint32_t *users;
    size_t n_users;
    uint32_t *stack;   /* [n_states] */
    uint32_t *pending; /* [n_states] */
} checker;

typedef void (*each_fn)(checker *c, uint32_t state, uint32_t from);

/* Calls fn(state, t) for every state t that `state` looks at. */
static void each_target(checker *c, uint32_t state, each_fn fn) {
    const lk_grammar *g = c->g;
    const lk_grammar_state *s = &g->states[state];
    switch (s->kind) {
    case LK_GRAMMAR_EDGES:
    case LK_GRAMMAR_SPLIT:
        for (uint32_t i = 0; i < s->n; i++) {
            fn(c, state, g->edges[s->first + i].next);
        }
        break;
    case LK_GRAMMAR_CALL:
        fn(c, state, g->rules[s->first]);
        fn(c, state, s->next);
        break;
    case LK_GRAMMAR_REPEAT:
        fn(c, state, s->first);
        fn(c, state, s->next);
        break;
    case LK_GRAMMAR_RETURN:
        break;
    }
}

static void count_user(checker *c, uint32_t state, uint32_t target) {
    (void)state;
    c->first_user[target + 1]++;
    c->n_users++;
}

static void put_user(checker *c, uint32_t state, uint32_t target) {
    c->users[--c->first_user[target + 1]] = state;
}

/* After put_user, first_user[t + 1] is where the users of t begin. */
static bool list_users(checker *c) {
    const lk_allocator *a = c->g->allocator;
    const size_t n = c->g->n_states;
    c->first_user = lk_alloc_array_zero(a, n + 2, sizeof c->first_user[0]);
    if (c->first_user == NULL) {
        return false;
    }
    for (uint32_t s = 0; s < n; s++) {
        each_target(c, s, count_user);
    }
    for (size_t s = 1; s <= n; s++) {
        c->first_user[s] += c->first_user[s - 1];
    }
    c->first_user[n + 1] = c->first_user[n];
    c->users = lk_alloc_array(a, c->n_users, sizeof c->users[0]);
    if (c->users == NULL) {
        return false;
    }
    for (uint32_t s = 0; s < n; s++) {
        each_target(c, s, put_user);
    }
    return true;
}

/* ---- passing without a byte ---- */

/* Whether `state` is nullable now that a state that it looks at is. */
static bool compute_nullable(const lk_grammar *g, uint32_t state) {
    const lk_grammar_state *s = &g->states[state];
    switch (s->kind) {
    case LK_GRAMMAR_RETURN:
        return true;
    case LK_GRAMMAR_EDGES:
        return false;
    case LK_GRAMMAR_SPLIT:
        return true;
    case LK_GRAMMAR_CALL:
        return g->states[g->rules[s->first]].is_nullable && g->states[s->next].is_nullable;
    case LK_GRAMMAR_REPEAT:
        return (s->n == 0 || g->states[s->first].is_nullable) && g->states[s->next].is_nullable;
    }
    return false;
}

static void find_nullable(checker *c) {
    lk_grammar *g = c->g;
    size_t n = 0;
    g->states[LK_GRAMMAR_END].is_nullable = true;
    c->stack[n++] = LK_GRAMMAR_END;
    while (n > 0) {
        const uint32_t s = c->stack[--n];
        for (uint32_t i = c->first_user[s + 1]; i < c->first_user[s + 2]; i++) {
            const uint32_t user = c->users[i];
            if (!g->states[user].is_nullable && compute_nullable(g, user)) {
                g->states[user].is_nullable = true;
                c->stack[n++] = user; /* each state at most once */
            }
        }
    }
}

/* ---- depth of the stack ---- */

static uint32_t deeper(uint32_t depth, uint32_t then) {
    const uint32_t one_more = depth < LK_GRAMMAR_MAX_DEPTH ? depth + 1 : LK_GRAMMAR_NEVER;
    return one_more > then ? one_more : then;
}

/* The depth of `state` now that `target`, which it looks at, has a lesser one: at most that, where
 * any target will do. */
static uint32_t compute_depth(const checker *c, uint32_t state, uint32_t target) {
    const lk_grammar *g = c->g;
    const lk_grammar_state *s = &g->states[state];
    switch (s->kind) {
    case LK_GRAMMAR_RETURN:
        return 0;
    case LK_GRAMMAR_EDGES:
    case LK_GRAMMAR_SPLIT:
        return g->states[target].depth;
    case LK_GRAMMAR_CALL: {
        const uint32_t inside = g->states[g->rules[s->first]].depth;
        return s->next == LK_GRAMMAR_END ? inside : deeper(inside, g->states[s->next].depth);
    }
    case LK_GRAMMAR_REPEAT:
        return s->n == 0 ? g->states[s->next].depth
                         : deeper(g->states[s->first].depth, g->states[s->next].depth);
    }
    return LK_GRAMMAR_NEVER;
}

/* Depths in rising order: what is settled at depth d gives its users d or more, so that in the end
 * each state has its least. */
static void find_depths(checker *c) {
    lk_grammar *g = c->g;
    for (size_t s = 0; s < g->n_states; s++) {
        g->states[s].depth = LK_GRAMMAR_NEVER;
    }
    g->states[LK_GRAMMAR_END].depth = 0;
    c->stack[0] = LK_GRAMMAR_END;
    size_t n = 1;
    size_t n_pending = 0;
    for (uint32_t depth = 0; n + n_pending > 0 && depth <= LK_GRAMMAR_MAX_DEPTH; depth++) {
        while (n > 0) {
            const uint32_t s = c->stack[--n];
            for (uint32_t i = c->first_user[s + 1]; i < c->first_user[s + 2]; i++) {
                const uint32_t user = c->users[i];
                const uint32_t was = g->states[user].depth;
                const uint32_t now = compute_depth(c, user, s);
                if (now >= was) {
                    continue;
                }
                g->states[user].depth = now;
                if (now <= depth) {
                    c->stack[n++] = user;
                } else if (was == LK_GRAMMAR_NEVER) {
                    c->pending[n_pending++] = user;
                }
            }
        }
        size_t n_kept = 0;
        for (size_t i = 0; i < n_pending; i++) { /* what came down meanwhile has been looked at */
            const uint32_t s = c->pending[i];
            if (g->states[s].depth == depth + 1) {
                c->stack[n++] = s;
            } else if (g->states[s].depth > depth) {
                c->pending[n_kept++] = s;
            }
        }
        n_pending = n_kept;
    }
}

/* ---- left recursion ---- */

/* The rules that may begin where `rule` begins: CALLs that are met before any byte. They are put
 * into `called`, the number is returned. `seen` marks states by the number of their rule plus 1. */
static size_t list_first_calls(const checker *c, uint32_t rule, uint32_t *seen, uint32_t *called) {
    const lk_grammar *g = c->g;
    size_t n_called = 0;
    size_t n = 0;
    c->stack[n++] = g->rules[rule];
    seen[g->rules[rule]] = rule + 1;
    while (n > 0) {
        const lk_grammar_state *s = &g->states[c->stack[--n]];
        uint32_t on[2];
        size_t n_on = 0;
        if (s->kind == LK_GRAMMAR_CALL) {
            called[n_called++] = s->first;
            if (g->states[g->rules[s->first]].is_nullable) {
                on[n_on++] = s->next;
            }
        } else if (s->kind == LK_GRAMMAR_REPEAT) {
            on[n_on++] = s->first;
            if (s->n == 0 || g->states[s->first].is_nullable) {
                on[n_on++] = s->next;
            }
        }
        const uint32_t n_split = s->kind == LK_GRAMMAR_SPLIT ? s->n : 0;
        for (uint32_t i = 0; i < n_split + n_on; i++) {
            const uint32_t target = i < n_split ? g->edges[s->first + i].next : on[i - n_split];
            if (seen[target] != rule + 1) {
                seen[target] = rule + 1;
                c->stack[n++] = target;
            }
        }
    }
    return n_called;
}

typedef struct call_graph {
    uint32_t *first;  /* [n_rules + 1] */
    uint32_t *called; /* [n_states]: every CALL is met for its own rule at most */
    uint32_t *place;  /* [n_rules] next edge to look at */
    uint32_t *path;   /* [n_rules] */
    uint8_t *color;   /* [n_rules] 0: new, 1: on the path, 2: done */
    uint32_t *seen;   /* [n_states] */
} call_graph;

/* Depth first; a rule that is met again on the path is left-recursive. */
static bool find_cycle(const call_graph *graph, uint32_t root, uint32_t *rule) {
    size_t n = 0;
    graph->path[n++] = root;
    graph->color[root] = 1;
    graph->place[root] = graph->first[root];
    while (n > 0) {
        const uint32_t at = graph->path[n - 1];
        if (graph->place[at] == graph->first[at + 1]) {
            graph->color[at] = 2;
            n--;
            continue;
        }
        const uint32_t next = graph->called[graph->place[at]++];
        if (graph->color[next] == 1) {
            *rule = next;
            return true;
        }
        if (graph->color[next] == 0) {
            graph->color[next] = 1;
            graph->place[next] = graph->first[next];
            graph->path[n++] = next;
        }
    }
    return false;
}

static void free_call_graph(call_graph *graph, const lk_grammar *g) {
    const lk_allocator *a = g->allocator;
    lk_free_array(a, graph->first, g->n_rules + 1, sizeof graph->first[0]);
    lk_free_array(a, graph->called, g->n_states, sizeof graph->called[0]);
    lk_free_array(a, graph->place, g->n_rules, sizeof graph->place[0]);
    lk_free_array(a, graph->path, g->n_rules, sizeof graph->path[0]);
    lk_free_array(a, graph->color, g->n_rules, sizeof graph->color[0]);
    lk_free_array(a, graph->seen, g->n_states, sizeof graph->seen[0]);
}

/* False when memory is short. *found: `rule` begins with itself. */
static bool find_left_recursion(const checker *c, bool *found, uint32_t *rule) {
    const lk_grammar *g = c->g;
    const lk_allocator *a = g->allocator;
    call_graph graph = {
        lk_alloc_array(a, g->n_rules + 1, sizeof graph.first[0]),
        lk_alloc_array(a, g->n_states, sizeof graph.called[0]),
        lk_alloc_array(a, g->n_rules, sizeof graph.place[0]),
        lk_alloc_array(a, g->n_rules, sizeof graph.path[0]),
        lk_alloc_array_zero(a, g->n_rules, sizeof graph.color[0]),
        lk_alloc_array_zero(a, g->n_states, sizeof graph.seen[0]),
    };
    const bool ok = graph.first != NULL && graph.called != NULL && graph.place != NULL &&
                    graph.path != NULL && graph.color != NULL && graph.seen != NULL;
    if (ok) {
        size_t n = 0;
        for (uint32_t r = 0; r < g->n_rules; r++) {
            graph.first[r] = (uint32_t)n;
            n += list_first_calls(c, r, graph.seen, graph.called + n);
        }
        graph.first[g->n_rules] = (uint32_t)n;
        for (uint32_t r = 0; r < g->n_rules && !*found; r++) {
            *found = graph.color[r] == 0 && find_cycle(&graph, r, rule);
        }
    }
    free_call_graph(&graph, g);
    return ok;
}

/* ---- the whole ---- */

static void find_classes(lk_grammar *g) {
    bool begins[257] = {false};
    for (size_t s = 0; s < g->n_states; s++) {
        const lk_grammar_state *state = &g->states[s];
        for (uint32_t i = 0; state->kind == LK_GRAMMAR_EDGES && i < state->n; i++) {
            const lk_grammar_edge *edge = &g->edges[state->first + i];
            begins[edge->low] = true;
            begins[edge->high + 1] = true;
        }
    }
    uint8_t class = 0;
    for (uint32_t byte = 0; byte < 256; byte++) {
        class = (uint8_t)(class + (byte != 0 && begins[byte]));
        g->class_of[byte] = class;
    }
    g->n_classes = class + 1u;
}

static lk_status check(checker *c, uint32_t root, lk_grammar_name_fn name_of, void *ctx) {
    lk_grammar_builder *b = c->b;
    lk_grammar *g = c->g;
    const lk_allocator *a = g->allocator;
    bool found = false;
    uint32_t rule = 0;
    c->stack = lk_alloc_array(a, g->n_states, sizeof c->stack[0]);
    c->pending = lk_alloc_array(a, g->n_states, sizeof c->pending[0]);
    if (c->stack == NULL || c->pending == NULL || !list_users(c)) {
        return lk_grammar_fail(b, LK_E_NOMEM, LK_AT_SUBJECT("a grammar"),
                               "cannot allocate the check of a grammar of %zu states", g->n_states);
    }
    find_nullable(c);
    if (!find_left_recursion(c, &found, &rule)) {
        return lk_grammar_fail(b, LK_E_NOMEM, LK_AT_SUBJECT("a grammar"),
                               "cannot allocate the check of a grammar of %zu states", g->n_states);
    }
    if (found) {
        return lk_grammar_fail(b, LK_E_FORMAT, LK_AT_SUBJECT(name_of(ctx, rule)),
                               "grammar: the rule '%s' is left-recursive: it begins with itself",
                               name_of(ctx, rule));
    }
    find_depths(c);
    if (g->states[g->rules[root]].depth == LK_GRAMMAR_NEVER) {
        return lk_grammar_fail(b, LK_E_FORMAT, LK_AT_SUBJECT(name_of(ctx, root)),
                               "grammar: no text of at most %d nested rules satisfies '%s'",
                               LK_GRAMMAR_MAX_DEPTH, name_of(ctx, root));
    }
    find_classes(g);
    g->root = root;
    return LK_OK;
}

lk_status lk_grammar_finish(lk_grammar_builder *b, uint32_t root, lk_grammar_name_fn name_of,
                            void *ctx, lk_grammar **out) {
    lk_grammar *g = b->grammar;
    *out = NULL;
    if (b->status == LK_OK) {
        checker c = {.b = b, .g = g};
        const lk_allocator *a = g->allocator;
        (void)check(&c, root, name_of, ctx);
        lk_free_array(a, c.first_user, g->n_states + 2, sizeof c.first_user[0]);
        lk_free_array(a, c.users, c.n_users, sizeof c.users[0]);
        lk_free_array(a, c.stack, g->n_states, sizeof c.stack[0]);
        lk_free_array(a, c.pending, g->n_states, sizeof c.pending[0]);
    }
    if (b->status != LK_OK) {
        lk_grammar_free(g);
    } else {
        *out = g;
    }
    b->grammar = NULL;
    return b->status;
}

/* pattern.c - from the states of a pattern to a language: sets of states become states. */
#include "grammar/pattern.h"

#include <string.h>

#include "grammar/pattern_nfa.h"

enum { MAX_WORK = 1 << 26 }; /* states looked at, summed */

typedef struct machine {
    const lk_nfa *nfa;
    const lk_allocator *a;
    lk_language *out;
    uint8_t *has;    /* [n_sets, n_classes] is the class in the set? */
    uint32_t *lists; /* the sets of states, one after another */
    size_t n_lists, lists_capacity;
    uint32_t *first; /* [n_states of out + 1] where each begins */
    size_t first_capacity;
    uint32_t *slots; /* number + 1; 0: free */
    size_t n_slots;
    uint32_t *stamps; /* [n_states of nfa] */
    uint32_t stamp;
    uint32_t *stack;   /* [2 * n_states of nfa] */
    uint32_t *members; /* [n_states of nfa] the set in work */
    size_t n_members;
    bool is_found;
    size_t work;
    lk_status status;
    lk_error *err;
} machine;

static void fail_memory(machine *m) {
    m->status = lk_fail_nomem(m->err, "the states of a pattern", m->n_lists);
}

/* ---- what is reached without reading ---- */

static void reach(machine *m, uint32_t state, bool at_begin, bool at_end) {
    size_t n = 0;
    m->stack[n++] = state;
    while (n > 0) {
        const uint32_t at = m->stack[--n];
        const lk_nfa_state *s = &m->nfa->states[at];
        if (m->stamps[at] == m->stamp) {
            continue;
        }
        m->stamps[at] = m->stamp;
        m->work++;
        switch (s->kind) {
        case LK_NFA_SET:
            m->members[m->n_members++] = at;
            break;
        case LK_NFA_SPLIT:
            if (s->other != LK_NFA_NONE) {
                m->stack[n++] = s->other;
            }
            m->stack[n++] = s->next;
            break;
        case LK_NFA_BEGIN:
            if (at_begin) {
                m->stack[n++] = s->next;
            }
            break;
        case LK_NFA_END:
            m->members[m->n_members++] = at;
            if (at_end) {
                m->stack[n++] = s->next;
            }
            break;
        case LK_NFA_FOUND:
            m->is_found = true;
            break;
        }
    }
}

static void begin_set(machine *m) {
    m->stamp++;
    m->n_members = 0;
    m->is_found = false;
}

static void sort_members(machine *m) {
    uint32_t *v = m->members;
    const size_t n = m->n_members;
    for (size_t gap = n / 2; gap > 0; gap /= 2) {
        for (size_t i = gap; i < n; i++) {
            const uint32_t moving = v[i];
            size_t k = i;
            for (; k >= gap && v[k - gap] > moving; k -= gap) {
                v[k] = v[k - gap];
            }
            v[k] = moving;
        }
    }
}

/* ---- sets as states ---- */

static uint32_t hash_list(const uint32_t *list, size_t n) {
    uint32_t hash = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        hash = (hash ^ list[i]) * 0x9E3779B1u;
        hash ^= hash >> 15;
    }
    return hash;
}

static bool grow_slots(machine *m) {
    const uint32_t n = m->out->n_states;
    if (2 * ((size_t)n + 1) <= m->n_slots) {
        return true;
    }
    const size_t wanted = m->n_slots != 0 ? 2 * m->n_slots : 64;
    uint32_t *slots = lk_alloc_array_zero(m->a, wanted, sizeof slots[0]);
    if (slots == NULL) {
        return false;
    }
    lk_free_array(m->a, m->slots, m->n_slots, sizeof m->slots[0]);
    m->slots = slots;
    m->n_slots = wanted;
    for (uint32_t i = 1; i < n; i++) { /* the start is found by nobody: ^ holds there alone */
        size_t s = hash_list(m->lists + m->first[i], m->first[i + 1] - m->first[i]) & (wanted - 1);
        while (slots[s] != 0) {
            s = (s + 1) & (wanted - 1);
        }
        slots[s] = i + 1;
    }
    return true;
}

/* Does the text match if it ends here? */
static bool ends_here(machine *m, const uint32_t *list, size_t n, bool at_begin) {
    begin_set(m);
    for (size_t i = 0; i < n; i++) {
        reach(m, list[i], at_begin, true);
    }
    return m->is_found;
}

/* The state of the set in work, made when it is new. A set in which the pattern has been found is
 * the empty list, marked by LK_NFA_NONE: all texts match from there. */
static uint32_t state_of_set(machine *m, bool at_begin) {
    if (m->is_found) {
        m->members[0] = LK_NFA_NONE;
        m->n_members = 1;
    } else {
        sort_members(m);
    }
    if (m->n_members == 0) {
        return LK_LANGUAGE_NONE;
    }
    if (!grow_slots(m)) {
        fail_memory(m);
        return LK_LANGUAGE_NONE;
    }
    size_t s = hash_list(m->members, m->n_members) & (m->n_slots - 1);
    for (; m->slots[s] != 0; s = (s + 1) & (m->n_slots - 1)) {
        const uint32_t i = m->slots[s] - 1;
        if (m->first[i + 1] - m->first[i] == m->n_members &&
            memcmp(m->lists + m->first[i], m->members, m->n_members * sizeof m->members[0]) == 0) {
            return i;
        }
    }
    void *lists = m->lists;
    void *first = m->first;
    if (!lk_grow_array(m->a, &lists, m->n_lists, &m->lists_capacity, m->n_lists + m->n_members,
                       sizeof m->lists[0])) {
        fail_memory(m);
        return LK_LANGUAGE_NONE;
    }
    m->lists = lists;
    if (!lk_grow_array(m->a, &first, (size_t)m->out->n_states + 1, &m->first_capacity,
                       (size_t)m->out->n_states + 2, sizeof m->first[0])) {
        fail_memory(m);
        return LK_LANGUAGE_NONE;
    }
    m->first = first;
    const uint32_t state = lk_language_add(m->out, m->a, m->err, &m->status);
    if (m->status != LK_OK) {
        return LK_LANGUAGE_NONE;
    }
    memcpy(m->lists + m->n_lists, m->members, m->n_members * sizeof m->members[0]);
    m->n_lists += m->n_members;
    m->first[state + 1] = (uint32_t)m->n_lists;
    if (!at_begin) {
        m->slots[s] = state + 1;
    }
    const bool is_found = m->is_found;
    m->out->is_end[state] = is_found || ends_here(m, m->lists + m->first[state],
                                                  m->n_lists - m->first[state], at_begin);
    return state;
}

static void fill_state(machine *m, uint32_t state) {
    lk_language *out = m->out;
    const size_t begin = m->first[state];
    const size_t n = m->first[state + 1] - begin;
    for (uint32_t c = 0; c < out->n_classes && m->status == LK_OK; c++) {
        begin_set(m);
        if (m->lists[begin] == LK_NFA_NONE) {
            m->is_found = true;
        }
        for (size_t i = 0; i < n && !m->is_found; i++) {
            const lk_nfa_state *s = &m->nfa->states[m->lists[begin + i]];
            m->work++;
            if (s->kind == LK_NFA_SET && m->has[(size_t)s->other * out->n_classes + c]) {
                reach(m, s->next, false, false);
            }
        }
        const uint32_t next = state_of_set(m, false);
        out->next[(size_t)state * out->n_classes + c] = next;
        if (m->work > MAX_WORK && m->status == LK_OK) {
            m->status = lk_fail(m->err, LK_E_LIMIT, LK_AT_SUBJECT("pattern"),
                                "the pattern takes more than %d steps to prepare", MAX_WORK);
        }
    }
}

static bool cut_classes(machine *m) {
    const lk_nfa *nfa = m->nfa;
    size_t n = 0;
    for (size_t i = 0; i < nfa->n_sets; i++) {
        n += 2 * nfa->sets[i].n;
    }
    uint32_t *cuts = lk_alloc_array(m->a, n, sizeof cuts[0]);
    size_t used = 0;
    for (size_t i = 0; i < nfa->n_sets && cuts != NULL; i++) {
        for (size_t k = 0; k < nfa->sets[i].n; k++) {
            cuts[used++] = nfa->sets[i].ranges[k].low;
            cuts[used++] = nfa->sets[i].ranges[k].high + 1;
        }
    }
    const bool ok = cuts != NULL && lk_language_cut(m->out, cuts, used, m->a);
    lk_free_array(m->a, cuts, n, sizeof cuts[0]);
    return ok;
}

static void run(machine *m) {
    const lk_nfa *nfa = m->nfa;
    const size_t n = nfa->n_states;
    if (!cut_classes(m)) {
        fail_memory(m);
        return;
    }
    const uint32_t n_classes = m->out->n_classes;
    if (nfa->n_sets * n_classes > LK_LANGUAGE_MAX_ENTRIES) {
        m->status = lk_fail(m->err, LK_E_LIMIT, LK_AT_SUBJECT("pattern"),
                            "the pattern has too many classes of characters");
        return;
    }
    void *first = NULL;
    m->has = lk_alloc_array(m->a, nfa->n_sets * n_classes, 1);
    m->stamps = lk_alloc_array_zero(m->a, n, sizeof m->stamps[0]);
    m->stack = lk_alloc_array(m->a, 2 * n + 1, sizeof m->stack[0]);
    m->members = lk_alloc_array(m->a, n + 1, sizeof m->members[0]);
    if (m->has == NULL || m->stamps == NULL || m->stack == NULL || m->members == NULL ||
        !lk_grow_array(m->a, &first, 0, &m->first_capacity, 2, sizeof m->first[0])) {
        fail_memory(m);
        return;
    }
    m->first = first;
    m->first[0] = 0;
    for (size_t s = 0; s < nfa->n_sets; s++) {
        for (uint32_t c = 0; c < n_classes; c++) {
            m->has[s * n_classes + c] = lk_code_points_has(&nfa->sets[s], m->out->cuts[c]);
        }
    }
    begin_set(m);
    reach(m, nfa->start, true, false);
    (void)state_of_set(m, true);
    for (uint32_t s = 0; s < m->out->n_states && m->status == LK_OK; s++) {
        fill_state(m, s);
    }
    if (m->status == LK_OK) {
        m->status = lk_language_trim(m->out, m->a, m->err);
    }
}

lk_status lk_pattern_compile(const char *text, size_t n, const lk_allocator *a, lk_language *out,
                             lk_error *err) {
    lk_nfa nfa;
    *out = (lk_language){0};
    lk_status status = lk_nfa_parse(text, n, a, &nfa, err);
    if (status == LK_OK) {
        machine m = {.nfa = &nfa, .a = a, .out = out, .err = err};
        run(&m);
        status = m.status;
        const size_t n_has = nfa.n_sets * out->n_classes;
        lk_free_array(a, m.has, n_has, 1);
        lk_free_array(a, m.lists, m.lists_capacity, sizeof m.lists[0]);
        lk_free_array(a, m.first, m.first_capacity, sizeof m.first[0]);
        lk_free_array(a, m.slots, m.n_slots, sizeof m.slots[0]);
        lk_free_array(a, m.stamps, nfa.n_states, sizeof m.stamps[0]);
        lk_free_array(a, m.stack, 2 * nfa.n_states + 1, sizeof m.stack[0]);
        lk_free_array(a, m.members, nfa.n_states + 1, sizeof m.members[0]);
    }
    lk_nfa_free(&nfa);
    if (status != LK_OK) {
        lk_language_free(out, a);
    }
    return status;
}

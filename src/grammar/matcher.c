/* matcher.c - places and the steps between them. */
#include "grammar/matcher.h"

#include <string.h>

#include "base/error.h"

static lk_status no_memory(lk_error *err) {
    return lk_fail_nomem(err, "the state of a grammar", LK_MATCHER_CACHE_BYTES);
}

/* Effort is counted finely, then in units of LK_GRAMMAR_MAX_STEP_WORK. */
enum { EFFORT_EDGE = 1, EFFORT_CLASS = 1, EFFORT_ITEM = 8, EFFORT_UNIT = 64 };

/* ---- tables ---- */

static uint32_t mix(uint32_t hash, uint32_t x) {
    hash = (hash ^ x) * 0x9E3779B1u;
    return hash ^ (hash >> 15);
}

static bool grow_slots(lk_slots *t, size_t n_used, const lk_allocator *a, bool *was_grown) {
    *was_grown = false;
    if (2 * (n_used + 1) <= t->n_slots) {
        return true;
    }
    const size_t n = t->n_slots != 0 ? 2 * t->n_slots : 64;
    lk_slot *slots = lk_alloc_array_zero(a, n, sizeof slots[0]);
    if (slots == NULL) {
        return false;
    }
    lk_free_array(a, t->slots, t->n_slots, sizeof t->slots[0]);
    *t = (lk_slots){slots, n, 1};
    *was_grown = true;
    return true;
}

static void clear_slots(lk_slots *t) {
    if (++t->stamp == 0 && t->slots != NULL) {
        memset(t->slots, 0, t->n_slots * sizeof t->slots[0]);
        t->stamp = 1;
    }
}

static void put_slot(lk_slots *t, uint32_t hash, uint32_t index) {
    size_t i = hash & (t->n_slots - 1);
    while (t->slots[i].stamp == t->stamp) {
        i = (i + 1) & (t->n_slots - 1);
    }
    t->slots[i] = (lk_slot){t->stamp, index};
}

/* ---- frames ---- */

static uint32_t hash_frame(const lk_frame *f) {
    return mix(mix(mix(1, f->state), f->count), f->below);
}

static lk_status get_frame(lk_matcher *m, uint32_t state, uint32_t count, uint32_t below,
                           uint32_t *frame, lk_error *err) {
    const lk_frame wanted = {state, count, below, m->frames[below].depth + 1, 0};
    bool was_grown = false;
    if (!grow_slots(&m->frame_slots, m->n_frames, m->allocator, &was_grown)) {
        return no_memory(err);
    }
    for (uint32_t i = 1; was_grown && i < m->n_frames; i++) {
        put_slot(&m->frame_slots, hash_frame(&m->frames[i]), i);
    }
    const lk_slots *t = &m->frame_slots;
    for (size_t i = hash_frame(&wanted) & (t->n_slots - 1); t->slots[i].stamp == t->stamp;
         i = (i + 1) & (t->n_slots - 1)) {
        const lk_frame *f = &m->frames[t->slots[i].index];
        if (f->state == state && f->count == count && f->below == below) {
            *frame = t->slots[i].index;
            return LK_OK;
        }
    }
    void *frames = m->frames;
    if (!lk_grow_array(m->allocator, &frames, m->n_frames, &m->frames_capacity, m->n_frames + 1,
                       sizeof m->frames[0])) {
        return no_memory(err);
    }
    m->frames = frames;
    *frame = (uint32_t)m->n_frames++;
    m->frames[*frame] = wanted;
    put_slot(&m->frame_slots, hash_frame(&wanted), *frame);
    return LK_OK;
}

/* ---- from items to ways ---- */

static void begin_items(lk_matcher *m) {
    m->n_items = 0;
    m->effort = 0;
    clear_slots(&m->item_slots);
}

static uint32_t hash_item(const lk_item *i) {
    return mix(mix(mix(2, i->state), i->count), i->stack);
}

/* Can the text be completed from a state within the depth that is left? */
static bool is_open(const lk_matcher *m, uint32_t state, uint32_t stack) {
    const uint32_t depth = m->grammar->states[state].depth;
    return depth <= LK_GRAMMAR_MAX_DEPTH && m->frames[stack].depth + depth <= LK_GRAMMAR_MAX_DEPTH;
}

static lk_status spend(lk_matcher *m, size_t effort, lk_error *err) {
    m->effort += effort;
    if (m->effort >= (size_t)LK_GRAMMAR_MAX_STEP_WORK * EFFORT_UNIT) {
        return lk_fail(err, LK_E_LIMIT, LK_AT_SUBJECT("grammar"),
                       "grammar: the ways to read one more byte take more than %d units of work",
                       LK_GRAMMAR_MAX_STEP_WORK);
    }
    return LK_OK;
}

/* Adds what is not there yet and leads to an end. */
static lk_status add_item(lk_matcher *m, uint32_t state, uint32_t count, uint32_t stack,
                          lk_error *err) {
    const lk_item item = {state, count, stack};
    bool was_grown = false;
    const lk_status status = spend(m, EFFORT_ITEM, err);
    if (status != LK_OK || !is_open(m, state, stack)) {
        return status;
    }
    if (!grow_slots(&m->item_slots, m->n_items, m->allocator, &was_grown)) {
        return no_memory(err);
    }
    for (uint32_t i = 0; was_grown && i < m->n_items; i++) {
        put_slot(&m->item_slots, hash_item(&m->items[i]), i);
    }
    const lk_slots *t = &m->item_slots;
    for (size_t i = hash_item(&item) & (t->n_slots - 1); t->slots[i].stamp == t->stamp;
         i = (i + 1) & (t->n_slots - 1)) {
        if (memcmp(&m->items[t->slots[i].index], &item, sizeof item) == 0) {
            return LK_OK;
        }
    }
    if (m->n_items == 4 * (size_t)LK_GRAMMAR_MAX_WAYS) {
        return lk_fail(err, LK_E_LIMIT, LK_AT_SUBJECT("grammar"),
                       "grammar: the text so far can be read in more than %d ways at once",
                       LK_GRAMMAR_MAX_WAYS);
    }
    void *items = m->items;
    if (!lk_grow_array(m->allocator, &items, m->n_items, &m->items_capacity, m->n_items + 1,
                       sizeof m->items[0])) {
        return no_memory(err);
    }
    m->items = items;
    m->items[m->n_items] = item;
    put_slot(&m->item_slots, hash_item(&item), (uint32_t)m->n_items++);
    return LK_OK;
}

/* A round of a repetition, and its end. */
static lk_status open_repeat(lk_matcher *m, const lk_item *item, lk_error *err) {
    const lk_grammar_state *s = &m->grammar->states[item->state];
    uint32_t count = item->count;
    const bool is_fixed = count == LK_COUNT_FREE || count == LK_COUNT_BELOW;
    lk_status status = LK_OK;
    if (count == LK_COUNT_FREE || (!is_fixed && count >= s->n)) {
        status = add_item(m, s->next, 0, item->stack, err);
    }
    if (status != LK_OK || (!is_fixed && count >= s->max) || !is_open(m, s->next, item->stack)) {
        return status;
    }
    uint32_t frame = item->stack;
    if (!is_fixed && count + 1 == s->max) {
        if (s->next != LK_GRAMMAR_END) {
            status = get_frame(m, s->next, 0, item->stack, &frame, err);
        }
    } else {
        if (!is_fixed) {
            count = s->max == LK_GRAMMAR_NO_MAX && count >= s->n ? s->n : count + 1;
        }
        status = get_frame(m, item->state, count, item->stack, &frame, err);
    }
    return status == LK_OK ? add_item(m, s->first, 0, frame, err) : status;
}

static lk_status open_item(lk_matcher *m, const lk_item *item, bool *is_end, lk_error *err) {
    const lk_grammar *g = m->grammar;
    const lk_grammar_state *s = &g->states[item->state];
    lk_status status = LK_OK;
    switch (s->kind) {
    case LK_GRAMMAR_EDGES:
        break;
    case LK_GRAMMAR_SPLIT:
        for (uint32_t i = 0; i < s->n && status == LK_OK; i++) {
            status = add_item(m, g->edges[s->first + i].next, 0, item->stack, err);
        }
        break;
    case LK_GRAMMAR_CALL: {
        uint32_t frame = item->stack;
        if (s->next != LK_GRAMMAR_END) {
            if (!is_open(m, s->next, item->stack)) {
                break;
            }
            status = get_frame(m, s->next, 0, item->stack, &frame, err);
        }
        return status == LK_OK ? add_item(m, g->rules[s->first], 0, frame, err) : status;
    }
    case LK_GRAMMAR_REPEAT:
        return open_repeat(m, item, err);
    case LK_GRAMMAR_RETURN:
        if (item->stack == 0) {
            *is_end = true;
        } else {
            const lk_frame f = m->frames[item->stack];
            status = add_item(m, f.state, f.count, f.below, err);
        }
        break;
    }
    return status;
}

/* ---- places ---- */

static uint32_t hash_ways(const lk_way *ways, size_t n, bool is_end) {
    uint32_t hash = mix(3, is_end);
    for (size_t i = 0; i < n; i++) {
        hash = mix(mix(hash, ways[i].state), ways[i].stack);
    }
    return hash;
}

static bool is_before(const lk_way *a, const lk_way *b) {
    return a->state != b->state ? a->state < b->state : a->stack < b->stack;
}

/* Puts ways in order: by insertion while they are few, else as a heap. */
static void sort_ways(lk_way *ways, size_t n) {
    if (n <= 16) {
        for (size_t i = 1; i < n; i++) {
            const lk_way moving = ways[i];
            size_t k = i;
            for (; k > 0 && is_before(&moving, &ways[k - 1]); k--) {
                ways[k] = ways[k - 1];
            }
            ways[k] = moving;
        }
        return;
    }
    for (size_t round = n / 2 + n; round-- > 0;) {
        /* The first n / 2 rounds build the heap, the others take its top. */
        size_t end = n;
        size_t i = round - n;
        lk_way moving;
        if (round >= n) {
            moving = ways[i];
        } else {
            if (round == 0) {
                break;
            }
            end = round;
            i = 0;
            moving = ways[end];
            ways[end] = ways[0];
        }
        for (size_t child = 2 * i + 1; child < end; child = 2 * i + 1) {
            child += child + 1 < end && is_before(&ways[child], &ways[child + 1]);
            if (!is_before(&moving, &ways[child])) {
                break;
            }
            ways[i] = ways[child];
            i = child;
        }
        ways[i] = moving;
    }
}

static bool add_place(lk_matcher *m, uint32_t hash, const lk_place *place) {
    const size_t n_classes = m->grammar->n_classes;
    void *places = m->places;
    void *moves = m->moves;
    const size_t used = m->n_places * n_classes;
    if (!lk_grow_array(m->allocator, &places, m->n_places, &m->places_capacity, m->n_places + 1,
                       sizeof m->places[0])) {
        return false;
    }
    m->places = places;
    if (!lk_grow_array(m->allocator, &moves, used, &m->moves_capacity, used + n_classes,
                       sizeof m->moves[0])) {
        return false;
    }
    m->moves = moves;
    for (size_t i = used; i < used + n_classes; i++) {
        m->moves[i] = (lk_move){LK_NO_PLACE, 0, 0};
    }
    m->places[m->n_places] = *place;
    put_slot(&m->place_slots, hash, (uint32_t)m->n_places++);
    return true;
}

/* The ways from `first` on; NULL while there are none at all. */
static lk_way *ways_from(const lk_matcher *m, size_t first) {
    return m->ways != NULL ? m->ways + first : NULL;
}

/* The place with the ways that stand at the end of m->ways, from `first` on. They stay when it is
 * new. */
static lk_status find_place(lk_matcher *m, size_t first, bool is_end, uint32_t *place,
                            lk_error *err) {
    lk_way *ways = ways_from(m, first);
    const size_t n = m->n_ways - first;
    bool was_grown = false;
    sort_ways(ways, n);
    if (!grow_slots(&m->place_slots, m->n_places, m->allocator, &was_grown)) {
        return no_memory(err);
    }
    for (uint32_t i = 0; was_grown && i < m->n_places; i++) {
        const lk_place *p = &m->places[i];
        put_slot(&m->place_slots, hash_ways(ways_from(m, p->first_way), p->n_ways, p->is_end), i);
    }
    const uint32_t hash = hash_ways(ways, n, is_end);
    const lk_slots *t = &m->place_slots;
    for (size_t i = hash & (t->n_slots - 1); t->slots[i].stamp == t->stamp;
         i = (i + 1) & (t->n_slots - 1)) {
        const lk_place *p = &m->places[t->slots[i].index];
        if (p->n_ways == n && p->is_end == is_end &&
            (n == 0 || memcmp(ways_from(m, p->first_way), ways, n * sizeof ways[0]) == 0)) {
            m->n_ways = first;
            *place = t->slots[i].index;
            return LK_OK;
        }
    }
    const lk_place fresh = {(uint32_t)first, (uint32_t)n, LK_NO_MASK, LK_NO_PLACE, is_end};
    if (!add_place(m, hash, &fresh)) {
        m->n_ways = first;
        return no_memory(err);
    }
    *place = (uint32_t)m->n_places - 1;
    return LK_OK;
}

static lk_status add_way(lk_matcher *m, uint32_t state, uint32_t stack, lk_error *err) {
    void *ways = m->ways;
    if (!lk_grow_array(m->allocator, &ways, m->n_ways, &m->ways_capacity, m->n_ways + 1,
                       sizeof m->ways[0])) {
        return no_memory(err);
    }
    m->ways = ways;
    m->ways[m->n_ways++] = (lk_way){state, stack};
    return LK_OK;
}

/* Follows the items to all states that want a byte. */
static lk_status place_of_items(lk_matcher *m, uint32_t *place, lk_error *err) {
    const size_t first = m->n_ways;
    bool is_end = false;
    lk_status status = LK_OK;
    for (size_t i = 0; i < m->n_items && status == LK_OK; i++) {
        const lk_item item = m->items[i];
        status = open_item(m, &item, &is_end, err);
        if (status == LK_OK && m->grammar->states[item.state].kind == LK_GRAMMAR_EDGES) {
            status = add_way(m, item.state, item.stack, err);
        }
    }
    if (status == LK_OK && m->n_ways - first > LK_GRAMMAR_MAX_WAYS) {
        status = lk_fail(err, LK_E_LIMIT, LK_AT_SUBJECT("grammar"),
                         "grammar: the text so far can be read in more than %d ways at once",
                         LK_GRAMMAR_MAX_WAYS);
    }
    if (status != LK_OK) {
        m->n_ways = first;
        return status;
    }
    return find_place(m, first, is_end, place, err);
}

/* ---- steps ---- */

lk_tour lk_matcher_begin_tour(lk_matcher *m, uint32_t limit) {
    if (++m->n_tours == 0) {
        m->n_tours = 1;
        for (size_t i = 0; i < m->n_places * m->grammar->n_classes; i++) {
            m->moves[i].mark = 0;
        }
    }
    return (lk_tour){0, limit};
}

lk_status lk_matcher_count(lk_matcher *m, lk_tour *tour, lk_move *move, lk_error *err) {
    if (move->mark == m->n_tours) {
        return LK_OK;
    }
    move->mark = m->n_tours;
    tour->work += move->cost;
    if (tour->work > tour->limit) {
        return lk_fail(err, LK_E_LIMIT, LK_AT_SUBJECT("grammar"),
                       "grammar: the next token takes more than %u units of work", tour->limit);
    }
    return LK_OK;
}

/* All states behind the edges of a place that have a class. */
static lk_status follow_edges(lk_matcher *m, uint32_t place, uint32_t class, lk_error *err) {
    const lk_grammar *g = m->grammar;
    const lk_place from = m->places[place];
    lk_status status = LK_OK;
    for (uint32_t i = 0; i < from.n_ways && status == LK_OK; i++) {
        const lk_way way = m->ways[from.first_way + i];
        const lk_grammar_state *s = &g->states[way.state];
        status = spend(m, s->n * (size_t)EFFORT_EDGE, err);
        for (uint32_t k = 0; k < s->n && status == LK_OK; k++) {
            const lk_grammar_edge *edge = &g->edges[s->first + k];
            if (g->class_of[edge->low] <= class && class <= g->class_of[edge->high]) {
                status = add_item(m, edge->next, 0, way.stack, err);
            }
        }
    }
    return status;
}

lk_status lk_matcher_step(lk_matcher *m, uint32_t place, uint32_t class, lk_tour *tour,
                          uint32_t *next, lk_error *err) {
    const size_t i = place * (size_t)m->grammar->n_classes + class;
    if (m->moves[i].to == LK_NO_PLACE) {
        uint32_t to = LK_DEAD_PLACE;
        begin_items(m);
        lk_status status = follow_edges(m, place, class, err);
        if (status == LK_OK && m->n_items != 0) {
            status = spend(m, m->grammar->n_classes * (size_t)EFFORT_CLASS, err);
        }
        if (status == LK_OK) {
            status = place_of_items(m, &to, err);
        }
        if (status != LK_OK) {
            return status;
        }
        m->moves[i] = (lk_move){to, (uint16_t)(m->effort / EFFORT_UNIT + 1), 0};
    }
    *next = m->moves[i].to;
    return tour != NULL ? lk_matcher_count(m, tour, &m->moves[i], err) : LK_OK;
}

/* ---- plain places ---- */

static uint32_t plain_count(const lk_matcher *m, const lk_frame *f) {
    const lk_grammar_state *s = &m->grammar->states[f->state];
    const uint32_t usual = m->trie != NULL ? m->trie->usual : 0;
    if (s->kind != LK_GRAMMAR_REPEAT || m->grammar->states[s->first].is_nullable ||
        f->count >= LK_COUNT_BELOW) {
        return f->count;
    }
    if (f->count < s->n) {
        return s->n - f->count > usual + 1 ? LK_COUNT_BELOW : f->count;
    }
    return s->max == LK_GRAMMAR_NO_MAX || s->max - f->count > usual + 1 ? LK_COUNT_FREE : f->count;
}

static lk_status plain_stack(lk_matcher *m, uint32_t stack, uint32_t *plain, lk_error *err) {
    uint32_t path[LK_GRAMMAR_MAX_DEPTH + 1];
    uint32_t n = 0;
    uint32_t f = stack;
    for (; f != 0 && m->frames[f].plain == 0; f = m->frames[f].below) {
        path[n++] = f;
    }
    uint32_t top = m->frames[f].plain; /* 0 of the empty stack */
    lk_status status = LK_OK;
    while (n > 0 && status == LK_OK) {
        const lk_frame frame = m->frames[path[--n]];
        status = get_frame(m, frame.state, plain_count(m, &frame), top, &top, err);
        m->frames[path[n]].plain = status == LK_OK ? top : 0;
    }
    *plain = top;
    return status;
}

lk_status lk_matcher_plain(lk_matcher *m, uint32_t place, uint32_t *plain, lk_error *err) {
    const lk_place from = m->places[place];
    if (from.plain != LK_NO_PLACE) {
        *plain = from.plain;
        return LK_OK;
    }
    const size_t first = m->n_ways;
    lk_status status = LK_OK;
    for (uint32_t i = 0; i < from.n_ways && status == LK_OK; i++) {
        const lk_way way = m->ways[from.first_way + i];
        uint32_t stack = 0;
        status = plain_stack(m, way.stack, &stack, err);
        if (status == LK_OK) {
            status = add_way(m, way.state, stack, err);
        }
    }
    if (status != LK_OK) {
        m->n_ways = first;
        return status;
    }
    /* Ways that were different only in such counts are one. */
    sort_ways(ways_from(m, first), m->n_ways - first);
    size_t n = first;
    for (size_t i = first; i < m->n_ways; i++) {
        if (n == first || is_before(&m->ways[n - 1], &m->ways[i])) {
            m->ways[n++] = m->ways[i];
        }
    }
    m->n_ways = n;
    status = find_place(m, first, from.is_end, plain, err);
    if (status == LK_OK) {
        m->places[place].plain = *plain;
        m->places[*plain].plain = *plain;
    }
    return status;
}

/* ---- the life of a matcher ---- */

/* Nothing is known but the empty stack and the dead place. */
static lk_status forget(lk_matcher *m, lk_error *err) {
    void *frames = m->frames;
    m->n_frames = 0;
    m->n_places = 0;
    m->n_ways = 0;
    m->n_masks = 0;
    clear_slots(&m->frame_slots);
    clear_slots(&m->place_slots);
    if (!lk_grow_array(m->allocator, &frames, 0, &m->frames_capacity, 1, sizeof m->frames[0])) {
        return no_memory(err);
    }
    m->frames = frames;
    m->frames[m->n_frames++] = (lk_frame){LK_GRAMMAR_END, 0, 0, 0, 0};
    uint32_t dead = 0;
    begin_items(m);
    return place_of_items(m, &dead, err);
}

/* The first place, after which everything can be found again. */
static lk_status begin(lk_matcher *m, lk_error *err) {
    lk_status status = forget(m, err);
    if (status == LK_OK) {
        begin_items(m);
        status = add_item(m, m->grammar->rules[m->grammar->root], 0, 0, err);
    }
    if (status == LK_OK) {
        status = place_of_items(m, &m->start, err);
    }
    m->at = m->start;
    return status;
}

void lk_matcher_rewind(lk_matcher *m) {
    m->at = m->start;
    m->is_finished = false;
}

lk_status lk_matcher_init(lk_matcher *m, const lk_grammar *grammar, const lk_token_trie *trie,
                          const lk_allocator *allocator, lk_error *err) {
    *m = (lk_matcher){.allocator = lk_allocator_or_default(allocator),
                      .grammar = grammar,
                      .trie = trie,
                      .n_words = trie != NULL ? ((size_t)trie->n_vocab + 31) / 32 : 0};
    m->mask = lk_alloc_array(m->allocator, m->n_words, sizeof m->mask[0]);
    const lk_status status = m->mask != NULL ? begin(m, err) : no_memory(err);
    if (status != LK_OK) {
        lk_matcher_deinit(m);
    }
    return status;
}

void lk_matcher_deinit(lk_matcher *m) {
    const lk_allocator *a = m->allocator;
    if (a == NULL) {
        return;
    }
    lk_free_array(a, m->frames, m->frames_capacity, sizeof m->frames[0]);
    lk_free_array(a, m->frame_slots.slots, m->frame_slots.n_slots, sizeof(lk_slot));
    lk_free_array(a, m->places, m->places_capacity, sizeof m->places[0]);
    lk_free_array(a, m->place_slots.slots, m->place_slots.n_slots, sizeof(lk_slot));
    lk_free_array(a, m->ways, m->ways_capacity, sizeof m->ways[0]);
    lk_free_array(a, m->moves, m->moves_capacity, sizeof m->moves[0]);
    lk_free_array(a, m->items, m->items_capacity, sizeof m->items[0]);
    lk_free_array(a, m->item_slots.slots, m->item_slots.n_slots, sizeof(lk_slot));
    lk_free_array(a, m->masks, m->masks_capacity, sizeof m->masks[0]);
    lk_free_array(a, m->mask, m->n_words, sizeof m->mask[0]);
    *m = (lk_matcher){0};
}

static size_t bytes_kept(const lk_matcher *m) {
    return m->n_frames * sizeof m->frames[0] + m->n_ways * sizeof m->ways[0] +
           m->n_places * (sizeof m->places[0] + m->grammar->n_classes * sizeof m->moves[0]) +
           m->n_masks * m->n_words * sizeof m->masks[0];
}

/* A stack of `from` in `to`. What has been copied is noted where plain stacks were. */
static lk_status copy_stack(lk_matcher *from, lk_matcher *to, uint32_t stack, uint32_t *copy,
                            lk_error *err) {
    uint32_t path[LK_GRAMMAR_MAX_DEPTH + 1];
    uint32_t n = 0;
    uint32_t f = stack;
    for (; f != 0 && from->frames[f].plain == 0; f = from->frames[f].below) {
        path[n++] = f;
    }
    uint32_t top = from->frames[f].plain;
    lk_status status = LK_OK;
    while (n > 0 && status == LK_OK) {
        lk_frame *frame = &from->frames[path[--n]];
        status = get_frame(to, frame->state, frame->count, top, &top, err);
        frame->plain = status == LK_OK ? top : 0;
    }
    *copy = top;
    return status;
}

static void forget_plain(lk_matcher *m) {
    for (size_t i = 0; i < m->n_frames; i++) {
        m->frames[i].plain = 0;
    }
}

/* Throws away everything but the place of the text, when there is too much of it. */
static lk_status trim(lk_matcher *m, lk_error *err) {
    if (bytes_kept(m) <= LK_MATCHER_CACHE_BYTES) {
        return LK_OK;
    }
    lk_matcher fresh = {.allocator = m->allocator,
                        .grammar = m->grammar,
                        .trie = m->trie,
                        .n_words = m->n_words,
                        .is_finished = m->is_finished};
    const lk_place at = m->places[m->at];
    lk_status status = begin(&fresh, err);
    const size_t first = fresh.n_ways;
    forget_plain(m);
    for (uint32_t i = 0; i < at.n_ways && status == LK_OK; i++) {
        const lk_way way = m->ways[at.first_way + i];
        uint32_t top = 0;
        status = copy_stack(m, &fresh, way.stack, &top, err);
        if (status == LK_OK) {
            status = add_way(&fresh, way.state, top, err);
        }
    }
    if (status == LK_OK) {
        status = find_place(&fresh, first, at.is_end, &fresh.at, err);
    }
    if (status != LK_OK) {
        forget_plain(m);
        lk_matcher_deinit(&fresh);
        return status;
    }
    fresh.mask = m->mask;
    m->mask = NULL;
    lk_matcher_deinit(m);
    *m = fresh;
    return LK_OK;
}

static lk_status read_bytes(lk_matcher *m, const uint8_t *bytes, size_t n, lk_tour *tour,
                            lk_error *err) {
    lk_status status = LK_OK;
    uint32_t at = m->at;
    for (size_t i = 0; i < n && status == LK_OK; i++) {
        status = lk_matcher_step(m, at, m->grammar->class_of[bytes[i]], tour, &at, err);
        if (status == LK_OK && at == LK_DEAD_PLACE) {
            return lk_fail(err, LK_E_ARG, LK_AT_OFFSET(i, "grammar"),
                           "the grammar does not allow the byte 0x%02x at %zu", bytes[i], i);
        }
    }
    if (status == LK_OK) {
        m->at = at;
    }
    return status;
}

lk_status lk_matcher_bytes(lk_matcher *m, const uint8_t *bytes, size_t n, lk_error *err) {
    const lk_status status = trim(m, err);
    return status == LK_OK ? read_bytes(m, bytes, n, NULL, err) : status;
}

/* The bytes of a token, whose work is limited. */
static lk_status read_token(lk_matcher *m, const uint8_t *bytes, size_t n, lk_error *err) {
    const lk_status status = trim(m, err);
    if (status != LK_OK) {
        return status;
    }
    lk_tour tour = lk_matcher_begin_tour(m, LK_GRAMMAR_MAX_TOKEN_WORK);
    return read_bytes(m, bytes, n, &tour, err);
}

lk_status lk_matcher_token(lk_matcher *m, uint32_t token, lk_error *err) {
    if (m->is_finished) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("grammar"),
                       "token %u comes after the end of the text", token);
    }
    size_t n = 0;
    if (token < m->trie->n_vocab) {
        if (lk_trie_is_end(m->trie, token) && m->places[m->at].is_end) {
            m->is_finished = true;
            return LK_OK;
        }
        const uint8_t *bytes = lk_trie_token(m->trie, token, &n);
        const lk_status status = n != 0 ? read_token(m, bytes, n, err) : LK_OK;
        if (n != 0 && status != LK_E_ARG) {
            return status;
        }
    }
    return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("grammar"), "the grammar does not allow token %u",
                   token);
}

lk_grammar_progress lk_matcher_progress(const lk_matcher *m) {
    const lk_place *p = &m->places[m->at];
    if (!p->is_end) {
        return LK_GRAMMAR_OPEN;
    }
    return p->n_ways != 0 && !m->is_finished ? LK_GRAMMAR_MAY_END : LK_GRAMMAR_COMPLETE;
}

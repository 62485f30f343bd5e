/* admission.c - who computes next: waiting choices get slots in order of arrival, the rows of a
 * step are chosen, and pages are found for them, from the free ones, the cache, idle slots, and at
 * last from the youngest choice, which goes back to the queue and is recomputed later.
 *
 * Invariant: a choice never takes pages from an older one, so the oldest always gets on. */
#include <assert.h>

#include "engine/scheduler/scheduler.h"

void lk_queue_add(lk_engine *engine, lk_choice *choice) {
    lk_choice **place = &engine->first_waiting;
    while (*place != NULL && (*place)->arrival < choice->arrival) {
        place = &(*place)->next;
    }
    choice->next = *place;
    *place = choice;
    engine->stats.n_waiting++;
}

/* ---- slots ---- */

void lk_vacate(lk_engine *engine, lk_choice *choice) {
    lk_seq *seq = lk_choice_seq(engine, choice);
    int32_t i = 0;
    while (engine->running[i] != choice) {
        i++;
    }
    engine->n_running--;
    for (; i < engine->n_running; i++) {
        engine->running[i] = engine->running[i + 1];
    }
    engine->by_slot[choice->slot] = NULL;
    engine->slot_used[choice->slot] = (int64_t)engine->stats.n_steps;
    if ((choice->request->flags & LK_REQUEST_NO_CACHE) != 0) {
        lk_seq_cut(seq, &engine->context->kv, 0);
    } else if ((engine->params.flags & LK_ENGINE_NO_CACHE) == 0) {
        lk_prefix_insert(&engine->cache, seq, true);
    }
    choice->slot = -1;
}

/* The idle slot that is empty or was used longest ago; -1: none. */
static int32_t find_slot(const lk_engine *engine) {
    int32_t best = -1;
    for (int32_t i = 0; i < engine->params.n_slots; i++) {
        if (engine->by_slot[i] == NULL && engine->context->seqs[i].length == 0) {
            return i;
        }
        if (engine->by_slot[i] == NULL &&
            (best < 0 || engine->slot_used[i] < engine->slot_used[best])) {
            best = i;
        }
    }
    return best;
}

static void put_in_slot(lk_engine *engine, lk_choice *choice, int32_t slot, int64_t n_found) {
    lk_context *c = engine->context;
    lk_seq *seq = &c->seqs[slot];
    for (uint32_t i = 0; i < lk_seq_pages_for(n_found); i++) {
        lk_kv_pages_share(&c->kv.pages, engine->found[i]);
    }
    lk_seq_cut(seq, &c->kv, 0);
    seq->n_pages = lk_seq_pages_for(n_found);
    seq->first_window = 0; /* where layers have windows nothing is found */
    for (uint32_t i = 0; i < seq->n_pages; i++) {
        seq->pages[i] = engine->found[i];
    }
    seq->length = n_found;
    choice->slot = slot;
    engine->by_slot[slot] = choice;
    int32_t i = engine->n_running++;
    for (; i > 0 && engine->running[i - 1]->arrival > choice->arrival; i--) {
        engine->running[i] = engine->running[i - 1];
    }
    engine->running[i] = choice;
    if (choice->n_cached < 0) {
        choice->n_cached = n_found;
        engine->stats.n_prompt_tokens += choice->request->n_prompt;
        engine->stats.n_cached_tokens += (uint64_t)n_found;
    }
}

/* Pages that running choices hold, each counted once. They carry engine->stamp afterwards. */
static uint32_t count_held(lk_engine *engine) {
    uint32_t n = 0;
    engine->stamp++;
    for (int32_t k = 0; k < engine->n_running; k++) {
        const lk_seq *seq = lk_choice_seq(engine, engine->running[k]);
        for (uint32_t i = 0; i < seq->n_pages; i++) {
            n += engine->stamps[seq->pages[i]] != engine->stamp;
            engine->stamps[seq->pages[i]] = engine->stamp;
        }
    }
    return n;
}

/* Whether a choice that finds n_found positions in the cache fits beside the running ones, each of
 * which may soon need one page more. */
static bool fits(lk_engine *engine, const lk_choice *choice, int64_t n_found) {
    if (engine->n_running == 0) {
        return true;
    }
    const uint32_t n_held = count_held(engine);
    uint32_t n_needed = lk_seq_pages_for(lk_choice_length(choice) + 1) + 1;
    for (uint32_t i = 0; i < lk_seq_pages_for(n_found); i++) {
        n_needed -= engine->stamps[engine->found[i]] == engine->stamp;
    }
    return n_held + n_needed + (uint32_t)engine->n_running <= engine->context->kv.pages.n_pages;
}

static int64_t find_prefix(lk_engine *engine, lk_choice *choice) {
    const lk_request *r = choice->request;
    const uint32_t bypass = LK_REQUEST_NO_CACHE | LK_REQUEST_PROMPT_LOGPROBS;
    const bool needs_all = r->pooling == LK_POOLING_MEAN || r->pooling == LK_POOLING_FIRST;
    if ((r->flags & bypass) != 0 || needs_all || (engine->params.flags & LK_ENGINE_NO_CACHE) != 0) {
        return 0;
    }
    /* The last row is always computed: it gives the logits. Tokens sampled before a preemption
     * follow the prompt; a hit there is as good as one in the prompt. */
    const int64_t n_prompt = (int64_t)r->n_prompt;
    const int64_t most = lk_choice_length(choice) - 1;
    const int64_t n_here = most < n_prompt ? most : n_prompt;
    const lk_prefix_key key = {r->prompt, r->digests};
    return n_here > 0 ? lk_prefix_find(&engine->cache, &key, n_here, engine->found) : 0;
}

/* The other choices of a request start when the first has computed the prompt, and find it in the
 * cache. */
static bool waits_for_first(const lk_engine *engine, const lk_choice *choice) {
    const lk_choice *first = &choice->request->choices[0];
    return choice != first && !first->is_done && first->n_generated == 0 &&
           (choice->request->flags & LK_REQUEST_NO_CACHE) == 0 &&
           (engine->params.flags & LK_ENGINE_NO_CACHE) == 0;
}

void lk_admit(lk_engine *engine) {
    lk_choice **place = &engine->first_waiting;
    while (*place != NULL) {
        lk_choice *choice = *place;
        const int32_t slot = find_slot(engine);
        if (slot < 0) {
            return;
        }
        if (waits_for_first(engine, choice)) {
            place = &choice->next;
            continue;
        }
        const int64_t n_found = find_prefix(engine, choice);
        if (!fits(engine, choice, n_found)) {
            return; /* nobody overtakes it */
        }
        *place = choice->next;
        engine->stats.n_waiting--;
        put_in_slot(engine, choice, slot, n_found);
    }
}

/* ---- pages ---- */

/* Pages that a sequence needs for n more positions, the copy of a shared last one included. */
static uint32_t pages_needed(const lk_engine *engine, const lk_seq *seq, int64_t n) {
    uint32_t n_pages = lk_seq_pages_for(seq->length + n) - seq->n_pages;
    if (seq->length % LK_CHUNK != 0) {
        n_pages += engine->context->kv.pages.refs[seq->pages[seq->n_pages - 1]] > 1;
    }
    return n_pages;
}

static bool clear_idle_slots(lk_engine *engine) {
    bool any = false;
    for (int32_t i = 0; i < engine->params.n_slots; i++) {
        lk_seq *seq = &engine->context->seqs[i];
        if (engine->by_slot[i] == NULL && seq->length > 0) {
            lk_seq_cut(seq, &engine->context->kv, 0);
            any = true;
        }
    }
    return any;
}

static void preempt(lk_engine *engine, lk_choice *choice) {
    lk_seq *seq = lk_choice_seq(engine, choice);
    lk_vacate(engine, choice);
    lk_seq_cut(seq, &engine->context->kv, 0);
    lk_queue_add(engine, choice);
    engine->stats.n_preempted++;
}

/* Makes room for n more positions of running[i]; n_reserved free pages are promised to others.
 * False when only older choices could give way. */
static bool make_room(lk_engine *engine, int32_t i, int64_t n, uint32_t n_reserved) {
    const lk_kv_pages *pages = &engine->context->kv.pages;
    const lk_seq *seq = lk_choice_seq(engine, engine->running[i]);
    bool forgot = false;
    while (pages->n_free < n_reserved + pages_needed(engine, seq, n)) {
        if (lk_prefix_evict(&engine->cache) || clear_idle_slots(engine)) {
            continue;
        }
        if (engine->n_running > i + 1) {
            preempt(engine, engine->running[engine->n_running - 1]);
        } else if (i == 0 && !forgot) {
            lk_prefix_clear(&engine->cache); /* a last page that only the cache shares */
            forgot = true;
        } else {
            return false;
        }
    }
    return true;
}

/* ---- rows ---- */

static void add_rows(lk_engine *engine, lk_choice *choice, uint32_t n) {
    const lk_request *r = choice->request;
    const int64_t first = lk_choice_seq(engine, choice)->length;
    const int64_t last = lk_choice_length(choice) - 1;
    const bool wants_prompt = (r->flags & LK_REQUEST_PROMPT_LOGPROBS) != 0 && choice->index == 0;
    choice->i_step_row = engine->n_rows;
    choice->n_step_rows = n;
    choice->ending = 0;
    for (uint32_t k = 0; k < n; k++) {
        const int64_t pos = first + k;
        const bool wants =
            (pos == last && r->max_tokens != 0) ||
            (wants_prompt && pos + 1 < (int64_t)r->n_prompt && pos + 1 >= choice->n_prompt_events);
        engine->embeddings[engine->n_rows] = lk_choice_embedding(choice, pos);
        const uint32_t flags = (wants ? (uint32_t)LK_ROW_LOGITS : 0u) |
                               (lk_pooling_wants(choice, pos) ? (uint32_t)LK_ROW_HIDDEN : 0u);
        engine->rows[engine->n_rows++] =
            (lk_row){lk_choice_token(choice, pos), choice->slot, pos, flags, 0};
        engine->n_logits += wants;
    }
    engine->stepping[engine->n_stepping++] = choice;
}

void lk_plan_step(lk_engine *engine) {
    const uint32_t max_rows = (uint32_t)engine->params.max_rows;
    const uint32_t max_logits = (uint32_t)engine->context->params.max_logits;
    uint32_t n_reserved = 0; /* pages */
    engine->n_rows = engine->n_logits = 0;
    engine->n_stepping = 0;
    for (int32_t i = 0; i < engine->n_running; i++) {
        lk_choice *choice = engine->running[i];
        const int64_t pending = lk_choice_pending(engine, choice);
        assert(pending > 0);
        /* Each younger choice keeps one row, so that generation never waits for a prompt. */
        const uint32_t n_younger = (uint32_t)(engine->n_running - i - 1);
        uint32_t budget = max_rows - engine->n_rows - n_younger;
        if ((choice->request->flags & LK_REQUEST_PROMPT_LOGPROBS) != 0) {
            const uint32_t rest = max_logits - engine->n_logits - n_younger;
            budget = budget < rest ? budget : rest;
        }
        const uint32_t n = pending < (int64_t)budget ? (uint32_t)pending : budget;
        if (!make_room(engine, i, n, n_reserved)) {
            preempt(engine, choice); /* the youngest of all */
            break;
        }
        n_reserved += pages_needed(engine, lk_choice_seq(engine, choice), n);
        add_rows(engine, choice, n);
    }
}

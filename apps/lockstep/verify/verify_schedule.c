/* verify_schedule.c - see verify_schedule.h. */
#include "verify_schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verify_target.h"

void verify_schedule_init(verify_schedule *s) {
    memset(s, 0, sizeof *s);
}

void verify_schedule_deinit(verify_schedule *s) {
    free(s->ops);
    memset(s, 0, sizeof *s);
}

static bool reserve(verify_schedule *s, size_t n) {
    if (n <= s->capacity) {
        return true;
    }
    if (n > VERIFY_MAX_OPS) {
        return false;
    }
    const size_t capacity = n < 32 ? 64 : 2 * n;
    verify_op *ops = realloc(s->ops, capacity * sizeof ops[0]);
    if (ops == NULL) {
        return false;
    }
    s->ops = ops;
    s->capacity = capacity;
    return true;
}

verify_op *verify_schedule_add(verify_schedule *s, verify_op_kind kind) {
    if (!reserve(s, s->n_ops + 1)) {
        return NULL;
    }
    verify_op *op = &s->ops[s->n_ops++];
    memset(op, 0, sizeof *op);
    op->kind = kind;
    op->times = 1;
    return op;
}

bool verify_schedule_copy(verify_schedule *to, const verify_schedule *from) {
    if (!reserve(to, from->n_ops)) {
        return false;
    }
    verify_op *ops = to->ops;
    const size_t capacity = to->capacity;
    *to = *from;
    to->ops = ops;
    to->capacity = capacity;
    if (from->n_ops > 0) {
        memcpy(to->ops, from->ops, from->n_ops * sizeof ops[0]);
    }
    return true;
}

/* Letters of the kinds, in their order, and how many numbers each is followed by; -1: feeds. */
static const char letters[] = "ASMXBFTCR";
static const int n_numbers[] = {2, -1, -1, -1, -1, 4, 2, 1, 0};

static size_t print_op(const verify_op *op, char *text, size_t size) {
    const int32_t numbers[4] = {op->a, op->b, op->c, op->d};
    size_t at = 0;
    at += (size_t)snprintf(text + at, size - at, "%c", letters[op->kind]);
    for (int i = 0; i < n_numbers[op->kind]; i++) {
        at += (size_t)snprintf(text + at, size - at, "%s%d", i > 0 ? "." : "", numbers[i]);
    }
    for (int32_t i = 0; i < op->n_feeds; i++) {
        at += (size_t)snprintf(text + at, size - at, "%s%d.%d", i > 0 ? "," : "", op->feeds[i].slot,
                               op->feeds[i].n_rows);
    }
    if (op->times > 1) {
        at += (size_t)snprintf(text + at, size - at, "*%d", op->times);
    }
    return at;
}

char *verify_schedule_print(const verify_schedule *s) {
    enum { OP_TEXT = VERIFY_MAX_SLOTS * 24 + 64 };
    char piece[OP_TEXT];
    size_t size = 1;
    for (size_t i = 0; i < s->n_ops; i++) {
        size += print_op(&s->ops[i], piece, sizeof piece) + 1;
    }
    char *text = malloc(size);
    size_t at = 0;
    if (text == NULL) {
        return NULL;
    }
    text[0] = '\0';
    for (size_t i = 0; i < s->n_ops; i++) {
        const size_t n = print_op(&s->ops[i], piece, sizeof piece);
        if (i > 0) {
            text[at++] = ';';
        }
        memcpy(text + at, piece, n + 1);
        at += n;
    }
    return text;
}

/* A number from 0 to max at *text, which moves behind it. */
static bool read_number(const char **text, int32_t max, int32_t *x) {
    char *end = NULL;
    if (**text < '0' || **text > '9') {
        return false;
    }
    const long value = strtol(*text, &end, 10);
    if (value < 0 || value > max) {
        return false;
    }
    *text = end;
    *x = (int32_t)value;
    return true;
}

static bool read_dot(const char **text) {
    return *(*text)++ == '.';
}

static bool read_feeds(const char **text, verify_op *op) {
    enum { MAX_ROWS = 1 << 20 };
    for (;; (*text)++) {
        verify_feed *feed = &op->feeds[op->n_feeds];
        if (op->n_feeds == VERIFY_MAX_SLOTS ||
            !read_number(text, VERIFY_MAX_SLOTS - 1, &feed->slot) || !read_dot(text) ||
            !read_number(text, MAX_ROWS, &feed->n_rows)) {
            return false;
        }
        op->n_feeds++;
        if (**text != ',') {
            return true;
        }
    }
}

static bool read_op(const char **text, verify_op *op) {
    /* What each number of a kind is: s slot, t stream, n rows. */
    static const char *const kinds[] = {"st", "", "", "", "", "ssnt", "sn", "s", ""};
    enum { MAX_LENGTH = 1 << 28, MAX_TIMES = 1 << 20 };
    const char *letter = **text != '\0' ? strchr(letters, **text) : NULL;
    if (letter == NULL) {
        return false;
    }
    (*text)++;
    op->kind = (verify_op_kind)(letter - letters);
    int32_t *numbers[4] = {&op->a, &op->b, &op->c, &op->d};
    for (int i = 0; i < n_numbers[op->kind]; i++) {
        const char kind = kinds[op->kind][i];
        const int32_t max = kind == 's'   ? VERIFY_MAX_SLOTS - 1
                            : kind == 't' ? VERIFY_MAX_STREAMS - 1
                                          : MAX_LENGTH;
        if ((i > 0 && !read_dot(text)) || !read_number(text, max, numbers[i])) {
            return false;
        }
    }
    if (n_numbers[op->kind] < 0 && !read_feeds(text, op)) {
        return false;
    }
    if (**text == '*') {
        (*text)++;
        return op->kind == VERIFY_OP_STEP && read_number(text, MAX_TIMES, &op->times) &&
               op->times > 0;
    }
    return true;
}

bool verify_schedule_parse(verify_schedule *s, const char *text, char *why, size_t size) {
    s->n_ops = 0;
    s->n_slots = 1;
    for (const char *at = text;;) {
        const char *start = at;
        verify_op *op = verify_schedule_add(s, VERIFY_OP_STEP);
        if (op == NULL) {
            (void)snprintf(why, size, "the schedule has more than %d operations", VERIFY_MAX_OPS);
            return false;
        }
        if (!read_op(&at, op) || (*at != ';' && *at != '\0')) {
            (void)snprintf(why, size, "operation %zu of the schedule cannot be read: '%.40s'",
                           s->n_ops - 1, start);
            return false;
        }
        for (int32_t i = 0; i < op->n_feeds; i++) {
            s->n_slots = op->feeds[i].slot >= s->n_slots ? op->feeds[i].slot + 1 : s->n_slots;
        }
        s->n_slots = op->a >= s->n_slots ? op->a + 1 : s->n_slots;
        s->n_slots = op->kind == VERIFY_OP_FORK && op->b >= s->n_slots ? op->b + 1 : s->n_slots;
        if (*at == '\0') {
            return true;
        }
        at++;
    }
}

/* A slot while arrivals are derived: the stream that it follows and the rows that it has. */
typedef struct place {
    int32_t stream; /* -1: none */
    int32_t before; /* the stream that it followed before; -1: none */
    int64_t n_rows;
} place;

/* What is known so far. */
typedef struct arrival_list {
    const verify_schedule *s;
    place places[VERIFY_MAX_SLOTS];
    int32_t index[VERIFY_MAX_STREAMS]; /* arrival of a stream; -1: none yet */
    verify_arrival *arrivals;
    int32_t n;
} arrival_list;

/* Where a prompt is text alone, one row stands for it. */
static int64_t prompt_rows(const verify_stream *stream) {
    return stream->n_prompt > 0 ? (int64_t)stream->n_prompt : 1;
}

static int64_t rows_of(const verify_stream *stream) {
    return prompt_rows(stream) + (stream->n > 0 ? stream->n - 1 : 0);
}

static int32_t tokens_of(const verify_stream *stream, int64_t n_rows) {
    const int64_t n = n_rows - prompt_rows(stream) + 1;
    return n < 0 ? 0 : n > stream->n ? stream->n : (int32_t)n;
}

/* A slot's stream ends there, for the time being. */
static void leave(arrival_list *l, place *p) {
    if (p->stream >= 0 && l->index[p->stream] >= 0) {
        const verify_stream *stream = &l->s->streams[p->stream];
        verify_arrival *arrival = &l->arrivals[l->index[p->stream]];
        arrival->n_tokens = tokens_of(stream, p->n_rows);
        arrival->cut_off = arrival->n_tokens < stream->n;
    }
}

/* The first rows of a stream: it begins when the one whose slot it takes has ended, else when the
 * stream that has produced most among those under way has come as far as it has now. */
static void arrive(arrival_list *l, const place *p) {
    verify_arrival *arrival = &l->arrivals[l->n];
    const int32_t before = p->before >= 0 ? l->index[p->before] : -1;
    *arrival = (verify_arrival){p->stream, -1, 0, false, l->s->streams[p->stream].n};
    if (before >= 0) {
        arrival->after = p->before;
        arrival->after_tokens = l->arrivals[before].n_tokens;
    }
    for (int32_t i = 0; i < VERIFY_MAX_SLOTS && before < 0; i++) {
        const place *other = &l->places[i];
        const int32_t n = other->stream >= 0 && l->index[other->stream] >= 0
                              ? tokens_of(&l->s->streams[other->stream], other->n_rows)
                              : 0;
        if (other->stream != p->stream && n > arrival->after_tokens) {
            arrival->after = other->stream;
            arrival->after_tokens = n;
        }
    }
    l->index[p->stream] = l->n++;
}

static void feed(arrival_list *l, const verify_op *op) {
    for (int32_t k = 0; k < op->n_feeds; k++) {
        const place *p = &l->places[op->feeds[k].slot];
        if (p->stream >= 0 && p->n_rows == 0 && op->feeds[k].n_rows > 0 &&
            l->index[p->stream] < 0) {
            arrive(l, p);
        }
    }
    for (int32_t k = 0; k < op->n_feeds && op->kind != VERIFY_OP_BAD; k++) {
        place *p = &l->places[op->feeds[k].slot];
        if (p->stream >= 0) {
            const int64_t end = rows_of(&l->s->streams[p->stream]);
            p->n_rows += (int64_t)op->feeds[k].n_rows * op->times;
            p->n_rows = p->n_rows > end ? end : p->n_rows;
        }
    }
}

int32_t verify_schedule_arrivals(const verify_schedule *s,
                                 verify_arrival arrivals[VERIFY_MAX_STREAMS]) {
    arrival_list l = {.s = s, .arrivals = arrivals};
    memset(l.places, -1, sizeof l.places);
    memset(l.index, -1, sizeof l.index);
    for (size_t i = 0; i < s->n_ops; i++) {
        const verify_op *op = &s->ops[i];
        if (op->kind == VERIFY_OP_ASSIGN || op->kind == VERIFY_OP_CLEAR) {
            place *p = &l.places[op->a];
            const int32_t next = op->kind == VERIFY_OP_ASSIGN && op->b < s->n_streams ? op->b : -1;
            leave(&l, p);
            const int32_t before = p->stream >= 0 ? p->stream : p->before;
            *p = (place){next, before != next ? before : -1, 0};
        }
        feed(&l, op);
    }
    return l.n;
}

uint32_t verify_schedule_needs(const verify_schedule *s) {
    static const uint32_t needs[] = {
        [VERIFY_OP_CANCEL] = VERIFY_CAN_CANCEL,   [VERIFY_OP_BAD] = VERIFY_CAN_REFUSE,
        [VERIFY_OP_FORK] = VERIFY_CAN_FORK,       [VERIFY_OP_TRUNCATE] = VERIFY_CAN_TRUNCATE,
        [VERIFY_OP_RESTART] = VERIFY_CAN_RESTART,
    };
    uint32_t set = 0;
    for (size_t i = 0; i < s->n_ops; i++) {
        set |= needs[s->ops[i].kind];
    }
    for (int32_t i = 0; i < s->n_streams; i++) {
        set |= s->streams[i].temperature > 0 ? VERIFY_CAN_SAMPLE : 0;
        set |= s->streams[i].text == NULL ? VERIFY_CAN_PROMPTS : 0;
        set |= s->streams[i].vector != NULL ? VERIFY_CAN_VECTORS : 0;
    }
    return set;
}

/* fuzz_schedule.c - the texts of `lockstep verify --replay` and `--set` on any bytes. Invariants:
 * what is read stays within its limits, is printed and read again as the same, and the arrivals
 * that follow from a schedule name streams that there are, each once. */
#include "fuzz.h"

#include <string.h>

#include "verify/verify_point.h"
#include "verify/verify_schedule.h"

enum { N_STREAMS = 5 };

static void check_op(const verify_op *op) {
    fuzz_check(op->a >= 0 && op->b >= 0 && op->c >= 0 && op->d >= 0 && op->times >= 1);
    fuzz_check(op->a < VERIFY_MAX_SLOTS && op->d < VERIFY_MAX_STREAMS);
    fuzz_check(op->kind != VERIFY_OP_FORK || op->b < VERIFY_MAX_SLOTS);
    fuzz_check(op->kind != VERIFY_OP_ASSIGN || op->b < VERIFY_MAX_STREAMS);
    fuzz_check(op->n_feeds >= 0 && op->n_feeds <= VERIFY_MAX_SLOTS);
    for (int32_t i = 0; i < op->n_feeds; i++) {
        fuzz_check(op->feeds[i].slot >= 0 && op->feeds[i].slot < VERIFY_MAX_SLOTS);
        fuzz_check(op->feeds[i].n_rows >= 0);
    }
}

static void check_arrivals(verify_schedule *s) {
    verify_arrival arrivals[VERIFY_MAX_STREAMS];
    int seen[VERIFY_MAX_STREAMS] = {0};
    s->n_streams = N_STREAMS;
    for (int32_t i = 0; i < N_STREAMS; i++) {
        s->streams[i] = (verify_stream){.n_prompt = (size_t)i * 9, .n = 6 + i, .text = "a"};
    }
    const int32_t n = verify_schedule_arrivals(s, arrivals);
    fuzz_check(n >= 0 && n <= N_STREAMS);
    for (int32_t i = 0; i < n; i++) {
        fuzz_check(arrivals[i].stream >= 0 && arrivals[i].stream < N_STREAMS);
        fuzz_check(seen[arrivals[i].stream]++ == 0);
        fuzz_check(arrivals[i].after >= -1 && arrivals[i].after < N_STREAMS);
        fuzz_check(arrivals[i].after < 0 || seen[arrivals[i].after] > 0);
        fuzz_check(arrivals[i].n_tokens >= 0);
    }
    (void)verify_schedule_needs(s);
}

static void check_schedule(const char *text) {
    verify_schedule s;
    verify_schedule again;
    char why[200] = "";
    verify_schedule_init(&s);
    verify_schedule_init(&again);
    if (verify_schedule_parse(&s, text, why, sizeof why)) {
        char *printed = verify_schedule_print(&s);
        fuzz_check(s.n_slots >= 1 && s.n_slots <= VERIFY_MAX_SLOTS);
        for (size_t i = 0; i < s.n_ops; i++) {
            check_op(&s.ops[i]);
        }
        fuzz_check(printed != NULL && verify_schedule_parse(&again, printed, why, sizeof why));
        fuzz_check(again.n_ops == s.n_ops &&
                   memcmp(again.ops, s.ops, s.n_ops * sizeof s.ops[0]) == 0);
        free(printed);
        check_arrivals(&s);
    } else {
        fuzz_check(why[0] != '\0');
    }
    verify_schedule_deinit(&s);
    verify_schedule_deinit(&again);
}

static void check_point(const char *text) {
    verify_point base;
    verify_point p;
    verify_point again;
    char printed[2048];
    char why[200] = "";
    verify_point_init(&base);
    verify_point_init(&p);
    verify_point_init(&again);
    if (!verify_point_parse(&p, text, why, sizeof why)) {
        fuzz_check(why[0] != '\0');
        return;
    }
    verify_point_print(&p, &base, printed, sizeof printed);
    fuzz_check(printed[0] == '\0' || verify_point_parse(&again, printed, why, sizeof why));
    fuzz_check(verify_point_differs(&p, &again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    fuzz_check(text != NULL);
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = '\0';
    check_schedule(text);
    check_point(text);
    free(text);
    return 0;
}

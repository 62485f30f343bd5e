/* target_http_run.c - follows a schedule on a server: each stream is a request, which begins when
 * its turn comes (verify_schedule_arrivals) and is read as it streams. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http_events.h"
#include "shared/console.h"
#include "target_http.h"

enum { ERROR_BODY = 4096, STEP_MS = 200, ALIVE_SECONDS = 10 };

/* A request under way. */
typedef struct flight {
    http_pieces *pieces;
    const verify_arrival *arrival;
    const verify_stream *stream;
    http_exchange *exchange; /* NULL: not begun, or ended */
    http_answer answer;
    http_events events;
    char body[ERROR_BODY]; /* the beginning: errors are no events, nor are answers in one piece */
    size_t n_body;
    bool has_begun;
    bool is_done;
    bool is_cut;  /* cut off by the schedule */
    bool has_met; /* its first token came while another one was under way */
    char failure[VERIFY_WHY];
    bool is_broken; /* no HTTP error, but no answer that can be read */
} flight;

static bool on_event(void *user, const char *data, size_t n) {
    flight *f = user;
    return http_answer_add(&f->answer, f->pieces, data, n);
}

static bool on_bytes(void *user, const char *bytes, size_t n) {
    flight *f = user;
    const size_t room = sizeof f->body - 1 - f->n_body;
    const size_t kept = n < room ? n : room;
    memcpy(f->body + f->n_body, bytes, kept);
    f->n_body += kept;
    /* The status is known by now, but an error's body holds no events in any case. */
    return http_events_feed(&f->events, bytes, n, on_event, f);
}

bool http_target_read(http_answer *answer, http_pieces *pieces, const char *body, size_t n) {
    flight f = {.pieces = pieces, .answer = *answer};
    bool ok = http_events_feed(&f.events, body, n, on_event, &f) &&
              http_events_finish(&f.events, on_event, &f);
    if (ok && f.events.n_events == 0) {
        ok = http_answer_add(&f.answer, pieces, body, n);
    }
    http_events_deinit(&f.events);
    *answer = f.answer;
    return ok;
}

/* How far a stream has come: tokens where they are seen, else pieces of the stream. */
static int64_t produced(const flight *f) {
    return (int64_t)(f->answer.n_tokens > 0 ? f->answer.n_tokens : f->answer.n_chunks);
}

static bool may_begin(const flight *f, const flight *flights, int32_t n) {
    for (int32_t i = 0; i < n && f->arrival->after >= 0; i++) {
        if (flights[i].arrival->stream == f->arrival->after) {
            return flights[i].is_done ||
                   (f->arrival->after_tokens < flights[i].stream->n && flights[i].has_begun &&
                    produced(&flights[i]) >= f->arrival->after_tokens);
        }
    }
    return true;
}

static void fail(flight *f, bool is_broken, const char *text) {
    f->is_broken = is_broken;
    (void)snprintf(f->failure, sizeof f->failure, "%s", text);
}

static void begin(http_target *t, flight *f, bool cache) {
    char *request = http_target_request(t, f->stream, cache);
    f->has_begun = true;
    if (request != NULL) {
        t->n_requests++;
        f->exchange = http_client_start(t->client, http_target_path(t, f->stream), request,
                                        http_target_seconds_left(t), on_bytes, f);
        free(request);
    }
    if (f->exchange == NULL) {
        f->is_done = true;
        fail(f, true, "out of memory");
    }
}

/* The exchange is over: was it an answer? */
static void judge(flight *f) {
    const long status = http_exchange_status(f->exchange);
    const char *error = http_exchange_error(f->exchange);
    char text[VERIFY_WHY];
    char reason[HTTP_ANSWER_WHY] = "";
    f->body[f->n_body] = '\0';
    if (status >= 300) {
        http_answer_error(f->body, f->n_body, reason, sizeof reason);
        (void)snprintf(text, sizeof text, "HTTP %ld: %.300s", status, reason);
        fail(f, false, text);
        return;
    }
    if (f->answer.failure[0] == '\0' && error[0] != '\0') {
        (void)snprintf(text, sizeof text, "after %lld tokens: %.300s", (long long)produced(f),
                       error);
        fail(f, true, text);
        return;
    }
    bool ok = f->answer.failure[0] == '\0' && http_events_finish(&f->events, on_event, f);
    if (ok && f->events.n_events == 0 && f->n_body + 1 < sizeof f->body) {
        ok = http_answer_add(&f->answer, f->pieces, f->body, f->n_body);
    }
    if (!ok) {
        fail(f, !f->answer.is_error, f->answer.failure);
    } else if (!f->answer.is_finished) {
        fail(f, true, "the stream ended without saying why");
    }
}

static void end(http_target *t, flight *f) {
    http_exchange_end(t->client, f->exchange);
    f->exchange = NULL;
    f->is_done = true;
}

static void move_on(http_target *t, flight *f) {
    if (f->exchange == NULL) {
        return;
    }
    if (http_exchange_is_done(f->exchange)) {
        judge(f);
        end(t, f);
    } else if (f->arrival->cut_off && produced(f) >= f->arrival->n_tokens) {
        f->is_cut = true;
        end(t, f);
    }
}

/* Whether the first token of a stream (or its end, where it has none) came while others were not
 * done. */
static void note_company(flight *f, const flight *flights, int32_t n) {
    if (f->exchange == NULL || f->has_met ||
        (produced(f) == 0 && !http_exchange_is_done(f->exchange))) {
        return;
    }
    for (int32_t i = 0; i < n; i++) {
        const flight *other = &flights[i];
        f->has_met = f->has_met || (other != f && other->has_begun && !other->is_done &&
                                    !http_exchange_is_done(other->exchange));
    }
}

/* A join that came too late, since the other stream was done, is no join. */
static bool has_missed(const flight *flights, int32_t n) {
    for (int32_t i = 0; i < n; i++) {
        const verify_arrival *a = flights[i].arrival;
        for (int32_t k = 0; k < n; k++) {
            if (!flights[i].has_met && flights[i].failure[0] == '\0' &&
                flights[k].arrival->stream == a->after && flights[k].failure[0] == '\0' &&
                !flights[k].is_cut && a->after_tokens < flights[k].stream->n) {
                return true;
            }
        }
    }
    return false;
}

/* False: the time is up, or waiting failed (why). */
static bool fly(http_target *t, flight *flights, int32_t n, bool cache, char why[VERIFY_WHY]) {
    for (bool more = true; more;) {
        more = false;
        for (int32_t i = 0; i < n; i++) {
            if (!flights[i].has_begun && may_begin(&flights[i], flights, n)) {
                begin(t, &flights[i], cache);
            }
            more = more || !flights[i].is_done;
        }
        if (more && !http_client_wait(t->client, STEP_MS)) {
            (void)snprintf(why, VERIFY_WHY, "out of memory");
            return false;
        }
        for (int32_t i = 0; i < n; i++) {
            note_company(&flights[i], flights, n);
        }
        for (int32_t i = 0; i < n; i++) {
            move_on(t, &flights[i]);
        }
        if (http_target_seconds_left(t) <= 0) {
            (void)snprintf(why, VERIFY_WHY, "the time that it was given is used up");
            return false;
        }
    }
    return true;
}

static bool take_output(flight *f, verify_output *o) {
    const size_t n = (size_t)f->stream->n;
    if (f->answer.n_tokens == 0 && !http_answer_split(&f->answer, f->pieces, n)) {
        return false;
    }
    size_t n_tokens = f->answer.n_tokens < n ? f->answer.n_tokens : n;
    if (f->is_cut && n_tokens > (size_t)f->arrival->n_tokens) {
        n_tokens = (size_t)f->arrival->n_tokens;
    }
    o->n_tokens = (int32_t)n_tokens;
    o->is_cut_off = f->is_cut;
    if (n_tokens > 0) {
        memcpy(o->ids, f->answer.ids, n_tokens * sizeof o->ids[0]);
        memcpy(o->logprobs, f->answer.logprobs, n_tokens * sizeof o->logprobs[0]);
    }
    o->text = strdup(f->answer.text != NULL ? f->answer.text : "");
    (void)snprintf(o->failure, sizeof o->failure, "%s", f->failure);
    return o->text != NULL;
}

/* A server that answers no more has nothing to be verified. */
static bool is_alive(http_target *t, char why[VERIFY_WHY]) {
    char reason[HTTP_CLIENT_WHY];
    long status = 0;
    char *body = http_client_fetch(t->client, "/v1/models", NULL, ALIVE_SECONDS, &status, reason);
    free(body);
    if (body == NULL) {
        (void)snprintf(why, VERIFY_WHY, "the server has stopped answering: %.300s", reason);
    }
    return body != NULL;
}

static verify_status collect(http_target *t, flight *flights, int32_t n, verify_result *result,
                             char why[VERIFY_WHY]) {
    bool is_broken = false;
    for (int32_t i = 0; i < n; i++) {
        flight *f = &flights[i];
        if (!take_output(f, &result->outputs[f->arrival->stream])) {
            (void)snprintf(why, VERIFY_WHY, "out of memory");
            return VERIFY_BROKEN;
        }
        if (f->answer.n_cached >= 0) {
            result->n_cached = (result->n_cached < 0 ? 0 : result->n_cached) + f->answer.n_cached;
        }
        is_broken = is_broken || f->is_broken;
    }
    if (is_broken && n == 1) {
        (void)snprintf(why, VERIFY_WHY, "one request, alone, is not answered: %.340s",
                       flights[0].failure);
        return VERIFY_BROKEN;
    }
    return !is_broken || is_alive(t, why) ? VERIFY_RAN : VERIFY_BROKEN;
}

verify_status http_target_run(verify_target *target, const verify_schedule *s,
                              const verify_point *p, verify_result *result, char why[VERIFY_WHY]) {
    http_target *t = (http_target *)target;
    verify_arrival arrivals[VERIFY_MAX_STREAMS];
    const int32_t n = verify_schedule_arrivals(s, arrivals);
    for (int32_t i = 0; i < n; i++) {
        if (s->streams[arrivals[i].stream].text == NULL) {
            (void)snprintf(why, VERIFY_WHY, "%s", verify_capability_name(VERIFY_CAN_PROMPTS));
            return VERIFY_NOT_POSSIBLE;
        }
    }
    if (t->max_requests > 0 && t->n_requests + n > t->max_requests) {
        (void)snprintf(why, VERIFY_WHY, "the requests that it was given are used up");
        return VERIFY_NOT_POSSIBLE;
    }
    flight *flights = calloc(n > 0 ? (size_t)n : 1, sizeof flights[0]);
    if (flights == NULL) {
        (void)snprintf(why, VERIFY_WHY, "out of memory");
        return VERIFY_BROKEN;
    }
    for (int32_t i = 0; i < n; i++) {
        flights[i].arrival = &arrivals[i];
        flights[i].stream = &s->streams[arrivals[i].stream];
        flights[i].pieces = &t->pieces;
        http_answer_init(&flights[i].answer);
    }
    const double start = lk_console_seconds();
    verify_status status = VERIFY_NOT_POSSIBLE;
    if (fly(t, flights, n, p->value[VERIFY_CACHE] != 0, why)) {
        status = collect(t, flights, n, result, why);
        if (status == VERIFY_RAN && has_missed(flights, n)) {
            status = VERIFY_NOT_POSSIBLE;
            (void)snprintf(why, VERIFY_WHY,
                           "the sequences did not meet: one was done when the other began; ask "
                           "for more tokens (-n)");
        }
    }
    result->seconds = lk_console_seconds() - start;
    for (int32_t i = 0; i < n; i++) {
        http_exchange_end(t->client, flights[i].exchange);
        http_answer_deinit(&flights[i].answer);
        http_events_deinit(&flights[i].events);
    }
    free(flights);
    return status;
}

/* chat_parser.c - see lk/chat_parser.h: an automaton over bytes. What may be the beginning of a
 * marker is held back; what was taken for a call and is none comes out as text. */
#include "text/chat/chat_parser.h"

#include <string.h>

#include "base/error.h"

enum {
    IN_TEXT,
    IN_REASONING,
    IN_HEADER,
    IN_OBJECT,
    IN_LIST,
    IN_NAME,
    IN_ARGUMENTS, /* JSON */
    IN_VALUES,    /* in another notation */
    BETWEEN
};

static void plain_byte(lk_chat_parser *p, char c);

static bool is_blank(char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

void lk_chat_parser_init(lk_chat_parser *p, const lk_call_syntax *syntax,
                         const lk_allocator *allocator) {
    *p = (lk_chat_parser){.allocator = *allocator, .syntax = syntax, .at_start = true};
    p->has_text = true;
    p->takes_calls = syntax != NULL;
    p->state = syntax != NULL && syntax->form == LK_CALL_FORM_MESSAGES ? IN_HEADER : IN_TEXT;
    lk_text_buffer_init(&p->space, &p->allocator);
    lk_text_buffer_init(&p->raw, &p->allocator);
    lk_text_buffer_init(&p->out, &p->allocator);
    lk_text_buffer_init(&p->arguments, &p->allocator);
    lk_call_arguments_init(&p->values, &p->allocator);
}

void lk_chat_parser_deinit(lk_chat_parser *p) {
    lk_text_buffer_deinit(&p->space);
    lk_text_buffer_deinit(&p->raw);
    lk_text_buffer_deinit(&p->out);
    lk_text_buffer_deinit(&p->arguments);
    lk_call_arguments_deinit(&p->values);
    if (p->tools.allocator != NULL) {
        lk_json_deinit(&p->tools);
    }
}

static void add(lk_chat_parser *p, lk_text_buffer *to, const void *bytes, size_t n) {
    if (!lk_text_buffer_append(to, bytes, n) && p->status == LK_OK) {
        p->status = LK_E_NOMEM;
    }
}

/* ---- deltas ---- */

static void send(lk_chat_parser *p, const lk_chat_delta *delta) {
    if (p->on_delta != NULL && p->status == LK_OK) {
        p->on_delta(p->ctx, delta);
    }
}

static void flush(lk_chat_parser *p) {
    if (p->out.n != 0) {
        const lk_chat_delta delta = {.kind = p->out_kind,
                                     .call =
                                         p->out_kind == LK_DELTA_CALL_ARGUMENTS ? p->n_calls : 0,
                                     .text = (const char *)p->out.data,
                                     .n_text = p->out.n};
        send(p, &delta);
        p->out.n = 0;
    }
}

static void give(lk_chat_parser *p, lk_chat_delta_kind kind, const void *bytes, size_t n) {
    if (p->out_kind != kind) {
        flush(p);
        p->out_kind = kind;
    }
    add(p, &p->out, bytes, n);
}

/* Text or reasoning, with the blanks that were before it. */
static void give_text(lk_chat_parser *p, const void *bytes, size_t n) {
    const lk_chat_delta_kind kind = p->state == IN_REASONING ? LK_DELTA_REASONING : LK_DELTA_TEXT;
    give(p, kind, p->space.data, p->space.n);
    p->space.n = 0;
    give(p, kind, bytes, n);
    p->has_text = true;
    p->at_start = false;
}

/* ---- calls ---- */

static void reset_call(lk_chat_parser *p) {
    p->has_begun = p->has_arguments = p->arguments_are_text = false;
    p->n_name = p->n_id = 0;
    p->arguments.n = 0;
    p->object = (lk_call_object){0};
    p->scan = (lk_json_scan){0};
    p->unescape = p->unescape_arguments = (lk_json_unescape){0};
}

/* What was read is no call: it is text. */
static void give_up(lk_chat_parser *p) {
    p->state = IN_TEXT;
    if (p->raw.n != 0) {
        give_text(p, p->raw.data, p->raw.n);
        p->raw.n = 0;
    }
    reset_call(p);
}

/* Nine letters and digits (splitmix64). */
static void make_id(lk_chat_parser *p) {
    static const char chars[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    p->id_state += 0x9E3779B97F4A7C15u;
    uint64_t x = p->id_state;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    x ^= x >> 31;
    for (p->n_id = 0; p->n_id < 9; p->n_id++) {
        p->id[p->n_id] = chars[x % 62];
        x /= 62;
    }
}

static void begin_call(lk_chat_parser *p) {
    if (p->n_calls == LK_MAX_CALLS) {
        p->status = p->status == LK_OK ? LK_E_LIMIT : p->status;
        return;
    }
    if (p->n_id == 0) {
        make_id(p);
    }
    flush(p);
    p->id[p->n_id] = '\0';
    p->space.n = p->raw.n = 0;
    p->has_begun = true;
    p->at_start = false;
    const lk_chat_delta delta = {.kind = LK_DELTA_CALL_BEGIN,
                                 .call = p->n_calls,
                                 .text = p->name,
                                 .n_text = p->n_name,
                                 .id = p->id};
    send(p, &delta);
    give(p, LK_DELTA_CALL_ARGUMENTS, p->arguments.data, p->arguments.n);
    p->arguments.n = 0;
}

static void end_call(lk_chat_parser *p, bool is_complete) {
    if (is_complete && !p->has_arguments) {
        give(p, LK_DELTA_CALL_ARGUMENTS, "{}", 2);
    }
    flush(p);
    const lk_chat_delta delta = {
        .kind = LK_DELTA_CALL_END, .call = p->n_calls, .is_complete = is_complete};
    send(p, &delta);
    p->n_calls++;
    p->has_text = false;
    reset_call(p);
}

static void argument_bytes(lk_chat_parser *p, const char *bytes, size_t n) {
    p->has_arguments = true;
    if (p->has_begun) {
        give(p, LK_DELTA_CALL_ARGUMENTS, bytes, n);
    } else {
        add(p, &p->arguments, bytes, n);
    }
}

/* Arguments that are a JSON string hold the JSON text themselves. */
static void argument_byte(lk_chat_parser *p, char c) {
    char bytes[4];
    if (!p->has_arguments && c == '"') {
        p->arguments_are_text = p->has_arguments = true;
    }
    if (p->arguments_are_text) {
        const size_t n = lk_json_unescape_byte(&p->unescape_arguments, c, bytes);
        argument_bytes(p, bytes, n);
    } else {
        argument_bytes(p, &c, 1);
    }
}

static void name_or_id_byte(lk_chat_parser *p, char c, char *to, size_t *n) {
    char bytes[4];
    const size_t n_bytes = lk_json_unescape_byte(&p->unescape, c, bytes);
    if (*n + n_bytes <= LK_MAX_CALL_NAME) {
        memcpy(to + *n, bytes, n_bytes);
        *n += n_bytes;
    }
}

static void object_byte(lk_chat_parser *p, char c) {
    const lk_call_part part = lk_call_object_byte(&p->object, c);
    if (!p->has_begun) {
        add(p, &p->raw, &c, 1);
    }
    switch (part) {
    case LK_CALL_NAME:
        name_or_id_byte(p, c, p->name, &p->n_name);
        if (p->n_name != 0 && !p->unescape.is_open && !p->has_begun) {
            begin_call(p);
        }
        break;
    case LK_CALL_ID:
        if (!p->has_begun) {
            name_or_id_byte(p, c, p->id, &p->n_id);
        }
        break;
    case LK_CALL_ARGUMENTS:
        argument_byte(p, c);
        break;
    case LK_CALL_DONE:
        if (!p->has_begun) {
            give_up(p);
            break;
        }
        end_call(p, true);
        p->state = p->syntax->form == LK_CALL_FORM_ARRAY ? IN_LIST : BETWEEN;
        break;
    case LK_CALL_BAD:
        if (p->has_begun) {
            end_call(p, false);
            p->state = BETWEEN;
        } else {
            give_up(p);
        }
        break;
    case LK_CALL_NOTHING:
        break;
    }
    if (p->state == IN_OBJECT && p->raw.n > LK_MAX_CALL_BYTES) {
        give_up(p);
    }
}

static void list_byte(lk_chat_parser *p, char c) {
    const bool opens = c == '[' && !p->in_list;
    if (c == '{' && p->in_list) {
        p->state = IN_OBJECT;
        object_byte(p, c);
    } else if (c == ']' && p->in_list) {
        p->state = BETWEEN;
    } else if (opens || is_blank(c) || (c == ',' && p->in_list)) {
        p->in_list = p->in_list || opens;
        if (p->n_calls == 0 || p->raw.n != 0) {
            add(p, &p->raw, &c, 1);
        }
    } else {
        add(p, &p->raw, &c, 1);
        give_up(p);
    }
}

/* The arguments of a call whose name is known. */
static void begin_arguments(lk_chat_parser *p) {
    begin_call(p);
    p->state = IN_ARGUMENTS;
    if (p->syntax->arguments->kind != LK_NOTATION_JSON) {
        lk_call_arguments_begin(&p->values, p->syntax->arguments, p->syntax->call_close, &p->tools,
                                p->name, p->n_name, LK_MAX_CALL_BYTES);
        p->state = IN_VALUES;
    }
}

static void values_byte(lk_chat_parser *p, char c) {
    lk_call_arguments *v = &p->values;
    p->arguments.n = 0;
    const lk_scan scan = lk_call_arguments_byte(v, c, &p->arguments);
    if (p->arguments.n != 0) {
        argument_bytes(p, (const char *)p->arguments.data, p->arguments.n);
        p->arguments.n = 0;
    }
    if (v->is_nomem && p->status == LK_OK) {
        p->status = LK_E_NOMEM;
    }
    if (scan == LK_SCAN_MORE) {
        return;
    }
    end_call(p, scan == LK_SCAN_LAST);
    p->state = BETWEEN;
    if (scan == LK_SCAN_BAD) { /* what is no argument is looked at again */
        char held[sizeof v->held];
        const size_t n = v->n_held != 0 ? v->n_held : 1;
        memcpy(held, v->n_held != 0 ? v->held : &c, n);
        for (size_t i = 0; i < n; i++) {
            plain_byte(p, held[i]);
        }
    }
}

/* ---- names ---- */

/* Where a text stands in the name that was read; SIZE_MAX: nowhere. */
static size_t find_in_name(const lk_chat_parser *p, const char *text) {
    const size_t n = strlen(text);
    for (size_t i = 0; i + n <= p->n_name; i++) {
        if (memcmp(p->name + i, text, n) == 0) {
            return i;
        }
    }
    return SIZE_MAX;
}

static void take_id(lk_chat_parser *p, size_t at, size_t n) {
    p->n_id = n;
    memcpy(p->id, p->name + at, n);
}

static void drop_from_name(lk_chat_parser *p, size_t n) {
    p->n_name -= n;
    memmove(p->name, p->name + n, p->n_name);
}

/* Names with more in them: "functions.name:0" of Kimi is its id; Mistral's is behind a mark,
 * Solar's before one; an index follows the name of Kimi 3. */
static void split_name(lk_chat_parser *p) {
    static const char prefix[] = "functions.", behind[] = "[CALL_ID]",
                      before[] = "<|tool_call:name|>";
    const size_t n_prefix = sizeof prefix - 1;
    const char *syntax = p->syntax->name;
    size_t at = find_in_name(p, behind);
    if (at != SIZE_MAX) {
        take_id(p, at + sizeof behind - 1, p->n_name - at - (sizeof behind - 1));
        p->n_name = at;
    } else if (strcmp(syntax, "solar") == 0 && (at = find_in_name(p, before)) != SIZE_MAX) {
        take_id(p, 0, at);
        drop_from_name(p, at + sizeof before - 1);
    } else if (strcmp(syntax, "kimi-3") == 0 && (at = find_in_name(p, "\"")) != SIZE_MAX) {
        p->n_name = at;
    } else if (strcmp(syntax, "kimi") == 0 && p->n_name > n_prefix &&
               memcmp(p->name, prefix, n_prefix) == 0) {
        take_id(p, 0, p->n_name);
        drop_from_name(p, n_prefix);
        at = find_in_name(p, ":");
        p->n_name = at != SIZE_MAX ? at : p->n_name;
    }
}

/* Whether a byte ends a name that has no mark behind it, or does not belong to it yet. */
static bool is_around_name(const lk_chat_parser *p, char c) {
    return p->syntax->name_end[0] == '\0'
               ? is_blank(c) || c == '<'
               : p->n_name == 0 && is_blank(c) && p->syntax->arguments->kind != LK_NOTATION_JSON;
}

static void end_name(lk_chat_parser *p) {
    split_name(p);
    if (p->n_name == 0) {
        give_up(p);
    } else {
        begin_arguments(p);
    }
}

static void name_byte(lk_chat_parser *p, char c) {
    const char *end = p->syntax->name_end;
    const size_t n_end = strlen(end);
    if (is_around_name(p, c)) {
        if (p->n_name != 0) {
            end_name(p);
            values_byte(p, c);
            return;
        }
        add(p, &p->raw, &c, 1);
        if (c == '<' || p->raw.n > LK_MAX_HEADER) {
            give_up(p);
        }
        return;
    }
    add(p, &p->raw, &c, 1);
    p->name[p->n_name++] = c;
    if (n_end != 0 && p->n_name >= n_end && memcmp(p->name + p->n_name - n_end, end, n_end) == 0) {
        p->n_name -= n_end;
        if (p->n_name == 3 && memcmp(p->name, "all", 3) == 0 && strcmp(end, "\n") == 0) {
            p->raw.n = 0; /* functionary 3.2: what follows is for the user */
            p->state = IN_TEXT;
            p->has_text = false;
            reset_call(p);
            return;
        }
        end_name(p);
    } else if (p->n_name == LK_MAX_CALL_NAME) {
        give_up(p);
    }
}

/* ---- headers ---- */

static bool begins_with(const lk_text_buffer *b, const char *text) {
    const size_t n = strlen(text) < b->n ? strlen(text) : b->n;
    return n == 0 || memcmp(b->data, text, n) == 0;
}

/* The word behind `mark` in a header of n bytes; its length to *n_word, 0: it is not there. */
static const char *word_behind(const char *header, size_t n, const char *mark, size_t *n_word) {
    const size_t n_mark = strlen(mark);
    *n_word = 0;
    for (size_t i = 0; i + n_mark <= n; i++) {
        if (memcmp(header + i, mark, n_mark) == 0) {
            const char *word = header + i + n_mark;
            while (word + *n_word < header + n && !is_blank(word[*n_word]) &&
                   word[*n_word] != '<') {
                ++*n_word;
            }
            return word;
        }
    }
    return header;
}

static bool is_word(const char *word, size_t n, const char *text) {
    return strlen(text) == n && memcmp(word, text, n) == 0;
}

/* The message behind a header: to a tool, to the model itself, or to the user. */
static void take_header(lk_chat_parser *p) {
    static const char prefix[] = "functions.";
    const char *header = (const char *)p->raw.data;
    const size_t n = p->raw.n - strlen(LK_MESSAGE_BODY);
    size_t n_to = 0, n_channel = 0;
    const char *to = word_behind(header, n, " to=", &n_to);
    const char *channel = word_behind(header, n, LK_MESSAGE_CHANNEL, &n_channel);
    const bool is_own =
        is_word(to, n_to, "self") || (n_to == 0 && is_word(channel, n_channel, "analysis"));
    const bool is_user = n_to == 0 || is_word(to, n_to, "user") || is_word(to, n_to, "assistant") ||
                         is_word(to, n_to, "all");
    reset_call(p);
    if (!is_own && !is_user && p->takes_calls && p->syntax->open[0] == '\0') {
        const size_t skip = n_to > sizeof prefix - 1 && memcmp(to, prefix, sizeof prefix - 1) == 0
                                ? sizeof prefix - 1
                                : 0;
        p->n_name = n_to - skip < LK_MAX_CALL_NAME ? n_to - skip : LK_MAX_CALL_NAME;
        memcpy(p->name, to + skip, p->n_name);
        begin_arguments(p);
        return;
    }
    p->raw.n = 0;
    p->state = is_own && p->takes_reasoning ? IN_REASONING : IN_TEXT;
    p->has_text = p->state == IN_TEXT;
}

static void header_byte(lk_chat_parser *p, char c) {
    static const size_t n_body = sizeof LK_MESSAGE_BODY - 1;
    add(p, &p->raw, &c, 1);
    if (p->status != LK_OK) {
        return;
    }
    if (p->raw.n >= n_body &&
        memcmp(p->raw.data + p->raw.n - n_body, LK_MESSAGE_BODY, n_body) == 0) {
        take_header(p);
    } else if (p->raw.n > LK_MAX_HEADER ||
               (!begins_with(&p->raw, LK_MESSAGE_START) &&
                !begins_with(&p->raw, LK_MESSAGE_CHANNEL) && !begins_with(&p->raw, " to=") &&
                !begins_with(&p->raw, LK_MESSAGE_BODY))) {
        give_up(p);
    }
}

/* ---- arguments in JSON ---- */

static void arguments_byte(lk_chat_parser *p, char c) {
    const lk_scan scan = lk_json_scan_byte(&p->scan, c);
    if (scan == LK_SCAN_MORE || scan == LK_SCAN_LAST) {
        if (p->scan.has_begun) {
            argument_byte(p, c);
        }
        if (scan == LK_SCAN_LAST) {
            end_call(p, true);
            p->state = BETWEEN;
        }
        return;
    }
    end_call(p, scan == LK_SCAN_BEYOND);
    p->state = BETWEEN;
    plain_byte(p, c);
}

/* ---- markers ---- */

enum {
    OPEN,
    CALL_OPEN,
    CALL_CLOSE,
    CLOSE,
    REASONING_OPEN,
    REASONING_CLOSE,
    HEADER,
    DROPPED,
    MAX_MARKERS = 16
};

typedef struct marker {
    const char *text;
    size_t n;
    int kind;
} marker;

typedef struct marker_list {
    marker items[MAX_MARKERS];
    size_t n;
} marker_list;

static void list_marker(marker_list *list, const char *text, size_t n, int kind) {
    if (text != NULL && n != 0 && list->n < MAX_MARKERS) {
        list->items[list->n++] = (marker){text, n, kind};
    }
}

static void list_text(marker_list *list, const char *text, int kind) {
    list_marker(list, text, text != NULL ? strlen(text) : 0, kind);
}

/* Those of messages, and what is dropped. */
static void list_frames(const lk_chat_parser *p, marker_list *list) {
    const lk_call_syntax *s = p->syntax;
    const bool has_messages = s->form == LK_CALL_FORM_MESSAGES;
    size_t n = 0;
    if (has_messages) {
        list_text(list, LK_MESSAGE_START, HEADER);
        list_text(list, LK_MESSAGE_CHANNEL, HEADER);
    }
    const char *at = s->dropped;
    for (const char *mark = lk_call_syntax_dropped(&at, &n);
         mark != NULL && (has_messages || p->state != IN_REASONING);
         mark = lk_call_syntax_dropped(&at, &n)) {
        list_marker(list, mark, n, DROPPED);
    }
}

/* The markers that count in this state. */
static void list_markers(const lk_chat_parser *p, marker_list *list) {
    const lk_call_syntax *s = p->syntax;
    list->n = 0;
    if (p->state == IN_REASONING) {
        list_text(list, p->reasoning_close, REASONING_CLOSE);
    } else {
        if (s != NULL && p->takes_calls) {
            list_text(list, s->open, OPEN);
        }
        if (s != NULL && p->takes_calls && p->state == BETWEEN) {
            list_text(list, s->call_open, CALL_OPEN);
            list_text(list, s->call_close, CALL_CLOSE);
            list_text(list, s->close, CLOSE);
        }
        list_text(list, p->reasoning_open, REASONING_OPEN);
    }
    if (s != NULL) {
        list_frames(p, list);
    }
}

static void open_calls(lk_chat_parser *p) {
    const lk_call_form form = p->syntax->form;
    reset_call(p);
    add(p, &p->raw, p->syntax->open, strlen(p->syntax->open));
    p->in_list = false;
    p->state = form == LK_CALL_FORM_ARRAY                                    ? IN_LIST
               : form != LK_CALL_FORM_NAMED && form != LK_CALL_FORM_MESSAGES ? IN_OBJECT
               : p->syntax->call_open[0] != '\0'                             ? BETWEEN
                                                                             : IN_NAME;
}

static void take_marker(lk_chat_parser *p, const marker *m) {
    switch (m->kind) {
    case OPEN:
        open_calls(p);
        break;
    case CALL_OPEN:
        reset_call(p);
        if (p->raw.n != 0) {
            add(p, &p->raw, p->syntax->call_open, strlen(p->syntax->call_open));
        }
        p->state = IN_NAME;
        break;
    case REASONING_OPEN:
    case REASONING_CLOSE:
        p->space.n = 0;
        flush(p);
        p->state = m->kind == REASONING_OPEN ? IN_REASONING : IN_TEXT;
        p->has_text = false;
        break;
    case HEADER:
    case DROPPED:
        p->space.n = 0;
        if (p->raw.n != 0) {
            give_up(p);
        }
        flush(p);
        p->state = m->kind == HEADER ? IN_HEADER : IN_TEXT;
        p->has_text = false;
        if (m->kind == HEADER) {
            add(p, &p->raw, m->text, m->n);
        }
        break;
    default:
        break;
    }
}

/* A byte that is of no marker. */
static void plain_byte(lk_chat_parser *p, char c) {
    if (p->state == BETWEEN) {
        const char *between = p->syntax->between;
        const bool separates = between != NULL && c != '\0' && strchr(between, c) != NULL;
        if (separates && p->syntax->form == LK_CALL_FORM_NAMED && p->raw.n == 0 &&
            *p->syntax->call_open == '\0') {
            reset_call(p);
            p->state = IN_NAME;
            return;
        }
        if (is_blank(c) || separates) {
            return;
        }
        const bool is_list =
            p->syntax->form == LK_CALL_FORM_START ||
            (p->syntax->form == LK_CALL_FORM_OBJECT && *p->syntax->call_close == 0);
        if (is_list && c == '{') {
            p->state = IN_OBJECT;
            object_byte(p, c);
            return;
        }
        give_up(p);
    }
    if (p->state == IN_TEXT && p->at_start && c == '{' && p->syntax != NULL &&
        p->syntax->form == LK_CALL_FORM_START) {
        reset_call(p);
        p->state = IN_OBJECT;
        object_byte(p, c);
    } else if (!is_blank(c)) {
        give_text(p, &c, 1);
    } else if (p->has_text) {
        add(p, &p->space, &c, 1);
    }
}

static void marked_byte(lk_chat_parser *p, char c) {
    p->partial[p->n_partial++] = c;
    while (p->n_partial != 0) {
        bool may_be = false;
        marker_list list;
        list_markers(p, &list);
        for (size_t i = 0; i < list.n; i++) {
            const marker *m = &list.items[i];
            if (m->n < p->n_partial || memcmp(m->text, p->partial, p->n_partial) != 0) {
                continue;
            }
            if (m->n == p->n_partial) {
                p->n_partial = 0;
                take_marker(p, m);
                return;
            }
            may_be = true;
        }
        if (may_be) {
            return;
        }
        const char first = p->partial[0];
        memmove(p->partial, p->partial + 1, --p->n_partial);
        plain_byte(p, first);
        if (p->state != IN_TEXT && p->state != IN_REASONING && p->state != BETWEEN) {
            return; /* a call began with the last byte of all: there is no more */
        }
    }
}

static void push_byte(lk_chat_parser *p, char c) {
    switch (p->state) {
    case IN_OBJECT:
        object_byte(p, c);
        break;
    case IN_LIST:
        list_byte(p, c);
        break;
    case IN_NAME:
        name_byte(p, c);
        break;
    case IN_ARGUMENTS:
        arguments_byte(p, c);
        break;
    case IN_VALUES:
        values_byte(p, c);
        break;
    case IN_HEADER:
        header_byte(p, c);
        break;
    default:
        marked_byte(p, c);
        break;
    }
}

static lk_status report(lk_chat_parser *p, lk_error *err) {
    if (p->status == LK_E_NOMEM) {
        return lk_fail_nomem(err, "an answer", p->out.n + p->raw.n);
    }
    return p->status == LK_OK ? LK_OK
                              : lk_fail(err, p->status, LK_NOWHERE,
                                        "the answer has more than %d calls", LK_MAX_CALLS);
}

lk_status lk_chat_parser_push(lk_chat_parser *p, const char *text, size_t n_bytes, lk_error *err) {
    if (p == NULL || (text == NULL && n_bytes != 0)) {
        return lk_fail(err, LK_E_ARG, LK_NOWHERE, "lk_chat_parser_push: parser or text is missing");
    }
    for (size_t i = 0; i < n_bytes && p->status == LK_OK; i++) {
        push_byte(p, text[i]);
    }
    if (p->status == LK_OK) {
        flush(p);
    }
    return report(p, err);
}

lk_status lk_chat_parser_finish(lk_chat_parser *p, lk_error *err) {
    if (p == NULL) {
        return lk_fail(err, LK_E_ARG, LK_NOWHERE, "lk_chat_parser_finish: the parser is missing");
    }
    if (p->state == IN_ARGUMENTS && p->scan.is_scalar) {
        end_call(p, true);
        p->state = BETWEEN;
    }
    if (p->state == IN_HEADER && p->raw.n >= sizeof LK_MESSAGE_START - 1 &&
        (begins_with(&p->raw, LK_MESSAGE_START) || begins_with(&p->raw, LK_MESSAGE_CHANNEL))) {
        p->raw.n = 0; /* a header without a message */
        p->state = IN_TEXT;
    }
    if (p->has_begun) {
        end_call(p, false);
        p->state = BETWEEN;
    } else if (p->state != IN_TEXT && p->state != IN_REASONING && p->state != BETWEEN) {
        give_up(p);
    }
    for (size_t i = 0; i < p->n_partial; i++) {
        plain_byte(p, p->partial[i]);
    }
    p->n_partial = 0;
    if (p->state == BETWEEN && p->raw.n != 0) {
        give_up(p);
    }
    if (p->state == IN_TEXT && p->space.n != 0) {
        give_text(p, "", 0);
    }
    flush(p);
    return report(p, err);
}

const char *lk_chat_parser_syntax(const lk_chat_parser *p) {
    return p->syntax != NULL ? p->syntax->name : "";
}

void lk_chat_parser_reasoning(const lk_chat_parser *p, const char **open, const char **close) {
    *open = p->reasoning_open;
    *close = p->reasoning_close;
}

lk_chat_place lk_chat_parser_place(const lk_chat_parser *p) {
    return p->state == IN_TEXT        ? LK_CHAT_IN_TEXT
           : p->state == IN_REASONING ? LK_CHAT_IN_REASONING
           : p->state == IN_HEADER    ? LK_CHAT_IN_HEADER
                                      : LK_CHAT_IN_CALLS;
}

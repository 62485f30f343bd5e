/* call_syntax.c - see call_syntax.h. */
#include "text/calls/call_syntax.h"

#include <string.h>

#include "base/error.h"
#include "lk/chat_parser.h"

#define LK_CALL_NOTATION(id, kind, open, name_end, value_open, value_close, types, style)          \
    static const lk_call_notation notation_##id = {                                                \
        LK_NOTATION_##kind, open, name_end, value_open, value_close, LK_NOTATION_##types,          \
        LK_NOTATION_##style};
#include "text/calls/call_notations.def"
#undef LK_CALL_NOTATION

static const lk_call_syntax syntaxes[] = {
#define LK_CALL_SYNTAX(name, form, open, call_open, name_end, call_close, close, between,          \
                       arguments, dropped)                                                         \
    {name,    LK_CALL_FORM_##form,   open,   call_open, name_end, call_close, close,               \
     between, &notation_##arguments, dropped},
#include "text/calls/call_syntaxes.def"
#undef LK_CALL_SYNTAX
};
#define N_SYNTAXES (sizeof syntaxes / sizeof syntaxes[0])

const lk_call_syntax *lk_call_syntax_at(size_t i) {
    return i < N_SYNTAXES ? &syntaxes[i] : NULL;
}

const char *lk_chat_syntax_name(size_t i) {
    return i < N_SYNTAXES ? syntaxes[i].name : NULL;
}

lk_status lk_call_syntax_find(const char *name, const lk_call_syntax **out, lk_error *err) {
    for (size_t i = 0; i < N_SYNTAXES; i++) {
        if (strcmp(syntaxes[i].name, name) == 0) {
            *out = &syntaxes[i];
            return LK_OK;
        }
    }
    return lk_fail(err, LK_E_NOT_FOUND, LK_AT_SUBJECT(name), "there is no call syntax named '%s'",
                   name);
}

bool lk_call_syntax_frames(const lk_call_syntax *s) {
    return s != NULL && (s->form == LK_CALL_FORM_MESSAGES || s->dropped[0] != '\0');
}

const char *lk_call_syntax_dropped(const char **at, size_t *n) {
    const char *mark = *at;
    *n = strcspn(mark, " ");
    *at = mark + *n + (mark[*n] == ' ');
    return *n != 0 ? mark : NULL;
}

/* ---- marks ---- */

static const lk_reasoning_marks reasoning_marks[] = {
    {"<think>", "</think>", "</think>"},
    {"[THINK]", "[/THINK]", "[/THINK]"},
    {"<seed:think>", "</seed:think>", "</seed:think>"},
    {"<mm:think>", "</mm:think>", "</mm:think>"},
    {"<|START_THINKING|>", "<|END_THINKING|>", "<|END_THINKING|>"},
    {"<think:opensource>", "</think:opensource>", "</think{}>"},
    {"<|open|>think<|sep|>", "<|close|>think<|sep|>", "open_tag('think'"},
    {"<|think|>", "<|end|>", "assistant<|think|>"},
    {"<|channel>thought", "<channel|>", "<|channel>thought"}};

const lk_reasoning_marks *lk_reasoning_marks_at(size_t i) {
    return i < sizeof reasoning_marks / sizeof reasoning_marks[0] ? &reasoning_marks[i] : NULL;
}

static bool has_part(const char *mark, const char *text, size_t n) {
    const size_t n_mark = strlen(mark);
    for (size_t i = 0; n != 0 && i + n <= n_mark; i++) {
        if (memcmp(mark + i, text, n) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_of_messages(const char *text, size_t n) {
    static const char *const marks[] = {LK_MESSAGE_START, LK_MESSAGE_CHANNEL, LK_MESSAGE_BODY,
                                        "<|constrain|>"};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        if (has_part(marks[i], text, n)) {
            return true;
        }
    }
    return false;
}

bool lk_call_syntax_has_mark(const lk_call_syntax *s, const char *text, size_t n) {
    for (size_t i = 0; lk_reasoning_marks_at(i) != NULL; i++) {
        if (has_part(reasoning_marks[i].open, text, n) ||
            has_part(reasoning_marks[i].close, text, n)) {
            return true;
        }
    }
    if (s == NULL) {
        return false;
    }
    const lk_call_notation *a = s->arguments;
    const char *const marks[] = {s->open,    s->call_open,  s->name_end,    s->call_close,
                                 s->close,   "[CALL_ID]",   a->open,        a->name_end,
                                 s->dropped, a->value_open, a->value_close, "<|tool_call:name|>"};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        if (has_part(marks[i], text, n)) {
            return true;
        }
    }
    return s->form == LK_CALL_FORM_MESSAGES && is_of_messages(text, n);
}

int lk_chat_syntax_has_mark(const char *syntax, const char *text, size_t n_bytes) {
    const lk_call_syntax *own = NULL;
    if (syntax != NULL && syntax[0] != '\0') {
        (void)lk_call_syntax_find(syntax, &own, NULL);
    }
    return text != NULL && lk_call_syntax_has_mark(own, text, n_bytes);
}

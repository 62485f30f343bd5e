/* line_editor.c - see line_editor.h. */
#include "line_editor.h"

#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

enum { HISTORY_LINES = 1000 };

struct lk_line_editor {
    EditLine *edit; /* NULL: no terminal */
    History *history;
    char *line; /* of getline */
    size_t line_capacity;
    bool goes_on;            /* the message has begun: another prompt */
    struct sigaction before; /* what Ctrl-C did */
};

static volatile sig_atomic_t was_interrupted;

/* From the first prompt on Ctrl-C never ends the program, whatever runs when it comes. */
static void on_interrupt(int signal_number) {
    (void)signal_number;
    was_interrupted = 1;
}

static char *prompt(EditLine *edit) {
    static char first[] = "> ", more[] = ". ";
    void *data = NULL;
    (void)el_get(edit, EL_CLIENTDATA, &data);
    const lk_line_editor *editor = data;
    return editor != NULL && editor->goes_on ? more : first;
}

/* Without a locale of UTF-8 libedit drops every letter beyond ASCII. */
static void choose_letters(void) {
    if (setlocale(LC_CTYPE, "") == NULL || strcmp(nl_langinfo(CODESET), "UTF-8") != 0) {
        (void)setlocale(LC_CTYPE, "C.UTF-8");
    }
}

/* The next letter for libedit: 1, or -1 at the end of the input and after Ctrl-C. libedit itself
 * would read on after the first Ctrl-C. */
static int read_letter(EditLine *edit, wchar_t *letter) {
    mbstate_t state = {0};
    (void)edit;
    for (;;) {
        char c = 0;
        struct pollfd ready = {STDIN_FILENO, POLLIN, 0};
        if (was_interrupted) {
            return -1;
        }
        /* With an end, because Ctrl-C may come just before the wait. */
        if (poll(&ready, 1, 100) <= 0) {
            continue;
        }
        const ssize_t n = read(STDIN_FILENO, &c, 1);
        if (n < 0 && errno == EINTR) {
            continue; /* a window of another size, for instance */
        }
        if (n <= 0) {
            return -1;
        }
        const size_t used = mbrtowc(letter, &c, 1, &state);
        if (used == (size_t)-1) {
            state = (mbstate_t){0}; /* no letter: left out */
        } else if (used != (size_t)-2) {
            return 1;
        }
    }
}

lk_line_editor *lk_line_editor_create(void) {
    lk_line_editor *editor = calloc(1, sizeof *editor);
    if (editor == NULL || isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1) {
        return editor;
    }
    HistEvent event;
    choose_letters();
    editor->history = history_init();
    editor->edit = el_init("lockstep", stdin, stdout, stderr);
    if (editor->edit == NULL || editor->history == NULL) {
        lk_line_editor_destroy(editor);
        return NULL;
    }
    (void)history(editor->history, &event, H_SETSIZE, HISTORY_LINES);
    (void)el_set(editor->edit, EL_CLIENTDATA, editor);
    (void)el_set(editor->edit, EL_PROMPT, prompt);
    (void)el_set(editor->edit, EL_EDITOR, "emacs");
    (void)el_set(editor->edit, EL_SIGNAL, 1);
    (void)el_set(editor->edit, EL_HIST, history, editor->history);
    (void)el_set(editor->edit, EL_GETCFN, read_letter);
    (void)el_source(editor->edit, NULL);
    const struct sigaction note = {.sa_handler = on_interrupt};
    (void)sigaction(SIGINT, &note, &editor->before);
    return editor;
}

void lk_line_editor_destroy(lk_line_editor *editor) {
    if (editor != NULL) {
        if (editor->edit != NULL) {
            (void)sigaction(SIGINT, &editor->before, NULL);
            el_end(editor->edit);
        }
        if (editor->history != NULL) {
            history_end(editor->history);
        }
        free(editor->line);
        free(editor);
    }
}

bool lk_line_editor_is_terminal(const lk_line_editor *editor) {
    return editor->edit != NULL;
}

/* A line that was typed; NULL at the end of the input and after Ctrl-C. */
static const char *read_typed(lk_line_editor *editor, int *count) {
    HistEvent event;
    was_interrupted = 0;
    const char *line = el_gets(editor->edit, count);
    if (line != NULL && *count > 0) {
        was_interrupted = 0;
        if (*count > 1) {
            (void)history(editor->history, &event, H_ENTER, line);
        }
        return line;
    }
    if (was_interrupted) {
        const LineInfo *info = el_line(editor->edit);
        const bool is_empty = info->lastchar == info->buffer && !editor->goes_on;
        (void)printf(is_empty ? "\n(/exit or Ctrl-D leaves)\n" : "\n");
        (void)fflush(stdout);
    }
    return NULL;
}

/* One line without its end; NULL at the end of the input and after Ctrl-C (was_interrupted). */
static const char *read_line(lk_line_editor *editor, size_t *n) {
    const char *line = NULL;
    *n = 0;
    if (editor->edit != NULL) {
        int count = 0;
        line = read_typed(editor, &count);
        if (line == NULL) {
            return NULL;
        }
        *n = (size_t)count;
    } else {
        const ssize_t count = getline(&editor->line, &editor->line_capacity, stdin);
        if (count <= 0) {
            return NULL;
        }
        line = editor->line;
        *n = (size_t)count;
    }
    *n -= line[*n - 1] == '\n';
    return line;
}

bool lk_line_editor_read(lk_line_editor *editor, lk_buffer *text) {
    static const char quotes[] = "\"\"\"";
    bool in_block = false;
    text->n = 0;
    editor->goes_on = false;
    was_interrupted = 0;
    for (;;) {
        size_t n = 0;
        const char *line = read_line(editor, &n);
        if (line == NULL && was_interrupted) {
            text->n = 0;
            in_block = editor->goes_on = false;
            continue;
        }
        if (line == NULL) {
            return editor->goes_on && text->n != 0;
        }
        const bool is_quotes = n == 3 && memcmp(line, quotes, 3) == 0;
        if (is_quotes && (in_block || !editor->goes_on)) {
            if (in_block) {
                text->n -= text->n != 0; /* the last line end */
                return true;
            }
            in_block = editor->goes_on = true;
            continue;
        }
        const bool goes_on = in_block || (n != 0 && line[n - 1] == '\\');
        if (text->n + n > LK_MAX_MESSAGE ||
            !lk_buffer_add(text, line, in_block || !goes_on ? n : n - 1) ||
            (goes_on && !lk_buffer_add(text, "\n", 1))) {
            return false;
        }
        editor->goes_on = goes_on;
        if (!goes_on) {
            return true;
        }
    }
}

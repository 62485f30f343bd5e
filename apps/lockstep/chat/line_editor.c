/* line_editor.c - see line_editor.h. */
#include "line_editor.h"

#include <histedit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HISTORY_LINES = 1000 };

struct lk_line_editor {
    EditLine *edit; /* NULL: no terminal */
    History *history;
    char *line; /* of getline */
    size_t line_capacity;
    bool goes_on; /* the message has begun: another prompt */
};

static char *prompt(EditLine *edit) {
    static char first[] = "> ", more[] = ". ";
    void *data = NULL;
    (void)el_get(edit, EL_CLIENTDATA, &data);
    const lk_line_editor *editor = data;
    return editor != NULL && editor->goes_on ? more : first;
}

lk_line_editor *lk_line_editor_create(void) {
    lk_line_editor *editor = calloc(1, sizeof *editor);
    if (editor == NULL || isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1) {
        return editor;
    }
    HistEvent event;
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
    (void)el_source(editor->edit, NULL);
    return editor;
}

void lk_line_editor_destroy(lk_line_editor *editor) {
    if (editor != NULL) {
        if (editor->edit != NULL) {
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

/* One line without its end; NULL at the end of the input. */
static const char *read_line(lk_line_editor *editor, size_t *n) {
    const char *line = NULL;
    *n = 0;
    if (editor->edit != NULL) {
        int count = 0;
        HistEvent event;
        line = el_gets(editor->edit, &count);
        if (line == NULL || count <= 0) {
            return NULL;
        }
        if (count > 1) {
            (void)history(editor->history, &event, H_ENTER, line);
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
    for (;;) {
        size_t n = 0;
        const char *line = read_line(editor, &n);
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

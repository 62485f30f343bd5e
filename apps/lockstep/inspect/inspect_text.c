/* inspect_text.c - the report of `lockstep inspect` for people. Whatever bytes the file holds, only
 * printable ones reach the terminal. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "inspect.h"
#include "shared/printable.h"

enum {
    SHOWN_ELEMENTS = 6, /* of an array, unless --all */
    SHOWN_CHARS = 72,   /* of a string */
    SHOWN_ITEM_CHARS = 20,
    MAX_KEY_COLUMN = 44,
    MAX_NAME_COLUMN = 40
};

static void print_bytes(uint64_t n) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double x = (double)n / 1024.0;
    size_t unit = 0;
    while (x >= 1000.0 && unit < 3) {
        x /= 1024.0;
        unit++;
    }
    if (n < 1024) {
        (void)printf("%" PRIu64 " B", n);
    } else {
        (void)printf("%.1f %s", x, units[unit]);
    }
}

static void print_count(uint64_t n) {
    static const char *const units[] = {"", " thousand", " million", " billion", " trillion"};
    double x = (double)n;
    size_t unit = 0;
    while (x >= 999.95 && unit < 4) {
        x /= 1000.0;
        unit++;
    }
    (void)printf(unit == 0 ? "%.0f%s" : "%.1f%s", x, units[unit]);
}

static void print_string(const char *bytes, uint64_t n, bool all, size_t most) {
    (void)putchar('"');
    const size_t shown = lk_print_escaped(stdout, bytes, (size_t)n, all ? SIZE_MAX : most);
    (void)fputs(shown < n ? "..\"" : "\"", stdout);
}

/* The shortest decimal that reads back as the same number of its type. */
static void print_real(double x, bool is_f32) {
    char text[40] = "";
    if (x > -1e9 && x < 1e9 && x >= floor(x) && x <= floor(x)) { /* whole: no exponent */
        (void)printf("%.1f", x);
        return;
    }
    const int least = is_f32 ? 6 : 15;
    const int most = is_f32 ? 9 : 17;
    for (int digits = least; digits <= most; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, x);
        const double back = strtod(text, NULL);
        const bool same =
            is_f32 ? (float)back >= (float)x && (float)back <= (float)x : back >= x && back <= x;
        if (same) {
            break;
        }
    }
    (void)fputs(text, stdout);
}

static void print_scalar(const lk_gguf_value *v) {
    if (v->type == LK_GGUF_BOOL) {
        (void)fputs(v->i != 0 ? "true" : "false", stdout);
    } else if (v->type == LK_GGUF_F32 || v->type == LK_GGUF_F64) {
        print_real(v->f, v->type == LK_GGUF_F32);
    } else if (v->type == LK_GGUF_U64) {
        (void)printf("%" PRIu64, (uint64_t)v->i);
    } else {
        (void)printf("%" PRId64, v->i);
    }
}

static void print_array(const inspect_report *r, const lk_gguf_value *v) {
    const uint64_t n = r->all || v->n <= SHOWN_ELEMENTS ? v->n : SHOWN_ELEMENTS;
    (void)putchar('[');
    for (uint64_t i = 0; i < n; i++) {
        (void)fputs(i != 0 ? ", " : "", stdout);
        if (v->elem_type == LK_GGUF_STRING) {
            const char *str;
            uint64_t n_bytes;
            (void)lk_gguf_array_string(r->gguf, v, i, &str, &n_bytes, NULL);
            print_string(str, n_bytes, r->all, SHOWN_ITEM_CHARS);
        } else {
            const lk_gguf_value element = inspect_element(v, i);
            print_scalar(&element);
        }
    }
    (void)fputs(n < v->n ? ", ..]" : "]", stdout);
}

static void print_value(const inspect_report *r, const lk_gguf_value *v) {
    char type[48];
    if (v->type == LK_GGUF_ARRAY) {
        (void)snprintf(type, sizeof type, "%s[%" PRIu64 "]", lk_gguf_type_name(v->elem_type), v->n);
    } else {
        (void)snprintf(type, sizeof type, "%s", lk_gguf_type_name(v->type));
    }
    (void)printf("  %-14s  ", type);
    if (v->type == LK_GGUF_STRING) {
        print_string(v->str, v->n, r->all, SHOWN_CHARS);
    } else if (v->type == LK_GGUF_ARRAY) {
        print_array(r, v);
    } else {
        print_scalar(v);
    }
    (void)putchar('\n');
}

static void print_metadata(const inspect_report *r) {
    const uint64_t n = lk_gguf_n_meta(r->gguf);
    size_t column = 0;
    const char *key;
    lk_gguf_value value;
    for (uint64_t i = 0; i < n && lk_gguf_meta(r->gguf, i, &key, &value, NULL) == LK_OK; i++) {
        const size_t length = strlen(key);
        column = length > column ? length : column;
    }
    column = column > MAX_KEY_COLUMN ? MAX_KEY_COLUMN : column;
    (void)printf("\nmetadata: %" PRIu64 " entries\n", n);
    for (uint64_t i = 0; i < n && lk_gguf_meta(r->gguf, i, &key, &value, NULL) == LK_OK; i++) {
        (void)printf("  %-*s", (int)column, key);
        print_value(r, &value);
    }
}

static const char *mark(uint32_t type) {
    return lk_format_is_supported(type) ? "" : "  (not supported)";
}

static void print_tensors(const inspect_report *r) {
    const uint64_t n = lk_gguf_n_tensors(r->gguf);
    size_t column = 0;
    lk_gguf_tensor t;
    for (uint64_t i = 0; i < n && lk_gguf_tensor_at(r->gguf, i, &t, NULL) == LK_OK; i++) {
        const size_t length = strlen(t.name);
        column = length > column ? length : column;
    }
    column = column > MAX_NAME_COLUMN ? MAX_NAME_COLUMN : column;
    (void)printf("\ntensors: %" PRIu64 "\n", n);
    for (uint64_t i = 0; i < n && lk_gguf_tensor_at(r->gguf, i, &t, NULL) == LK_OK; i++) {
        char shape[100];
        int at = snprintf(shape, sizeof shape, "%" PRIu64, t.ne[0]);
        for (uint32_t k = 1; k < t.n_dims; k++) {
            at += snprintf(shape + at, sizeof shape - (size_t)at, " x %" PRIu64, t.ne[k]);
        }
        const size_t length = strlen(t.name);
        (void)fputs("  ", stdout);
        (void)lk_print_escaped(stdout, t.name, length, SIZE_MAX);
        (void)printf("%*s  %-8s %-18s ", (int)(length < column ? column - length : 0), "",
                     lk_format_name(t.type), shape);
        print_bytes(t.n_bytes);
        (void)printf("%s\n", mark(t.type));
    }
}

static void print_totals(const inspect_report *r) {
    (void)printf("\nformats\n");
    for (uint32_t i = 0; i < r->n_formats; i++) {
        const inspect_format *f = &r->formats[i];
        (void)printf("  %-8s %5" PRIu64 " tensors  ", lk_format_name(f->type), f->n_tensors);
        print_count(f->n_elems);
        (void)fputs(" elements, ", stdout);
        print_bytes(f->n_bytes);
        (void)printf(" (%.2f bits each)%s\n", 8.0 * (double)f->n_bytes / (double)f->n_elems,
                     mark(f->type));
    }
    (void)fputs("  all      ", stdout);
    (void)printf("%5" PRIu64 " tensors  ", lk_gguf_n_tensors(r->gguf));
    print_count(r->n_params);
    (void)fputs(" parameters, ", stdout);
    print_bytes(r->n_bytes);
    if (r->n_params != 0) {
        (void)printf(" (%.2f bits each)", 8.0 * (double)r->n_bytes / (double)r->n_params);
    }
    (void)putchar('\n');
}

static void print_name(const inspect_report *r) {
    lk_gguf_value v;
    if (lk_gguf_find(r->gguf, "general.name", &v, NULL) == LK_OK && v.type == LK_GGUF_STRING) {
        (void)fputs("name          ", stdout);
        (void)lk_print_escaped(stdout, v.str, (size_t)v.n, SHOWN_CHARS);
        (void)putchar('\n');
    }
    if (r->arch[0] != '\0') {
        (void)fputs("architecture  ", stdout);
        (void)lk_print_escaped(stdout, r->arch, strlen(r->arch), SIZE_MAX);
        (void)fputs(r->arch_supported ? "\n" : "  (not supported)\n", stdout);
    }
}

static void print_verdict(const inspect_report *r) {
    (void)puts(r->n_problems == 0 ? "can be run    yes" : "can be run    no");
    for (uint32_t i = 0; i < r->n_problems && i < INSPECT_MAX_PROBLEMS; i++) {
        const inspect_problem *p = &r->problems[i];
        (void)printf("  %-12s  %s\n", p->kind, p->message); /* messages are printable */
    }
    if (r->n_problems > INSPECT_MAX_PROBLEMS) {
        (void)printf("  and %" PRIu32 " more\n", r->n_problems - INSPECT_MAX_PROBLEMS);
    }
}

void inspect_print_text(const inspect_report *r) {
    const uint32_t n_files = lk_gguf_n_files(r->gguf);
    (void)fputs("file          ", stdout);
    (void)lk_print_escaped(stdout, r->path, strlen(r->path), SIZE_MAX);
    (void)printf("\nformat        GGUF version %" PRIu32 ", %" PRIu32 " %s, ",
                 lk_gguf_version(r->gguf), n_files, n_files == 1 ? "file" : "files");
    print_bytes(lk_gguf_file_bytes(r->gguf));
    (void)printf(" (%" PRIu64 " bytes)\n", lk_gguf_file_bytes(r->gguf));
    print_name(r);
    print_verdict(r);
    (void)fputs("parameters    ", stdout);
    print_count(r->n_params);
    (void)printf(" (%" PRIu64 ")\n", r->n_params);
    if (r->digest[0] != '\0') {
        (void)printf("digest        %s\n", r->digest);
    }
    print_metadata(r);
    print_tensors(r);
    print_totals(r);
}

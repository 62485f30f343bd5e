/* gen_unicode.c - makes unicode_categories.c, unicode_decompositions.c and unicode_cases.c of
 * src/text/unicode/ from the Unicode character database.
 *
 *     gen_unicode UCD_FOLDER OUTPUT_FOLDER
 *
 * UCD_FOLDER holds UnicodeData.txt, PropList.txt and DerivedNormalizationProps.txt (Debian: package
 * unicode-data, folder /usr/share/unicode). Not part of the build: the tables are committed, and
 * tests/unit/test_text_oracles.c compares them with utf8proc. Run it again to move to another
 * Unicode version.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_CODE_POINTS 0x110000u
#define LEAF 64u   /* code points in one block of the last stage */
#define BRANCH 64u /* blocks in one block of the middle stage */
#define MAX_DECOMPOSITIONS 4096u
#define MARGIN 100u
#define FIRST_LETTER '@' /* of the letters that stand for the distinct property bytes */

/* In the order of lk_category in src/text/unicode/unicode.h. */
static const char *const category_names[] = {
    "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe",
    "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn"};
enum { N_CATEGORIES = 30, UNASSIGNED = 29, WHITE_SPACE = 32, NFC_ACTIVE = 64 };

typedef struct decomposition {
    uint32_t cp, first, second;
} decomposition;

static uint8_t props[N_CODE_POINTS];
static uint8_t ccc[N_CODE_POINTS];
static uint8_t excluded[N_CODE_POINTS];
static decomposition decompositions[MAX_DECOMPOSITIONS];
static size_t n_decompositions;
static uint32_t upper[N_CODE_POINTS], lower[N_CODE_POINTS]; /* simple case mappings, 0: itself */
static char version[16]; /* "16.0.0", from the head of DerivedNormalizationProps.txt */

static void die(const char *what, const char *detail) {
    (void)fprintf(stderr, "gen_unicode: %s: %s\n", what, detail);
    exit(1);
}

static FILE *open_in(const char *folder, const char *name, const char *mode) {
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, mode);
    if (file == NULL) {
        die("cannot open", path);
    }
    return file;
}

static void read_version(const char *folder) {
    FILE *file = open_in(folder, "DerivedNormalizationProps.txt", "r");
    if (fscanf(file, "# DerivedNormalizationProps-%15[0-9.]", version) != 1 ||
        strlen(version) < 5) {
        die("no version in", "DerivedNormalizationProps.txt");
    }
    version[strlen(version) - 1] = '\0'; /* the point before "txt" */
    (void)fclose(file);
}

static uint8_t category_of(const char *name) {
    for (uint8_t i = 0; i < N_CATEGORIES; i++) {
        if (strcmp(name, category_names[i]) == 0) {
            return i;
        }
    }
    die("unknown category", name);
    return 0;
}

/* Splits at ';' in place; returns the number of fields. */
static size_t split(char *line, char *fields[], size_t max) {
    size_t n = 0;
    char *field = line;
    while (n < max) {
        fields[n++] = field;
        char *end = strchr(field, ';');
        if (end == NULL) {
            break;
        }
        *end = '\0';
        field = end + 1;
    }
    return n;
}

static void read_unicode_data(const char *folder) {
    FILE *file = open_in(folder, "UnicodeData.txt", "r");
    char line[1024];
    uint32_t range_first = 0;
    memset(props, UNASSIGNED, sizeof props);
    while (fgets(line, sizeof line, file) != NULL) {
        char *f[15];
        if (split(line, f, 15) != 15) {
            die("bad line in UnicodeData.txt", line);
        }
        const uint32_t cp = (uint32_t)strtoul(f[0], NULL, 16);
        if (strstr(f[1], ", First>") != NULL) {
            range_first = cp;
            continue;
        }
        const uint32_t first = strstr(f[1], ", Last>") != NULL ? range_first : cp;
        for (uint32_t c = first; c <= cp; c++) {
            props[c] = category_of(f[2]);
            ccc[c] = (uint8_t)strtoul(f[3], NULL, 10);
        }
        upper[cp] = (uint32_t)strtoul(f[12], NULL, 16);
        lower[cp] = (uint32_t)strtoul(f[13], NULL, 16);
        if (f[5][0] != '\0' && f[5][0] != '<') { /* canonical */
            decomposition *d = &decompositions[n_decompositions++];
            char *end = NULL;
            d->cp = cp;
            d->first = (uint32_t)strtoul(f[5], &end, 16);
            d->second = (uint32_t)strtoul(end, NULL, 16);
            if (n_decompositions == MAX_DECOMPOSITIONS) {
                die("too many decompositions", f[0]);
            }
        }
    }
    (void)fclose(file);
}

/* Calls `set` for every code point that the file lists under `property` (and `value`, unless NULL).
 */
static void read_property(const char *folder, const char *name, const char *property,
                          const char *value, void (*set)(uint32_t)) {
    FILE *file = open_in(folder, name, "r");
    char line[1024];
    size_t n = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        char *hash = strchr(line, '#');
        if (hash != NULL) {
            *hash = '\0';
        }
        char *f[3];
        const size_t n_fields = split(line, f, 3);
        char word[64] = "";
        if (n_fields < 2 || sscanf(f[1], "%63s", word) != 1 || strcmp(word, property) != 0) {
            continue;
        }
        if (value != NULL &&
            (n_fields < 3 || sscanf(f[2], "%63s", word) != 1 || strcmp(word, value) != 0)) {
            continue;
        }
        char *end = NULL;
        const uint32_t first = (uint32_t)strtoul(f[0], &end, 16);
        const uint32_t last =
            strncmp(end, "..", 2) == 0 ? (uint32_t)strtoul(end + 2, NULL, 16) : first;
        for (uint32_t c = first; c <= last && c < N_CODE_POINTS; c++) {
            set(c);
            n++;
        }
    }
    (void)fclose(file);
    if (n == 0) {
        die("property not found", property);
    }
}

static void set_white_space(uint32_t cp) {
    props[cp] |= WHITE_SPACE;
}

static void set_nfc_active(uint32_t cp) {
    props[cp] |= NFC_ACTIVE;
}

static void set_excluded(uint32_t cp) {
    excluded[cp] = 1;
}

/* Starts a new line where the next `width` characters would pass the margin. */
static void wrap(FILE *out, size_t *column, size_t width) {
    if (*column != 0 && *column + width > MARGIN) {
        (void)fputc('\n', out);
        *column = 0;
    }
    if (*column == 0) {
        *column = (size_t)fprintf(out, "   ");
    }
}

static void write_array(FILE *out, const char *type, const char *name, const uint32_t *values,
                        size_t n) {
    (void)fprintf(out, "const %s %s[%zu] = {\n", type, name, n);
    size_t column = 0;
    for (size_t i = 0; i < n; i++) {
        char text[16];
        const int width = snprintf(text, sizeof text, " %u,", (unsigned)values[i]);
        wrap(out, &column, (size_t)width);
        column += (size_t)fprintf(out, "%s", text);
    }
    (void)fprintf(out, "\n};\n");
}

/* Appends block `b` to `blocks` unless it is there already; returns its index. */
static uint32_t intern(uint32_t *blocks, size_t *n_blocks, const uint32_t *b, size_t size) {
    for (size_t i = 0; i < *n_blocks; i++) {
        if (memcmp(blocks + i * size, b, size * sizeof *b) == 0) {
            return (uint32_t)i;
        }
    }
    memcpy(blocks + *n_blocks * size, b, size * sizeof *b);
    return (uint32_t)(*n_blocks)++;
}

static void write_head(FILE *out, const char *file, const char *what) {
    (void)fprintf(out,
                  "/* %s - %s\n * Made by tools/gen_unicode.c from the Unicode character database "
                  "%s; do not edit.\n * Read through unicode.h. */\n/* clang-format off "
                  "*/\n#include \"text/unicode.h\"\n\n",
                  file, what, version);
}

static void write_categories(const char *folder) {
    static uint32_t leaves[N_CODE_POINTS], middle[N_CODE_POINTS / LEAF],
        top[N_CODE_POINTS / LEAF / BRANCH];
    size_t n_leaves = 0, n_middle = 0;
    for (uint32_t t = 0; t < N_CODE_POINTS / LEAF / BRANCH; t++) {
        uint32_t branch[BRANCH];
        for (uint32_t m = 0; m < BRANCH; m++) {
            uint32_t leaf[LEAF];
            for (uint32_t i = 0; i < LEAF; i++) {
                leaf[i] = props[(t * BRANCH + m) * LEAF + i];
            }
            branch[m] = intern(leaves, &n_leaves, leaf, LEAF);
        }
        top[t] = intern(middle, &n_middle, branch, BRANCH);
    }
    uint32_t letters[256], values[256], n_values = 0;
    memset(letters, 0, sizeof letters);
    for (uint32_t c = 0; c < N_CODE_POINTS; c++) {
        if (letters[props[c]] != 0) {
            continue;
        }
        uint32_t letter = FIRST_LETTER + n_values;
        if (letter == '\\') { /* no '"' and no '?' (trigraphs) from '@' on */
            values[n_values++] = UNASSIGNED;
            letter++;
        }
        values[n_values++] = props[c];
        letters[props[c]] = letter;
    }
    FILE *out = open_in(folder, "unicode_categories.c", "w");
    write_head(out, "unicode_categories.c", "general category and flags of every code point.");
    write_array(out, "uint8_t", "lk_unicode_top", top, N_CODE_POINTS / LEAF / BRANCH);
    (void)fputc('\n', out);
    write_array(out, "uint16_t", "lk_unicode_middle", middle, n_middle * BRANCH);
    (void)fprintf(out, "\n/* What the letters of the leaves, from '%c' on, stand for. */\n",
                  FIRST_LETTER);
    write_array(out, "uint8_t", "lk_unicode_props", values, n_values);
    (void)fprintf(out, "\nconst char lk_unicode_leaves[%zu][%u] = {\n", n_leaves, LEAF + 1);
    for (size_t i = 0; i < n_leaves; i++) {
        (void)fprintf(out, "    \"");
        for (size_t j = 0; j < LEAF; j++) {
            (void)fputc((int)letters[leaves[i * LEAF + j]], out);
        }
        (void)fprintf(out, "\",\n");
    }
    (void)fprintf(out, "};\n");
    (void)fclose(out);
}

static int by_code_point(const void *a, const void *b) {
    const decomposition *x = a, *y = b;
    return x->cp < y->cp ? -1 : x->cp > y->cp;
}

static int by_pair(const void *a, const void *b) {
    const decomposition *x = &decompositions[*(const uint32_t *)a];
    const decomposition *y = &decompositions[*(const uint32_t *)b];
    if (x->first != y->first) {
        return x->first < y->first ? -1 : 1;
    }
    return x->second < y->second ? -1 : x->second > y->second;
}

/* The ranges of equal, nonzero combining class. */
static void write_combining(FILE *out) {
    size_t n_ranges = 0, column = 0;
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1) {
            (void)fprintf(out, "\nconst size_t lk_unicode_n_combining = %zu;\n", n_ranges);
            (void)fprintf(out, "const lk_combining lk_unicode_combining[%zu] = {\n", n_ranges);
        }
        for (uint32_t c = 0; c < N_CODE_POINTS; c++) {
            const uint32_t first = c;
            if (ccc[c] == 0) {
                continue;
            }
            while (c + 1 < N_CODE_POINTS && ccc[c + 1] == ccc[first]) {
                c++;
            }
            if (pass == 0) {
                n_ranges++;
                continue;
            }
            char text[64];
            const int width = snprintf(text, sizeof text, " {0x%x,0x%x,%u},", (unsigned)first,
                                       (unsigned)c, (unsigned)ccc[first]);
            wrap(out, &column, (size_t)width);
            column += (size_t)fprintf(out, "%s", text);
        }
    }
    (void)fprintf(out, "\n};\n");
}

static void write_decompositions(const char *folder) {
    static uint32_t order[MAX_DECOMPOSITIONS];
    size_t n_order = 0;
    qsort(decompositions, n_decompositions, sizeof decompositions[0], by_code_point);
    FILE *out = open_in(folder, "unicode_decompositions.c", "w");
    write_head(out, "unicode_decompositions.c", "canonical decompositions and combining classes.");
    (void)fprintf(out, "const size_t lk_unicode_n_decompositions = %zu;\n", n_decompositions);
    (void)fprintf(out, "const lk_decomposition lk_unicode_decompositions[%zu] = {\n",
                  n_decompositions);
    size_t column = 0;
    for (size_t i = 0; i < n_decompositions; i++) {
        const decomposition *d = &decompositions[i];
        char text[64];
        const int width = snprintf(text, sizeof text, " {0x%x,0x%x,0x%x},", (unsigned)d->cp,
                                   (unsigned)d->first, (unsigned)d->second);
        wrap(out, &column, (size_t)width);
        column += (size_t)fprintf(out, "%s", text);
        if (d->second != 0 && !excluded[d->cp]) {
            order[n_order++] = (uint32_t)i;
        }
    }
    (void)fprintf(out, "\n};\n\n");
    qsort(order, n_order, sizeof order[0], by_pair);
    (void)fprintf(out, "const size_t lk_unicode_n_compositions = %zu;\n", n_order);
    write_array(out, "uint16_t", "lk_unicode_compositions", order, n_order);
    write_combining(out);
    (void)fclose(out);
}

/* Runs of code points, one after another or every second one, that map at one distance. */
static void write_case(FILE *out, const char *name, const uint32_t *map) {
    size_t n_runs = 0, column = 0;
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1) {
            (void)fprintf(out, "\nconst size_t lk_unicode_n_%s = %zu;\n", name, n_runs);
            (void)fprintf(out, "const lk_case_run lk_unicode_%s[%zu] = {\n", name, n_runs);
        }
        for (uint32_t c = 0; c < N_CODE_POINTS - 2; c++) {
            const uint32_t first = c;
            const long distance = (long)map[c] - (long)c;
            uint32_t step = 1;
            if (map[c] == 0) {
                continue;
            }
            if (map[c + 1] == 0 && map[c + 2] != 0 &&
                (long)map[c + 2] - (long)(c + 2) == distance) {
                step = 2;
            }
            while (c + step < N_CODE_POINTS && map[c + step] != 0 &&
                   (long)map[c + step] - (long)(c + step) == distance &&
                   (step == 1 || map[c + 1] == 0)) {
                c += step;
            }
            if (pass == 0) {
                n_runs++;
                continue;
            }
            char text[64];
            const int width = snprintf(text, sizeof text, " {0x%x,0x%x,%ld,%u},", (unsigned)first,
                                       (unsigned)c, distance, (unsigned)step);
            wrap(out, &column, (size_t)width);
            column += (size_t)fprintf(out, "%s", text);
        }
    }
    (void)fprintf(out, "\n};\n");
}

static void write_cases(const char *folder) {
    FILE *out = open_in(folder, "unicode_cases.c", "w");
    write_head(out, "unicode_cases.c", "simple mappings to upper and lower case.");
    write_case(out, "upper_runs", upper);
    write_case(out, "lower_runs", lower);
    (void)fclose(out);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        (void)fprintf(stderr, "usage: gen_unicode UCD_FOLDER OUTPUT_FOLDER\n");
        return 2;
    }
    read_version(argv[1]);
    read_unicode_data(argv[1]);
    read_property(argv[1], "PropList.txt", "White_Space", NULL, set_white_space);
    read_property(argv[1], "DerivedNormalizationProps.txt", "NFC_QC", "N", set_nfc_active);
    read_property(argv[1], "DerivedNormalizationProps.txt", "NFC_QC", "M", set_nfc_active);
    read_property(argv[1], "DerivedNormalizationProps.txt", "Full_Composition_Exclusion", NULL,
                  set_excluded);
    for (uint32_t c = 0; c < N_CODE_POINTS; c++) {
        if (ccc[c] != 0) {
            set_nfc_active(c);
        }
    }
    write_categories(argv[2]);
    write_decompositions(argv[2]);
    write_cases(argv[2]);
    return 0;
}

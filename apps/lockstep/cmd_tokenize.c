/* cmd_tokenize.c - `lockstep tokenize`: a text as the model reads it, token by token, and ids back
 * to text. Opens the tokenizer alone, so any file with one will do, whatever its model is.
 * Invariant: what is written to standard output is complete, or the exit status is not 0. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "lk/tokenizer.h"
#include "shared/console.h"
#include "shared/options.h"
#include "shared/printable.h"

static const char help[] =
    "usage: lockstep tokenize MODEL (TEXT | -f FILE | -) [options]\n"
    "       lockstep tokenize MODEL --decode IDS [--special] [--json]\n"
    "\n"
    "Prints the tokens of a text, one a line: id, text, and the type unless it is normal. The\n"
    "model itself is not loaded, so any GGUF file with a known tokenizer will do.\n"
    "\n"
    "  -f, --file FILE  read the text from a file, to its last byte; - is standard input\n"
    "  --special        control tokens such as <|im_end|> in the text are those tokens\n"
    "  --plain          no added token is, not even <think> and the like\n"
    "  --no-bos         add no BOS or EOS where the model asks for them\n"
    "  --ids            the ids alone, with spaces between them\n"
    "  --json           one JSON object; a token that is not UTF-8 alone is {\"hex\": \"...\"}\n"
    "  --decode IDS     write the text of these ids (spaces or commas between them; - reads\n"
    "                   them from standard input); with --special, control tokens too\n"
    "\n"
    "examples:\n"
    "  lockstep tokenize models/small-q4_k_m.gguf \"Once upon a time\"\n"
    "  lockstep tokenize model.gguf --ids -f prompt.txt | lockstep tokenize model.gguf --decode "
    "-\n";

typedef struct tokenize {
    const char *model, *text, *file, *decode;
    bool special, plain, no_bos, ids_only, json;
    lk_tokenizer *tokenizer;
    char *input; /* what was read; NULL when the text came as an argument */
    size_t n_input;
    int32_t *ids;
    size_t n_ids;
} tokenize;

static const char *type_name(lk_token_type type) {
    switch (type) {
    case LK_TOKEN_NORMAL:
        return "normal";
    case LK_TOKEN_UNKNOWN:
        return "unknown";
    case LK_TOKEN_CONTROL:
        return "control";
    case LK_TOKEN_USER_DEFINED:
        return "user-defined";
    case LK_TOKEN_UNUSED:
        return "unused";
    case LK_TOKEN_BYTE:
        return "byte";
    }
    return "?";
}

/* Reads what the command works on: sets input and n_input. */
static bool read_input(tokenize *k) {
    const char *path = k->file;
    const char *given = k->decode != NULL ? k->decode : k->text;
    if (given != NULL && strcmp(given, "-") == 0) {
        path = "-";
    }
    if (path == NULL) {
        k->n_input = strlen(given);
        k->input = malloc(k->n_input + 1);
        if (k->input == NULL) {
            return lk_console_error("tokenize", "out of memory") == 0;
        }
        memcpy(k->input, given, k->n_input + 1);
        return true;
    }
    const size_t most = k->decode != NULL ? 16 * LK_MAX_TEXT_BYTES : LK_MAX_TEXT_BYTES;
    k->input = lk_console_read("tokenize", path, most, &k->n_input);
    return k->input != NULL;
}

static bool encode(tokenize *k) {
    uint32_t flags = k->no_bos ? 0 : LK_TOKENIZE_ADD_SPECIAL;
    flags |= k->special ? LK_TOKENIZE_PARSE_SPECIAL : 0;
    flags |= k->plain ? LK_TOKENIZE_PLAIN : 0;
    const size_t capacity = LK_IDS_BOUND(k->n_input);
    lk_error err;
    k->ids = malloc(capacity * sizeof *k->ids);
    if (k->ids == NULL) {
        return lk_console_error("tokenize", "out of memory") == 0;
    }
    if (lk_tokenizer_encode(k->tokenizer, k->input, k->n_input, flags, k->ids, capacity, &k->n_ids,
                            &err) != LK_OK) {
        return lk_console_failed("tokenize", &err) == 0;
    }
    return true;
}

/* The ids in the input: numbers with spaces, commas or brackets around them. */
static bool parse_ids(tokenize *k) {
    static const char between[] = " ,[]\t\r\n";
    k->ids = malloc((k->n_input / 2 + 1) * sizeof *k->ids);
    if (k->ids == NULL) {
        return lk_console_error("tokenize", "out of memory") == 0;
    }
    const char *at = k->input + strspn(k->input, between);
    while (*at != '\0') {
        char *end = NULL;
        errno = 0;
        const long id = strtol(at, &end, 10);
        if (end == at || (*end != '\0' && strchr(between, *end) == NULL) || errno != 0 || id < 0 ||
            id >= lk_tokenizer_n_vocab(k->tokenizer)) {
            const int n = (int)strcspn(at, between);
            return lk_console_error(
                       "tokenize", "'%.*s' is no token id; they are numbers from 0 to %d",
                       n < 40 ? n : 40, at, (int)lk_tokenizer_n_vocab(k->tokenizer) - 1) == 0;
        }
        k->ids[k->n_ids++] = (int32_t)id;
        at = end + strspn(end, between);
    }
    if (at != k->input + k->n_input) {
        return lk_console_error("tokenize", "a zero byte among the ids") == 0;
    }
    return true;
}

/* Bytes as JSON: a string, or {"hex": ...} where they are not UTF-8. NULL when memory is short. */
static json_t *json_bytes(const char *bytes, size_t n) {
    if (lk_is_utf8(bytes, n)) {
        return json_stringn(bytes, n);
    }
    char *hex = malloc(2 * n + 1);
    if (hex == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", (unsigned)(uint8_t)bytes[i]);
    }
    json_t *value = json_pack("{s:s}", "hex", hex);
    free(hex);
    return value;
}

/* The bytes of one token, special ones as their text; malloc'd, NULL when memory is short. */
static char *token_bytes(const tokenize *k, int32_t id, size_t *n) {
    lk_error err;
    (void)lk_tokenizer_token_bytes(k->tokenizer, id, LK_DETOKENIZE_SPECIAL, NULL, 0, n, NULL);
    char *bytes = malloc(*n + 1);
    if (bytes == NULL || lk_tokenizer_token_bytes(k->tokenizer, id, LK_DETOKENIZE_SPECIAL, bytes,
                                                  *n, n, &err) != LK_OK) {
        free(bytes);
        return NULL;
    }
    return bytes;
}

static void print_row(int32_t id, lk_token_type type, const char *bytes, size_t n) {
    (void)printf("%8d  \"", (int)id);
    (void)lk_print_escaped(stdout, bytes, n, SIZE_MAX);
    if (type == LK_TOKEN_NORMAL) {
        (void)fputs("\"\n", stdout);
    } else {
        (void)printf("\"  %s\n", type_name(type));
    }
}

/* One object of the array; with a comma before it unless it is the first. */
static bool print_json_row(size_t i, int32_t id, lk_token_type type, const char *bytes, size_t n) {
    json_t *row = json_pack("{s:i, s:o, s:s}", "id", (int)id, "text", json_bytes(bytes, n), "type",
                            type_name(type));
    if (row == NULL) {
        return false;
    }
    (void)fputs(i == 0 ? "\n  " : ",\n  ", stdout);
    const bool ok = json_dumpf(row, stdout, 0) == 0;
    json_decref(row);
    return ok;
}

static bool print_tokens(const tokenize *k) {
    if (k->json) {
        (void)printf("{\"n_tokens\": %zu, \"tokens\": [", k->n_ids);
    }
    bool ok = true;
    for (size_t i = 0; i < k->n_ids && ok; i++) {
        if (k->ids_only) {
            (void)printf("%s%d", i == 0 ? "" : " ", (int)k->ids[i]);
            continue;
        }
        size_t n = 0;
        char *bytes = token_bytes(k, k->ids[i], &n);
        const lk_token_type type = lk_tokenizer_token_type(k->tokenizer, k->ids[i]);
        ok = bytes != NULL;
        if (ok && k->json) {
            ok = print_json_row(i, k->ids[i], type, bytes, n);
        } else if (ok) {
            print_row(k->ids[i], type, bytes, n);
        }
        free(bytes);
    }
    if (k->json) {
        (void)fputs(k->n_ids == 0 ? "]}\n" : "\n]}\n", stdout);
    } else if (k->ids_only) {
        (void)fputc('\n', stdout);
    }
    return ok || lk_console_error("tokenize", "out of memory") == 0;
}

static bool print_text(const tokenize *k) {
    const uint32_t flags = k->special ? LK_DETOKENIZE_SPECIAL : 0;
    size_t n = 0;
    lk_error err;
    /* Asks for the size only; what is wrong with the ids, the second call says. */
    (void)lk_tokenizer_decode(k->tokenizer, k->ids, k->n_ids, flags, NULL, 0, &n, &err);
    char *bytes = malloc(n + 1);
    if (bytes == NULL) {
        return lk_console_error("tokenize", "out of memory") == 0;
    }
    const lk_status status =
        lk_tokenizer_decode(k->tokenizer, k->ids, k->n_ids, flags, bytes, n, &n, &err);
    bool ok = status == LK_OK || lk_console_failed("tokenize", &err) == 0;
    if (ok && k->json) {
        json_t *object =
            json_pack("{s:I, s:o}", "n_tokens", (json_int_t)k->n_ids, "text", json_bytes(bytes, n));
        ok = object != NULL && json_dumpf(object, stdout, 0) == 0 && fputc('\n', stdout) != EOF;
        json_decref(object);
    } else if (ok) {
        (void)fwrite(bytes, 1, n, stdout);
    }
    free(bytes);
    return ok;
}

static int fail_usage(const char *what) {
    (void)fprintf(stderr, "lockstep tokenize: %s; 'lockstep tokenize --help' lists what it takes\n",
                  what);
    return 2;
}

static int check_usage(const tokenize *k) {
    const int n_inputs = (k->text != NULL) + (k->file != NULL) + (k->decode != NULL);
    if (n_inputs != 1) {
        return fail_usage("give one of TEXT, -f FILE, - and --decode IDS");
    }
    if (k->special && k->plain) {
        return fail_usage("--special and --plain exclude each other");
    }
    if (k->ids_only && (k->json || k->decode != NULL)) {
        return fail_usage("--ids goes neither with --json nor with --decode");
    }
    if (k->decode != NULL && (k->plain || k->no_bos)) {
        return fail_usage("--plain and --no-bos do not go with --decode");
    }
    return 0;
}

int lk_command_tokenize(int argc, char **argv) {
    tokenize k = {0};
    const lk_option options[] = {
        {"--file", "-f", LK_OPTION_TEXT, &k.file, 0, 0, NULL},
        {"--special", NULL, LK_OPTION_FLAG, &k.special, 0, 0, NULL},
        {"--plain", NULL, LK_OPTION_FLAG, &k.plain, 0, 0, NULL},
        {"--no-bos", NULL, LK_OPTION_FLAG, &k.no_bos, 0, 0, NULL},
        {"--ids", NULL, LK_OPTION_FLAG, &k.ids_only, 0, 0, NULL},
        {"--json", NULL, LK_OPTION_FLAG, &k.json, 0, 0, NULL},
        {"--decode", NULL, LK_OPTION_TEXT, &k.decode, 0, 0, NULL},
    };
    const lk_positional positionals[] = {{"MODEL", &k.model, true}, {"TEXT", &k.text, false}};
    const lk_command_line line = {"tokenize",  help, options, sizeof options / sizeof options[0],
                                  positionals, 2};
    int exit_status = 0;
    if (!lk_options_parse(&line, argc, argv, &exit_status)) {
        return exit_status;
    }
    exit_status = check_usage(&k);
    if (exit_status != 0) {
        return exit_status;
    }
    lk_error err;
    if (lk_tokenizer_open(k.model, NULL, &k.tokenizer, &err) != LK_OK) {
        return lk_console_failed("tokenize", &err);
    }
    bool ok = read_input(&k);
    if (k.decode != NULL) {
        ok = ok && parse_ids(&k) && print_text(&k);
    } else {
        ok = ok && encode(&k) && print_tokens(&k);
    }
    lk_tokenizer_close(k.tokenizer);
    free(k.input);
    free(k.ids);
    return lk_console_finish("tokenize", ok ? 0 : 1);
}

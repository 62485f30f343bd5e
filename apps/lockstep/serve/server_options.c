/* server_options.c - the command line of `lockstep serve`, and the files that it names. */
#include <stdlib.h>
#include <string.h>

#include "server.h"
#include "shared/console.h"
#include "shared/open_model.h"

static const char help[] =
    "usage: lockstep serve MODEL [OPTIONS]\n"
    "Serves a model over HTTP with the API of OpenAI (docs/serve.md). Ctrl-C lets running "
    "requests\n"
    "finish, a second one ends them. The port is printed on standard output.\n\n"
    "  --host H --port N       where to listen (127.0.0.1, 8080; port 0: any free one)\n"
    "  -np, --parallel N       sequences computed at once (4)\n"
    "  -c, --kv N              KV positions over all sequences (default: the model's context)\n"
    "  --ctx N                 positions of one sequence (default: as many as there are)\n"
    "  --kv-type T[,T]         keys and values as f32, f16 (default) or q8_0\n"
    "  -t, --threads N         threads (default: one per processor)\n"
    "  --device N              compute on device N (1 ..; default 0: the processor); same bits\n"
    "  -b, --batch N           rows of a step (256)\n"
    "  --no-repack             compute from the mapped file; never changes the output\n"
    "  --no-cache              keep no prefixes for later requests\n"
    "  --alias NAME            the model's id (default: the file's name)\n"
    "  --pooling P             of embeddings: mean, first, last (default: the model's, else mean)\n"
    "  --chat-template T       chatml, or a file with a Jinja template (default: the model's)\n"
    "  --mmproj FILE           the model's audio encoder: requests may hold recordings\n"
    "  --projector P           where it runs: cpu (default) or device; never changes the output\n"
    "  --max-audio S           seconds of one recording (300)\n"
    "  --temp T --top-k N --top-p P --min-p P      defaults of requests (0.8, 40, 0.95, 0.05)\n"
    "  --queue N               sequences that may wait (256); beyond that: 503\n"
    "  --timeout S             seconds that one request may take (0: any)\n"
    "  --max-body N            bytes of a request (16777216)\n"
    "  --max-connections N     (2048)\n"
    "  --header-timeout S --body-timeout S --idle-timeout S     (10, 60, 120)\n"
    "  --api-key KEY           may be repeated; --api-key-file FILE: one in each line\n"
    "  --cors ORIGIN           let pages of this origin use the server ('*': of any)\n"
    "  --slot-save-path DIR    where /slots/N?action=save may write\n"
    "  --tls-cert FILE --tls-key FILE      serve HTTPS\n"
    "  --log                   tell of connection errors on standard error\n";

enum { MAX_FILE_BYTES = 1 << 20 };

/* Splits the key file into lines, in place. Blanks around a key are none of it: a header cannot end
 * with one. */
static bool add_key_lines(serve_arguments *a) {
    char *rest = a->key_file;
    while (rest != NULL && *rest != '\0') {
        char *line = rest;
        rest += strcspn(rest, "\r\n");
        if (*rest != '\0') {
            *rest++ = '\0';
        }
        line += strspn(line, " \t");
        size_t n = strlen(line);
        while (n > 0 && (line[n - 1] == ' ' || line[n - 1] == '\t')) {
            line[--n] = '\0';
        }
        if (n == 0) {
            continue;
        }
        if (a->keys.n == LK_OPTION_LIST_MAX) {
            (void)lk_console_error("serve", "more than %d API keys", LK_OPTION_LIST_MAX);
            return false;
        }
        a->keys.items[a->keys.n++] = line;
    }
    return true;
}

static bool read_files(serve_arguments *a, serve_options *o) {
    size_t n = 0;
    if ((a->certificate_path == NULL) != (a->key_path == NULL)) {
        (void)lk_console_error("serve", "--tls-cert and --tls-key go together");
        return false;
    }
    if (a->key_file_path != NULL) {
        a->key_file = lk_console_read("serve", a->key_file_path, MAX_FILE_BYTES, &n);
        if (a->key_file == NULL || !add_key_lines(a)) {
            return false;
        }
        if (a->keys.n == 0) {
            (void)lk_console_error("serve", "%s holds no API key", a->key_file_path);
            return false;
        }
    }
    for (size_t i = 0; i < a->keys.n; i++) {
        if (a->keys.items[i][0] == '\0') {
            (void)lk_console_error("serve", "--api-key needs a key that is not empty");
            return false;
        }
    }
    o->api_keys = a->keys.items;
    o->n_api_keys = a->keys.n;
    if (a->certificate_path != NULL) {
        a->certificate = lk_console_read("serve", a->certificate_path, MAX_FILE_BYTES, &n);
        a->private_key = lk_console_read("serve", a->key_path, MAX_FILE_BYTES, &n);
        o->certificate = a->certificate;
        o->private_key = a->private_key;
        return a->certificate != NULL && a->private_key != NULL;
    }
    return true;
}

static bool choose_pooling(const serve_arguments *a, serve_options *o) {
    o->pooling = a->pooling != NULL ? serve_parse_pooling(a->pooling) : LK_POOLING_NONE;
    return a->pooling == NULL || o->pooling != LK_POOLING_NONE ||
           lk_console_error("serve", "--pooling %s, expected mean, first or last", a->pooling) == 0;
}

static void fill_defaults(serve_options *o) {
    *o = (serve_options){
        .host = "127.0.0.1",
        .port = 8080,
        .n_slots = 4,
        .max_rows = 256,
        .max_queued = 256,
        .max_body = 16 << 20,
        .max_audio_s = LK_AUDIO_MAX_SECONDS,
        .max_connections = 2048,
        .header_timeout_s = 10,
        .body_timeout_s = 60,
        .idle_timeout_s = 120,
        .sampler = LK_SAMPLER_PARAMS_INIT,
    };
}

bool serve_parse_options(int argc, char **argv, serve_arguments *a, serve_options *o,
                         int *exit_status) {
    *a = (serve_arguments){.kv_type = "f16"};
    fill_defaults(o);
    double temperature = (double)o->sampler.temperature;
    double top_p = (double)o->sampler.top_p;
    double min_p = (double)o->sampler.min_p;
    int64_t top_k = o->sampler.top_k;
    const double day_s = 86400;
    const lk_option options[] = {
        {"--host", NULL, LK_OPTION_TEXT, &o->host, 0, 0, NULL},
        {"--port", NULL, LK_OPTION_INT, &o->port, 0, 65535, NULL},
        {"--parallel", "-np", LK_OPTION_INT, &o->n_slots, 1, 1024, NULL},
        {"--kv", "-c", LK_OPTION_INT, &o->kv_positions, 1, (double)LK_MAX_POSITIONS, NULL},
        {"--ctx", NULL, LK_OPTION_INT, &o->n_ctx, 1, (double)LK_MAX_POSITIONS, NULL},
        {"--kv-type", NULL, LK_OPTION_TEXT, &a->kv_type, 0, 0, NULL},
        {"--threads", "-t", LK_OPTION_INT, &o->n_threads, 1, 256, NULL},
        {"--batch", "-b", LK_OPTION_INT, &o->max_rows, 1, LK_MAX_ROWS, NULL},
        {"--device", NULL, LK_OPTION_INT, &o->device, 0, 1024, NULL},
        {"--no-repack", NULL, LK_OPTION_FLAG, &o->no_repack, 0, 0, NULL},
        {"--no-cache", NULL, LK_OPTION_FLAG, &o->no_cache, 0, 0, NULL},
        {"--alias", NULL, LK_OPTION_TEXT, &o->alias, 0, 0, NULL},
        {"--pooling", NULL, LK_OPTION_TEXT, &a->pooling, 0, 0, NULL},
        {"--chat-template", NULL, LK_OPTION_TEXT, &o->chat_template, 0, 0, NULL},
        {"--mmproj", NULL, LK_OPTION_TEXT, &o->mmproj, 0, 0, NULL},
        {"--projector", NULL, LK_OPTION_TEXT, &a->projector, 0, 0, NULL},
        {"--max-audio", NULL, LK_OPTION_INT, &o->max_audio_s, 1, LK_AUDIO_MAX_SECONDS, NULL},
        {"--temp", NULL, LK_OPTION_REAL, &temperature, 0, 100, NULL},
        {"--top-k", NULL, LK_OPTION_INT, &top_k, 0, INT32_MAX, NULL},
        {"--top-p", NULL, LK_OPTION_REAL, &top_p, 0, 1, NULL},
        {"--min-p", NULL, LK_OPTION_REAL, &min_p, 0, 1, NULL},
        {"--queue", NULL, LK_OPTION_INT, &o->max_queued, 1, LK_MAX_QUEUED, NULL},
        {"--timeout", NULL, LK_OPTION_INT, &o->request_timeout_s, 0, day_s, NULL},
        {"--max-body", NULL, LK_OPTION_INT, &o->max_body, 1024, 1 << 30, NULL},
        {"--max-connections", NULL, LK_OPTION_INT, &o->max_connections, 4, 65536, NULL},
        {"--header-timeout", NULL, LK_OPTION_INT, &o->header_timeout_s, 1, day_s, NULL},
        {"--body-timeout", NULL, LK_OPTION_INT, &o->body_timeout_s, 1, day_s, NULL},
        {"--idle-timeout", NULL, LK_OPTION_INT, &o->idle_timeout_s, 1, day_s, NULL},
        {"--api-key", NULL, LK_OPTION_LIST, &a->keys, 0, 0, NULL},
        {"--api-key-file", NULL, LK_OPTION_TEXT, &a->key_file_path, 0, 0, NULL},
        {"--cors", NULL, LK_OPTION_TEXT, &o->cors_origin, 0, 0, NULL},
        {"--slot-save-path", NULL, LK_OPTION_TEXT, &o->slot_folder, 0, 0, NULL},
        {"--tls-cert", NULL, LK_OPTION_TEXT, &a->certificate_path, 0, 0, NULL},
        {"--tls-key", NULL, LK_OPTION_TEXT, &a->key_path, 0, 0, NULL},
        {"--log", NULL, LK_OPTION_FLAG, &o->log_requests, 0, 0, NULL},
    };
    const lk_positional positionals[] = {{"MODEL", &o->model_path, true}};
    const lk_command_line line = {
        "serve",     help,
        options,     sizeof options / sizeof options[0],
        positionals, sizeof positionals / sizeof positionals[0],
    };
    if (!lk_options_parse(&line, argc, argv, exit_status)) {
        return false;
    }
    o->sampler.temperature = (float)temperature;
    o->sampler.top_p = (float)top_p;
    o->sampler.min_p = (float)min_p;
    o->sampler.top_k = (int32_t)top_k;
    const bool ok =
        lk_audio_input_check_place("serve", a->projector, o->mmproj, &o->projector_device) &&
        lk_check_device("serve", o->device) &&
        lk_parse_kv_type("serve", a->kv_type, &o->k_type, &o->v_type) && choose_pooling(a, o) &&
        read_files(a, o);
    *exit_status = ok ? 0 : 2;
    return ok;
}

void serve_free_options(serve_arguments *a) {
    free(a->private_key);
    free(a->certificate);
    free(a->key_file);
}

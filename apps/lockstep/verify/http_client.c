/* http_client.c - see http_client.h. libcurl does the protocol. */
#include "http_client.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct http_client {
    CURLM *multi;
    char *base; /* no slash at its end */
    struct curl_slist *headers;
};

struct http_exchange {
    CURL *easy;
    char *url;
    http_client_take *take;
    void *user;
    size_t n_bytes;
    bool is_done;
    bool is_refused; /* by `take`, or too long */
    bool is_too_long;
    long status;
    char detail[CURL_ERROR_SIZE];
    char error[HTTP_CLIENT_WHY];
};

static bool add_key(http_client *c, const char *api_key) {
    if (api_key == NULL) {
        return true;
    }
    const size_t size = strlen(api_key) + 32;
    char *header = malloc(size);
    if (header == NULL) {
        return false;
    }
    (void)snprintf(header, size, "Authorization: Bearer %s", api_key);
    struct curl_slist *more = curl_slist_append(c->headers, header);
    free(header);
    c->headers = more != NULL ? more : c->headers;
    return more != NULL;
}

http_client *http_client_open(const char *url, const char *api_key, char why[HTTP_CLIENT_WHY]) {
    size_t n = strlen(url);
    while (n > 0 && url[n - 1] == '/') {
        n--;
    }
    n -= n > 3 && strncmp(url + n - 3, "/v1", 3) == 0 ? 3 : 0;
    /* A line end in a key would begin another header. */
    if (strcspn(url, "\r\n\t ") != strlen(url) ||
        (api_key != NULL && strcspn(api_key, "\r\n") != strlen(api_key))) {
        (void)snprintf(why, HTTP_CLIENT_WHY, "a URL or key with spaces or line ends");
        return NULL;
    }
    if (n == 0 || url[n - 1] == ':') {
        (void)snprintf(why, HTTP_CLIENT_WHY, "the URL has no host");
        return NULL;
    }
    http_client *c = calloc(1, sizeof *c);
    bool ok = c != NULL && curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
    if (ok) {
        c->base = malloc(n + 1);
        c->multi = curl_multi_init();
        c->headers = curl_slist_append(NULL, "Content-Type: application/json");
        ok = c->base != NULL && c->multi != NULL && c->headers != NULL && add_key(c, api_key);
    }
    if (!ok) {
        http_client_close(c);
        (void)snprintf(why, HTTP_CLIENT_WHY, "out of memory");
        return NULL;
    }
    memcpy(c->base, url, n);
    c->base[n] = '\0';
    return c;
}

void http_client_close(http_client *c) {
    if (c != NULL) {
        if (c->multi != NULL) {
            (void)curl_multi_cleanup(c->multi);
        }
        curl_slist_free_all(c->headers);
        free(c->base);
        free(c);
    }
}

static size_t on_body(char *bytes, size_t size, size_t count, void *user) {
    http_exchange *e = user;
    const size_t n = size * count;
    e->is_too_long = n > HTTP_CLIENT_MAX_BODY - e->n_bytes;
    if (e->is_too_long || !e->take(e->user, bytes, n)) {
        e->is_refused = true;
        return CURL_WRITEFUNC_ERROR;
    }
    e->n_bytes += n;
    return n;
}

static void set_limits(CURL *easy, double seconds) {
    const double most = 1e9;
    const double ms = seconds > 0 && seconds * 1e3 < most ? seconds * 1e3 : most;
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_NOPROXY, "localhost,127.0.0.1,::1");
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)HTTP_CLIENT_CONNECT_S);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, ms < 1 ? 1L : (long)ms);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)HTTP_CLIENT_SILENCE_S);
}

http_exchange *http_client_start(http_client *c, const char *path, const char *body, double seconds,
                                 http_client_take *take, void *user) {
    http_exchange *e = calloc(1, sizeof *e);
    const size_t size = strlen(c->base) + strlen(path) + 1;
    if (e == NULL) {
        return NULL;
    }
    e->take = take;
    e->user = user;
    e->url = malloc(size);
    e->easy = curl_easy_init();
    if (e->url == NULL || e->easy == NULL) {
        http_exchange_end(c, e);
        return NULL;
    }
    (void)snprintf(e->url, size, "%s%s", c->base, path);
    curl_easy_setopt(e->easy, CURLOPT_URL, e->url);
    curl_easy_setopt(e->easy, CURLOPT_PRIVATE, e);
    curl_easy_setopt(e->easy, CURLOPT_HTTPHEADER, c->headers);
    curl_easy_setopt(e->easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e->easy, CURLOPT_WRITEDATA, e);
    curl_easy_setopt(e->easy, CURLOPT_ERRORBUFFER, e->detail);
    set_limits(e->easy, seconds);
    if (body != NULL && curl_easy_setopt(e->easy, CURLOPT_COPYPOSTFIELDS, body) != CURLE_OK) {
        http_exchange_end(c, e);
        return NULL;
    }
    if (curl_multi_add_handle(c->multi, e->easy) != CURLM_OK) {
        http_exchange_end(c, e);
        return NULL;
    }
    return e;
}

static void finish(http_exchange *e, CURLcode result) {
    e->is_done = true;
    (void)curl_easy_getinfo(e->easy, CURLINFO_RESPONSE_CODE, &e->status);
    if (result == CURLE_OK) {
        return;
    }
    if (e->is_too_long) {
        (void)snprintf(e->error, sizeof e->error, "its answer has more than %d bytes",
                       HTTP_CLIENT_MAX_BODY);
    } else if (e->is_refused) {
        (void)snprintf(e->error, sizeof e->error, "its answer could not be read");
    } else {
        (void)snprintf(e->error, sizeof e->error, "%s",
                       e->detail[0] != '\0' ? e->detail : curl_easy_strerror(result));
    }
}

bool http_client_wait(http_client *c, int milliseconds) {
    int n_running = 0;
    int n_left = 0;
    if (curl_multi_perform(c->multi, &n_running) != CURLM_OK ||
        (n_running > 0 && curl_multi_poll(c->multi, NULL, 0, milliseconds, NULL) != CURLM_OK)) {
        return false;
    }
    for (CURLMsg *m = curl_multi_info_read(c->multi, &n_left); m != NULL;
         m = curl_multi_info_read(c->multi, &n_left)) {
        http_exchange *e = NULL;
        if (m->msg == CURLMSG_DONE &&
            curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &e) == CURLE_OK && e != NULL) {
            finish(e, m->data.result);
        }
    }
    return true;
}

bool http_exchange_is_done(const http_exchange *e) {
    return e->is_done;
}

long http_exchange_status(const http_exchange *e) {
    return e->status;
}

const char *http_exchange_error(const http_exchange *e) {
    return e->error;
}

void http_exchange_end(http_client *c, http_exchange *e) {
    if (e != NULL) {
        if (e->easy != NULL) {
            (void)curl_multi_remove_handle(c->multi, e->easy);
            curl_easy_cleanup(e->easy);
        }
        free(e->url);
        free(e);
    }
}

typedef struct whole {
    char *bytes;
    size_t n;
    size_t capacity;
} whole;

static bool keep_all(void *user, const char *bytes, size_t n) {
    whole *w = user;
    if (w->n + n + 1 > w->capacity) {
        const size_t capacity = 2 * (w->n + n) + 1024;
        char *more = realloc(w->bytes, capacity);
        if (more == NULL) {
            return false;
        }
        w->bytes = more;
        w->capacity = capacity;
    }
    memcpy(w->bytes + w->n, bytes, n);
    w->n += n;
    w->bytes[w->n] = '\0';
    return true;
}

char *http_client_fetch(http_client *c, const char *path, const char *body, double seconds,
                        long *status, char why[HTTP_CLIENT_WHY]) {
    whole w = {0};
    http_exchange *e = NULL;
    *status = 0;
    (void)snprintf(why, HTTP_CLIENT_WHY, "out of memory");
    bool ok = keep_all(&w, "", 0);
    if (ok) {
        e = http_client_start(c, path, body, seconds, keep_all, &w);
    }
    ok = e != NULL;
    while (ok && !e->is_done) {
        ok = http_client_wait(c, 1000);
    }
    if (ok) {
        *status = e->status;
        (void)snprintf(why, HTTP_CLIENT_WHY, "%s", e->error);
        ok = e->error[0] == '\0';
    }
    http_exchange_end(c, e);
    if (!ok) {
        free(w.bytes);
        w.bytes = NULL;
    }
    return w.bytes;
}

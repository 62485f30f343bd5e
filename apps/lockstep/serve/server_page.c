/* server_page.c - the page at / and its parts, which the build puts into the program. */
#include <string.h>

#include "serve/server.h"

extern const unsigned char lk_page_html[];
extern const size_t lk_page_html_size;
extern const unsigned char lk_page_css[];
extern const size_t lk_page_css_size;
extern const unsigned char lk_page_js[];
extern const size_t lk_page_js_size;

/* The page talks to this server alone. */
static const char policy[] = "default-src 'none'; script-src 'self'; style-src 'self'; "
                             "connect-src 'self'; img-src data:; form-action 'self'; "
                             "base-uri 'none'; frame-ancestors 'none'";

static enum MHD_Result reply(exchange *x, const char *type, const unsigned char *bytes, size_t n) {
    /* libmicrohttpd does not change the bytes; its type is not const. */
    union {
        const unsigned char *given;
        void *wanted;
    } content = {bytes};
    struct MHD_Response *response =
        MHD_create_response_from_buffer(n, content.wanted, MHD_RESPMEM_PERSISTENT);
    if (response == NULL) {
        return MHD_NO;
    }
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    (void)MHD_add_response_header(response, "Content-Security-Policy", policy);
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
    return server_queue(x, MHD_HTTP_OK, response);
}

enum MHD_Result server_page(exchange *x) {
    return reply(x, "text/html; charset=utf-8", lk_page_html, lk_page_html_size);
}

enum MHD_Result server_page_css(exchange *x) {
    return reply(x, "text/css; charset=utf-8", lk_page_css, lk_page_css_size);
}

enum MHD_Result server_page_js(exchange *x) {
    return reply(x, "text/javascript; charset=utf-8", lk_page_js, lk_page_js_size);
}

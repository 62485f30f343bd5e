/* serve_problem.c - problems, as serve_fields.h has them. */
#include <stdarg.h>
#include <stdio.h>

#include "serve/serve_fields.h"

bool serve_fail(serve_problem *problem, int status, const char *code, const char *param,
                const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(problem->message, sizeof problem->message, format, args);
    va_end(args);
    (void)snprintf(problem->param, sizeof problem->param, "%s", param != NULL ? param : "");
    problem->status = status;
    problem->type = status >= 500 ? "server_error" : "invalid_request_error";
    problem->code = code;
    return false;
}

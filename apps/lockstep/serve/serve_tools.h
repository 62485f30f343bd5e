/* serve_tools.h - the fields of a request that are about calls of tools. */
#ifndef LK_SERVE_TOOLS_H
#define LK_SERVE_TOOLS_H

#include "serve_decode.h"

/* Reads tools, tool_choice and parallel_tool_calls, after the fields of grammars. */
bool serve_decode_tools(const json_t *root, serve_settings *settings, serve_problem *problem);

#endif

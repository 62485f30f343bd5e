/* plan.h - the memory plan of a finished graph: where each value lies in the arena. */
#ifndef LK_GRAPH_PLAN_H
#define LK_GRAPH_PLAN_H

#include "graph/graph.h"

/* Fills lk_value_info.offset and graph->arena_floats. LK_E_NOMEM. */
lk_status lk_graph_plan(lk_graph *graph, lk_error *err);

#endif

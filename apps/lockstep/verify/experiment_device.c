/* experiment_device.c - the text model on a device: the solo runs are the processor's. */
#include "verify.h"

void verify_experiment_device(verify *v) {
    static const struct {
        const char *label;
        int64_t neighbours, join, cut, back, restart, engine;
    } cases[] = {{"alone", 0, 0, 0, 0, 0, 0},
                 {"one row at a time", 0, 0, 1, 0, 0, 0},
                 {"3 neighbours join", 3, 5, 7, 0, 0, 0},
                 {"15 rows back and again", 0, 0, 0, 15, 0, 0},
                 {"saved there, restored there", 0, 0, 0, 0, 1, 0},
                 {"as requests, 3 at once", 2, 0, 0, 0, 0, 1}};
    lk_error err;
    uint32_t n_devices = 0;
    if ((v->target->factors & VERIFY_BIT(VERIFY_DEVICE)) == 0) {
        return;
    }
    if (lk_device_count(&n_devices, &err) != LK_OK) {
        verify_line *line = verify_line_add(v, "all cases");
        if (line != NULL) {
            verify_line_give_up(v, line, VERIFY_NOT_POSSIBLE, err.message);
            verify_table_line(v, line);
        }
        return;
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        verify_point p = v->base;
        const int64_t device = v->base.value[VERIFY_DEVICE];
        p.value[VERIFY_DEVICE] = device != 0 ? device : 1;
        p.value[VERIFY_NEIGHBOURS] = cases[i].neighbours;
        p.value[VERIFY_JOIN] = cases[i].join;
        p.value[VERIFY_CUT] = cases[i].cut;
        p.value[VERIFY_BACK] = cases[i].back;
        p.value[VERIFY_RESTART] = cases[i].restart;
        p.value[VERIFY_ENGINE] = cases[i].engine;
        verify_case(v, &p, VERIFY_BIT(VERIFY_DEVICE) | VERIFY_BIT(VERIFY_ENGINE), 0,
                    cases[i].label);
    }
}

/* verify_load.h - stressors: threads that keep every processor busy, with arithmetic on integers or
 * vectors, with memory, with the page cache. */
#ifndef LK_VERIFY_LOAD_H
#define LK_VERIFY_LOAD_H

#include <stdbool.h>
#include <stdint.h>

enum {
    VERIFY_LOAD_INTEGER = 1,
    VERIFY_LOAD_VECTOR = 2,
    VERIFY_LOAD_MEMORY = 4,
    VERIFY_LOAD_FILES = 8
};

typedef struct verify_load verify_load;

/* Starts one thread of each kind in `kinds` on every processor. NULL when that is not possible. */
verify_load *verify_load_start(int64_t kinds);
void verify_load_stop(verify_load *load); /* accepts NULL */

#endif

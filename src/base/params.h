/* params.h - the rule for public parameter structs: fields are only ever appended, so a struct may
 * not end with padding, in which a field of a later version could hide behind the same size. */
#ifndef LK_BASE_PARAMS_H
#define LK_BASE_PARAMS_H

#include <assert.h>
#include <stddef.h>

#define LK_NO_TAIL_PADDING(type, last)                                                             \
    static_assert(sizeof(type) == offsetof(type, last) + sizeof(((type *)0)->last),                \
                  #type " ends with padding")

#endif

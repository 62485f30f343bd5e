/* verify_point.h - a point: one value for each factor of factors.def. A run is a point; the watched
 * sequence's solo run is the same point with some factors back at their base. */
#ifndef LK_VERIFY_POINT_H
#define LK_VERIFY_POINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum verify_factor {
#define VERIFY_FACTOR(id, name, kind, base, other, meaning) VERIFY_##id,
#include "factors.def"
#undef VERIFY_FACTOR
    VERIFY_N_FACTORS
} verify_factor;

typedef enum verify_factor_kind { VERIFY_SHAPE, VERIFY_TARGET, VERIFY_HOST } verify_factor_kind;

/* A set of factors. */
typedef uint64_t verify_factors;
#define VERIFY_BIT(factor) ((verify_factors)1 << (factor))

typedef struct verify_point {
    int64_t value[VERIFY_N_FACTORS];
} verify_point;

const char *verify_factor_name(verify_factor factor);
const char *verify_factor_meaning(verify_factor factor);
verify_factor_kind verify_factor_kind_of(verify_factor factor);
int64_t verify_factor_base(verify_factor factor);
#define VERIFY_NONE INT64_MIN
int64_t verify_factor_other(verify_factor factor); /* VERIFY_NONE: none */
/* VERIFY_N_FACTORS when there is none of that name. */
verify_factor verify_factor_find(const char *name, size_t n);

/* Every factor at its base. */
void verify_point_init(verify_point *p);
/* What `p` has that `base` has not. */
verify_factors verify_point_differs(const verify_point *p, const verify_point *base);
/* "neighbours=1,join=40", or "" where nothing differs from `base`. */
void verify_point_print(const verify_point *p, const verify_point *base, char *text, size_t size);
/* Reads such a text into p; false with a reason that names the part. */
bool verify_point_parse(verify_point *p, const char *text, char *why, size_t size);

#endif

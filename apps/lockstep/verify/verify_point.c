/* verify_point.c - see verify_point.h. */
#include "verify_point.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct factor {
    const char *name;
    const char *meaning;
    verify_factor_kind kind;
    int64_t base;
    int64_t other;
} factor;

static const factor factors[VERIFY_N_FACTORS] = {
#define VERIFY_FACTOR(id, name, kind, base, other, meaning)                                        \
    {name, meaning, VERIFY_##kind, base, other},
#include "factors.def"
#undef VERIFY_FACTOR
};

const char *verify_factor_name(verify_factor f) {
    return factors[f].name;
}

const char *verify_factor_meaning(verify_factor f) {
    return factors[f].meaning;
}

verify_factor_kind verify_factor_kind_of(verify_factor f) {
    return factors[f].kind;
}

verify_factor verify_factor_find(const char *name, size_t n) {
    size_t f = 0;
    while (f < VERIFY_N_FACTORS &&
           (strlen(factors[f].name) != n || strncmp(factors[f].name, name, n) != 0)) {
        f++;
    }
    return (verify_factor)f;
}

int64_t verify_factor_base(verify_factor f) {
    return factors[f].base;
}

int64_t verify_factor_other(verify_factor f) {
    return factors[f].other;
}

void verify_point_init(verify_point *p) {
    for (size_t f = 0; f < VERIFY_N_FACTORS; f++) {
        p->value[f] = factors[f].base;
    }
}

verify_factors verify_point_differs(const verify_point *p, const verify_point *base) {
    verify_factors set = 0;
    for (size_t f = 0; f < VERIFY_N_FACTORS; f++) {
        set |= p->value[f] != base->value[f] ? VERIFY_BIT(f) : 0;
    }
    return set;
}

void verify_point_print(const verify_point *p, const verify_point *base, char *text, size_t size) {
    size_t at = 0;
    text[0] = '\0';
    for (size_t f = 0; f < VERIFY_N_FACTORS && at < size; f++) {
        if (p->value[f] != base->value[f]) {
            const int n = snprintf(text + at, size - at, "%s%s=%lld", at > 0 ? "," : "",
                                   factors[f].name, (long long)p->value[f]);
            at += n > 0 ? (size_t)n : 0;
        }
    }
}

bool verify_point_parse(verify_point *p, const char *text, char *why, size_t size) {
    for (const char *at = text;;) {
        const size_t n = strcspn(at, "=,");
        const verify_factor f = verify_factor_find(at, n);
        if (f == VERIFY_N_FACTORS || at[n] != '=') {
            (void)snprintf(why, size, "there is no factor '%.*s' (expected name=value,...)",
                           n < 60 ? (int)n : 60, at);
            return false;
        }
        char *end = NULL;
        errno = 0;
        const long long x = strtoll(at + n + 1, &end, 10);
        if (end == at + n + 1 || errno != 0 || (*end != ',' && *end != '\0')) {
            (void)snprintf(why, size, "%s needs a whole number, not '%.40s'", factors[f].name,
                           at + n + 1);
            return false;
        }
        p->value[f] = x;
        if (*end == '\0') {
            return true;
        }
        at = end + 1;
    }
}

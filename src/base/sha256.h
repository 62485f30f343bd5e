/* sha256.h - SHA-256 (FIPS 180-4), for digests of models, states and logits. */
#ifndef LK_BASE_SHA256_H
#define LK_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct lk_sha256 {
    uint32_t h[8];
    uint64_t n_bytes;
    uint8_t block[64];
} lk_sha256;

void lk_sha256_init(lk_sha256 *s);
void lk_sha256_update(lk_sha256 *s, const void *data, size_t n_bytes);
void lk_sha256_final(lk_sha256 *s, uint8_t digest[32]);
void lk_sha256_of(const void *data, size_t n_bytes, uint8_t digest[32]);

#endif

/* prefetch.h - tells the processor what will be read soon. */
#ifndef LK_BASE_PREFETCH_H
#define LK_BASE_PREFETCH_H

/* A hint: begins to load the cache line at `address`, which need not be mapped. */
static inline void lk_prefetch(const void *address) {
#if defined(__GNUC__)
    __builtin_prefetch(address);
#else
    (void)address;
#endif
}

/* The same into the second-level cache: what is read in a while. */
static inline void lk_prefetch_early(const void *address) {
#if defined(__GNUC__)
    __builtin_prefetch(address, 0, 2);
#else
    (void)address;
#endif
}

#endif

/* lk/base.h - what every part of the Lockstep API shares: status codes, error details, the
 * allocator, progress reports and the version.
 *
 * Rules that hold for the whole API:
 *  - A function that can fail returns lk_status. Results go to out-parameters, which are set to
 * NULL or 0 on failure. Details go to the optional `lk_error *err` (NULL is allowed everywhere).
 *  - Parameter structs begin with `struct_size`; set it with the struct's initialiser macro or to
 *    sizeof(struct). Fields are only ever appended. A size that the library does not know is
 * LK_E_ARG.
 *  - The library never exits, aborts, prints, reads the environment, or leaves the floating-point
 * mode, locale or signals of the process changed.
 *  - Strings are UTF-8 and zero-terminated unless a length is given.
 */
#ifndef LK_BASE_H
#define LK_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(LK_BUILDING_LIBRARY) && defined(__GNUC__)
#define LK_API __attribute__((visibility("default")))
#else
#define LK_API
#endif

/* Every status, its number and what it means. Numbers never change. */
#define LK_STATUS_MAP(X)                                                                           \
    X(LK_OK, 0, "success")                                                                         \
    X(LK_E_ARG, 1, "an argument is outside what the function accepts")                             \
    X(LK_E_NOMEM, 2, "memory could not be allocated")                                              \
    X(LK_E_IO, 3, "a file could not be opened, read, written or mapped")                           \
    X(LK_E_FORMAT, 4, "a file or text is damaged or violates its format")                          \
    X(LK_E_UNSUPPORTED, 5, "valid input that this build cannot process")                           \
    X(LK_E_BUSY, 6, "another thread is inside this object")                                        \
    X(LK_E_FULL, 7, "no free KV page is left")                                                     \
    X(LK_E_ROWS, 8, "some rows failed; the others are committed")                                  \
    X(LK_E_LIMIT, 9, "a named limit would be exceeded")                                            \
    X(LK_E_MISMATCH, 10, "saved data belongs to another model, numerics version or KV type")       \
    X(LK_E_DEVICE, 11, "a compute device reported an error")                                       \
    X(LK_E_CANCELLED, 12, "the caller asked to stop")                                              \
    X(LK_E_NOT_FOUND, 13, "the thing asked for does not exist")                                    \
    X(LK_E_NONFINITE, 14, "an infinite or NaN value arose")                                        \
    X(LK_E_INTERNAL, 15, "an invariant of the library does not hold; please report it")            \
    X(LK_E_REFUSED, 16, "the chat template refused the messages, with its own words")              \
    X(LK_E_TEMPLATE, 17, "the chat template failed on these messages")

typedef enum lk_status {
#define LK_STATUS_ENUM(name, number, text) name = number,
    LK_STATUS_MAP(LK_STATUS_ENUM)
#undef LK_STATUS_ENUM
} lk_status;

/* "LK_E_ARG" and its sentence. An unknown number gives "LK_E_?" and "unknown status". Static
 * strings. */
LK_API const char *lk_status_name(lk_status status);
LK_API const char *lk_status_text(lk_status status);

/* Details of one failure. The caller owns it and may reuse it; a call that succeeds does not touch
 * it. Fields that do not apply are -1, UINT64_MAX or "". `message` alone is enough for a person: it
 * says what was found, where, and what was expected. Both texts are UTF-8 without control
 * characters, whatever file they speak of. */
typedef struct lk_error {
    lk_status status;
    int32_t seq;       /* sequence id */
    int64_t pos;       /* position in that sequence */
    uint64_t offset;   /* byte offset in a file */
    char subject[128]; /* file, key, tensor or parameter name */
    char message[384];
} lk_error;

/* Memory of the library comes from here. `alloc` returns memory aligned to `align` (a power of two,
 * at least 16), or NULL. `free` gets the pointer, size and alignment that alloc was called with.
 * Both must be callable from any thread. A NULL lk_allocator pointer means the C library's
 * allocator. */
typedef struct lk_allocator {
    void *ctx;
    void *(*alloc)(void *ctx, size_t size, size_t align);
    void (*free)(void *ctx, void *ptr, size_t size, size_t align);
} lk_allocator;

/* Progress of long work: `phase` is a static string ("load", "digest", ...), done <= total. Called
 * on the thread that called the function. Return nonzero to go on, 0 to stop with LK_E_CANCELLED.
 */
typedef int (*lk_progress_fn)(void *ctx, const char *phase, uint64_t done, uint64_t total);

/* Version of the library: "0.1.0", the commit it was built from ("unknown" outside a checkout), the
 * build number (count of commits), and the version of the numeric definition ("lk1",
 * docs/numerics.md). */
LK_API const char *lk_version(void);
LK_API const char *lk_version_commit(void);
LK_API uint32_t lk_version_build(void);
LK_API const char *lk_numerics_version(void);

#ifdef __cplusplus
}
#endif
#endif

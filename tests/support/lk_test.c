/* lk_test.c - see lk_test.h. */
#include "lk_test.h"

#include <pthread.h>
#include <stdarg.h>
#include <unistd.h>

enum { MAX_SHOWN = 50, MAX_MESSAGE = 4096 };

static pthread_mutex_t failure_lock = PTHREAD_MUTEX_INITIALIZER;
static int n_failures;
static char first_failure[MAX_MESSAGE]; /* shown again at the end, whatever came in between */

/* Any thread; a message is written at once and whole. */
void lk_test_fail(const char *file, int line, const char *format, ...) {
    char message[MAX_MESSAGE];
    va_list args;
    va_start(args, format);
    const int n = snprintf(message, sizeof message, "%s:%d: FAILED: ", file, line);
    (void)vsnprintf(message + n, sizeof message - (size_t)n, format, args);
    va_end(args);
    (void)pthread_mutex_lock(&failure_lock);
    if (n_failures++ == 0) {
        memcpy(first_failure, message, sizeof message);
    }
    if (n_failures <= MAX_SHOWN) {
        (void)fprintf(stderr, "%s\n%s", message,
                      n_failures == MAX_SHOWN ? "(further failures are only counted)\n" : "");
    }
    (void)pthread_mutex_unlock(&failure_lock);
}

int lk_test_failures(void) {
    return n_failures;
}

void lk_test_skip(const char *reason) {
    const char *ci = getenv("CI");
    if (ci != NULL && ci[0] != '\0') {
        (void)fprintf(stderr, "FAILED: would be skipped, but this is CI: %s\n", reason);
        exit(1);
    }
    (void)fprintf(stderr, "skipped: %s\n", reason);
    exit(77);
}

int lk_test_main(int argc, char **argv, const lk_test_case *cases, size_t n_cases) {
    size_t n_run = 0;
    for (size_t i = 0; i < n_cases; i++) {
        if (argc > 1 && strcmp(argv[1], cases[i].name) != 0) {
            continue;
        }
        const int before = n_failures;
        cases[i].run();
        (void)printf("%-44s %s\n", cases[i].name, n_failures == before ? "ok" : "FAILED");
        (void)fflush(stdout);
        n_run++;
    }
    if (n_run == 0) {
        (void)fprintf(stderr, "no test was run\n");
        return 1;
    }
    if (n_failures > 0) {
        (void)printf("%d failures; the first: %s\n", n_failures, first_failure);
        (void)fflush(stdout);
    }
    return n_failures == 0 ? 0 : 1;
}

static const char *join(const char *folder, const char *name) {
    static char paths[8][1024];
    static unsigned next;
    char *path = paths[next++ % 8];
    (void)snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

const char *lk_test_data(const char *name) {
    return join(LK_TEST_DATA, name);
}

const char *lk_test_shared(const char *name) {
    const char *folder = getenv("LOCKSTEP_SHARED");
    const char *path = join(folder != NULL ? folder : LK_SHARED_DIR, name);
    return access(path, R_OK) == 0 ? path : NULL;
}

uint8_t *lk_test_read(const char *path, size_t *size) {
    FILE *file = path != NULL ? fopen(path, "rb") : NULL;
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        (void)fprintf(stderr, "cannot read %s\n", path != NULL ? path : "(null)");
        exit(1);
    }
    const long n = ftell(file);
    rewind(file);
    uint8_t *data = malloc((size_t)n + 1);
    if (data == NULL || fread(data, 1, (size_t)n, file) != (size_t)n) {
        (void)fprintf(stderr, "cannot read %s\n", path);
        exit(1);
    }
    data[n] = 0;
    (void)fclose(file);
    *size = (size_t)n;
    return data;
}

static pthread_mutex_t allocator_lock = PTHREAD_MUTEX_INITIALIZER;

static void *counting_alloc(void *ctx, size_t size, size_t align) {
    lk_test_allocator *t = ctx;
    (void)pthread_mutex_lock(&allocator_lock);
    t->n_calls++;
    const int fails =
        t->fail_at != 0 && (t->n_calls == t->fail_at || (t->persistent && t->n_calls > t->fail_at));
    void *ptr = fails ? NULL : aligned_alloc(align, (size + align - 1) & ~(align - 1));
    if (ptr != NULL) {
        t->n_live++;
        t->live_bytes += (int64_t)size;
    } else {
        t->n_failed++;
    }
    (void)pthread_mutex_unlock(&allocator_lock);
    return ptr;
}

static void counting_free(void *ctx, void *ptr, size_t size, size_t align) {
    lk_test_allocator *t = ctx;
    (void)align;
    (void)pthread_mutex_lock(&allocator_lock);
    t->n_live--;
    t->live_bytes -= (int64_t)size;
    (void)pthread_mutex_unlock(&allocator_lock);
    free(ptr);
}

void lk_test_allocator_init(lk_test_allocator *t) {
    memset(t, 0, sizeof *t);
    t->base.ctx = t;
    t->base.alloc = counting_alloc;
    t->base.free = counting_free;
}

uint64_t lk_test_random(uint64_t *state) {
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

uint64_t lk_test_seed(uint64_t fallback) {
    const char *text = getenv("LK_SEED");
    const uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : fallback;
    (void)printf("seed %llu (set LK_SEED to repeat)\n", (unsigned long long)seed);
    return seed;
}

static int is_set(const char *variable) {
    const char *text = getenv(variable);
    return text != NULL && text[0] != '\0' && strcmp(text, "0") != 0;
}

uint64_t lk_test_size(uint64_t brief, uint64_t bounded, uint64_t full) {
    if (is_set("LK_FULL")) {
        return full;
    }
    return is_set("LK_SHORT") ? brief : bounded;
}

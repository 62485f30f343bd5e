/* llama_library.c - see llama_library.h. A library is trusted with a call only when: it loads; it
 * has every function that is called; it says that it is of version 0.4; and what it fills its
 * parameter structs and batches with stands where llama_abi.h has it. */
#include "llama_library.h"

#include <assert.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static_assert(sizeof(llama_abi_model_params) == 80, "as in version 0.4");
static_assert(sizeof(llama_abi_context_params) == 160, "as in version 0.4");
static_assert(sizeof(llama_abi_batch) == 56, "as in version 0.4");

static bool find_functions(llama_library *lib, char why[LLAMA_LIBRARY_WHY]) {
    const struct {
        const char *name;
        void *to;
    } functions[] = {
#define LLAMA_FUNCTION(name, result, arguments) {#name, &lib->name},
#include "llama_functions.def"
#undef LLAMA_FUNCTION
    };
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *found = dlsym(lib->handle, functions[i].name);
        if (found == NULL) {
            (void)snprintf(why, LLAMA_LIBRARY_WHY,
                           "it is not a libllama of version 0.4: it has no function '%s'",
                           functions[i].name);
            return false;
        }
        memcpy(functions[i].to, &found, sizeof found);
    }
    return true;
}

static bool check_version(const llama_library *lib, char why[LLAMA_LIBRARY_WHY]) {
    const char *version = lib->llama_version();
    if (version != NULL && strncmp(version, "0.4.", 4) == 0) {
        return true;
    }
    (void)snprintf(why, LLAMA_LIBRARY_WHY,
                   "it is libllama %.40s; the interface of version 0.4 is known, no other",
                   version != NULL ? version : "of no version");
    return false;
}

typedef enum field_type { FIELD_INTEGER, FIELD_FLOAT } field_type;
typedef struct field {
    const char *of;
    const char *name;
    const unsigned char *at;
    size_t size;
    field_type type;
    double expected;
} field;

static double read_field(const field *f) {
    uint64_t wide = 0;
    uint32_t word = 0;
    float real = 0;
    if (f->type == FIELD_FLOAT) {
        memcpy(&real, f->at, sizeof real);
        return (double)real;
    }
    switch (f->size) {
    case 1:
        return (double)f->at[0];
    case 4:
        memcpy(&word, f->at, sizeof word);
        return word > INT32_MAX ? -1.0 - (double)(UINT32_MAX - word) : (double)word;
    default:
        memcpy(&wide, f->at, sizeof wide);
        return (double)wide;
    }
}

static bool check_fields(llama_library *lib, char why[LLAMA_LIBRARY_WHY]) {
    lib->model = lib->llama_model_default_params();
    lib->context = lib->llama_context_default_params();
    const field fields[] = {
#define LLAMA_FIELD(of, name, value)                                                               \
    {"llama_" #of "_params",                                                                       \
     #name,                                                                                        \
     (const unsigned char *)&lib->of.params.name,                                                  \
     sizeof lib->of.params.name,                                                                   \
     _Generic(lib->of.params.name, float                                                           \
              : FIELD_FLOAT, default                                                               \
              : FIELD_INTEGER),                                                                    \
     (value)},
#include "llama_fields.def"
#undef LLAMA_FIELD
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const double found = read_field(&fields[i]);
        if (found != fields[i].expected) {
            (void)snprintf(why, LLAMA_LIBRARY_WHY,
                           "its structures are not those of version 0.4: where %s has '%s', which "
                           "is %g by default, there is %g",
                           fields[i].of, fields[i].name, fields[i].expected, found);
            return false;
        }
    }
    return true;
}

/* Batches as the library makes them have to read as ours. */
static bool check_batch(const llama_library *lib, char why[LLAMA_LIBRARY_WHY]) {
    int32_t tokens[3] = {1, 2, 3};
    const llama_abi_batch one = lib->llama_batch_get_one(tokens, 3);
    const llama_abi_batch own = lib->llama_batch_init(2, 0, 1);
    const bool is_one = one.n_tokens == 3 && one.token == tokens && one.embeddings == NULL &&
                        one.pos == NULL && one.n_seq_id == NULL && one.seq_id == NULL &&
                        one.wants_logits == NULL;
    const bool is_own = own.n_tokens == 0 && own.token != NULL && own.embeddings == NULL &&
                        own.pos != NULL && own.n_seq_id != NULL && own.seq_id != NULL &&
                        own.wants_logits != NULL && own.seq_id[0] != NULL &&
                        own.seq_id[1] != NULL && own.seq_id[2] == NULL;
    if (is_own) {
        lib->llama_batch_free(own);
    }
    if (!is_one || !is_own) {
        (void)snprintf(why, LLAMA_LIBRARY_WHY,
                       "its structures are not those of version 0.4: a batch is laid out "
                       "in another way");
    }
    return is_one && is_own;
}

static void take_log(int level, const char *text, void *user) {
    llama_library *lib = user;
    if (level < LLAMA_ABI_LOG_ERROR || level == LLAMA_ABI_LOG_MORE || text == NULL) {
        return;
    }
    /* The first line says what happened, those after it what followed from it. */
    if (lib->last_error[0] == '\0') {
        (void)snprintf(lib->last_error, sizeof lib->last_error, "%s", text);
        lib->last_error[strcspn(lib->last_error, "\n")] = '\0';
    }
}

static void ignore_log(int level, const char *text, void *user) {
    (void)level;
    (void)text;
    (void)user;
}

/* The library ends the process when an assertion of its own fails. Say so first. */
static void give_up(const char *message) {
    (void)fprintf(stderr, "lockstep: verify: the library gave up and ends this program: %s\n",
                  message);
    (void)fflush(stdout);
    _exit(2);
}

static bool load_backends(llama_library *lib, char why[LLAMA_LIBRARY_WHY]) {
    if (lib->ggml_backend_reg_count() == 0) {
        lib->ggml_backend_load_all_from_path(lib->folder);
    }
    if (lib->ggml_backend_reg_by_name("CPU") == NULL) {
        (void)snprintf(why, LLAMA_LIBRARY_WHY, "it has no backend for the CPU in %.300s",
                       lib->folder);
        return false;
    }
    return true;
}

void llama_library_listen(llama_library *lib) {
    lib->last_error[0] = '\0';
    lib->llama_log_set(take_log, lib);
}

bool llama_library_open(const char *path, llama_library *lib, char why[LLAMA_LIBRARY_WHY]) {
    memset(lib, 0, sizeof *lib);
    char file[sizeof lib->folder + 4];
    /* Without a slash the loader would look in the system's folders. */
    (void)snprintf(file, sizeof file, "%s%s", strchr(path, '/') == NULL ? "./" : "", path);
    if (strlen(path) >= sizeof lib->folder || access(file, R_OK) != 0) {
        (void)snprintf(why, LLAMA_LIBRARY_WHY, "there is no such file, or it cannot be read");
        return false;
    }
    (void)snprintf(lib->folder, sizeof lib->folder, "%.*s", (int)(strrchr(file, '/') - file), file);
    lib->handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (lib->handle == NULL) {
        const char *reason = dlerror();
        (void)snprintf(why, LLAMA_LIBRARY_WHY, "it cannot be loaded: %.340s",
                       reason != NULL ? reason : "no reason given");
        return false;
    }
    if (!find_functions(lib, why) || !check_version(lib, why) || !check_fields(lib, why) ||
        !check_batch(lib, why)) {
        (void)dlclose(lib->handle);
        lib->handle = NULL;
        return false;
    }
    llama_library_listen(lib);
    (void)lib->ggml_set_abort_callback(give_up);
    lib->llama_backend_init();
    return load_backends(lib, why);
}

void llama_library_close(llama_library *lib) {
    if (lib->handle != NULL) {
        lib->llama_log_set(ignore_log, NULL);
        lib->handle = NULL;
    }
}

bool llama_library_choose_cpu(llama_library *lib, const char *variant,
                              char why[LLAMA_LIBRARY_WHY]) {
    char path[sizeof lib->folder + 80];
    if (variant != NULL) {
        (void)snprintf(path, sizeof path, "%s/libggml-cpu-%.40s.so", lib->folder, variant);
        if (access(path, R_OK) != 0) {
            (void)snprintf(why, LLAMA_LIBRARY_WHY, "it has no backend libggml-cpu-%.40s.so",
                           variant);
            return false;
        }
    }
    llama_abi_backend *cpu = lib->ggml_backend_reg_by_name("CPU");
    if (lib->ggml_backend_reg_count() > 1) {
        (void)snprintf(why, LLAMA_LIBRARY_WHY, "its CPU backend is changed only where it is alone");
        return false;
    }
    if (cpu != NULL) {
        lib->ggml_backend_unload(cpu);
    }
    if (variant != NULL && lib->ggml_backend_load(path) == NULL) {
        (void)snprintf(why, LLAMA_LIBRARY_WHY,
                       "its backend libggml-cpu-%.40s.so does not run on this processor", variant);
        lib->ggml_backend_load_all_from_path(lib->folder);
        return false;
    }
    if (variant == NULL) {
        lib->ggml_backend_load_all_from_path(lib->folder);
    }
    return lib->ggml_backend_reg_by_name("CPU") != NULL || load_backends(lib, why);
}

void llama_library_cpu_file(char *name, size_t size) {
    char line[1200];
    name[0] = '\0';
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && name[0] == '\0' && fgets(line, sizeof line, maps) != NULL) {
        const char *found = strstr(line, "/libggml-cpu");
        if (found != NULL) {
            (void)snprintf(name, size, "%.*s", (int)strcspn(found + 1, "\n"), found + 1);
        }
    }
    if (maps != NULL) {
        (void)fclose(maps);
    }
}

const char *llama_library_error(llama_library *lib, char text[LLAMA_LIBRARY_WHY]) {
    (void)snprintf(text, LLAMA_LIBRARY_WHY, "%s%s", lib->last_error[0] != '\0' ? ": " : "",
                   lib->last_error);
    lib->last_error[0] = '\0';
    return text;
}

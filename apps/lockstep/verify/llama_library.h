/* llama_library.h - a libllama, loaded while the program runs and checked to be of a version whose
 * interface is known (llama_abi.h). */
#ifndef LK_LLAMA_LIBRARY_H
#define LK_LLAMA_LIBRARY_H

#include "llama_abi.h"

enum { LLAMA_LIBRARY_WHY = 400 };

typedef struct llama_library {
    void *handle;
    char folder[1024];           /* where its backends lie: the library's own folder */
    char last_error[300];        /* of its log: why a call failed; "" when there is none */
    llama_abi_model_block model; /* its own defaults */
    llama_abi_context_block context;
#define LLAMA_FUNCTION(name, result, arguments) result(*name) arguments;
#include "llama_functions.def"
#undef LLAMA_FUNCTION
} llama_library;

/* Loads and checks the library at `path`, and its backends. False with the reason: no library, not
 * libllama, another version, another layout. Nothing is called before it is known to be there. */
bool llama_library_open(const char *path, llama_library *lib, char why[LLAMA_LIBRARY_WHY]);
/* A library that has been used stays in the process: its threads and registries do not end. */
void llama_library_close(llama_library *lib);
/* Takes the backend of the CPU from another file of the folder: "haswell" for instance; NULL: its
 * own choice. No model may be open. False with the reason. */
bool llama_library_choose_cpu(llama_library *lib, const char *variant, char why[LLAMA_LIBRARY_WHY]);
/* The file name of the CPU backend in use, or "". */
void llama_library_cpu_file(char *name, size_t size);

/* Its log, of which there is one for all users of a library, goes to `lib` from here on. */
void llama_library_listen(llama_library *lib);
/* The reason of the last failed call, and forgets it: "", or ": " and what its log said. */
const char *llama_library_error(llama_library *lib, char text[LLAMA_LIBRARY_WHY]);

#endif

/* tidy_objects.c - the rules about the built library: what objdump prints of it, read line by line.
 * Nothing here runs objdump. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "tidy_rules.h"

/* Writable data that the library may have, by symbol. Each needs a reason. */
static const char *const allowed_globals[] = {
    NULL, /* none so far */
};

/* Copies the line at c into `line`; returns the start of the next one. */
static const char *take_line(const char *c, char *line, size_t size) {
    const size_t n = strcspn(c, "\n");
    (void)snprintf(line, size, "%.*s", (int)n, c);
    return c + n + (c[n] == '\n');
}

/* "alloc.c.o:     file format elf64-x86-64" names the member that follows. */
static void note_member(const char *line, char *member, size_t size) {
    const char *colon = strstr(line, ":     file format");
    if (colon != NULL) {
        (void)snprintf(member, size, "%.*s", (int)(colon - line), line);
    }
}

static bool is_allowed(const char *symbol) {
    for (size_t i = 0; allowed_globals[i] != NULL; i++) {
        if (strcmp(symbol, allowed_globals[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* .data.rel.ro holds constants with addresses in them: read-only once the program has started. */
static bool is_writable(const char *section) {
    if (tidy_starts_with(section, ".data.rel.ro")) {
        return false;
    }
    return tidy_starts_with(section, ".data") || tidy_starts_with(section, ".bss") ||
           tidy_starts_with(section, ".tdata") || tidy_starts_with(section, ".tbss") ||
           strcmp(section, "*COM*") == 0;
}

/* A line of the symbol table: address, 7 flag characters (O = object), section, size, name. */
void tidy_check_globals(const char *symbols, tidy_findings *out) {
    char member[160] = "?";
    for (const char *c = symbols; *c != '\0';) {
        char line[1024];
        c = take_line(c, line, sizeof line);
        note_member(line, member, sizeof member);
        const char *space = strchr(line, ' ');
        if (space == NULL || space == line || strlen(space) < 9) {
            continue;
        }
        char section[64];
        char size[40];
        char name[256];
        const bool is_object = memchr(space + 1, 'O', 7) != NULL;
        if (sscanf(space + 8, "%63s %39s %255s", section, size, name) != 3) {
            continue;
        }
        if ((is_object || strcmp(section, "*COM*") == 0) && is_writable(section) &&
            !is_allowed(name)) {
            tidy_add(out, member, 0, "globals", "%s in %s can be written", name, section);
        }
    }
}

static bool may_use_avx(const char *member) {
    return strstr(member, "_avx2.") != NULL || strstr(member, "_avxvnni.") != NULL ||
           strstr(member, "_avx512.") != NULL || strstr(member, "_amx.") != NULL;
}

/* A line of code: "   1c:\tvaddps %ymm1,%ymm0,%ymm0". Only AVX instructions begin with a v. */
void tidy_check_avx(const char *disassembly, tidy_findings *out) {
    char member[160] = "?";
    bool reported = false;
    for (const char *c = disassembly; *c != '\0';) {
        char line[512];
        const char *next = take_line(c, line, sizeof line);
        c = next;
        if (strstr(line, ":     file format") != NULL) {
            note_member(line, member, sizeof member);
            reported = false;
            continue;
        }
        const char *tab = strchr(line, '\t');
        if (tab == NULL || reported || may_use_avx(member)) {
            continue;
        }
        const bool is_avx = (tab[1] == 'v' && !tidy_starts_with(tab + 1, "verr") &&
                             !tidy_starts_with(tab + 1, "verw")) ||
                            strstr(tab, "%ymm") != NULL || strstr(tab, "%zmm") != NULL;
        if (is_avx) {
            tidy_add(out, member, 0, "avx", "outside a kernel's object: %s", tab + 1);
            reported = true;
        }
    }
}

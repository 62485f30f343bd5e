/* inspect_json.c - the report of `lockstep inspect` as one JSON object. Numbers keep all their
 * bits: what JSON or its readers cannot hold is written as a string. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "inspect.h"
#include "shared/printable.h"

enum { SHOWN_ELEMENTS = 16 }; /* of an array, unless --all */

/* Sets a member and takes `value`; false when memory is short (value NULL included). */
static bool set(json_t *object, const char *key, json_t *value) {
    return json_object_set_new_nocheck(object, key, value) == 0;
}

static json_t *string_of(const char *bytes, uint64_t n) {
    if (lk_is_utf8(bytes, (size_t)n)) {
        return json_stringn_nocheck(n != 0 ? bytes : "", (size_t)n);
    }
    static const char digits[] = "0123456789abcdef";
    json_t *object = json_object();
    char *hex = malloc(2 * (size_t)n);
    if (object == NULL || hex == NULL) {
        free(hex);
        json_decref(object);
        return NULL;
    }
    for (uint64_t i = 0; i < n; i++) {
        hex[2 * i] = digits[(uint8_t)bytes[i] >> 4];
        hex[2 * i + 1] = digits[(uint8_t)bytes[i] & 15];
    }
    const bool ok = set(object, "hex", json_stringn_nocheck(hex, 2 * (size_t)n));
    free(hex);
    if (!ok) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *unsigned_of(uint64_t v) {
    char text[24];
    if (v <= INT64_MAX) {
        return json_integer((json_int_t)v);
    }
    (void)snprintf(text, sizeof text, "%" PRIu64, v);
    return json_string(text);
}

static json_t *scalar_of(const lk_gguf_value *v) {
    switch (v->type) {
    case LK_GGUF_BOOL:
        return json_boolean(v->i != 0);
    case LK_GGUF_F32:
    case LK_GGUF_F64:
        if (isnan(v->f)) {
            return json_string("nan");
        }
        return isinf(v->f) ? json_string(v->f > 0 ? "inf" : "-inf") : json_real(v->f);
    case LK_GGUF_U64:
        return unsigned_of((uint64_t)v->i);
    case LK_GGUF_STRING:
        return string_of(v->str, v->n);
    default:
        return json_integer((json_int_t)v->i);
    }
}

static json_t *elements_of(const inspect_report *r, const lk_gguf_value *v, uint64_t n) {
    json_t *array = json_array();
    for (uint64_t i = 0; i < n && array != NULL; i++) {
        lk_gguf_value element = {.type = LK_GGUF_STRING};
        if (v->elem_type == LK_GGUF_STRING) {
            (void)lk_gguf_array_string(r->gguf, v, i, &element.str, &element.n, NULL);
        } else {
            element = inspect_element(v, i);
        }
        if (json_array_append_new(array, scalar_of(&element)) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

static json_t *entry_of(const inspect_report *r, const lk_gguf_value *v) {
    json_t *entry = json_object();
    bool ok = set(entry, "type", json_string(lk_gguf_type_name(v->type)));
    if (v->type == LK_GGUF_ARRAY) {
        const uint64_t n = r->all || v->n <= SHOWN_ELEMENTS ? v->n : SHOWN_ELEMENTS;
        ok = ok && set(entry, "elem_type", json_string(lk_gguf_type_name(v->elem_type)));
        ok = ok && set(entry, "length", unsigned_of(v->n));
        ok = ok && set(entry, "complete", json_boolean(n == v->n));
        ok = ok && set(entry, "value", elements_of(r, v, n));
    } else {
        ok = ok && set(entry, "value", scalar_of(v));
    }
    if (!ok) {
        json_decref(entry);
        return NULL;
    }
    return entry;
}

static json_t *metadata_of(const inspect_report *r) {
    json_t *object = json_object();
    for (uint64_t i = 0; i < lk_gguf_n_meta(r->gguf) && object != NULL; i++) {
        const char *key;
        lk_gguf_value v;
        if (lk_gguf_meta(r->gguf, i, &key, &v, NULL) != LK_OK ||
            !set(object, key, entry_of(r, &v))) {
            json_decref(object);
            object = NULL;
        }
    }
    return object;
}

static json_t *tensor_of(const lk_gguf_tensor *t) {
    json_t *shape = json_array();
    bool ok = shape != NULL;
    for (uint32_t i = 0; i < t->n_dims && ok; i++) {
        ok = json_array_append_new(shape, unsigned_of(t->ne[i])) == 0;
    }
    json_t *object = json_object();
    ok = ok && set(object, "name", json_string_nocheck(t->name));
    ok = ok && set(object, "format", json_string(lk_format_name(t->type)));
    ok = ok && set(object, "format_number", unsigned_of(t->type));
    ok = ok && set(object, "supported", json_boolean(lk_format_is_supported(t->type)));
    ok = ok && set(object, "shape", json_incref(shape));
    ok = ok && set(object, "bytes", unsigned_of(t->n_bytes));
    ok = ok && set(object, "file", unsigned_of(t->i_file));
    ok = ok && set(object, "offset", unsigned_of(t->offset));
    json_decref(shape);
    if (!ok) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *tensors_of(const inspect_report *r) {
    json_t *array = json_array();
    for (uint64_t i = 0; i < lk_gguf_n_tensors(r->gguf) && array != NULL; i++) {
        lk_gguf_tensor t;
        if (lk_gguf_tensor_at(r->gguf, i, &t, NULL) != LK_OK ||
            json_array_append_new(array, tensor_of(&t)) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

static json_t *formats_of(const inspect_report *r) {
    json_t *object = json_object();
    bool ok = object != NULL;
    for (uint32_t i = 0; i < r->n_formats && ok; i++) {
        const inspect_format *f = &r->formats[i];
        json_t *entry = json_object();
        ok = set(entry, "tensors", unsigned_of(f->n_tensors)) &&
             set(entry, "elements", unsigned_of(f->n_elems)) &&
             set(entry, "bytes", unsigned_of(f->n_bytes)) &&
             set(entry, "supported", json_boolean(lk_format_is_supported(f->type))) &&
             set(object, lk_format_name(f->type), json_incref(entry));
        json_decref(entry);
    }
    if (!ok) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *problems_of(const inspect_report *r) {
    json_t *array = json_array();
    for (uint32_t i = 0; i < r->n_problems && i < INSPECT_MAX_PROBLEMS && array != NULL; i++) {
        const inspect_problem *p = &r->problems[i];
        json_t *entry = json_object();
        const bool ok = set(entry, "kind", json_string(p->kind)) &&
                        set(entry, "message", string_of(p->message, strlen(p->message)));
        if (!ok || json_array_append(array, entry) != 0) {
            json_decref(array);
            array = NULL;
        }
        json_decref(entry);
    }
    return array;
}

bool inspect_print_json(const inspect_report *r) {
    json_t *root = json_object();
    const size_t arch_bytes = strlen(r->arch);
    bool ok = set(root, "file", string_of(r->path, strlen(r->path)));
    ok = ok && set(root, "version", unsigned_of(lk_gguf_version(r->gguf)));
    ok = ok && set(root, "files", unsigned_of(lk_gguf_n_files(r->gguf)));
    ok = ok && set(root, "bytes", unsigned_of(lk_gguf_file_bytes(r->gguf)));
    ok = ok &&
         set(root, "architecture", arch_bytes != 0 ? string_of(r->arch, arch_bytes) : json_null());
    ok = ok && set(root, "architecture_supported", json_boolean(r->arch_supported));
    ok = ok && set(root, "can_be_run", json_boolean(r->n_problems == 0));
    ok = ok && set(root, "problems", problems_of(r));
    ok = ok && set(root, "digest", r->digest[0] != '\0' ? json_string(r->digest) : json_null());
    ok = ok && set(root, "parameters", unsigned_of(r->n_params));
    ok = ok && set(root, "tensor_bytes", unsigned_of(r->n_bytes));
    ok = ok && set(root, "formats", formats_of(r));
    ok = ok && set(root, "metadata", metadata_of(r));
    ok = ok && set(root, "tensors", tensors_of(r));
    if (ok) {
        ok = json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(17)) == 0 ||
             ferror(stdout); /* a failed write is reported by the caller */
        (void)putchar('\n');
    }
    json_decref(root);
    return ok;
}

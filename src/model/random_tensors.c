/* random_tensors.c - see random_tensors.h. */
#include "model/random_tensors.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "gguf/gguf_internal.h"
#include "model/loader.h"
#include "model/model_parts.h"

enum { MAX_LAYER_TENSORS = 40, MAX_OTHER_TENSORS = 16, IMAGE_BYTES = 8192 };

/* A key of this name, empty: the one that is there, or a new one. */
static lk_random_key *add(lk_random_keys *keys, const char *name, size_t n) {
    uint32_t i = 0;
    while (i < keys->n &&
           (strlen(keys->keys[i].name) != n || memcmp(keys->keys[i].name, name, n) != 0)) {
        i++;
    }
    assert(i < LK_RANDOM_MAX_KEYS); /* the lists of shapes.def are shorter */
    keys->n = i == keys->n ? i + 1 : keys->n;
    lk_random_key *key = &keys->keys[i];
    *key = (lk_random_key){.number = 0.0};
    (void)snprintf(key->name, sizeof key->name, "%.*s", (int)n, name);
    return key;
}

void lk_random_keys_add_int(lk_random_keys *keys, const char *name, uint32_t value) {
    add(keys, name, strlen(name))->number = value;
}

void lk_random_keys_add_bool(lk_random_keys *keys, const char *name, bool value) {
    lk_random_key *key = add(keys, name, strlen(name));
    key->is_bool = true;
    key->number = value ? 1.0 : 0.0;
}

void lk_random_keys_add_float(lk_random_keys *keys, const char *name, double value) {
    lk_random_key *key = add(keys, name, strlen(name));
    key->is_float = true;
    key->number = value;
}

void lk_random_keys_add_text(lk_random_keys *keys, const char *list) {
    while (*list != '\0') {
        const size_t n = strcspn(list, "=");
        const char *value = list + n + 1;
        const size_t n_value = strcspn(value, " ");
        lk_random_key *key = add(keys, list, n);
        char *end = NULL;
        key->number = strtod(value, &end);
        key->is_float = memchr(value, '.', n_value) != NULL;
        if (end != value + n_value) {
            (void)snprintf(key->text, sizeof key->text, "%.*s", (int)n_value, value);
        }
        list = value + n_value + (value[n_value] == ' ');
    }
}

enum { MAX_ELEMENTS = 8 };

/* The elements of a key with commas, little-endian; returns how many, 0 for any other key. */
static uint32_t elements_of(const lk_random_key *key, uint8_t bytes[MAX_ELEMENTS * 4]) {
    uint32_t n = 0;
    const char *at = strchr(key->text, ',') != NULL ? key->text : "";
    while (*at != '\0' && n < MAX_ELEMENTS) {
        char *end = NULL;
        lk_store_u32(bytes + (size_t)n++ * 4, (uint32_t)strtoul(at, &end, 10));
        at = *end == ',' ? end + 1 : end;
    }
    return n;
}

lk_status lk_random_keys_write(const lk_random_keys *keys, const char *arch, lk_gguf_writer *w,
                               lk_error *err) {
    lk_status status = LK_OK;
    for (uint32_t i = 0; i < keys->n && status == LK_OK; i++) {
        const lk_random_key *key = &keys->keys[i];
        char name[96];
        (void)snprintf(name, sizeof name, "%s.%s", arch, key->name);
        uint8_t elements[MAX_ELEMENTS * 4];
        const uint32_t n = elements_of(key, elements);
        if (n != 0) {
            status = lk_gguf_writer_array(w, name, LK_GGUF_U32, elements, n, err);
        } else if (key->text[0] != '\0') {
            status = lk_gguf_writer_string(w, name, key->text, strlen(key->text), err);
        } else if (key->is_float) {
            status = lk_gguf_writer_float(w, name, LK_GGUF_F32, key->number, err);
        } else {
            const lk_gguf_type type = key->is_bool ? LK_GGUF_BOOL : LK_GGUF_U32;
            status = lk_gguf_writer_int(w, name, type, (int64_t)key->number, err);
        }
    }
    return status;
}

/* A GGUF file of keys alone, in memory. */
typedef struct image {
    uint8_t bytes[IMAGE_BYTES];
    size_t n;
} image;

static void put_u32(image *m, uint32_t v) {
    if (m->n + 4 <= IMAGE_BYTES) {
        lk_store_u32(m->bytes + m->n, v);
        m->n += 4;
    }
}

static void put_text(image *m, const char *text) {
    const size_t n = strlen(text);
    put_u32(m, (uint32_t)n);
    put_u32(m, 0);
    if (m->n + n <= IMAGE_BYTES) {
        memcpy(m->bytes + m->n, text, n);
        m->n += n;
    }
}

static void make_image(image *m, const lk_random_tensors_params *params) {
    const lk_random_keys *keys = params->keys;
    memcpy(m->bytes, "GGUF", 4);
    m->n = 4;
    put_u32(m, 3);
    put_u32(m, 0); /* no tensors */
    put_u32(m, 0);
    put_u32(m, keys->n + 1);
    put_u32(m, 0);
    put_text(m, "general.architecture");
    put_u32(m, LK_GGUF_STRING);
    put_text(m, params->arch);
    for (uint32_t i = 0; i < keys->n; i++) {
        const lk_random_key *key = &keys->keys[i];
        char name[96];
        (void)snprintf(name, sizeof name, "%s.%s", params->arch, key->name);
        put_text(m, name);
        uint8_t elements[MAX_ELEMENTS * 4];
        const uint32_t n = elements_of(key, elements);
        if (n != 0) {
            put_u32(m, LK_GGUF_ARRAY);
            put_u32(m, LK_GGUF_U32);
            put_u32(m, n);
            put_u32(m, 0);
            for (uint32_t k = 0; k < n; k++) {
                put_u32(m, lk_load_u32(elements + (size_t)k * 4));
            }
        } else if (key->text[0] != '\0') {
            put_u32(m, LK_GGUF_STRING);
            put_text(m, key->text);
        } else if (key->is_float) {
            put_u32(m, LK_GGUF_F32);
            put_u32(m, lk_f32_bits((float)key->number));
        } else {
            put_u32(m, LK_GGUF_U32);
            put_u32(m, (uint32_t)key->number);
        }
    }
}

typedef struct inventor {
    lk_random_tensors *list;
    const lk_random_tensors_params *params;
    lk_loader *loader;
} inventor;

static const lk_weight *invent(void *ctx, const char *name, const lk_tensor_shape *shape,
                               bool required) {
    /* What an architecture reads while it builds are frequency factors. */
    static const float ones[LK_MAX_HEAD_DIM / 2] = {
#define ONES_8 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f
#define ONES_32 ONES_8, ONES_8, ONES_8, ONES_8
        ONES_32, ONES_32, ONES_32, ONES_32
#undef ONES_8
#undef ONES_32
    };
    inventor *v = ctx;
    if (!required && !v->params->wants(v->params->ctx, name)) {
        return NULL;
    }
    if (v->list->n_tensors == v->list->capacity) {
        lk_loader_fail(v->loader, LK_E_LIMIT, name, "more than %u tensors", v->list->capacity);
        return NULL;
    }
    lk_random_tensor *t = &v->list->tensors[v->list->n_tensors++];
    t->n_dims = shape->n_dims;
    uint64_t *ne = t->ne;
    for (uint32_t i = 0; i < 4; i++) {
        const uint64_t n = i < shape->n_dims ? shape->ne[i] : 1;
        ne[i] = n != 0 ? n : v->params->n_vocab; /* any: the embedding's rows */
    }
    (void)snprintf(t->name, sizeof t->name, "%s", name);
    t->w = (lk_weight){.name = t->name,
                       .format = lk_format_find(LK_FORMAT_F32),
                       .data = (const uint8_t *)(const void *)ones,
                       .n_dims = t->n_dims,
                       .ne = {ne[0], ne[1], ne[2], ne[3]},
                       .row_bytes = (size_t)ne[0] * sizeof(float)};
    return &t->w;
}

/* Runs the architecture; its graph is thrown away. */
static lk_status build(lk_model *model, const lk_random_tensors_params *params, bool *key_used,
                       lk_random_tensors *list, lk_error *err) {
    lk_loader loader = {.gguf = model->gguf,
                        .arch = model->arch->name,
                        .graph = &model->graph,
                        .key_used = key_used,
                        .invent = invent};
    inventor v = {list, params, &loader};
    loader.invent_ctx = &v;
    model->arch->build(&loader, &model->graph, &model->hparams);
    lk_loader_check_all_used(&loader);
    list->n_experts = model->hparams.n_experts;
    return lk_graph_finish(&model->graph, model->graph.logits, err);
}

static lk_status run(lk_model *model, const image *m, const lk_random_tensors_params *params,
                     lk_random_tensors *list, lk_error *err) {
    const lk_allocator *a = model->allocator;
    const lk_gguf_buffer file = {m->bytes, m->n};
    lk_status status = lk_gguf_open_memory(&file, 1, a, &model->gguf, err);
    if (status == LK_OK && params->encoder != NULL) {
        model->arch = params->encoder;
    } else if (status == LK_OK) {
        status = lk_model_find_arch(model, err);
    }
    if (status != LK_OK) {
        return status;
    }
    const size_t n_meta = (size_t)lk_gguf_n_meta(model->gguf);
    bool *key_used = lk_alloc_array_zero(a, n_meta, sizeof *key_used);
    if (key_used == NULL) {
        return lk_fail_nomem(err, "a list of keys", n_meta);
    }
    status = build(model, params, key_used, list, err);
    lk_free_array(a, key_used, n_meta, sizeof *key_used);
    return status;
}

/* Files begin with the embedding, whatever the architecture reads first. */
static void put_embedding_first(lk_random_tensors *list) {
    for (uint32_t i = 1; i < list->n_tensors; i++) {
        if (strcmp(list->tensors[i].name, "token_embd.weight") == 0) {
            const lk_random_tensor embedding = list->tensors[i];
            memmove(&list->tensors[1], &list->tensors[0], i * sizeof list->tensors[0]);
            list->tensors[0] = embedding;
        }
    }
}

lk_status lk_random_tensors_list(lk_random_tensors *list, const lk_random_tensors_params *params,
                                 const lk_allocator *allocator, lk_error *err) {
    const lk_allocator *a = allocator;
    *list =
        (lk_random_tensors){.capacity = params->n_layers * MAX_LAYER_TENSORS + MAX_OTHER_TENSORS};
    list->tensors = lk_alloc_array_zero(a, list->capacity, sizeof list->tensors[0]);
    image *m = lk_alloc_zero(a, sizeof *m);
    lk_model *model = lk_alloc_zero(a, sizeof *model);
    lk_status status = LK_OK;
    if (list->tensors == NULL || m == NULL || model == NULL) {
        status = lk_fail_nomem(err, "a list of tensors", list->capacity * sizeof list->tensors[0]);
    } else {
        make_image(m, params);
        model->allocator = a;
        lk_graph_init(&model->graph, a);
        status = run(model, m, params, list, err);
        lk_model_free_parts(model);
        lk_gguf_close(model->gguf);
        put_embedding_first(list);
    }
    lk_free(a, model, sizeof *model);
    lk_free(a, m, sizeof *m);
    return status;
}

void lk_random_tensors_free(lk_random_tensors *list, const lk_allocator *allocator) {
    lk_free_array(allocator, list->tensors, list->capacity, sizeof list->tensors[0]);
    *list = (lk_random_tensors){.tensors = NULL};
}

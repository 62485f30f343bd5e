/* jinja_methods_list.c - the methods of dicts, lists, loops and cyclers. Those that change a list
 * are here although the sandbox of the models' own engine refuses them: templates use them. */
#include <string.h>

#include "text/jinja/jinja_builtins.h"

#define METHOD(name)                                                                               \
    bool lk_jmethod_##name(lk_jvm *vm, lk_jvalue v, const lk_jvalue *p, const lk_jargs *args,      \
                           lk_jvalue *out)

METHOD(dict_get) {
    (void)args;
    const lk_jvalue *value = lk_jis_key(p[0]) ? lk_jdict_get(&vm->heap, v.dict, p[0]) : NULL;
    *out = value != NULL ? *value : p[1].type != LK_J_UNSET ? p[1] : lk_jnone();
    return lk_jcheck(vm, vm->heap.failure == LK_OK);
}

METHOD(dict_setdefault) {
    (void)args;
    const lk_jvalue *value = lk_jis_key(p[0]) ? lk_jdict_get(&vm->heap, v.dict, p[0]) : NULL;
    if (value != NULL || !lk_jis_key(p[0])) {
        *out = value != NULL ? *value : lk_jnone();
        return value != NULL ||
               lk_jfail(vm, "a value of type '%s' cannot be a key", lk_jtype_name(p[0]));
    }
    *out = p[1].type != LK_J_UNSET ? p[1] : lk_jnone();
    return lk_jcheck(vm, lk_jdict_set(&vm->heap, v.dict, p[0], *out));
}

METHOD(dict_update) {
    (void)p;
    lk_jvalue other = lk_jnone();
    if (!lk_jfunction_dict(vm, args, &other)) {
        return false;
    }
    for (size_t i = 0; i < other.dict->n; i++) {
        const lk_jentry entry = other.dict->entries[i];
        if (!lk_jdict_set(&vm->heap, v.dict, entry.key, entry.value)) {
            return lk_jheap_failed(vm);
        }
    }
    *out = lk_jnone();
    return true;
}

METHOD(dict_copy) {
    (void)p;
    (void)args;
    const lk_jargs one = {&v, 1, {NULL, 0}};
    return lk_jfunction_dict(vm, &one, out);
}

enum { KEYS = 1, VALUES = 2 };

static bool list_dict(lk_jvm *vm, const lk_jdict *dict, int what, lk_jvalue *out) {
    lk_jlist *list = lk_jlist_new(&vm->heap, dict->n);
    bool ok = list != NULL;
    for (size_t i = 0; i < dict->n && ok; i++) {
        lk_jvalue item = what == KEYS ? dict->entries[i].key : dict->entries[i].value;
        if (what == (KEYS | VALUES)) {
            lk_jlist *pair = lk_jlist_new(&vm->heap, 2);
            ok = pair != NULL && lk_jlist_push(&vm->heap, pair, dict->entries[i].key) &&
                 lk_jlist_push(&vm->heap, pair, dict->entries[i].value);
            item = (lk_jvalue){.type = LK_J_TUPLE, .list = pair};
        }
        ok = ok && lk_jlist_push(&vm->heap, list, item);
    }
    *out = (lk_jvalue){.type = LK_J_LIST, .list = list};
    return lk_jcheck(vm, ok);
}

METHOD(dict_items) {
    (void)p;
    (void)args;
    return list_dict(vm, v.dict, KEYS | VALUES, out);
}

METHOD(dict_keys) {
    (void)p;
    (void)args;
    return list_dict(vm, v.dict, KEYS, out);
}

METHOD(dict_values) {
    (void)p;
    (void)args;
    return list_dict(vm, v.dict, VALUES, out);
}

METHOD(list_append) {
    (void)args;
    *out = lk_jnone();
    return lk_jcheck(vm, lk_jlist_push(&vm->heap, v.list, p[0]));
}

METHOD(list_extend) {
    (void)args;
    lk_jlist *other = NULL;
    *out = lk_jnone();
    if (!lk_jelements(vm, p[0], &other)) {
        return false;
    }
    const size_t n = other->n; /* it may be the list itself */
    for (size_t i = 0; i < n; i++) {
        if (!lk_jlist_push(&vm->heap, v.list, other->items[i])) {
            return lk_jheap_failed(vm);
        }
    }
    return true;
}

METHOD(list_insert) {
    (void)args;
    int64_t at = 0;
    const int64_t n = (int64_t)v.list->n;
    *out = lk_jnone();
    if (!lk_jarg_int(vm, p[0], 0, &at)) {
        return false;
    }
    at = at < 0 ? at + n : at;
    at = at < 0 ? 0 : at > n ? n : at;
    if (!lk_jheap_charge(&vm->heap, (uint64_t)n) || !lk_jlist_push(&vm->heap, v.list, p[1])) {
        return lk_jheap_failed(vm);
    }
    memmove(v.list->items + at + 1, v.list->items + at, (size_t)(n - at) * sizeof *v.list->items);
    v.list->items[at] = p[1];
    return true;
}

METHOD(list_pop) {
    (void)args;
    int64_t at = 0;
    const int64_t n = (int64_t)v.list->n;
    if (!lk_jarg_int(vm, p[0], -1, &at)) {
        return false;
    }
    at = at < 0 ? at + n : at;
    if (at < 0 || at >= n) {
        return lk_jfail(vm, "pop from a list of %lld values", (long long)n);
    }
    *out = v.list->items[at];
    memmove(v.list->items + at, v.list->items + at + 1,
            (size_t)(n - at - 1) * sizeof *v.list->items);
    v.list->n--;
    return lk_jcheck(vm, lk_jheap_charge(&vm->heap, (uint64_t)n));
}

METHOD(list_reverse) {
    (void)p;
    (void)args;
    for (size_t i = 0; i < v.list->n / 2; i++) {
        const lk_jvalue other = v.list->items[v.list->n - 1 - i];
        v.list->items[v.list->n - 1 - i] = v.list->items[i];
        v.list->items[i] = other;
    }
    *out = lk_jnone();
    return lk_jcheck(vm, lk_jheap_charge(&vm->heap, v.list->n));
}

METHOD(list_copy) {
    return lk_jfilter_list(vm, v, p, args, out);
}

METHOD(list_count) {
    (void)args;
    int64_t n = 0;
    for (size_t i = 0; i < v.list->n && vm->heap.failure == LK_OK; i++) {
        n += lk_jequal(&vm->heap, v.list->items[i], p[0]);
    }
    *out = lk_jint(n);
    return lk_jcheck(vm, vm->heap.failure == LK_OK);
}

METHOD(list_index) {
    (void)args;
    for (size_t i = 0; i < v.list->n && vm->heap.failure == LK_OK; i++) {
        if (lk_jequal(&vm->heap, v.list->items[i], p[0])) {
            *out = lk_jint((int64_t)i);
            return true;
        }
    }
    return lk_jcheck(vm, vm->heap.failure == LK_OK) &&
           lk_jfail(vm, "index: the value is not in the list");
}

METHOD(loop_changed) {
    (void)p;
    lk_jloop *loop = v.object;
    lk_jlist *list = lk_jlist_new(&vm->heap, args->n);
    if (list == NULL) {
        return lk_jheap_failed(vm);
    }
    if (args->n != 0) {
        memcpy(list->items, args->values, args->n * sizeof *list->items);
    }
    list->n = args->n;
    const lk_jvalue now = {.type = LK_J_TUPLE, .list = list};
    *out = lk_jbool(loop->changed.type == LK_J_UNSET || !lk_jequal(&vm->heap, loop->changed, now));
    loop->changed = now;
    return lk_jcheck(vm, vm->heap.failure == LK_OK);
}

METHOD(loop_cycle) {
    (void)p;
    const lk_jloop *loop = v.object;
    if (args->n == 0) {
        return lk_jfail(vm, "loop.cycle() needs at least one value");
    }
    *out = args->values[loop->i % args->n];
    return true;
}

METHOD(cycler_next) {
    (void)vm;
    (void)p;
    (void)args;
    lk_jcycler *cycler = v.object;
    *out = cycler->items->items[cycler->i];
    cycler->i = (cycler->i + 1) % cycler->items->n;
    return true;
}

METHOD(cycler_reset) {
    (void)vm;
    (void)p;
    (void)args;
    lk_jcycler *cycler = v.object;
    cycler->i = 0;
    *out = lk_jnone();
    return true;
}

/* jinja_functions.c - the functions of jinja_functions.def. */
#include <string.h>

#include "text/jinja/jinja_builtins.h"
#include "text/jinja/jinja_text.h"

#define FUNCTION(name) bool lk_jfunction_##name(lk_jvm *vm, const lk_jargs *args, lk_jvalue *out)

FUNCTION(raise_exception) {
    lk_jvalue p[LK_JMAX_PARAMS];
    (void)out;
    if (!lk_jbind(vm, "raise_exception", "message", 1, args, p)) {
        return false;
    }
    const lk_jstring *message = lk_jto_string(vm, p[0]);
    if (message == NULL) {
        return lk_jheap_failed(vm);
    }
    if (vm->status == LK_OK) { /* the template's own words, without more */
        vm->status =
            lk_fail(vm->err, LK_E_REFUSED, LK_AT_SUBJECT("chat template"), "%.*s",
                    (int)(message->n < 380 ? message->n : 380), (const char *)message->bytes);
    }
    return false;
}

FUNCTION(strftime_now) {
    lk_jvalue p[LK_JMAX_PARAMS];
    if (!lk_jbind(vm, "strftime_now", "format", 1, args, p)) {
        return false;
    }
    if (p[0].type != LK_J_STRING) {
        return lk_jfail(vm, "strftime_now needs a text");
    }
    return lk_jreturn(vm, lk_jtext_time(vm, p[0].s, vm->now_s), out);
}

FUNCTION(range) {
    enum { MAX_RANGE = 100000 }; /* as the sandbox of the models' own engine */
    lk_jvalue p[LK_JMAX_PARAMS];
    int64_t start = 0, stop = 0, step = 1;
    if (!lk_jbind(vm, "range", "start stop step", 1, args, p) ||
        !lk_jarg_int(vm, p[0], 0, &start) || !lk_jarg_int(vm, p[1], 0, &stop) ||
        !lk_jarg_int(vm, p[2], 1, &step)) {
        return false;
    }
    if (p[1].type == LK_J_UNSET) {
        stop = start;
        start = 0;
    }
    if (step == 0) {
        return lk_jfail(vm, "range() with a step of 0");
    }
    lk_jlist *list = lk_jlist_new(&vm->heap, 0);
    if (list == NULL) {
        return lk_jheap_failed(vm);
    }
    for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
        if (list->n == MAX_RANGE) {
            return lk_jfail_status(vm, LK_E_LIMIT, "range() of more than %d numbers", MAX_RANGE);
        }
        if (!lk_jlist_push(&vm->heap, list, lk_jint(i))) {
            return lk_jheap_failed(vm);
        }
        if ((step > 0 && i > INT64_MAX - step) || (step < 0 && i < INT64_MIN - step)) {
            break;
        }
        i += step;
    }
    *out = (lk_jvalue){.type = LK_J_LIST, .list = list};
    return true;
}

/* A dict of the positional dicts and the named arguments. */
static bool make_dict(lk_jvm *vm, const lk_jargs *args, lk_jdict **out) {
    lk_jdict *dict = lk_jdict_new(&vm->heap);
    const uint32_t n_positional = lk_jargs_positional(args);
    if (dict == NULL) {
        return lk_jheap_failed(vm);
    }
    if (n_positional > 1) {
        return lk_jfail(vm, "dict() and namespace() take one dict, not %u", n_positional);
    }
    if (n_positional == 1 && args->values[0].type == LK_J_DICT) {
        const lk_jdict *from = args->values[0].dict;
        for (size_t i = 0; i < from->n; i++) {
            if (!lk_jdict_set(&vm->heap, dict, from->entries[i].key, from->entries[i].value)) {
                return lk_jheap_failed(vm);
            }
        }
    } else if (n_positional == 1) { /* pairs */
        lk_jlist *pairs = NULL;
        if (!lk_jelements(vm, args->values[0], &pairs)) {
            return false;
        }
        for (size_t i = 0; i < pairs->n; i++) {
            const lk_jvalue pair = pairs->items[i];
            if ((pair.type != LK_J_LIST && pair.type != LK_J_TUPLE) || pair.list->n != 2 ||
                !lk_jis_key(pair.list->items[0])) {
                return lk_jfail(vm, "dict() needs pairs of a key and a value");
            }
            if (!lk_jdict_set(&vm->heap, dict, pair.list->items[0], pair.list->items[1])) {
                return lk_jheap_failed(vm);
            }
        }
    }
    for (uint32_t i = 0; i < args->names.n; i++) {
        const lk_jstring *name = vm->program->names[args->names.names[i]];
        if (!lk_jdict_set(&vm->heap, dict, lk_jstr(name), args->values[n_positional + i])) {
            return lk_jheap_failed(vm);
        }
    }
    *out = dict;
    return true;
}

FUNCTION(dict) {
    lk_jdict *dict = NULL;
    if (!make_dict(vm, args, &dict)) {
        return false;
    }
    *out = (lk_jvalue){.type = LK_J_DICT, .dict = dict};
    return true;
}

FUNCTION(namespace) {
    lk_jdict *dict = NULL;
    if (!make_dict(vm, args, &dict)) {
        return false;
    }
    *out = (lk_jvalue){.type = LK_J_NAMESPACE, .dict = dict};
    return true;
}

FUNCTION(cycler) {
    if (args->n == 0 || args->names.n != 0) {
        return lk_jfail(vm, "cycler() needs at least one value");
    }
    lk_jcycler *cycler = lk_jheap_alloc(&vm->heap, sizeof *cycler);
    lk_jlist *items = lk_jlist_new(&vm->heap, args->n);
    if (cycler == NULL || items == NULL) {
        return lk_jheap_failed(vm);
    }
    memcpy(items->items, args->values, args->n * sizeof *items->items);
    items->n = args->n;
    *cycler = (lk_jcycler){items, 0};
    *out = (lk_jvalue){.type = LK_J_CYCLER, .object = cycler};
    return true;
}

FUNCTION(joiner) {
    lk_jvalue p[LK_JMAX_PARAMS];
    if (!lk_jbind(vm, "joiner", "sep", 0, args, p)) {
        return false;
    }
    lk_jjoiner *joiner = lk_jheap_alloc(&vm->heap, sizeof *joiner);
    const lk_jstring *separator =
        p[0].type == LK_J_UNSET ? lk_jstring_text(&vm->heap, ", ") : lk_jto_string(vm, p[0]);
    if (joiner == NULL || separator == NULL) {
        return lk_jheap_failed(vm);
    }
    *joiner = (lk_jjoiner){separator, false};
    *out = (lk_jvalue){.type = LK_J_JOINER, .object = joiner};
    return true;
}

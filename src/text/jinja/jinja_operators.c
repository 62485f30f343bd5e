/* jinja_operators.c - arithmetic, comparison, membership, and what x.y, x[y] and x[a:b] give. */
#include <string.h>

#include "text/jinja/jinja_builtins.h"
#include "text/jinja/jinja_vm.h"
#include "text/unicode/unicode.h"

static const char *operator_name(lk_jop op) {
    switch (op) {
    case LK_JOP_add:
        return "+";
    case LK_JOP_subtract:
        return "-";
    case LK_JOP_multiply:
        return "*";
    case LK_JOP_divide:
        return "/";
    case LK_JOP_floor_divide:
        return "//";
    case LK_JOP_modulo:
        return "%";
    case LK_JOP_power:
        return "**";
    case LK_JOP_negate:
        return "unary -";
    default:
        return "unary +";
    }
}

bool lk_jfail_undefined(lk_jvm *vm, lk_jvalue v) {
    const int n = v.s != NULL ? (int)(v.s->n < 100 ? v.s->n : 100) : 0;
    const char *name = v.s != NULL ? (const char *)v.s->bytes : "";
    if (v.s == NULL) {
        return lk_jfail(vm, "a value is undefined");
    }
    if (v.aux == 0) {
        return lk_jfail(vm, "'%.*s' is undefined", n, name);
    }
    const lk_jvalue owner = {.type = (lk_jtype)v.aux};
    return lk_jfail(vm, "'%s object' has no attribute '%.*s'", lk_jtype_name(owner), n, name);
}

static bool fail_operands(lk_jvm *vm, lk_jop op, lk_jvalue a, lk_jvalue b) {
    if (a.type == LK_J_UNDEFINED || b.type == LK_J_UNDEFINED) {
        return lk_jfail_undefined(vm, a.type == LK_J_UNDEFINED ? a : b);
    }
    if (op == LK_JOP_add && (a.type == LK_J_STRING || b.type == LK_J_STRING)) {
        return lk_jfail(vm, "a text and a value of type '%s' cannot be joined with +",
                        lk_jtype_name(a.type == LK_J_STRING ? b : a));
    }
    return lk_jfail(vm, "operator %s takes no '%s' and '%s'", operator_name(op), lk_jtype_name(a),
                    lk_jtype_name(b));
}

static bool add_lists(lk_jvm *vm, lk_jvalue a, lk_jvalue b, lk_jvalue *out) {
    lk_jlist *list = lk_jlist_new(&vm->heap, a.list->n + b.list->n);
    if (list == NULL || !lk_jheap_charge(&vm->heap, a.list->n + b.list->n)) {
        return lk_jheap_failed(vm);
    }
    if (a.list->n != 0) {
        memcpy(list->items, a.list->items, a.list->n * sizeof *list->items);
    }
    if (b.list->n != 0) {
        memcpy(list->items + a.list->n, b.list->items, b.list->n * sizeof *list->items);
    }
    list->n = a.list->n + b.list->n;
    *out = (lk_jvalue){.type = a.type, .list = list};
    return true;
}

bool lk_jadd(lk_jvm *vm, lk_jvalue a, lk_jvalue b, lk_jvalue *out) {
    if (a.type == LK_J_STRING && b.type == LK_J_STRING) {
        lk_jvalue x = a, y = b;
        if (a.s->is_markup || b.s->is_markup) { /* what is not marked is escaped */
            const lk_jargs none = {NULL, 0, {NULL, 0}};
            if (!lk_jfilter_escape(vm, a, NULL, &none, &x) ||
                !lk_jfilter_escape(vm, b, NULL, &none, &y)) {
                return false;
            }
        }
        const lk_jstring *s = lk_jstring_concat(&vm->heap, x.s, y.s);
        if (!lk_jreturn(vm, s, out)) {
            return false;
        }
        const lk_jargs none = {NULL, 0, {NULL, 0}};
        return !(a.s->is_markup || b.s->is_markup) || lk_jfilter_safe(vm, *out, NULL, &none, out);
    }
    if (a.type == b.type && (a.type == LK_J_LIST || a.type == LK_J_TUPLE)) {
        return add_lists(vm, a, b, out);
    }
    return lk_jarithmetic(vm, LK_JOP_add, a, b, out);
}

static bool fail_range(lk_jvm *vm) {
    return lk_jfail_status(vm, LK_E_LIMIT, "an integer beyond 64 bits");
}

static bool checked_multiply(int64_t a, int64_t b, int64_t *out) {
    if (a != 0 && b != 0) {
        const uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a;
        const uint64_t y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
        if (x > (uint64_t)INT64_MAX / y) {
            return false;
        }
    }
    *out = a * b;
    return true;
}

static bool power_int(lk_jvm *vm, int64_t base, int64_t exponent, lk_jvalue *out) {
    int64_t result = 1;
    if (base >= -1 && base <= 1) {
        *out = lk_jint(base == 0 && exponent != 0 ? 0 : base == -1 && exponent % 2 != 0 ? -1 : 1);
        return true;
    }
    for (int64_t i = 0; i < exponent; i++) {
        if (!checked_multiply(result, base, &result)) {
            return fail_range(vm);
        }
    }
    *out = lk_jint(result);
    return true;
}

static bool integer_arithmetic(lk_jvm *vm, lk_jop op, int64_t a, int64_t b, lk_jvalue *out) {
    int64_t quotient = 0;
    switch (op) {
    case LK_JOP_add:
        if ((b > 0 && a > INT64_MAX - b) || (b < 0 && a < INT64_MIN - b)) {
            return fail_range(vm);
        }
        *out = lk_jint(a + b);
        return true;
    case LK_JOP_subtract:
        if ((b < 0 && a > INT64_MAX + b) || (b > 0 && a < INT64_MIN + b)) {
            return fail_range(vm);
        }
        *out = lk_jint(a - b);
        return true;
    case LK_JOP_multiply:
    case LK_JOP_negate:
    case LK_JOP_positive:
        if (!checked_multiply(a, b, &quotient)) {
            return fail_range(vm);
        }
        *out = lk_jint(quotient);
        return true;
    case LK_JOP_power:
        return power_int(vm, a, b, out);
    default:
        break;
    }
    if (a == INT64_MIN && b == -1) {
        return fail_range(vm);
    }
    quotient = a / b;
    const int64_t rest = a % b;
    const bool adjust = rest != 0 && (rest < 0) != (b < 0);
    *out = lk_jint(op == LK_JOP_modulo ? rest + (adjust ? b : 0) : quotient - adjust);
    return true;
}

/* floor(x) of a finite double. */
static double floor_of(double x) {
    if (x >= 4503599627370496.0 || x <= -4503599627370496.0) {
        return x;
    }
    const double whole = (double)(int64_t)x;
    return whole > x ? whole - 1 : whole;
}

static bool float_arithmetic(lk_jvm *vm, lk_jop op, double a, double b, lk_jvalue *out) {
    double result = 0;
    switch (op) {
    case LK_JOP_add:
        result = a + b;
        break;
    case LK_JOP_subtract:
        result = a - b;
        break;
    case LK_JOP_multiply:
    case LK_JOP_negate:
    case LK_JOP_positive:
        result = a * b;
        break;
    case LK_JOP_divide:
        result = a / b;
        break;
    case LK_JOP_floor_divide:
        result = floor_of(a / b);
        break;
    case LK_JOP_modulo:
        result = a - b * floor_of(a / b);
        break;
    default: {
        const bool is_whole = b == floor_of(b) && b > -1024 && b < 1024;
        if (!is_whole) {
            return lk_jfail_status(vm, LK_E_UNSUPPORTED, "a power with a fraction");
        }
        result = 1;
        for (int i = 0; i < (b < 0 ? -(int)b : (int)b); i++) {
            result *= a;
        }
        result = b < 0 ? 1 / result : result;
        break;
    }
    }
    *out = lk_jfloat(result);
    return true;
}

/* text * n and list * n */
static bool repeat(lk_jvm *vm, lk_jvalue v, int64_t count, lk_jvalue *out) {
    const size_t n = count < 0 ? 0 : (size_t)count;
    if (v.type == LK_J_STRING) {
        lk_jbuild build;
        lk_jbuild_init(&build, &vm->heap);
        (void)lk_jbuild_repeat(&build, v.s, n);
        return lk_jreturn(vm, lk_jbuild_finish(&build), out);
    }
    lk_jlist *list = lk_jlist_new(&vm->heap, 0);
    if (list == NULL) {
        return lk_jheap_failed(vm);
    }
    for (size_t i = 0; i < n && v.list->n != 0; i++) {
        for (size_t k = 0; k < v.list->n; k++) {
            if (!lk_jlist_push(&vm->heap, list, v.list->items[k])) {
                return lk_jheap_failed(vm);
            }
        }
    }
    *out = (lk_jvalue){.type = v.type, .list = list};
    return true;
}

static bool is_repeatable(lk_jvalue v) {
    return v.type == LK_J_STRING || v.type == LK_J_LIST || v.type == LK_J_TUPLE;
}

bool lk_jarithmetic(lk_jvm *vm, lk_jop op, lk_jvalue a, lk_jvalue b, lk_jvalue *out) {
    if (op == LK_JOP_multiply && is_repeatable(a) && lk_jis_int(b)) {
        return repeat(vm, a, lk_jint_of(b), out);
    }
    if (op == LK_JOP_multiply && is_repeatable(b) && lk_jis_int(a)) {
        return repeat(vm, b, lk_jint_of(a), out);
    }
    if (op == LK_JOP_modulo && a.type == LK_J_STRING) {
        const bool is_tuple = b.type == LK_J_TUPLE;
        const lk_jargs args = {
            is_tuple ? b.list->items : &b, is_tuple ? (uint32_t)b.list->n : 1, {NULL, 0}};
        return lk_jfilter_format(vm, a, NULL, &args, out);
    }
    if (!lk_jis_number(a) || !lk_jis_number(b)) {
        return fail_operands(vm, op, a, b);
    }
    const bool divides = op == LK_JOP_divide || op == LK_JOP_floor_divide || op == LK_JOP_modulo;
    const bool negative_power = op == LK_JOP_power && lk_jfloat_of(b) < 0;
    if ((divides && lk_jfloat_of(b) == 0) || (negative_power && lk_jfloat_of(a) == 0)) {
        return lk_jfail(vm, "division by zero");
    }
    if (lk_jis_int(a) && lk_jis_int(b) && op != LK_JOP_divide && !negative_power) {
        return integer_arithmetic(vm, op, lk_jint_of(a), lk_jint_of(b), out);
    }
    return float_arithmetic(vm, op, lk_jfloat_of(a), lk_jfloat_of(b), out);
}

bool lk_jcontains(lk_jvm *vm, lk_jvalue container, lk_jvalue v, bool *out) {
    *out = false;
    switch (container.type) {
    case LK_J_STRING:
        if (v.type != LK_J_STRING) {
            return v.type == LK_J_UNDEFINED
                       ? lk_jfail_undefined(vm, v)
                       : lk_jfail(vm, "'in' a text needs a text, not a value of type '%s'",
                                  lk_jtype_name(v));
        }
        *out = lk_jstring_find(&vm->heap, container.s, 0, container.s->n, v.s) != SIZE_MAX;
        break;
    case LK_J_DICT:
        *out = lk_jis_key(v) && lk_jdict_get(&vm->heap, container.dict, v) != NULL;
        break;
    case LK_J_LIST:
    case LK_J_TUPLE:
    case LK_J_ITERATOR:
        for (size_t i = 0; i < container.list->n && !*out && vm->heap.failure == LK_OK; i++) {
            *out = lk_jequal(&vm->heap, container.list->items[i], v);
        }
        break;
    case LK_J_UNDEFINED:
        break;
    default:
        return lk_jfail(vm, "'in' needs a container, not a value of type '%s'",
                        lk_jtype_name(container));
    }
    return lk_jcheck(vm, vm->heap.failure == LK_OK);
}

bool lk_jcompare_op(lk_jvm *vm, int comparison, lk_jvalue a, lk_jvalue b, bool *out) {
    static const char *const names[] = {"==", "!=", "<", "<=", ">", ">="};
    int order = 0;
    switch (comparison) {
    case LK_JCMP_EQ:
    case LK_JCMP_NE:
        *out = lk_jequal(&vm->heap, a, b) == (comparison == LK_JCMP_EQ);
        return lk_jcheck(vm, vm->heap.failure == LK_OK);
    case LK_JCMP_IN:
    case LK_JCMP_NOT_IN:
        if (!lk_jcontains(vm, b, a, out)) {
            return false;
        }
        *out = *out == (comparison == LK_JCMP_IN);
        return true;
    default:
        break;
    }
    if (!lk_jcompare(&vm->heap, a, b, &order)) {
        if (vm->heap.failure != LK_OK) {
            return lk_jheap_failed(vm);
        }
        if (lk_jis_number(a) && lk_jis_number(b)) { /* not a number: every order is false */
            *out = false;
            return true;
        }
        if (a.type == LK_J_UNDEFINED || b.type == LK_J_UNDEFINED) {
            return lk_jfail_undefined(vm, a.type == LK_J_UNDEFINED ? a : b);
        }
        return lk_jfail(vm, "'%s' is not supported between '%s' and '%s'", names[comparison],
                        lk_jtype_name(a), lk_jtype_name(b));
    }
    *out = comparison == LK_JCMP_LT   ? order < 0
           : comparison == LK_JCMP_LE ? order <= 0
           : comparison == LK_JCMP_GT ? order > 0
                                      : order >= 0;
    return true;
}

static lk_jvalue missing(lk_jvalue owner, const lk_jstring *name) {
    return (lk_jvalue){.type = LK_J_UNDEFINED, .aux = (uint8_t)owner.type, .s = name};
}

/* loop.index and the like. */
static bool loop_attr(lk_jvalue v, const lk_jstring *name, lk_jvalue *out) {
    const lk_jloop *loop = v.object;
    const int64_t i = (int64_t)loop->i, n = (int64_t)loop->n;
    const struct {
        const char *name;
        lk_jvalue value;
    } attributes[] = {
        {"index", lk_jint(i + 1)},
        {"index0", lk_jint(i)},
        {"revindex", lk_jint(n - i)},
        {"revindex0", lk_jint(n - i - 1)},
        {"first", lk_jbool(i == 0)},
        {"last", lk_jbool(i == n - 1)},
        {"length", lk_jint(n)},
        {"previtem", loop->previous},
        {"nextitem", loop->next},
        {"depth", lk_jint(loop->depth)},
        {"depth0", lk_jint((int64_t)loop->depth - 1)},
    };
    for (size_t k = 0; k < sizeof attributes / sizeof attributes[0]; k++) {
        if (lk_jstring_is(name, attributes[k].name)) {
            *out = attributes[k].value;
            return true;
        }
    }
    return false;
}

static bool find_method(lk_jvm *vm, lk_jvalue v, const lk_jstring *name, lk_jvalue *out,
                        bool *found) {
    const int number = lk_jlookup_method(v, name);
    *found = number >= 0;
    if (!*found) {
        return true;
    }
    lk_jmethod *method = lk_jheap_alloc(&vm->heap, sizeof *method);
    if (method == NULL) {
        return lk_jheap_failed(vm);
    }
    *method = (lk_jmethod){v, number};
    *out = (lk_jvalue){.type = LK_J_METHOD, .object = method};
    return true;
}

/* An attribute that is no item. */
static bool own_attr(lk_jvm *vm, lk_jvalue v, const lk_jstring *name, lk_jvalue *out, bool *found) {
    *found = v.type == LK_J_LOOP && loop_attr(v, name, out);
    if (*found) {
        return true;
    }
    if (v.type == LK_J_CYCLER && lk_jstring_is(name, "current")) {
        const lk_jcycler *cycler = v.object;
        *out = cycler->items->items[cycler->i];
        *found = true;
        return true;
    }
    if (v.type == LK_J_MACRO && lk_jstring_is(name, "name")) {
        const lk_jmacro *macro = v.object;
        *out = macro->code->name == LK_JNO_NAME ? lk_jnone()
                                                : lk_jstr(vm->program->names[macro->code->name]);
        *found = true;
        return true;
    }
    return find_method(vm, v, name, out, found);
}

static bool dict_item(lk_jvm *vm, lk_jvalue v, lk_jvalue key, lk_jvalue *out, bool *found) {
    *found = false;
    if ((v.type == LK_J_DICT || v.type == LK_J_NAMESPACE) && lk_jis_key(key)) {
        const lk_jvalue *value = lk_jdict_get(&vm->heap, v.dict, key);
        if (value != NULL) {
            *out = *value;
            *found = true;
        }
    }
    return lk_jcheck(vm, vm->heap.failure == LK_OK);
}

bool lk_jget_attr(lk_jvm *vm, lk_jvalue v, const lk_jstring *name, lk_jvalue *out) {
    bool found = false;
    if (v.type == LK_J_UNDEFINED) {
        return lk_jfail_undefined(vm, v);
    }
    *out = missing(v, name);
    return own_attr(vm, v, name, out, &found) &&
           (found || dict_item(vm, v, lk_jstr(name), out, &found));
}

static bool list_item(lk_jvalue v, int64_t i, lk_jvalue *out) {
    const int64_t n = (int64_t)v.list->n;
    i = i < 0 ? i + n : i;
    if (i < 0 || i >= n) {
        return false;
    }
    *out = v.list->items[i];
    return true;
}

static bool string_item(lk_jvm *vm, lk_jvalue v, int64_t i, lk_jvalue *out) {
    const int64_t n = (int64_t)v.s->n_chars;
    i = i < 0 ? i + n : i;
    if (i < 0 || i >= n) {
        return true;
    }
    if (!lk_jheap_charge_bytes(&vm->heap, (size_t)i)) {
        return lk_jheap_failed(vm);
    }
    const size_t at = lk_jstring_at(v.s, (size_t)i);
    return lk_jreturn(vm, lk_jstring_slice(&vm->heap, v.s, at, at + lk_utf8_length(v.s->bytes[at])),
                      out);
}

bool lk_jget_item(lk_jvm *vm, lk_jvalue v, lk_jvalue key, lk_jvalue *out) {
    bool found = false;
    if (v.type == LK_J_UNDEFINED) {
        return lk_jfail_undefined(vm, v);
    }
    *out = missing(v, key.type == LK_J_STRING ? key.s : NULL);
    if (lk_jis_int(key) && (v.type == LK_J_LIST || v.type == LK_J_TUPLE)) {
        (void)list_item(v, lk_jint_of(key), out);
        return true;
    }
    if (lk_jis_int(key) && v.type == LK_J_STRING) {
        return string_item(vm, v, lk_jint_of(key), out);
    }
    return dict_item(vm, v, key, out, &found) &&
           (found || key.type != LK_J_STRING || own_attr(vm, v, key.s, out, &found));
}

/* Python's slice.indices: where a slice begins, and how many elements it has. */
static bool slice_range(lk_jvm *vm, const lk_jvalue bounds[3], int64_t n, int64_t *start,
                        int64_t *step, int64_t *count) {
    for (int i = 0; i < 3; i++) {
        if (bounds[i].type != LK_J_NONE && !lk_jis_int(bounds[i])) {
            return bounds[i].type == LK_J_UNDEFINED
                       ? lk_jfail_undefined(vm, bounds[i])
                       : lk_jfail(vm, "a slice needs integers, not a value of type '%s'",
                                  lk_jtype_name(bounds[i]));
        }
    }
    *step = bounds[2].type == LK_J_NONE ? 1 : lk_jint_of(bounds[2]);
    if (*step == 0) {
        return lk_jfail(vm, "the step of a slice is 0");
    }
    const int64_t limit = (int64_t)1 << 60;
    *step = *step > limit ? limit : *step < -limit ? -limit : *step;
    const int64_t low = *step < 0 ? -1 : 0, high = *step < 0 ? n - 1 : n;
    int64_t ends[2] = {*step < 0 ? high : low, *step < 0 ? low : high};
    for (int i = 0; i < 2; i++) {
        if (bounds[i].type != LK_J_NONE) {
            int64_t at = lk_jint_of(bounds[i]);
            at = at < 0 ? at + n : at;
            ends[i] = at < low ? low : at > high ? high : at;
        }
    }
    *start = ends[0];
    const int64_t distance = *step > 0 ? ends[1] - ends[0] : ends[0] - ends[1];
    const int64_t width = *step > 0 ? *step : -*step;
    *count = distance > 0 ? (distance - 1) / width + 1 : 0;
    return true;
}

static bool slice_string(lk_jvm *vm, const lk_jstring *s, int64_t start, int64_t step,
                         int64_t count, lk_jvalue *out) {
    if (count == 0) {
        return lk_jreturn(vm, lk_jstring_text(&vm->heap, ""), out);
    }
    if (!lk_jheap_charge_bytes(&vm->heap, s->n)) {
        return lk_jheap_failed(vm);
    }
    if (step == 1) {
        const size_t from = lk_jstring_at(s, (size_t)start);
        const size_t to = lk_jstring_at(s, (size_t)(start + count));
        return lk_jreturn(vm, lk_jstring_slice(&vm->heap, s, from, to), out);
    }
    lk_jbuild build;
    lk_jbuild_init(&build, &vm->heap);
    size_t at = lk_jstring_at(s, (size_t)start);
    for (int64_t i = 0; i < count; i++) {
        (void)lk_jbuild_part(&build, s, at, at + lk_utf8_length(s->bytes[at]));
        for (int64_t k = 0; k < step && at < s->n; k++) {
            at += lk_utf8_length(s->bytes[at]);
        }
        for (int64_t k = 0; k > step && at > 0; k--) {
            do {
                at--;
            } while ((s->bytes[at] & 0xC0) == 0x80);
        }
        if (i + 1 < count && !lk_jheap_charge(&vm->heap, 1)) {
            return lk_jheap_failed(vm);
        }
    }
    return lk_jreturn(vm, lk_jbuild_finish(&build), out);
}

bool lk_jget_slice(lk_jvm *vm, lk_jvalue v, const lk_jvalue bounds[3], lk_jvalue *out) {
    int64_t start = 0, step = 1, count = 0;
    const bool is_list = v.type == LK_J_LIST || v.type == LK_J_TUPLE;
    if (v.type == LK_J_UNDEFINED) {
        return lk_jfail_undefined(vm, v);
    }
    if (!is_list && v.type != LK_J_STRING) {
        *out = missing(v, NULL);
        return true;
    }
    const int64_t n = (int64_t)(is_list ? v.list->n : v.s->n_chars);
    if (!slice_range(vm, bounds, n, &start, &step, &count)) {
        return false;
    }
    if (!is_list) {
        return slice_string(vm, v.s, start, step, count, out);
    }
    lk_jlist *list = lk_jlist_new(&vm->heap, (size_t)count);
    if (list == NULL || !lk_jheap_charge(&vm->heap, (uint64_t)count)) {
        return lk_jheap_failed(vm);
    }
    for (int64_t i = 0; i < count; i++) {
        list->items[list->n++] = v.list->items[start + i * step];
    }
    *out = (lk_jvalue){.type = v.type, .list = list};
    return true;
}

bool lk_jis_iterable(lk_jvalue v) {
    return lk_jis_sequence(v) || v.type == LK_J_STRING || v.type == LK_J_DICT ||
           v.type == LK_J_UNDEFINED;
}

bool lk_jelements(lk_jvm *vm, lk_jvalue v, lk_jlist **out) {
    if (lk_jis_sequence(v)) {
        *out = v.list;
        return true;
    }
    if (!lk_jis_iterable(v)) {
        return lk_jfail(vm, "a value of type '%s' cannot be gone through", lk_jtype_name(v));
    }
    lk_jlist *list = lk_jlist_new(&vm->heap, 0);
    bool ok = list != NULL;
    if (v.type == LK_J_DICT) {
        for (size_t i = 0; i < v.dict->n && ok; i++) {
            ok = lk_jlist_push(&vm->heap, list, v.dict->entries[i].key);
        }
    } else if (v.type == LK_J_STRING) {
        for (size_t i = 0; i < v.s->n && ok;) {
            const size_t n = lk_utf8_length(v.s->bytes[i]);
            const lk_jstring *c = lk_jstring_slice(&vm->heap, v.s, i, i + n);
            ok = c != NULL && lk_jlist_push(&vm->heap, list, lk_jstr(c));
            i += n;
        }
    }
    *out = list;
    return lk_jcheck(vm, ok);
}

/* jinja_tests.c - the tests of jinja_tests.def: `x is defined`. */
#include "text/jinja/jinja_builtins.h"
#include "text/jinja/jinja_text.h"

#define TEST(name) bool lk_jtest_##name(lk_jvm *vm, lk_jvalue v, const lk_jvalue *p, bool *out)
#define SIMPLE_TEST(name, condition)                                                               \
    TEST(name) {                                                                                   \
        (void)vm;                                                                                  \
        (void)p;                                                                                   \
        *out = (condition);                                                                        \
        return true;                                                                               \
    }

SIMPLE_TEST(boolean, v.type == LK_J_BOOL)
SIMPLE_TEST(callable, v.type == LK_J_MACRO || v.type == LK_J_FUNCTION || v.type == LK_J_METHOD ||
                          v.type == LK_J_JOINER)
SIMPLE_TEST(defined, v.type != LK_J_UNDEFINED)
SIMPLE_TEST(undefined, v.type == LK_J_UNDEFINED)
SIMPLE_TEST(escaped, v.type == LK_J_STRING && v.s->is_markup)
SIMPLE_TEST(false_, v.type == LK_J_BOOL && !v.b)
SIMPLE_TEST(true_, v.type == LK_J_BOOL && v.b)
SIMPLE_TEST(float_, v.type == LK_J_FLOAT)
SIMPLE_TEST(integer, v.type == LK_J_INT || v.type == LK_J_BIG)
SIMPLE_TEST(number, lk_jis_number(v) || v.type == LK_J_BIG)
SIMPLE_TEST(iterable, lk_jis_iterable(v))
SIMPLE_TEST(mapping, v.type == LK_J_DICT)
SIMPLE_TEST(none, v.type == LK_J_NONE)
SIMPLE_TEST(sequence, v.type == LK_J_STRING || v.type == LK_J_LIST || v.type == LK_J_TUPLE ||
                          v.type == LK_J_DICT || v.type == LK_J_UNDEFINED)
SIMPLE_TEST(string, v.type == LK_J_STRING)
SIMPLE_TEST(filter, v.type == LK_J_STRING && lk_jlookup_filter(v.s->bytes, v.s->n) >= 0)
SIMPLE_TEST(test, v.type == LK_J_STRING && lk_jlookup_test(v.s->bytes, v.s->n) >= 0)

TEST(divisibleby) {
    lk_jvalue rest = lk_jnone();
    if (!lk_jarithmetic(vm, LK_JOP_modulo, v, p[0], &rest)) {
        return false;
    }
    *out = !lk_jtruth(rest);
    return true;
}

static bool is_odd(lk_jvm *vm, lk_jvalue v, bool *out) {
    lk_jvalue rest = lk_jnone();
    if (!lk_jarithmetic(vm, LK_JOP_modulo, v, lk_jint(2), &rest)) {
        return false;
    }
    *out = lk_jtruth(rest);
    return true;
}

TEST(odd) {
    (void)p;
    return is_odd(vm, v, out);
}

TEST(even) {
    (void)p;
    if (!is_odd(vm, v, out)) {
        return false;
    }
    *out = !*out;
    return true;
}

TEST(eq) {
    return lk_jcompare_op(vm, LK_JCMP_EQ, v, p[0], out);
}

TEST(ne) {
    return lk_jcompare_op(vm, LK_JCMP_NE, v, p[0], out);
}

TEST(lt) {
    return lk_jcompare_op(vm, LK_JCMP_LT, v, p[0], out);
}

TEST(le) {
    return lk_jcompare_op(vm, LK_JCMP_LE, v, p[0], out);
}

TEST(gt) {
    return lk_jcompare_op(vm, LK_JCMP_GT, v, p[0], out);
}

TEST(ge) {
    return lk_jcompare_op(vm, LK_JCMP_GE, v, p[0], out);
}

TEST(in) {
    return lk_jcontains(vm, p[0], v, out);
}

/* Small integers, strings of the program and singletons are the same object in Python too. */
TEST(sameas) {
    (void)vm;
    if (v.type != p[0].type) {
        *out = false;
        return true;
    }
    switch (v.type) {
    case LK_J_NONE:
    case LK_J_UNDEFINED:
        *out = true;
        break;
    case LK_J_BOOL:
        *out = v.b == p[0].b;
        break;
    case LK_J_INT:
        *out = v.i == p[0].i;
        break;
    case LK_J_FLOAT:
        *out = v.f == p[0].f;
        break;
    case LK_J_STRING:
        *out = lk_jstring_equal(v.s, p[0].s);
        break;
    default:
        *out = v.object == p[0].object;
        break;
    }
    return true;
}

static bool has_case(lk_jvm *vm, lk_jvalue v, bool upper, bool *out) {
    static const lk_jargs none = {NULL, 0, {NULL, 0}};
    lk_jvalue result = lk_jnone();
    const lk_jstring *s = lk_jto_string(vm, v);
    if (s == NULL) {
        return lk_jheap_failed(vm);
    }
    const bool ok = upper ? lk_jmethod_isupper(vm, lk_jstr(s), NULL, &none, &result)
                          : lk_jmethod_islower(vm, lk_jstr(s), NULL, &none, &result);
    *out = ok && lk_jtruth(result);
    return ok;
}

TEST(lower) {
    (void)p;
    return has_case(vm, v, false, out);
}

TEST(upper) {
    (void)p;
    return has_case(vm, v, true, out);
}

/* test_format.c - the format table, and the exact block dot of every format: against the sum that
 * follows from decoded values when the block's scales are 1, so that everything is an integer.
 * Random blocks and the byte patterns at the edges, with random and extreme activations. */
#include "base/bytes.h"
#include "lk_test.h"
#include "quant/format.h"

#define AT_NONE (-1)
enum { MAX_ELEMS = LK_FORMAT_MAX_BLOCK_ELEMS, MAX_BYTES = LK_FORMAT_MAX_BLOCK_BYTES };

/* Where a block keeps its binary16 scale and minimum. */
typedef struct scale_place {
    uint32_t type;
    int at_d;
    int at_min;
    float sign_min; /* +1: d_min is subtracted, -1: the block holds an offset that is added */
} scale_place;

static const scale_place places[] = {
    {LK_FORMAT_Q4_0, 0, AT_NONE, 0.0f},
    {LK_FORMAT_Q4_1, 0, 2, -1.0f},
    {LK_FORMAT_Q5_0, 0, AT_NONE, 0.0f},
    {LK_FORMAT_Q5_1, 0, 2, -1.0f},
    {LK_FORMAT_Q8_0, 0, AT_NONE, 0.0f},
    {LK_FORMAT_Q2_K, 80, 82, 1.0f},
    {LK_FORMAT_Q3_K, 108, AT_NONE, 0.0f},
    {LK_FORMAT_Q4_K, 0, 2, 1.0f},
    {LK_FORMAT_Q5_K, 0, 2, 1.0f},
    {LK_FORMAT_Q6_K, 208, AT_NONE, 0.0f},
    {LK_FORMAT_IQ4_NL, 0, AT_NONE, 0.0f},
    {LK_FORMAT_IQ4_XS, 0, AT_NONE, 0.0f},
    {LK_FORMAT_MXFP4, AT_NONE, AT_NONE, 0.0f},
};

static const scale_place *find_place(uint32_t type) {
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (places[i].type == type) {
            return &places[i];
        }
    }
    return NULL;
}

/* Sets the scales of the block to the given values, each 0 or 1. */
static void set_scales(const scale_place *place, uint8_t *block, int d, int d_min) {
    if (place->type == LK_FORMAT_MXFP4) {
        block[0] = 128; /* half the scale is 2^(128-128) */
        return;
    }
    lk_store_u16(block + place->at_d, d ? 0x3c00u : 0u);
    if (place->at_min != AT_NONE) {
        lk_store_u16(block + place->at_min, d_min ? 0x3c00u : 0u);
    }
}

/* The sum of decoded value * activation. Decoded values are integers here. */
static int64_t sum_of_decoded(const lk_format *format, const uint8_t *block, const int8_t *q) {
    float values[MAX_ELEMS];
    format->decode(block, values, format->block_elems);
    int64_t sum = 0;
    for (uint32_t k = 0; k < format->block_elems; k++) {
        CHECK((float)(int32_t)values[k] == values[k]);
        sum += (int64_t)values[k] * q[k];
    }
    return sum;
}

static void check_dot(const lk_format *format, const uint8_t *bytes, const int8_t *q) {
    const scale_place *place = find_place(format->type);
    CHECK_MSG(place != NULL, "%s: add its scale fields to the table of this test", format->name);
    if (place == NULL) {
        return;
    }
    uint8_t block[MAX_BYTES];
    memcpy(block, bytes, format->block_bytes);
    set_scales(place, block, 1, 0);
    const lk_block_dot dot = format->block_dot(block, q);
    const int64_t i = sum_of_decoded(format, block, q);
    CHECK_MSG(dot.d == 1.0f && dot.i == i, "%s: i is %d, expected %lld", format->name, dot.i,
              (long long)i);
    if (!format->has_min) {
        CHECK(place->at_min == AT_NONE && dot.m == 0 && dot.d_min == 0.0f);
        return;
    }
    set_scales(place, block, 0, 1);
    const lk_block_dot with_min = format->block_dot(block, q);
    CHECK(with_min.i == dot.i && with_min.m == dot.m && with_min.d_min == place->sign_min);
    const int64_t m = -sum_of_decoded(format, block, q);
    CHECK_MSG(place->sign_min * (float)dot.m == (float)m, "%s: m is %d, expected %lld",
              format->name, dot.m, (long long)m);
}

static void fill_random(uint64_t *state, uint8_t *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        bytes[i] = (uint8_t)lk_test_random(state);
    }
}

/* Activations -127 .. 127. kind 0: random; 1: all 127; 2: all -127; 3: the sign of the weight;
 * 4: random signs of 127. */
static void fill_activations(uint64_t *state, int kind, const lk_unpacked *u,
                             const lk_format *format, int8_t *q) {
    for (uint32_t k = 0; k < format->block_elems; k++) {
        const uint64_t r = lk_test_random(state);
        const int product = u->q[k] * u->scale[k / format->group_elems];
        const int values[5] = {(int)(r % 255) - 127, 127, -127, product < 0 ? -127 : 127,
                               r & 256 ? 127 : -127};
        q[k] = (int8_t)values[kind];
    }
}

LK_TEST(dot_is_exact) {
    static const uint8_t patterns[] = {0x00, 0xff, 0x80, 0x7f};
    uint64_t state = lk_test_seed(0x51);
    for (size_t i = 0; i < lk_format_count(); i++) {
        const lk_format *format = lk_format_at(i);
        if (format->block_dot == NULL) {
            continue;
        }
        for (int trial = 0; trial < 400; trial++) {
            uint8_t block[MAX_BYTES];
            fill_random(&state, block, format->block_bytes);
            if (trial < 80) {
                memset(block, patterns[trial % 4], format->block_bytes);
            }
            lk_unpacked u;
            format->unpack(block, &u);
            int8_t q[MAX_ELEMS];
            fill_activations(&state, trial % 5, &u, format, q);
            check_dot(format, block, q);
        }
    }
}

/* The largest sums that a block can give, by hand. */
LK_TEST(largest_sums) {
    int8_t up[MAX_ELEMS];
    memset(up, 127, sizeof up);
    uint8_t q6[210] = {0}; /* integers -32 */
    memset(q6 + 192, 0x80, 16);
    CHECK(lk_format_find(LK_FORMAT_Q6_K)->block_dot(q6, up).i == 256 * 32 * 128 * 127);
    uint8_t q8[34];
    memset(q8, 0x80, sizeof q8);
    CHECK(lk_format_find(LK_FORMAT_Q8_0)->block_dot(q8, up).i == -32 * 128 * 127);
    uint8_t iq4[136] = {0}; /* scale -32, integers -127 */
    CHECK(lk_format_find(LK_FORMAT_IQ4_XS)->block_dot(iq4, up).i == 256 * 32 * 127 * 127);
    uint8_t q5[176];
    memset(q5, 0xff, sizeof q5);
    const lk_block_dot dot = lk_format_find(LK_FORMAT_Q5_K)->block_dot(q5, up);
    CHECK(dot.i == 256 * 63 * 31 * 127 && dot.m == 256 * 63 * 127);
}

/* unpack is what decode and block_dot are made of; its values obey the ranges of format.h. */
LK_TEST(unpacked_values) {
    uint64_t state = 7;
    for (size_t i = 0; i < lk_format_count(); i++) {
        const lk_format *format = lk_format_at(i);
        if (format->unpack == NULL) {
            continue;
        }
        uint8_t block[MAX_BYTES];
        fill_random(&state, block, format->block_bytes);
        set_scales(find_place(format->type), block, 1, 1);
        lk_unpacked u;
        memset(&u, 0x55, sizeof u);
        format->unpack(block, &u);
        float values[MAX_ELEMS];
        format->decode(block, values, format->block_elems);
        for (uint32_t k = 0; k < format->block_elems; k++) {
            const uint32_t j = k / format->group_elems;
            const float min = format->has_min ? u.d_min * (float)u.min[j] : 0.0f;
            CHECK(values[k] == u.d * (float)u.scale[j] * (float)u.q[k] - min);
            CHECK(!format->has_min || u.min[j] <= 63);
        }
    }
}

LK_TEST(table) {
    static const struct {
        const char *name;
        uint32_t type;
        uint32_t block_elems;
        uint32_t block_bytes;
        uint32_t act_group;
    } listed[] = {
#define LK_FORMAT(NAME, name, id, elems, bytes, act_group) {#NAME, id, elems, bytes, act_group},
#define LK_FORMAT_KNOWN(NAME, id, elems, bytes)
#include "quant/formats.def"
#undef LK_FORMAT
#undef LK_FORMAT_KNOWN
    };
    CHECK(lk_format_count() == sizeof listed / sizeof listed[0]);
    CHECK(lk_format_at(lk_format_count()) == NULL);
    for (size_t i = 0; i < lk_format_count(); i++) {
        const lk_format *format = lk_format_at(i);
        CHECK(strcmp(format->name, listed[i].name) == 0 && format->type == listed[i].type);
        CHECK(format->block_elems == listed[i].block_elems);
        CHECK(format->block_bytes == listed[i].block_bytes);
        CHECK(format->act_group == listed[i].act_group);
        CHECK(format->block_elems <= MAX_ELEMS && format->block_bytes <= MAX_BYTES);
        CHECK(lk_format_find(format->type) == format);
        const int is_block = format->block_elems > 1;
        CHECK((format->block_dot != NULL) == is_block && (format->unpack != NULL) == is_block);
        CHECK((format->act_group != 0) == is_block && (format->group_elems != 0) == is_block);
        CHECK(!is_block || format->block_elems / format->group_elems <= LK_FORMAT_MAX_GROUPS);
    }
    CHECK(lk_format_find(4) == NULL && lk_format_find(UINT32_MAX) == NULL);
}

LK_TEST_MAIN(LK_RUN(table), LK_RUN(dot_is_exact), LK_RUN(largest_sums), LK_RUN(unpacked_values))

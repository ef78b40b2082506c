#include "../support/random.h"
#include "base/map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static void test_strings(void **state)
{
    (void)state;
    rdg_strmap m;
    rdg_strmap_init(&m);
    assert_int_equal(rdg_strmap_get(&m, "a", 1), -1);
    assert_true(rdg_strmap_put(&m, "", 0, 7));
    assert_true(rdg_strmap_put(&m, "a\0b", 3, 1));
    assert_true(rdg_strmap_put(&m, "a\0c", 3, 2));
    assert_int_equal(rdg_strmap_get(&m, "", 0), 7);
    assert_int_equal(rdg_strmap_get(&m, "a\0b", 3), 1);
    assert_int_equal(rdg_strmap_get(&m, "a\0c", 3), 2);
    assert_int_equal(rdg_strmap_get(&m, "a", 1), -1);
    assert_true(rdg_strmap_put(&m, "a\0b", 3, 9));
    assert_int_equal(rdg_strmap_get(&m, "a\0b", 3), 9);
    assert_int_equal(m.n, 3);
    assert_false(rdg_strmap_put(&m, "x", 1, -1));
    assert_false(rdg_strmap_reserve(&m, SIZE_MAX));
    assert_int_equal(rdg_strmap_get(&m, "a\0c", 3), 2);
    rdg_strmap_finish(&m);
}

static void test_many(void **state)
{
    (void)state;
    enum { N = 50000 };
    rdg_rng rng;
    seed_fresh(&rng);
    char(*keys)[12] = rdg_alloc_array(N, sizeof *keys);
    uint64_t *ints = rdg_alloc_array(N, sizeof *ints);
    assert_non_null(keys);
    assert_non_null(ints);
    rdg_strmap s;
    rdg_intmap m;
    rdg_strmap_init(&s);
    rdg_intmap_init(&m);
    for (int i = 0; i < N; i++) {
        snprintf(keys[i], sizeof keys[i], "k%d", i);
        ints[i] = (rdg_rng_next(&rng) << 16) | (uint64_t)i; /* distinct by the low bits */
        assert_true(rdg_strmap_put(&s, keys[i], strlen(keys[i]), i));
        assert_true(rdg_intmap_put(&m, ints[i], i));
    }
    assert_int_equal(s.n, N);
    assert_int_equal(m.n, N);
    for (int i = 0; i < N; i++) {
        assert_int_equal(rdg_strmap_get(&s, keys[i], strlen(keys[i])), i);
        assert_int_equal(rdg_intmap_get(&m, ints[i]), i);
    }
    assert_int_equal(rdg_strmap_get(&s, "nope", 4), -1);
    assert_int_equal(rdg_intmap_get(&m, ints[0] ^ 0xffff), -1);
    rdg_strmap_finish(&s);
    rdg_intmap_finish(&m);
    rdg_free(keys);
    rdg_free(ints);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_strings), cmocka_unit_test(test_many)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

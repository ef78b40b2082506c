/* Barriers from byte ranges (graph/hazards.h): random lists of calls, with the barriers it asks for, against
 * the definition: two calls of which one writes what the other touches have a barrier between them, and no
 * barrier stands where none of the pairs it separates would need it. */
#include "graph/hazards.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

enum { CALLS = 40, RANGES = 4 };

static bool conflict(const rdg_range *a, const rdg_range *b)
{
    for (int i = 0; i < RANGES; i++)
        for (int k = 0; k < RANGES; k++)
            if ((a[i].written || b[k].written) && a[i].begin < b[k].end && b[k].begin < a[i].end) return true;
    return false;
}

static void against_the_definition(void **state)
{
    (void)state;
    uint64_t seed = (uint64_t)time(NULL);
    rdg_rng rng;
    rdg_rng_seed(&rng, seed);
    print_message("seed %llu\n", (unsigned long long)seed);
    int n_barriers = 0, n_without = 0;
    for (int round = 0; round < 2000; round++) {
        rdg_range call[CALLS][RANGES];
        bool barrier[CALLS];
        rdg_hazards h;
        memset(&h, 0, sizeof h);
        uint64_t space = 16 + rdg_rng_below(&rng, 2000);
        for (int c = 0; c < CALLS; c++) {
            for (int r = 0; r < RANGES; r++) {
                uint64_t begin = 1 + rdg_rng_below(&rng, space), bytes = 1 + rdg_rng_below(&rng, 8);
                call[c][r] = (rdg_range){begin, begin + bytes, rdg_rng_below(&rng, 3) == 0};
                rdg_hazards_use(&h, begin, bytes, call[c][r].written);
            }
            barrier[c] = rdg_hazards_order(&h);
        }
        for (int c = 0; c < CALLS; c++) { /* back to the last barrier: a barrier exactly if one conflicts */
            bool needed = false;
            for (int k = c - 1; k >= 0; k--) {
                needed = needed || conflict(call[k], call[c]);
                if (barrier[k]) break;
            }
            assert_int_equal(barrier[c], needed);
            n_barriers += needed;
            n_without += !needed;
        }
    }
    assert_true(n_barriers > 1000 && n_without > 1000);
}

static void too_many_ranges_are_never_lost(void **state)
{
    (void)state;
    rdg_hazards h;
    memset(&h, 0, sizeof h);
    for (int i = 0; i <= RDG_HAZARDS_NOW; i++) rdg_hazards_use(&h, 100 + 10 * (uint64_t)i, 5, false);
    assert_true(rdg_hazards_order(&h));
    rdg_hazards_use(&h, 9000, 5, false); /* no overlap: but what was left out might be this */
    assert_true(rdg_hazards_order(&h));
    rdg_hazards_use(&h, 9000, 5, false);
    assert_false(rdg_hazards_order(&h));
    memset(&h, 0, sizeof h); /* many calls without a conflict end in a barrier, not past the list */
    int n = 0;
    for (uint64_t i = 0; i < 3 * RDG_HAZARDS_PENDING; i++) {
        rdg_hazards_use(&h, 10 + 10 * i, 5, true);
        n += rdg_hazards_order(&h);
    }
    assert_int_equal(n, 2);
}

static void prepared_until_overwritten(void **state)
{
    (void)state;
    static const char form, other;
    rdg_hazards h;
    memset(&h, 0, sizeof h);
    assert_false(rdg_hazards_is_prepared(&h, &form, 100, 200, 25));
    rdg_hazards_use(&h, 100, 100, false);
    rdg_hazards_use(&h, 1000, 500, true); /* the scratch */
    rdg_hazards_order(&h);
    rdg_hazards_set_prepared(&h, &form, 100, 200, 25);
    rdg_hazards_use(&h, 100, 100, false);
    rdg_hazards_use(&h, 1000, 500, false);
    rdg_hazards_restart(&h);
    assert_true(rdg_hazards_is_prepared(&h, &form, 100, 200, 25));
    assert_false(rdg_hazards_is_prepared(&h, &other, 100, 200, 25));
    assert_false(rdg_hazards_is_prepared(&h, NULL, 100, 200, 25));
    assert_false(rdg_hazards_is_prepared(&h, &form, 100, 150, 25));
    assert_false(rdg_hazards_is_prepared(&h, &form, 100, 200, 5)); /* as five rows */
    rdg_hazards_use(&h, 1000, 500, false); /* a second product of the same operand: beside the first */
    rdg_hazards_use(&h, 300, 10, true);
    assert_false(rdg_hazards_order(&h));
    assert_true(rdg_hazards_is_prepared(&h, &form, 100, 200, 25));
    rdg_hazards_use(&h, 150, 1, true);
    assert_true(rdg_hazards_order(&h));
    assert_false(rdg_hazards_is_prepared(&h, &form, 100, 200, 25));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(against_the_definition),
                                       cmocka_unit_test(too_many_ranges_are_never_lost),
                                       cmocka_unit_test(prepared_until_overwritten)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

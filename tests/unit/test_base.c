/* base: half conversions exhaustively, buffers and arenas at their limits, output files that appear whole or
 * not at all, the pool's barrier under many rounds. */
#include "../support/random.h"
#include "base/file.h"
#include "base/half.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/sort.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

/* The value of a binary16 by its definition. */
static double half_value(unsigned h)
{
    int exp = (h >> 10) & 31, man = h & 0x3ff;
    double sign = h & 0x8000 ? -1 : 1;
    if (exp == 31) return man ? NAN : sign * INFINITY;
    return sign * (exp ? ldexp(1024 + man, exp - 25) : ldexp(man, -24));
}

static void half_to_float_is_exact(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 65536; h++) {
        double want = half_value(h), got = (double)rdg_half_to_f32((rdg_half)h);
        if (isnan(want))
            assert_true(isnan(got));
        else
            assert_true(want == got && signbit(want) == signbit(got));
    }
}

/* Every half, the midpoints between neighbours and points beside them must round to the nearest, ties to
 * even. */
static void half_from_float_rounds_to_even(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 0x7c00; h++) {
        float low = (float)half_value(h), high = h == 0x7bff ? 65536.0f : (float)half_value(h + 1);
        float mid = (float)((double)low + ((double)high - (double)low) / 2);
        assert_int_equal(rdg_half_from_f32(low), h);
        assert_int_equal(rdg_half_from_f32(-low), h | 0x8000);
        assert_int_equal(rdg_half_from_f32(mid), h & 1 ? h + 1 : h);
        assert_int_equal(rdg_half_from_f32(nextafterf(mid, 0)), h);
        assert_int_equal(rdg_half_from_f32(nextafterf(mid, INFINITY)), h + 1);
    }
    assert_int_equal(rdg_half_from_f32(INFINITY), 0x7c00);
    assert_int_equal(rdg_half_from_f32(1e30f), 0x7c00);
    assert_true(isnan(rdg_half_to_f32(rdg_half_from_f32(NAN))));
}

static void bfloat_rounds_to_even(void **state)
{
    (void)state;
    for (unsigned b = 0; b < 0x7f80; b++) {
        uint32_t bits = b << 16;
        assert_int_equal(rdg_bfloat16_from_f32(rdg_f32_from_bits(bits)), b);
        assert_int_equal(rdg_bfloat16_from_f32(rdg_f32_from_bits(bits | 0x7fff)), b);
        assert_int_equal(rdg_bfloat16_from_f32(rdg_f32_from_bits(bits | 0x8000)), b & 1 ? b + 1 : b);
        assert_int_equal(rdg_bfloat16_from_f32(rdg_f32_from_bits(bits | 0x8001)), b + 1);
    }
    assert_true(isnan(rdg_bfloat16_to_f32(rdg_bfloat16_from_f32(NAN))));
    assert_true(isnan(rdg_bfloat16_to_f32(rdg_bfloat16_from_f32(rdg_f32_from_bits(0x7f800001)))));
}

static void sizes_are_checked(void **state)
{
    (void)state;
    assert_null(rdg_alloc_array(SIZE_MAX / 2, 3));
    assert_null(rdg_realloc_array(NULL, SIZE_MAX / 2, 3));
    assert_null(rdg_alloc_aligned(64, SIZE_MAX - 8));
    assert_null(rdg_alloc_working(SIZE_MAX - 8));
    for (size_t bytes = 1; bytes < 5 << 20; bytes = bytes * 3 + 1) {
        char *p = rdg_alloc_working(bytes);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 4096, 0);
        memset(p, 1, bytes);
        rdg_free(p);
    }
    rdg_arena a;
    rdg_arena_init(&a);
    assert_null(rdg_arena_alloc(&a, SIZE_MAX - 4));
    assert_null(rdg_arena_array(&a, SIZE_MAX / 4, 8));
    char *small = rdg_arena_strndup(&a, "abc", 3), *large = rdg_arena_alloc(&a, 200000),
         *next = rdg_arena_alloc(&a, 16);
    assert_non_null(small);
    assert_non_null(large);
    assert_true(next > small && next - small < 1024); /* the head block goes on being used */
    rdg_arena_finish(&a);
}

static void buffer_error_is_sticky(void **state)
{
    (void)state;
    rdg_buf b;
    rdg_buf_init(&b);
    b.limit = 10;
    rdg_buf_puts(&b, "12345");
    rdg_buf_printf(&b, "%d", 67890);
    assert_false(b.failed);
    assert_string_equal(b.data, "1234567890");
    rdg_buf_putc(&b, '!');
    assert_true(b.failed);
    assert_null(rdg_buf_take(&b));
    rdg_buf_puts(&b, "again");
    char *s = rdg_buf_take(&b);
    assert_string_equal(s, "again");
    rdg_free(s);
}

static void error_prefix_keeps_the_message(void **state)
{
    (void)state;
    rdg_error e = {0};
    rdg_fail(&e, RDG_E_MALFORMED, "offset %d", 7);
    rdg_fail_prefix(&e, RDG_E_MALFORMED, "'%s'", "file");
    assert_string_equal(e.message, "'file': offset 7");
    char longer[2000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    rdg_fail_prefix(&e, RDG_E_MALFORMED, "%s", longer);
    assert_true(strlen(e.message) < sizeof e.message);
}

/* The buffer is flushed where the position is a multiple of its size, whatever the pieces and patches. */
static void output_in_pieces_is_the_same(void **state)
{
    (void)state;
    enum { BYTES = 9 << 20, LARGEST = 5 << 20 };
    char dir[] = "/tmp/ridge-base-XXXXXX";
    rdg_error e = {0};
    rdg_out o;
    rdg_rng rng;
    seed_fresh(&rng);
    unsigned char *want = rdg_alloc(BYTES + 1);
    assert_non_null(want);
    for (size_t i = 0; i < BYTES; i++) want[i] = (unsigned char)rdg_rng_next(&rng);
    assert_non_null(mkdtemp(dir));
    char *path = rdg_path_join(dir, "out"), *text;
    assert_int_equal(rdg_out_open(&o, path, &e), RDG_OK);
    for (size_t at = 0, n; at < BYTES; at += n) {
        n = rdg_rng_below(&rng, 3) ? rdg_rng_below(&rng, 5000) : rdg_rng_below(&rng, LARGEST);
        n = RDG_MIN(n, BYTES - at);
        assert_int_equal(rdg_out_write(&o, want + at, n, &e), RDG_OK);
        assert_int_equal(o.position, at + n);
        if (n == 0 || rdg_rng_below(&rng, 100)) continue;
        want[at] ^= 1;
        assert_int_equal(rdg_out_patch(&o, at, want + at, 1, &e), RDG_OK);
    }
    assert_int_equal(rdg_out_commit(&o, &e), RDG_OK);
    size_t bytes;
    assert_int_equal(rdg_file_read(path, BYTES, false, &text, &bytes, &e), RDG_OK);
    assert_int_equal(bytes, BYTES);
    assert_memory_equal(text, want, BYTES);
    rdg_free(text);
    rdg_free(want);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
    rdg_free(path);
}

static void output_is_whole_or_absent(void **state)
{
    (void)state;
    char dir[] = "/tmp/ridge-base-XXXXXX";
    rdg_error e = {0};
    rdg_out o;
    assert_non_null(mkdtemp(dir));
    char *path = rdg_path_join(dir, "out");
    assert_int_equal(rdg_out_open(&o, path, &e), RDG_OK);
    assert_int_equal(rdg_out_write(&o, "abcdef", 6, &e), RDG_OK);
    assert_false(rdg_file_exists(path));
    rdg_out_close(&o);
    assert_int_equal(rmdir(dir), 0); /* nothing was left */
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(rdg_out_open(&o, path, &e), RDG_OK);
    assert_int_equal(rdg_out_write(&o, "abcdef", 6, &e), RDG_OK);
    assert_int_equal(rdg_out_patch(&o, 2, "XY", 2, &e), RDG_OK);
    assert_int_equal(rdg_out_patch(&o, 5, "XY", 2, &e), RDG_E_INTERNAL);
    assert_int_equal(rdg_out_commit(&o, &e), RDG_OK);
    rdg_out_close(&o);
    char *text;
    size_t n;
    assert_int_equal(rdg_file_read(path, 100, false, &text, &n, &e), RDG_OK);
    assert_string_equal(text, "abXYef");
    rdg_free(text);
    assert_int_equal(rdg_file_read(path, 5, false, &text, &n, &e), RDG_E_LIMIT);
    assert_int_equal(rdg_file_read(dir, 5, false, &text, &n, &e), RDG_E_IO);
    assert_non_null(strstr(e.message, "directory"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
    rdg_free(path);
}

static void maps_refuse_what_is_not_a_file(void **state)
{
    (void)state;
    rdg_error e = {0};
    rdg_map m;
    assert_int_equal(rdg_map_open(&m, "/tmp", &e), RDG_E_IO);
    assert_non_null(strstr(e.message, "directory"));
    assert_int_equal(rdg_map_open(&m, "/dev/null", &e), RDG_E_IO);
    assert_int_equal(rdg_map_open(&m, "/nonexistent/file", &e), RDG_E_IO);
    rdg_map_close(&m);
}

enum { ROUNDS = 200, MOST_THREADS = 5 };
typedef struct rounds {
    rdg_pool *pool;
    atomic_int counter;
    atomic_int wrong;
} rounds;

static void count_rounds(void *ctx, int thread, int n_threads)
{
    rounds *r = ctx;
    static const char soon[900];
    for (int i = 0; i < ROUNDS; i++) {
        rdg_pool_ahead ahead = {soon, 300, 300, 3};
        if (i % 20 == thread) /* long enough that the others fall asleep at the barrier */
            nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
        atomic_fetch_add(&r->counter, 1);
        rdg_pool_barrier(r->pool, i % 2 ? &ahead : NULL);
        if (atomic_load(&r->counter) != (i + 1) * n_threads) atomic_fetch_add(&r->wrong, 1);
        rdg_pool_barrier(r->pool, NULL);
    }
}

static void barrier_holds(void **state)
{
    (void)state;
    rdg_error e = {0};
    for (int n = 1; n <= MOST_THREADS; n += 2) {
        rounds r = {0};
        assert_int_equal(rdg_pool_create(n, &r.pool, &e), RDG_OK);
        for (int run = 0; run < 3; run++) {
            atomic_store(&r.counter, 0);
            rdg_pool_run(r.pool, count_rounds, &r);
            assert_int_equal(atomic_load(&r.counter), ROUNDS * n);
        }
        assert_int_equal(atomic_load(&r.wrong), 0);
        rdg_pool_destroy(r.pool);
    }
    rdg_pool *p;
    assert_int_equal(rdg_pool_create(0, &p, &e), RDG_E_ARGUMENT);
    assert_int_equal(rdg_pool_create(5000, &p, &e), RDG_E_ARGUMENT);
}

/* Phases of a few turns each, most of them without a barrier between, on threads of which one sleeps now and
 * then, in a phase or before it: every turn is done once. The number of phases is more than a share's mark
 * can tell apart. */
enum { PHASES = 5000, MOST_TURNS = 12 };
typedef struct shares {
    rdg_pool *pool;
    uint64_t seed;
    atomic_uchar (*seen)[MOST_THREADS][MOST_TURNS]; /* [PHASES] */
    atomic_int n_taken_over;
} shares;
typedef struct shared_phase {
    const shares *s;
    int number;
} shared_phase;

static int64_t turns_of(const void *ctx, int thread)
{
    const shared_phase *p = ctx;
    rdg_rng rng;
    if (thread == 1 && p->number % 8 == 5) return p->number % 2048 == 5; /* when the marks come round again */
    rdg_rng_seed(&rng, p->s->seed + (uint64_t)(p->number * MOST_THREADS + thread));
    return rdg_rng_below(&rng, 3) ? (int64_t)rdg_rng_below(&rng, MOST_TURNS + 1) : 0;
}

static void share_phases(void *ctx, int thread, int n_threads)
{
    shares *s = ctx;
    rdg_rng rng, own;
    rdg_rng_seed(&rng, s->seed); /* the same in all threads */
    rdg_rng_seed(&own, s->seed + (uint64_t)thread);
    for (int i = 0; i < PHASES; i++) {
        shared_phase p = {s, i};
        rdg_pool_phase phase;
        rdg_pool_piece piece;
        if (rdg_rng_below(&rng, 12) == 0) rdg_pool_barrier(s->pool, NULL);
        int sleeper = (int)rdg_rng_below(&rng, 400);
        if (sleeper == thread) nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
        rdg_pool_phase_begin(&phase, s->pool, thread, 1 + i % 3, turns_of, &p);
        while (rdg_pool_phase_take(&phase, &piece)) {
            for (int64_t t = piece.begin; t < piece.end; t++)
                atomic_fetch_add(&s->seen[i][piece.owner][t], 1);
            if (piece.owner != thread) atomic_fetch_add(&s->n_taken_over, 1);
            if (rdg_rng_below(&own, 2000) == 0) nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
        }
    }
    (void)n_threads;
}

static void shares_are_done_once(void **state)
{
    (void)state;
    rdg_error e = {0};
    rdg_rng rng;
    seed_fresh(&rng);
    for (int n = 1; n <= MOST_THREADS; n++) {
        shares s = {.seed = rdg_rng_next(&rng)};
        s.seen = calloc(PHASES, sizeof *s.seen);
        assert_non_null(s.seen);
        assert_int_equal(rdg_pool_create(n, &s.pool, &e), RDG_OK);
        for (int run = 1; run <= 2; run++) {
            rdg_pool_run(s.pool, share_phases, &s);
            for (int i = 0; i < PHASES; i++)
                for (int k = 0; k < MOST_THREADS; k++) {
                    shared_phase p = {&s, i};
                    int64_t n_turns = k < n ? turns_of(&p, k) : 0;
                    for (int64_t t = 0; t < MOST_TURNS; t++)
                        assert_int_equal(atomic_load(&s.seen[i][k][t]), t < n_turns ? run : 0);
                }
        }
        assert_true(n == 1 || atomic_load(&s.n_taken_over) > 0);
        rdg_pool_destroy(s.pool);
        free(s.seen);
    }
}

static void medians(void **state)
{
    (void)state;
    double v[] = {3, -1, 7, 2};
    rdg_sort_doubles(v, 4);
    assert_true(v[0] == -1 && v[1] == 2 && v[2] == 3 && v[3] == 7);
    assert_true(rdg_median_sorted(v, 4) == 2.5 && rdg_median_sorted(v, 3) == 2 &&
                rdg_median_sorted(v, 1) == -1);
}

/* The vectors that its authors give. */
static void philox_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } rows[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int i = 0; i < 3; i++) {
        uint32_t got[4];
        rdg_philox(rows[i].counter, rows[i].key, got);
        assert_memory_equal(got, rows[i].want, sizeof got);
    }
}

static void rng_is_reproducible(void **state)
{
    (void)state;
    rdg_rng a, b;
    rdg_rng_seed(&a, 42);
    rdg_rng_seed(&b, 42);
    double sum = 0, squares = 0;
    for (int i = 0; i < 100000; i++) {
        float x = rdg_rng_normal(&a);
        assert_true(x == rdg_rng_normal(&b));
        sum += x;
        squares += (double)x * x;
    }
    assert_true(fabs(sum / 100000) < 0.02 && fabs(squares / 100000 - 1) < 0.03);
    for (int i = 0; i < 1000; i++) assert_true(rdg_rng_below(&a, 7) < 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_to_float_is_exact),
        cmocka_unit_test(half_from_float_rounds_to_even),
        cmocka_unit_test(bfloat_rounds_to_even),
        cmocka_unit_test(sizes_are_checked),
        cmocka_unit_test(buffer_error_is_sticky),
        cmocka_unit_test(error_prefix_keeps_the_message),
        cmocka_unit_test(output_in_pieces_is_the_same),
        cmocka_unit_test(output_is_whole_or_absent),
        cmocka_unit_test(maps_refuse_what_is_not_a_file),
        cmocka_unit_test(barrier_holds),
        cmocka_unit_test(rng_is_reproducible),
        cmocka_unit_test(philox_known_answers),
        cmocka_unit_test(shares_are_done_once),
        cmocka_unit_test(medians),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The deep check finds one bad scale of every block type, wherever it is, and nothing else. */
#include "../support/random.h"
#include "../support/gguf_build.h"
#include "base/file.h"
#include "format/verify.h"

#include <unistd.h>

/* Independent of the table under test: where a scale lies, and bytes that make it infinite or NaN. */
static const struct {
    rdg_type type;
    int at;
    const char *bytes;
    int n_bytes;
} bad_scales[] = {
    {RDG_TYPE_F32, 0, "\0\0\x80\x7f", 4},
    {RDG_TYPE_F32, 0, "\1\0\x80\xff", 4},
    {RDG_TYPE_F16, 0, "\0\x7c", 2},
    {RDG_TYPE_F16, 0, "\1\xfe", 2},
    {RDG_TYPE_BF16, 0, "\x80\x7f", 2},
    {RDG_TYPE_BF16, 0, "\xc0\xff", 2},
    {RDG_TYPE_F64, 0, "\0\0\0\0\0\0\xf0\xff", 8},
    {RDG_TYPE_Q4_0, 0, "\0\x7c", 2},
    {RDG_TYPE_Q4_1, 0, "\0\x7c", 2},
    {RDG_TYPE_Q4_1, 2, "\0\xfc", 2},
    {RDG_TYPE_Q5_0, 0, "\0\x7c", 2},
    {RDG_TYPE_Q5_1, 0, "\0\x7c", 2},
    {RDG_TYPE_Q5_1, 2, "\0\x7c", 2},
    {RDG_TYPE_Q8_0, 0, "\0\x7c", 2},
    {RDG_TYPE_Q8_1, 0, "\0\x7c", 2},
    {RDG_TYPE_Q8_1, 2, "\0\x7c", 2},
    {RDG_TYPE_Q2_K, 80, "\0\x7c", 2},
    {RDG_TYPE_Q2_K, 82, "\0\x7c", 2},
    {RDG_TYPE_Q3_K, 108, "\0\x7c", 2},
    {RDG_TYPE_Q4_K, 0, "\0\x7e", 2},
    {RDG_TYPE_Q4_K, 2, "\0\x7c", 2},
    {RDG_TYPE_Q5_K, 0, "\0\x7c", 2},
    {RDG_TYPE_Q5_K, 2, "\0\x7c", 2},
    {RDG_TYPE_Q6_K, 208, "\0\x7c", 2},
    {RDG_TYPE_Q8_K, 0, "\0\0\x80\x7f", 4},
    {RDG_TYPE_IQ2_XXS, 0, "\0\x7c", 2},
    {RDG_TYPE_IQ2_XS, 0, "\0\x7c", 2},
    {RDG_TYPE_IQ2_S, 0, "\0\x7c", 2},
    {RDG_TYPE_IQ3_XXS, 0, "\0\x7c", 2},
    {RDG_TYPE_IQ3_S, 0, "\0\x7c", 2},
    {RDG_TYPE_IQ1_S, 0, "\0\x7c", 2},
    {RDG_TYPE_IQ1_M, 48, "\0\0\0\0\0\xc0\0\x70", 8},
    {RDG_TYPE_IQ4_NL, 0, "\0\x7c", 2},
    {RDG_TYPE_IQ4_XS, 0, "\0\x7c", 2},
    {RDG_TYPE_TQ1_0, 52, "\0\x7c", 2},
    {RDG_TYPE_TQ2_0, 64, "\0\x7c", 2},
    {RDG_TYPE_MXFP4, 0, "\xff", 1},
    {RDG_TYPE_NVFP4, 0, "\0\0\0\x7f", 4},
    {RDG_TYPE_Q1_0, 0, "\0\x7c", 2},
    {RDG_TYPE_Q2_0, 0, "\0\x7c", 2},
};

/* Every other byte random; the scales of a fill are kept finite by clearing one exponent bit each. */
static void fill(rdg_rng *r, rdg_type type, unsigned char *p, int64_t n_blocks)
{
    int64_t block = rdg_type_block_bytes(type);
    for (int64_t i = 0; i < n_blocks * block; i++) p[i] = (unsigned char)rdg_rng_next(r);
    for (int64_t i = 0; i < n_blocks; i++) {
        for (int k = 0; k < RDG_COUNTOF(bad_scales); k++) {
            unsigned char *scale = p + i * block + bad_scales[k].at;
            if (bad_scales[k].type != type) continue;
            if (type == RDG_TYPE_NVFP4)
                for (int b = 0; b < 4; b++) scale[b] &= 0xbf;
            else
                scale[bad_scales[k].n_bytes - 1] &= 0xbf;
        }
    }
}

static void test_blocks(void **state)
{
    (void)state;
    enum { N = 613 }; /* more than two stretches of the check's inner loop, and no multiple */
    static unsigned char p[N * 292 + 1];
    rdg_rng r;
    int64_t first;
    bool covered[RDG_TYPE_COUNT] = {false};
    seed_fresh(&r);
    for (int k = 0; k < RDG_COUNTOF(bad_scales); k++) {
        rdg_type type = bad_scales[k].type;
        int64_t block = rdg_type_block_bytes(type), at = (int64_t)rdg_rng_below(&r, N);
        covered[type] = true;
        print_message("%s at %d\n", rdg_type_name(type), bad_scales[k].at);
        fill(&r, type, p + 1, N); /* unaligned */
        assert_int_equal(rdg_blocks_not_finite(type, p + 1, N, &first), 0);
        assert_int_equal(first, -1);
        memcpy(p + 1 + at * block + bad_scales[k].at, bad_scales[k].bytes, (size_t)bad_scales[k].n_bytes);
        assert_int_equal(rdg_blocks_not_finite(type, p + 1, N, &first), 1);
        assert_int_equal(first, at);
        memcpy(p + 1 + bad_scales[k].at, bad_scales[k].bytes, (size_t)bad_scales[k].n_bytes);
        assert_int_equal(rdg_blocks_not_finite(type, p + 1, N, &first), at == 0 ? 1 : 2);
        assert_int_equal(first, 0);
    }
    for (int t = 0; t < RDG_TYPE_COUNT; t++) {
        bool integer = t == RDG_TYPE_I8 || t == RDG_TYPE_I16 || t == RDG_TYPE_I32 || t == RDG_TYPE_I64;
        if (rdg_type_valid(t) && !integer && !covered[t]) fail_msg("%s is not tested", rdg_type_name(t));
    }
    memset(p, 0xff, sizeof p);
    assert_int_equal(rdg_blocks_not_finite(RDG_TYPE_I32, p, N, &first), 0);
    assert_int_equal(rdg_blocks_not_finite((rdg_type)4, p, N, &first), 0);
}

/* A file of which the second and the fourth tensor are damaged; the fourth in two of its three pieces. */
enum { N_LARGE = 9 << 20 };

static void build(rdg_buf *b)
{
    put_header(b, 4, 0);
    put_tensor(b, "fine", 1, 64, 0, RDG_TYPE_F32, 0);
    put_tensor(b, "scales", 1, 512, 0, RDG_TYPE_Q4_K, 256);
    put_tensor(b, "integers", 1, 8, 0, RDG_TYPE_I8, 544);
    put_tensor(b, "large", 2, 1024, N_LARGE / 2048, RDG_TYPE_F16, 576);
    put_data(b, 32, 576);
    size_t n = b->len;
    put_data(b, 1, N_LARGE);
    assert_false(b->failed);
    memcpy(b->data + n - 576 + 256 + 144, "\0\x7c", 2);
    memset(b->data + n - 32, 0xff, 8);
    memcpy(b->data + n + (8 << 20) + 2, "\0\xfc", 2);
    memcpy(b->data + n + 6, "\1\x7c", 2);
}

static int stop(void *user, const char *what, double done, double total)
{
    (void)what;
    assert_true(done <= total);
    return *(int *)user;
}

static void test_file(void **state)
{
    (void)state;
    rdg_error e;
    rdg_gguf *g;
    rdg_buf b;
    rdg_verify_result r;
    rdg_buf_init(&b);
    build(&b);
    assert_ok(rdg_gguf_parse(b.data, b.len, &g, &e), &e);
    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        assert_ok(rdg_gguf_verify(g, n_threads, NULL, &r, &e), &e);
        assert_int_equal(r.n_tensors, 4);
        assert_int_equal(r.bytes, 256 + 288 + 8 + N_LARGE);
        assert_int_equal(r.n_problems, 2);
        assert_string_equal(r.problems[0].tensor->name, "scales");
        assert_int_equal(r.problems[0].n_bad, 1);
        assert_int_equal(r.problems[0].n_blocks, 2);
        assert_int_equal(r.problems[0].first, 1);
        assert_memory_equal(b.data + r.problems[0].offset, "\0\x7c", 2);
        assert_non_null(strstr(r.problems[0].text, "tensor 'scales': 1 of 2 blocks have a scale"));
        assert_string_equal(r.problems[1].tensor->name, "large");
        assert_int_equal(r.problems[1].n_bad, 2);
        assert_int_equal(r.problems[1].first, 3);
        assert_memory_equal(b.data + r.problems[1].offset, "\1\x7c", 2);
        rdg_verify_result_finish(&r);
    }
    int answer = 0;
    const rdg_log log = {.progress = stop, .user = &answer};
    assert_ok(rdg_gguf_verify(g, 1, &log, &r, &e), &e);
    rdg_verify_result_finish(&r);
    answer = 1;
    assert_error(rdg_gguf_verify(g, 1, &log, &r, &e), RDG_E_CANCELLED, &e, "stopped");
    assert_null(r.problems);
    rdg_gguf_close(g);
    rdg_buf_clear(&b);
    put_header(&b, 0, 0);
    assert_ok(rdg_gguf_parse(b.data, b.len, &g, &e), &e);
    assert_ok(rdg_gguf_verify(g, 2, NULL, &r, &e), &e);
    assert_int_equal(r.n_problems, 0);
    rdg_verify_result_finish(&r);
    rdg_gguf_close(g);
    rdg_buf_finish(&b);
}

/* A file that was cut after it was opened is an error, not a bus error. */
static void test_cut(void **state)
{
    (void)state;
    char path[] = "/tmp/ridge-verify-XXXXXX";
    rdg_error e;
    rdg_gguf *g;
    rdg_buf b;
    rdg_verify_result r;
    int fd = mkstemp(path);
    rdg_buf_init(&b);
    build(&b);
    assert_int_equal(write(fd, b.data, b.len), b.len);
    assert_ok(rdg_gguf_open(path, NULL, &g, &e), &e);
    assert_int_equal(ftruncate(fd, 4096), 0);
    assert_error(rdg_gguf_verify(g, 1, NULL, &r, &e), RDG_E_IO, &e, "was cut");
    rdg_gguf_close(g);
    close(fd);
    unlink(path);
    rdg_buf_finish(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

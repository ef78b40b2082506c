/* GGUF files that are legal, if odd; what readers of keys must not hand out; files cut anywhere; and very
 * many names. */
#include "../support/gguf_hostile.h"
#include "base/clock.h"

static void legal(rdg_buf *b, int64_t n_kv, int64_t n_tensors)
{
    rdg_error e = {0};
    rdg_gguf *g;
    void *block;
    assert_ok(parse_exact(b, &g, &block, &e), &e);
    assert_int_equal(rdg_gguf_n_kv(g), n_kv);
    assert_int_equal(rdg_gguf_n_tensors(g), n_tensors);
    for (int64_t i = 0; i < n_tensors; i++) {
        const rdg_gguf_tensor *t = rdg_gguf_tensor_at(g, i);
        const unsigned char *data = t->data, *file = block;
        assert_true(data >= file && data + t->bytes <= file + b->len);
    }
    rdg_gguf_close(g);
    free(block);
    rdg_buf_clear(b);
}

static void test_legal(void **state)
{
    (void)state;
    rdg_buf b;
    rdg_buf_init(&b);
    put_header(&b, 0, 0);
    legal(&b, 0, 0);
    version(&b, 2);
    legal(&b, 0, 0);
    /* out of order, with gaps, the last one unpadded */
    put_header(&b, 3, 0);
    put_tensor(&b, "c", 1, 3, 0, F32, 256);
    put_tensor(&b, "a", 1, 8, 0, F32, 32);
    put_tensor(&b, "b", 2, 4, 8, F32, 64);
    put_data(&b, 32, 256 + 12);
    legal(&b, 0, 3);
    alignment(&b, 8);
    legal(&b, 1, 1);
    put_header(&b, 1, 1);
    put_kv_u32(&b, "general.alignment", 1 << 20);
    put_tensor(&b, "t", 4, 4, 2, F32, 0);
    put_data(&b, 1 << 20, 32);
    legal(&b, 1, 1);
    /* a name of 63 bytes; keys with NUL are bytes like any other */
    tensor(&b, "012345678901234567890123456789012345678901234567890123456789012", 1, 4, 0, F32, 0);
    legal(&b, 0, 1);
    put_header(&b, 0, 2);
    put_strn(&b, "k\0a", 3);
    put_u32(&b, U8);
    put_u8(&b, 1);
    put_strn(&b, "k\0b", 3);
    put_u32(&b, U8);
    put_u8(&b, 1);
    legal(&b, 2, 0);
    rdg_buf_finish(&b);
}

/* Arrays of another element type than the reader of the key expects are never handed out. */
static void test_narrow_arrays(void **state)
{
    (void)state;
    rdg_error e = {0};
    rdg_gguf *g;
    const rdg_gguf_kv *kv;
    rdg_buf b;
    rdg_buf_init(&b);
    put_header(&b, 0, 2);
    put_array(&b, "tokenizer.ggml.scores", U8, 4);
    put_u32(&b, 0);
    put_kv_u32(&b, "tokenizer.ggml.token_type", 5);
    assert_ok(rdg_gguf_parse(b.data, b.len, &g, &e), &e);
    assert_error(rdg_gguf_get_array(g, "tokenizer.ggml.scores", RDG_GGUF_FLOAT32, &kv, &e), RDG_E_MALFORMED,
                 &e, "an array of UINT8 where an array of FLOAT32");
    assert_error(rdg_gguf_get_array(g, "tokenizer.ggml.token_type", RDG_GGUF_UINT32, &kv, &e),
                 RDG_E_MALFORMED, &e, "a UINT32 value where an array of UINT32");
    rdg_gguf_close(g);
    rdg_buf_finish(&b);
}

static void test_not_finite(void **state)
{
    (void)state;
    const uint64_t values[] = {0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000,
                               0x7fe0000000000000};
    for (int i = 0; i < RDG_COUNTOF(values); i++) {
        rdg_error e = {0};
        rdg_gguf *g;
        float v = 7;
        rdg_buf b;
        rdg_buf_init(&b);
        put_header(&b, 0, 1);
        put_key(&b, "eps", RDG_GGUF_FLOAT64);
        put_u64(&b, values[i]);
        assert_ok(rdg_gguf_parse(b.data, b.len, &g, &e), &e);
        assert_error(rdg_gguf_get_f32(g, "eps", &v, &e), RDG_E_MALFORMED, &e, "offset 39: key 'eps' is");
        assert_true(v == 7);
        assert_true(rdg_gguf_kv_int(rdg_gguf_kv_at(g, 0), 0) != 0); /* saturates */
        rdg_gguf_close(g);
        rdg_buf_finish(&b);
    }
}

/* Every prefix of a file with all value types is an error until the data is complete. */
static void test_truncation(void **state)
{
    (void)state;
    rdg_error e;
    rdg_gguf *g;
    rdg_buf b;
    rdg_buf_init(&b);
    put_header(&b, 2, 5);
    put_kv_str(&b, "general.architecture", "llama");
    put_kv_u32(&b, "general.alignment", 8);
    put_array(&b, "strings", STR, 2);
    put_str(&b, "one");
    put_str(&b, "");
    put_array(&b, "bools", BOOL, 3);
    put_zeros(&b, 3);
    put_key(&b, "f64", RDG_GGUF_FLOAT64);
    put_u64(&b, 0);
    put_tensor(&b, "a", 1, 2, 0, F32, 0);
    put_tensor(&b, "b", 2, 1, 2, F32, 8);
    put_data(&b, 8, 16);
    for (size_t n = 0; n < b.len; n++) {
        char *cut = malloc(n ? n : 1);
        memcpy(cut, b.data, n);
        rdg_err err = rdg_gguf_parse(cut, n, &g, &e);
        if (err != RDG_E_MALFORMED) fail_msg("cut to %zu bytes: %s", n, rdg_err_name(err));
        assert_non_null(strstr(e.message, "offset "));
        assert_null(g);
        free(cut);
    }
    assert_ok(rdg_gguf_parse(b.data, b.len, &g, &e), &e);
    rdg_gguf_close(g);
    rdg_buf_finish(&b);
}

/* The most keys and many tensors, in a time that only linear work can meet. */
static void test_many_names(void **state)
{
    (void)state;
    enum { N_KV = 65536, N_TENSORS = 200000 };
    rdg_error e;
    rdg_gguf *g;
    char name[16];
    rdg_buf b;
    rdg_buf_init(&b);
    put_header(&b, N_TENSORS, N_KV);
    for (int i = 0; i < N_KV; i++) {
        snprintf(name, sizeof name, "%x", i);
        put_key(&b, name, U8);
        put_u8(&b, 0);
    }
    for (int i = 0; i < N_TENSORS; i++) {
        snprintf(name, sizeof name, "%x", i);
        put_tensor(&b, name, 1, 1, 0, F32, (uint64_t)(N_TENSORS - 1 - i) * 32);
    }
    put_data(&b, 32, N_TENSORS * 32);
    double start = rdg_clock_seconds();
    assert_ok(rdg_gguf_parse(b.data, b.len, &g, &e), &e);
    assert_true(rdg_clock_seconds() - start < 5);
    assert_non_null(rdg_gguf_tensor_find(g, "30d3f"));
    rdg_gguf_close(g);
    rdg_buf_finish(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_legal),      cmocka_unit_test(test_narrow_arrays),
        cmocka_unit_test(test_not_finite), cmocka_unit_test(test_truncation),
        cmocka_unit_test(test_many_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

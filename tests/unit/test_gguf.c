/* GGUF files: what the writer writes, the reader reads. */
#include "base/file.h"
#include "base/mem.h"
#include "format/gguf.h"

#include "../support/random.h"
#include "../support/temp_dir.h"
#include <ridge/gguf.h>

#include <math.h>
#include <unistd.h>

static void assert_str(rdg_str s, const char *expected)
{
    assert_int_equal(s.n, strlen(expected));
    assert_memory_equal(s.p, expected, s.n);
}

/* Tensors with odd shapes and types; data from a seeded generator. */
static const struct {
    const char *name;
    rdg_type type;
    int n_dims;
    int64_t dim[4];
} shapes[] = {
    {"token_embd.weight", RDG_TYPE_F32, 2, {7, 3}},
    {"blk.0.attn_q.weight", RDG_TYPE_Q4_K, 2, {256, 5}},
    {"blk.0.norm", RDG_TYPE_F16, 1, {13}},
    {"blk.0.experts", RDG_TYPE_MXFP4, 3, {32, 2, 3}},
    {"blk.0.four", RDG_TYPE_I8, 4, {3, 1, 5, 2}},
    {"output.weight", RDG_TYPE_Q6_K, 2, {512, 2}},
    {"blk.0.attn_q.weight.in_sum2", RDG_TYPE_F32, 1, {1}},
};

static void set_keys(rdg_gguf_writer *w)
{
    const float scores[] = {0.5f, -1e-30f, 3.25e8f};
    const rdg_str tokens[] = {{"a", 1}, {"", 0}, {"\0b", 2}, {"\xe2\x96\x81", 3}};
    rdg_gguf_set_str(w, "general.architecture", "replaced below");
    rdg_gguf_set_u32(w, "u32", 4000000000u);
    rdg_gguf_set_i32(w, "i32", -5);
    rdg_gguf_set_u16(w, "u16", 65535);
    rdg_gguf_set_u64(w, "u64", UINT64_MAX);
    rdg_gguf_set_f32(w, "f32", 1.25f);
    rdg_gguf_set_bool(w, "yes", true);
    rdg_gguf_set_bool(w, "no", false);
    rdg_gguf_set_str(w, "gone", "x");
    rdg_gguf_unset(w, "gone");
    rdg_gguf_unset(w, "never there");
    rdg_gguf_set_strn(w, "binary", "a\0b", 3);
    rdg_gguf_set_array(w, "scores", RDG_GGUF_FLOAT32, scores, 3);
    rdg_gguf_set_array(w, "empty", RDG_GGUF_INT32, NULL, 0);
    rdg_gguf_set_str_array(w, "tokens", tokens, 4);
    rdg_gguf_set_str(w, "checksum", "0000");
    rdg_gguf_set_u16(w, "split.no", 7); /* the writer's own: dropped */
    rdg_gguf_set_str(w, "general.architecture", "llama");
}

static void write_model(const char *path, uint32_t alignment, uint64_t part_bytes, uint64_t seed,
                        uint64_t *bytes)
{
    rdg_gguf_writer *w;
    rdg_rng rng;
    rdg_error e;
    assert_ok(rdg_gguf_writer_create(path, &w, &e), &e);
    set_keys(w);
    if (alignment) rdg_gguf_set_u32(w, "general.alignment", alignment);
    for (int i = 0; i < RDG_COUNTOF(shapes); i++)
        rdg_gguf_add_tensor(w, shapes[i].name, shapes[i].type, shapes[i].n_dims, shapes[i].dim);
    rdg_gguf_writer_split(w, part_bytes);
    assert_ok(rdg_gguf_writer_begin(w, &e), &e);
    rdg_rng_seed(&rng, seed);
    for (int i = 0; i < RDG_COUNTOF(shapes); i++) {
        int64_t left = rdg_type_row_bytes(shapes[i].type, shapes[i].dim[0]);
        for (int k = 1; k < shapes[i].n_dims; k++) left *= shapes[i].dim[k];
        while (left > 0) { /* in pieces of any size */
            unsigned char piece[64];
            int64_t n = 1 + (int64_t)rdg_rng_below(&rng, sizeof piece);
            n = RDG_MIN(n, left);
            for (int64_t k = 0; k < n; k++) piece[k] = (unsigned char)rdg_rng_next(&rng);
            assert_ok(rdg_gguf_write_data(w, piece, (size_t)n, &e), &e);
            left -= n;
        }
    }
    assert_ok(rdg_gguf_writer_patch_str(w, "checksum", "beef", &e), &e);
    assert_ok(rdg_gguf_writer_finish(w, &e), &e);
    *bytes = rdg_gguf_writer_bytes(w);
    rdg_gguf_writer_destroy(w);
}

static void check_keys(const rdg_gguf *g)
{
    uint32_t u32 = 0;
    int64_t i64 = 0;
    float f32 = 0;
    bool flag = false;
    rdg_str s;
    const rdg_gguf_kv *kv;
    rdg_error e = {0};
    assert_ok(rdg_gguf_get_u32(g, "u32", &u32, &e), &e);
    assert_true(u32 == 4000000000u);
    assert_ok(rdg_gguf_get_u32(g, "u16", &u32, &e), &e);
    assert_int_equal(u32, 65535);
    assert_ok(rdg_gguf_get_i64(g, "i32", &i64, &e), &e);
    assert_int_equal(i64, -5);
    assert_ok(rdg_gguf_get_f32(g, "f32", &f32, &e), &e);
    assert_true(f32 == 1.25f);
    assert_ok(rdg_gguf_get_bool(g, "yes", &flag, &e), &e);
    assert_true(flag);
    assert_ok(rdg_gguf_get_bool(g, "no", &flag, &e), &e);
    assert_false(flag);
    assert_ok(rdg_gguf_get_str(g, "general.architecture", &s, &e), &e);
    assert_str(s, "llama");
    assert_ok(rdg_gguf_get_str(g, "checksum", &s, &e), &e);
    assert_str(s, "beef");
    assert_ok(rdg_gguf_get_str(g, "binary", &s, &e), &e);
    assert_int_equal(s.n, 3);
    assert_memory_equal(s.p, "a\0b", 3);
    assert_ok(rdg_gguf_get_array(g, "scores", RDG_GGUF_FLOAT32, &kv, &e), &e);
    assert_int_equal(kv->count, 3);
    assert_true(rdg_gguf_kv_float(kv, 1) == (double)-1e-30f);
    assert_ok(rdg_gguf_get_array(g, "empty", RDG_GGUF_INT32, &kv, &e), &e);
    assert_int_equal(kv->count, 0);
    assert_ok(rdg_gguf_get_array(g, "tokens", RDG_GGUF_STRING, &kv, &e), &e);
    assert_int_equal(kv->count, 4);
    assert_str(kv->strings[3], "\xe2\x96\x81");
    assert_int_equal(kv->strings[2].n, 2);
    /* absent and wrong */
    assert_null(rdg_gguf_find(g, "gone"));
    assert_int_equal(rdg_gguf_get_u32(g, "gone", &u32, &e), RDG_E_NOT_FOUND);
    assert_int_equal(e.code, 0);
    assert_int_equal(rdg_gguf_get_u32(g, "i32", &u32, &e), RDG_E_MALFORMED);
    assert_non_null(strstr(e.message, "'i32' is -5"));
    assert_int_equal(rdg_gguf_get_i64(g, "u64", &i64, &e), RDG_E_MALFORMED);
    assert_non_null(strstr(e.message, "18446744073709551615"));
    assert_int_equal(rdg_gguf_get_u32(g, "f32", &u32, &e), RDG_E_MALFORMED);
    assert_int_equal(rdg_gguf_get_i64(g, "yes", &i64, &e), RDG_E_MALFORMED);
    assert_int_equal(rdg_gguf_get_f32(g, "u32", &f32, &e), RDG_E_MALFORMED);
    assert_int_equal(rdg_gguf_get_bool(g, "u32", &flag, &e), RDG_E_MALFORMED);
    assert_int_equal(rdg_gguf_get_str(g, "tokens", &s, &e), RDG_E_MALFORMED);
    assert_int_equal(rdg_gguf_get_array(g, "scores", RDG_GGUF_INT32, &kv, &e), RDG_E_MALFORMED);
    assert_null(kv);
    assert_non_null(strstr(e.message, "an array of FLOAT32"));
    assert_int_equal(u32, 65535); /* untouched by failures */
}

static void check_tensors(const rdg_gguf *g, uint64_t seed)
{
    rdg_rng rng;
    rdg_rng_seed(&rng, seed);
    assert_int_equal(rdg_gguf_n_tensors(g), RDG_COUNTOF(shapes));
    for (int i = 0; i < RDG_COUNTOF(shapes); i++) {
        const rdg_gguf_tensor *t = rdg_gguf_tensor_find(g, shapes[i].name);
        assert_non_null(t);
        assert_ptr_equal(t, rdg_gguf_tensor_at(g, i));
        assert_string_equal(t->name, shapes[i].name);
        assert_int_equal(t->type, shapes[i].type);
        assert_int_equal(t->n_dims, shapes[i].n_dims);
        assert_true(t->offset % rdg_gguf_alignment(g) == 0);
        uint64_t elements = 1, done = 0;
        for (int k = 0; k < 4; k++) {
            assert_int_equal(t->dim[k], k < t->n_dims ? shapes[i].dim[k] : 1);
            elements *= (uint64_t)t->dim[k];
        }
        assert_int_equal(t->n_elements, elements);
        const unsigned char *data = t->data;
        while (done < t->bytes) {
            uint64_t n = 1 + rdg_rng_below(&rng, 64);
            n = RDG_MIN(n, t->bytes - done);
            for (uint64_t k = 0; k < n; k++)
                assert_int_equal(data[done + k], (unsigned char)rdg_rng_next(&rng));
            done += n;
        }
    }
    assert_null(rdg_gguf_tensor_find(g, "blk.0.attn_q"));
    assert_null(rdg_gguf_tensor_at(g, -1));
    assert_null(rdg_gguf_tensor_at(g, RDG_COUNTOF(shapes)));
}

static void round_trip(uint32_t alignment)
{
    uint64_t bytes, seed = fresh_seed();
    rdg_gguf *g;
    rdg_error e;
    char *path = rdg_path_join(dir, "model.gguf");
    write_model(path, alignment, 0, seed, &bytes);
    assert_ok(rdg_gguf_open(path, NULL, &g, &e), &e);
    assert_int_equal(rdg_gguf_version(g), 3);
    assert_int_equal(rdg_gguf_alignment(g), alignment ? alignment : 32);
    assert_int_equal(rdg_gguf_n_parts(g), 1);
    assert_int_equal(rdg_gguf_file_bytes(g), bytes);
    assert_string_equal(rdg_gguf_path(g), path);
    check_keys(g);
    check_tensors(g, seed);
    assert_ok(rdg_gguf_recheck(g, &e), &e);
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(rdg_gguf_recheck(g, NULL), RDG_E_IO);
    rdg_gguf_close(g);
    unlink(path);
    rdg_free(path);
}

static void test_round_trip(void **state)
{
    (void)state;
    const uint32_t alignments[] = {0, 8, 64, 1 << 20};
    for (int i = 0; i < RDG_COUNTOF(alignments); i++) round_trip(alignments[i]);
}

static void test_split(void **state)
{
    (void)state;
    uint64_t bytes, seed = fresh_seed();
    char *path = rdg_path_join(dir, "big.gguf"), *first = NULL;
    int n_parts = 0;
    rdg_gguf *g;
    rdg_error e;
    write_model(path, 64, 900, seed, &bytes);
    for (int n = 1; n < 10 && n_parts == 0; n++) {
        rdg_free(first);
        first = rdg_format("%s/big-00001-of-%05d.gguf", dir, n);
        if (rdg_file_exists(first)) n_parts = n;
    }
    assert_true(n_parts >= 3);
    assert_false(rdg_file_exists(path));
    assert_ok(rdg_gguf_open(first, NULL, &g, &e), &e);
    assert_int_equal(rdg_gguf_n_parts(g), n_parts);
    assert_int_equal(rdg_gguf_file_bytes(g), bytes);
    assert_int_equal(rdg_gguf_tensor_at(g, RDG_COUNTOF(shapes) - 1)->part, n_parts - 1);
    check_keys(g);
    check_tensors(g, seed);
    rdg_gguf_close(g);
    /* another part first; a part missing */
    char *second = rdg_format("%s/big-00002-of-%05d.gguf", dir, n_parts);
    assert_int_equal(rdg_gguf_open(second, NULL, &g, &e), RDG_E_ARGUMENT);
    assert_non_null(strstr(e.message, "open the first part"));
    unlink(second);
    assert_int_equal(rdg_gguf_open(first, NULL, &g, &e), RDG_E_IO);
    assert_non_null(strstr(e.message, "big-00002-of"));
    rdg_free(second);
    for (int i = 1; i <= n_parts; i++) {
        char *part = rdg_format("%s/big-%05d-of-%05d.gguf", dir, i, n_parts);
        unlink(part);
        rdg_free(part);
    }
    rdg_free(path);
    rdg_free(first);
}

/* What the writer refuses, and that it leaves nothing behind
 * ---------------------------------------------------- */

typedef void misuse_fn(rdg_gguf_writer *w);

static const int64_t four[4] = {4, 1, 1, 1};
static const float data[64];

static void begun(rdg_gguf_writer *w)
{
    rdg_error e;
    rdg_gguf_add_tensor(w, "t", RDG_TYPE_F32, 1, four);
    rdg_gguf_add_tensor(w, "u", RDG_TYPE_F32, 1, four);
    rdg_gguf_set_str(w, "s", "1234");
    assert_ok(rdg_gguf_writer_begin(w, &e), &e);
}

static void empty_key(rdg_gguf_writer *w)
{
    rdg_gguf_set_u32(w, "", 1);
}

static void infinite_value(rdg_gguf_writer *w)
{
    rdg_gguf_set_f32(w, "inf", INFINITY);
    rdg_gguf_set_f32(w, "", 1); /* the first error is kept */
}

static void strings_as_numbers(rdg_gguf_writer *w)
{
    rdg_gguf_set_array(w, "a", RDG_GGUF_STRING, data, 1);
}

static void bad_alignment(rdg_gguf_writer *w)
{
    rdg_gguf_set_u32(w, "general.alignment", 48);
}

static void alignment_type(rdg_gguf_writer *w)
{
    rdg_gguf_set_str(w, "general.alignment", "32");
}

static void tensor_twice(rdg_gguf_writer *w)
{
    rdg_gguf_add_tensor(w, "t", RDG_TYPE_F32, 1, four);
    rdg_gguf_add_tensor(w, "t", RDG_TYPE_F32, 1, four);
}

static void long_name(rdg_gguf_writer *w)
{
    rdg_gguf_add_tensor(w, "0123456789012345678901234567890123456789012345678901234567890123", RDG_TYPE_F32,
                        1, four);
}

static void no_dims(rdg_gguf_writer *w)
{
    rdg_gguf_add_tensor(w, "t", RDG_TYPE_F32, 0, four);
}

static void bad_row(rdg_gguf_writer *w)
{
    rdg_gguf_add_tensor(w, "t", RDG_TYPE_Q8_0, 1, four);
}

static void removed_type(rdg_gguf_writer *w)
{
    rdg_gguf_add_tensor(w, "t", (rdg_type)4, 1, four);
}

static void begin_twice(rdg_gguf_writer *w)
{
    begun(w);
    assert_int_equal(rdg_gguf_writer_begin(w, NULL), RDG_E_ARGUMENT);
}

static void late_key(rdg_gguf_writer *w)
{
    begun(w);
    rdg_gguf_set_u32(w, "k", 1);
}

static void late_tensor(rdg_gguf_writer *w)
{
    begun(w);
    rdg_gguf_add_tensor(w, "v", RDG_TYPE_F32, 1, four);
}

static void early_data(rdg_gguf_writer *w)
{
    assert_int_equal(rdg_gguf_write_data(w, data, 4, NULL), RDG_E_ARGUMENT);
}

static void crossing_data(rdg_gguf_writer *w)
{
    begun(w);
    assert_int_equal(rdg_gguf_write_data(w, data, 17, NULL), RDG_E_ARGUMENT);
}

static void too_much_data(rdg_gguf_writer *w)
{
    rdg_error e;
    begun(w);
    assert_ok(rdg_gguf_write_data(w, data, 16, &e), &e);
    assert_ok(rdg_gguf_write_data(w, data, 16, &e), &e);
    assert_int_equal(rdg_gguf_write_data(w, data, 1, NULL), RDG_E_ARGUMENT);
}

static void too_little_data(rdg_gguf_writer *w)
{
    rdg_error e;
    begun(w);
    assert_ok(rdg_gguf_write_data(w, data, 16, &e), &e);
    assert_ok(rdg_gguf_write_data(w, data, 12, &e), &e);
}

static void longer_patch(rdg_gguf_writer *w)
{
    begun(w);
    assert_int_equal(rdg_gguf_writer_patch_str(w, "s", "12345", NULL), RDG_E_ARGUMENT);
}

static void absent_patch(rdg_gguf_writer *w)
{
    begun(w);
    assert_int_equal(rdg_gguf_writer_patch_str(w, "absent", "x", NULL), RDG_E_ARGUMENT);
}

static void test_misuse(void **state)
{
    (void)state;
    const struct {
        misuse_fn *fn;
        const char *part;
        bool begins; /* the error shows in begin, else in finish */
    } cases[] = {
        {empty_key, "key '' has 0 bytes", true},
        {infinite_value, "key 'inf' is inf", true},
        {strings_as_numbers, "an array of STRING", true},
        {bad_alignment, "is 48", true},
        {alignment_type, "type STRING", true},
        {tensor_twice, "'t' is added twice", true},
        {long_name, "has 64 bytes", true},
        {no_dims, "0 dimensions", true},
        {bad_row, "'t': dimension 0 is 4", true},
        {removed_type, "type id 4", true},
        {begin_twice, "already", false},
        {late_key, "key 'k' is set after", false},
        {late_tensor, "tensor 'v' is added after", false},
        {early_data, "not written yet", false},
        {crossing_data, "lacks 16 of its 16 bytes, 17 were given", false},
        {too_much_data, "every declared tensor is complete", false},
        {too_little_data, "tensor 'u' has 12 of its 16 bytes, 1 tensors lack data", false},
        {longer_patch, "only a string of the same length", false},
        {absent_patch, "it is not set", false},
    };
    char *path = rdg_path_join(dir, "misuse.gguf");
    for (int i = 0; i < RDG_COUNTOF(cases); i++) {
        rdg_gguf_writer *w;
        rdg_error e;
        assert_ok(rdg_gguf_writer_create(path, &w, &e), &e);
        cases[i].fn(w);
        rdg_err err = cases[i].begins ? rdg_gguf_writer_begin(w, &e) : rdg_gguf_writer_finish(w, &e);
        assert_error(err, RDG_E_ARGUMENT, &e, cases[i].part);
        rdg_gguf_writer_destroy(w);
        assert_false(rdg_file_exists(path));
    }
    rdg_gguf_writer_destroy(NULL);
    rdg_free(path);
}

/* An unfinished writer leaves the file that was there. */
static void test_unfinished(void **state)
{
    (void)state;
    char *path = rdg_path_join(dir, "old.gguf");
    rdg_gguf_writer *w;
    rdg_error e;
    char *text;
    size_t bytes;
    FILE *f = fopen(path, "wb");
    assert_int_equal(fwrite("old", 1, 3, f), 3);
    fclose(f);
    assert_ok(rdg_gguf_writer_create(path, &w, &e), &e);
    begun(w);
    assert_ok(rdg_gguf_write_data(w, data, 16, &e), &e);
    rdg_gguf_writer_destroy(w);
    assert_ok(rdg_file_read(path, 100, false, &text, &bytes, &e), &e);
    assert_string_equal(text, "old");
    rdg_free(text);
    unlink(path);
    rdg_free(path);
    assert_error(rdg_gguf_writer_create("", &w, &e), RDG_E_ARGUMENT, &e, "name");
    path = rdg_path_join(dir, "none/x.gguf");
    assert_ok(rdg_gguf_writer_create(path, &w, &e), &e);
    assert_error(rdg_gguf_writer_begin(w, &e), RDG_E_IO, &e, path);
    assert_int_equal(rdg_gguf_writer_finish(w, NULL), RDG_E_IO);
    rdg_gguf_writer_destroy(w);
    rdg_free(path);
}

/* What set_kv copies from a read file is the same bytes. */
static void test_copy(void **state)
{
    (void)state;
    uint64_t bytes;
    char *from = rdg_path_join(dir, "from.gguf"), *to = rdg_path_join(dir, "to.gguf");
    rdg_gguf_writer *w;
    rdg_gguf *g, *copy;
    rdg_error e;
    write_model(from, 64, 0, 1, &bytes);
    assert_ok(rdg_gguf_open(from, NULL, &g, &e), &e);
    assert_ok(rdg_gguf_writer_create(to, &w, &e), &e);
    for (int64_t i = 0; i < rdg_gguf_n_kv(g); i++) rdg_gguf_set_kv(w, rdg_gguf_kv_at(g, i));
    for (int64_t i = 0; i < rdg_gguf_n_tensors(g); i++) {
        const rdg_gguf_tensor *t = rdg_gguf_tensor_at(g, i);
        rdg_gguf_add_tensor(w, t->name, t->type, t->n_dims, t->dim);
    }
    assert_ok(rdg_gguf_writer_begin(w, &e), &e);
    for (int64_t i = 0; i < rdg_gguf_n_tensors(g); i++) {
        const rdg_gguf_tensor *t = rdg_gguf_tensor_at(g, i);
        assert_ok(rdg_gguf_write_data(w, t->data, (size_t)t->bytes, &e), &e);
    }
    assert_ok(rdg_gguf_writer_finish(w, &e), &e);
    rdg_gguf_writer_destroy(w);
    char *a, *b;
    size_t a_bytes, b_bytes;
    assert_ok(rdg_file_read(from, 1 << 20, false, &a, &a_bytes, &e), &e);
    assert_ok(rdg_file_read(to, 1 << 20, false, &b, &b_bytes, &e), &e);
    assert_int_equal(a_bytes, b_bytes);
    assert_memory_equal(a, b, a_bytes);
    rdg_free(a);
    rdg_free(b);
    assert_ok(rdg_gguf_open(to, NULL, &copy, &e), &e);
    check_keys(copy);
    rdg_gguf_close(copy);
    rdg_gguf_close(g);
    unlink(from);
    unlink(to);
    rdg_free(from);
    rdg_free(to);
}

/* What is asked before the file gets its name sees all of it; a refusal leaves no file. */
static rdg_err look_inside(void *user, const char *path, rdg_error *e)
{
    rdg_gguf *g;
    rdg_err err = rdg_gguf_open(path, NULL, &g, e);
    if (err) return err;
    assert_non_null(rdg_gguf_find(g, "u32"));
    rdg_gguf_close(g);
    return *(bool *)user ? RDG_OK : rdg_fail(e, RDG_E_MALFORMED, "as asked");
}

static void test_check(void **state)
{
    (void)state;
    char *path = rdg_path_join(dir, "checked.gguf");
    for (int way = 0; way < 3; way++) { /* refused, accepted, a split file */
        rdg_gguf_writer *w;
        rdg_error e;
        bool accept = way == 1;
        assert_ok(rdg_gguf_writer_create(path, &w, &e), &e);
        rdg_gguf_set_u32(w, "u32", 7);
        rdg_gguf_writer_split(w, way == 2 ? 4096 : 0);
        rdg_gguf_writer_set_check(w, look_inside, &accept);
        assert_ok(rdg_gguf_writer_begin(w, &e), &e);
        if (way == 0) assert_error(rdg_gguf_writer_finish(w, &e), RDG_E_MALFORMED, &e, "as asked");
        if (way == 1) assert_ok(rdg_gguf_writer_finish(w, &e), &e);
        if (way == 2) assert_error(rdg_gguf_writer_finish(w, &e), RDG_E_INTERNAL, &e, "split");
        rdg_gguf_writer_destroy(w);
        assert_int_equal(files_in(dir), accept);
        if (accept) assert_int_equal(unlink(path), 0);
    }
    rdg_free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_split), cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_unfinished), cmocka_unit_test(test_copy),  cmocka_unit_test(test_check),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}

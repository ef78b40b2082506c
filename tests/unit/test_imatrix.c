/* Importance matrices: sums, both file forms, and files that lie. */
#include "../support/random.h"
#include "../support/temp_dir.h"
#include <ridge/imatrix.h>
#include "base/file.h"
#include "base/mem.h"

#include <math.h>
#include <unistd.h>

static void test_add(void **state)
{
    (void)state;
    rdg_imatrix *m;
    rdg_error e;
    const float sums[] = {1, 2, 3, 4, 5, 6}, counts[] = {2, 0}, more[] = {0, 4};
    float values[6];
    assert_ok(rdg_imatrix_create(&m, &e), &e);
    assert_ok(rdg_imatrix_add(m, "b", 3, 2, sums, counts, &e), &e);
    assert_ok(rdg_imatrix_add(m, "c", 6, 1, sums, counts, &e), &e);
    assert_ok(rdg_imatrix_add(m, "a", 1, 1, sums, counts, &e), &e);
    assert_int_equal(rdg_imatrix_n(m), 3);
    assert_string_equal(rdg_imatrix_at(m, 0)->name, "a");
    assert_string_equal(rdg_imatrix_at(m, 2)->name, "c");
    assert_null(rdg_imatrix_at(m, 3));
    assert_null(rdg_imatrix_at(m, -1));
    assert_null(rdg_imatrix_find(m, "ab"));
    const rdg_imatrix_entry *b = rdg_imatrix_find(m, "b");
    assert_ptr_equal(b, rdg_imatrix_at(m, 1));
    assert_int_equal(rdg_imatrix_values(b, values), 1); /* the second matrix saw nothing: all ones */
    const float expected[] = {0.5f, 1, 1.5f, 1, 1, 1};
    assert_memory_equal(values, expected, sizeof expected);
    assert_ok(rdg_imatrix_add(m, "b", 3, 2, sums, more, &e), &e);
    assert_int_equal(rdg_imatrix_n(m), 3);
    assert_int_equal(rdg_imatrix_values(b, values), 0);
    const float added[] = {1, 2, 3, 2, 2.5f, 3};
    assert_memory_equal(values, added, sizeof added);
    /* refused, and nothing changed */
    const float bad[][3] = {{1, NAN, 1}, {1, INFINITY, 1}, {1, -1, 1}};
    for (int i = 0; i < 3; i++) {
        assert_error(rdg_imatrix_add(m, "d", 3, 1, bad[i], more + 1, &e), RDG_E_ARGUMENT, &e, "'d'");
        assert_error(rdg_imatrix_add(m, "d", 1, 1, sums, bad[i] + 1, &e), RDG_E_ARGUMENT, &e, "count");
    }
    const float huge[] = {3e38f}, tiny[] = {1e-30f};
    assert_error(rdg_imatrix_add(m, "d", 1, 1, huge, tiny, &e), RDG_E_ARGUMENT, &e, "too large");
    assert_error(rdg_imatrix_add(m, "b", 2, 3, sums, counts, &e), RDG_E_ARGUMENT, &e, "different");
    assert_error(rdg_imatrix_add(m, "", 3, 1, sums, counts, &e), RDG_E_MALFORMED, &e, "0 bytes");
    assert_error(rdg_imatrix_add(m, "d", 0, 1, sums, counts, &e), RDG_E_ARGUMENT, &e, "columns");
    assert_ok(rdg_imatrix_add(m, "e", 1, 1, huge, more + 1, &e), &e);
    assert_error(rdg_imatrix_add(m, "e", 1, 1, huge, more + 1, &e), RDG_E_ARGUMENT, &e, "finite");
    assert_int_equal(rdg_imatrix_n(m), 4);
    rdg_imatrix_destroy(m);
    rdg_imatrix_destroy(NULL);
}

static void test_round_trip(void **state)
{
    (void)state;
    enum { N = 40 };
    rdg_imatrix *m, *back;
    rdg_error e;
    rdg_rng rng;
    char *path = rdg_path_join(dir, "imatrix.gguf");
    seed_fresh(&rng);
    assert_ok(rdg_imatrix_create(&m, &e), &e);
    for (int i = 0; i < N; i++) {
        float sums[15 * 4], counts[4];
        char name[64];
        int64_t n_columns = 1 + (int64_t)rdg_rng_below(&rng, 15),
                n_matrices = 1 + (int64_t)rdg_rng_below(&rng, 4);
        for (int k = 0; k < RDG_COUNTOF(sums); k++) sums[k] = (float)rdg_rng_uniform(&rng) * 1e6f;
        for (int k = 0; k < RDG_COUNTOF(counts); k++) counts[k] = (float)rdg_rng_below(&rng, 3);
        snprintf(name, sizeof name, "blk.%d.attn_q.weight", i);
        assert_ok(rdg_imatrix_add(m, name, n_columns, n_matrices, sums, counts, &e), &e);
    }
    rdg_imatrix_set_chunks(m, 12, 512);
    assert_ok(rdg_imatrix_add_dataset(m, "calib.txt", &e), &e);
    assert_ok(rdg_imatrix_add_dataset(m, "m\xc3\xa9.txt", &e), &e);
    assert_error(rdg_imatrix_add_dataset(m, "a\033[2J", &e), RDG_E_MALFORMED, &e, "'a\\x1b[2J'");
    for (int i = 2; i < 4096; i++) assert_ok(rdg_imatrix_add_dataset(m, "more", &e), &e);
    assert_error(rdg_imatrix_add_dataset(m, "too many", &e), RDG_E_LIMIT, &e, "4096 datasets");
    assert_ok(rdg_imatrix_write(m, path, &e), &e);
    assert_ok(rdg_imatrix_read(path, &back, &e), &e);
    assert_int_equal(rdg_imatrix_n(back), N);
    for (int i = 0; i < N; i++) {
        const rdg_imatrix_entry *a = rdg_imatrix_at(m, i), *b = rdg_imatrix_at(back, i);
        assert_string_equal(a->name, b->name);
        assert_int_equal(a->n_columns, b->n_columns);
        assert_int_equal(a->n_matrices, b->n_matrices);
        assert_memory_equal(a->sums, b->sums, (size_t)(a->n_columns * a->n_matrices) * 4);
        assert_memory_equal(a->counts, b->counts, (size_t)a->n_matrices * 4);
    }
    assert_int_equal(rdg_imatrix_chunk_count(back), 12);
    assert_int_equal(rdg_imatrix_chunk_size(back), 512);
    assert_int_equal(rdg_imatrix_n_datasets(back), 4096);
    assert_string_equal(rdg_imatrix_dataset(back, 1), "m\xc3\xa9.txt");
    assert_null(rdg_imatrix_dataset(back, 4096));
    rdg_imatrix_destroy(back);
    rdg_imatrix_destroy(m);
    unlink(path);
    rdg_free(path);
}

static void test_refused_writes(void **state)
{
    (void)state;
    rdg_imatrix *m;
    rdg_error e;
    const float one = 1;
    char name[80];
    char *path = rdg_path_join(dir, "none.gguf");
    assert_ok(rdg_imatrix_create(&m, &e), &e);
    assert_error(rdg_imatrix_write(m, path, &e), RDG_E_ARGUMENT, &e, "no weights");
    memset(name, 'n', sizeof name);
    name[60] = 0;
    assert_ok(rdg_imatrix_add(m, name, 1, 1, &one, &one, &e), &e);
    assert_error(rdg_imatrix_write(m, path, &e), RDG_E_ARGUMENT, &e, "68 bytes"); /* with its suffix */
    rdg_imatrix_set_chunks(m, -1, 0);
    assert_error(rdg_imatrix_write(m, path, &e), RDG_E_ARGUMENT, &e, "-1 chunks");
    assert_false(rdg_file_exists(path));
    rdg_imatrix_destroy(m);
    rdg_free(path);
}

/* GGUF files that are no valid matrix. NULL data writes ones. */
typedef struct gguf_case {
    const char *type; /* general.type, NULL = unset */
    const char *sums_name, *counts_name;
    int64_t sums_dim[3], counts_dim[2];
    float sum, count;
    const char *part;
} gguf_case;

static void write_case(const char *path, const gguf_case *c)
{
    rdg_gguf_writer *w;
    rdg_error e;
    assert_ok(rdg_gguf_writer_create(path, &w, &e), &e);
    if (c->type) rdg_gguf_set_str(w, "general.type", c->type);
    rdg_gguf_add_tensor(w, c->sums_name, RDG_TYPE_F32, 3, c->sums_dim);
    rdg_gguf_add_tensor(w, c->counts_name, RDG_TYPE_F32, 2, c->counts_dim);
    assert_ok(rdg_gguf_writer_begin(w, &e), &e);
    for (int64_t i = 0; i < c->sums_dim[0] * c->sums_dim[1] * c->sums_dim[2]; i++)
        assert_ok(rdg_gguf_write_data(w, &c->sum, 4, &e), &e);
    for (int64_t i = 0; i < c->counts_dim[0] * c->counts_dim[1]; i++)
        assert_ok(rdg_gguf_write_data(w, &c->count, 4, &e), &e);
    assert_ok(rdg_gguf_writer_finish(w, &e), &e);
    rdg_gguf_writer_destroy(w);
}

static void test_gguf_lies(void **state)
{
    (void)state;
    const gguf_case cases[] = {
        {NULL, "w.in_sum2", "w.counts", {2, 1, 1}, {1, 1}, 1, 1, "is absent"},
        {"model", "w.in_sum2", "w.counts", {2, 1, 1}, {1, 1}, 1, 1, "is 'model'"},
        {"imatrix", "w.in_sum2", "v.counts", {2, 1, 1}, {1, 1}, 1, 1, "'w.counts' is missing"},
        {"imatrix", "w.in_sum", "w.counts", {2, 1, 1}, {1, 1}, 1, 1, "no weights"},
        {"imatrix", "w.in_sum2", "w.sums", {2, 1, 1}, {1, 1}, 1, 1, "'w.counts' is missing"},
        {"imatrix", "w.in_sum2", "w.counts", {2, 3, 1}, {1, 2}, 1, 1, "n x m"},
        {"imatrix", "w.in_sum2", "w.counts", {2, 1, 3}, {1, 1}, 1, 1, "n x m"},
        {"imatrix",
         "w.in_sum2",
         "w.counts",
         {2, 1, 1},
         {1, 1},
         NAN,
         1,
         "'w': the sum of matrix 0, column 0 is"},
        {"imatrix", "w.in_sum2", "w.counts", {2, 1, 1}, {1, 1}, -1, 1, "is -1"},
        {"imatrix", "w.in_sum2", "w.counts", {2, 1, 1}, {1, 1}, 1, INFINITY, "the count of matrix 0 is inf"},
        {"imatrix", "w.in_sum2", "w.counts", {2, 1, 1}, {1, 1}, 1, -2, "the count of matrix 0 is -2"},
        {"imatrix", "w.in_sum2", "w.counts", {2, 1, 1}, {1, 1}, 3e38f, 1e-40f, "too large"},
        {"imatrix", "w.in_sum2", "w.counts", {2, 3, 1}, {1, 3}, 1, 0, NULL},
        {"imatrix", "w.sums", "w.counts", {2, 3, 1}, {3, 1}, 1, 5, NULL},
    };
    char *path = rdg_path_join(dir, "case.gguf");
    for (int i = 0; i < RDG_COUNTOF(cases); i++) {
        rdg_imatrix *m;
        rdg_error e = {0};
        write_case(path, &cases[i]);
        rdg_err err = rdg_imatrix_read(path, &m, &e);
        print_message("%s\n", e.message);
        if (cases[i].part) {
            assert_true(err == RDG_E_MALFORMED || err == RDG_E_UNSUPPORTED);
            assert_non_null(strstr(e.message, cases[i].part));
            assert_non_null(strstr(e.message, path));
        } else {
            assert_ok(err, &e);
            assert_int_equal(rdg_imatrix_at(m, 0)->n_matrices, 3);
        }
        rdg_imatrix_destroy(m);
    }
    unlink(path);
    rdg_free(path);
}

/* The legacy form
 * --------------------------------------------------------------------------------------------- */

static void put_i32(rdg_buf *b, int32_t v)
{
    rdg_buf_append(b, &v, sizeof v);
}

static void put_dat_entry(rdg_buf *b, const char *name, int32_t n_calls, int32_t n_values,
                          const float *values)
{
    put_i32(b, (int32_t)strlen(name));
    rdg_buf_puts(b, name);
    put_i32(b, n_calls);
    put_i32(b, n_values);
    rdg_buf_append(b, values, (size_t)n_values * 4);
}

static void put_dat(rdg_buf *b)
{
    const float values[] = {2, 4, 6};
    put_i32(b, 2);
    put_dat_entry(b, "w2", 4, 3, values);
    put_dat_entry(b, "w1", 0, 2, values);
}

static void test_legacy(void **state)
{
    (void)state;
    rdg_imatrix *m;
    rdg_error e;
    rdg_buf b;
    float values[3];
    rdg_buf_init(&b);
    put_dat(&b);
    size_t without_trailers = b.len;
    put_i32(&b, 7);
    put_i32(&b, 5);
    rdg_buf_puts(&b, "c.txt");
    assert_ok(rdg_imatrix_parse(b.data, b.len, &m, &e), &e);
    assert_int_equal(rdg_imatrix_n(m), 2);
    const rdg_imatrix_entry *w2 = rdg_imatrix_at(m, 1);
    assert_string_equal(w2->name, "w2");
    assert_int_equal(rdg_imatrix_values(w2, values), 0);
    const float means[] = {0.5f, 1, 1.5f}; /* divided by the calls */
    assert_memory_equal(values, means, sizeof means);
    assert_int_equal(rdg_imatrix_values(rdg_imatrix_find(m, "w1"), values), 0);
    assert_true(values[0] == 2 && values[1] == 4);
    assert_int_equal(rdg_imatrix_chunk_count(m), 7);
    assert_string_equal(rdg_imatrix_dataset(m, 0), "c.txt");
    rdg_imatrix_destroy(m);
    /* cut anywhere, it is an error, but for the two places where the optional trailers begin */
    for (size_t n = 0; n < b.len; n++) {
        char *cut = malloc(n ? n : 1);
        memcpy(cut, b.data, n);
        bool legal = n == without_trailers || n == without_trailers + 4;
        assert_int_equal(rdg_imatrix_parse(cut, n, &m, &e), legal ? RDG_OK : RDG_E_MALFORMED);
        rdg_imatrix_destroy(m);
        free(cut);
    }
    int32_t negative = -7;
    memcpy(b.data + without_trailers, &negative, 4);
    assert_error(rdg_imatrix_parse(b.data, b.len, &m, &e), RDG_E_MALFORMED, &e, "the number of chunks is -7");
    negative = 7;
    memcpy(b.data + without_trailers, &negative, 4);
    rdg_buf_putc(&b, 'x');
    assert_error(rdg_imatrix_parse(b.data, b.len, &m, &e), RDG_E_MALFORMED, &e, "1 bytes after the end");
    rdg_buf_finish(&b);
}

static void refuse_patched(size_t offset, int32_t v, const char *part)
{
    rdg_imatrix *m;
    rdg_error e = {0};
    rdg_buf b;
    rdg_buf_init(&b);
    put_dat(&b);
    memcpy(b.data + offset, &v, 4);
    assert_error(rdg_imatrix_parse(b.data, b.len, &m, &e), RDG_E_MALFORMED, &e, part);
    rdg_buf_finish(&b);
}

static void test_legacy_lies(void **state)
{
    (void)state;
    const int32_t counts[] = {0, -1, INT32_MIN, INT32_MAX, 100000};
    for (int i = 0; i < RDG_COUNTOF(counts); i++) {
        refuse_patched(0, counts[i], "the number of weights");
        refuse_patched(4, counts[i], "the length of a name");
        refuse_patched(14, counts[i], "the number of values");
    }
    refuse_patched(10, -4, "the number of calls");
    refuse_patched(8, 0x00410041, "a name holds a NUL");
    refuse_patched(8, 0x0a0a0a0a, "printable");
    refuse_patched(18, 0x7fc00000, "column 0 is nan");
    refuse_patched(22, 0x7f800000, "column 1 is inf");
    refuse_patched(22, (int32_t)0xbf800000, "column 1 is -1");
    refuse_patched(34, 0x00003277 | 4 << 16, "appears twice"); /* w1 becomes w2 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_add),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_refused_writes),
        cmocka_unit_test(test_gguf_lies),
        cmocka_unit_test(test_legacy),
        cmocka_unit_test(test_legacy_lies),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}

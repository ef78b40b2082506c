/* Every allocation and every system call of the file formats fails once: the result is NOMEM or IO with a
 * message, and nothing is left behind, in memory or on disk. */
#include "../support/support.h"
#include "../support/fault.h"
#include <ridge/imatrix.h>
#include "base/file.h"
#include "base/mem.h"
#include "format/npy.h"
#include "format/safetensors.h"
#include "format/verify.h"

#include <dirent.h>
#include <unistd.h>

static char dir[] = "/tmp/ridge-fault-XXXXXX";
static char *gguf_path, *split_path, *split_first, *matrix_path, *npy_path;

/* By scandir, whose own calls are inside libc and not made to fail. */
static int count_files(void)
{
    struct dirent **entries;
    int n = scandir(dir, &entries, NULL, NULL);
    for (int i = 0; i < n; i++) fault_free_foreign(entries[i]);
    if (n >= 0) fault_free_foreign(entries);
    return n - 2;
}

/* A fault must leave no file; success leaves so many, which are removed here. */
static rdg_err leaves(rdg_err err, int n_before, int n_more)
{
    if (!err == (count_files() == n_before + n_more)) return err;
    print_error("%d files more after %s\n", count_files() - n_before, rdg_err_name(err));
    return RDG_E_INTERNAL;
}

static rdg_err write_gguf(const char *path, uint64_t part_bytes, rdg_error *e)
{
    const rdg_str strings[] = {{"one", 3}, {"two", 3}};
    const float data[64] = {1, 2, 3};
    const int64_t dim[2] = {8, 4};
    rdg_gguf_writer *w = NULL;
    rdg_err err = rdg_gguf_writer_create(path, &w, e);
    if (err) goto done;
    rdg_gguf_set_str(w, "general.architecture", "llama");
    rdg_gguf_set_str(w, "sum", "0000");
    rdg_gguf_set_u32(w, "general.alignment", 64);
    rdg_gguf_set_str_array(w, "strings", strings, 2);
    rdg_gguf_set_array(w, "numbers", RDG_GGUF_FLOAT32, data, 64);
    rdg_gguf_add_tensor(w, "a", RDG_TYPE_F32, 2, dim);
    rdg_gguf_add_tensor(w, "b", RDG_TYPE_F32, 2, dim);
    rdg_gguf_writer_split(w, part_bytes);
    if ((err = rdg_gguf_writer_begin(w, e))) goto done;
    for (int i = 0; i < 2; i++)
        if ((err = rdg_gguf_write_data(w, data, 128, e))) goto done;
    if ((err = rdg_gguf_writer_patch_str(w, "sum", "beef", e))) goto done;
    err = rdg_gguf_writer_finish(w, e);
done:
    rdg_gguf_writer_destroy(w);
    return err;
}

static rdg_err write_one(void *ctx, rdg_error *e)
{
    char *path = ctx;
    int n = count_files();
    rdg_err err = leaves(write_gguf(path, 0, e), n, 1);
    unlink(path);
    return err;
}

static rdg_err write_split(void *ctx, rdg_error *e)
{
    const char *folder = ctx;
    char path[128], part[160];
    int n = count_files();
    snprintf(path, sizeof path, "%s/s.gguf", folder);
    rdg_err err = leaves(write_gguf(path, 128, e), n, 2);
    for (int i = 1; i <= 2; i++) {
        snprintf(part, sizeof part, "%s/s-%05d-of-00002.gguf", folder, i);
        unlink(part);
    }
    return err;
}

static rdg_err read_gguf(void *ctx, rdg_error *e)
{
    rdg_gguf *g;
    rdg_verify_result result;
    rdg_err err = rdg_gguf_open(ctx, NULL, &g, e);
    if (!err) err = rdg_gguf_verify(g, 2, NULL, &result, e);
    if (!err) rdg_verify_result_finish(&result);
    rdg_gguf_close(g);
    return err;
}

static rdg_err parse_unordered(void *ctx, rdg_error *e)
{
    (void)ctx;
    /* two tensors in descending order: the reader has to sort */
    static const unsigned char file[] = "GGUF\3\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                                        "\1\0\0\0\0\0\0\0a\1\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\x20\0\0\0\0\0\0\0"
                                        "\1\0\0\0\0\0\0\0b\1\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                                        "123456"
                                        "01234567890123456789012345678901"
                                        "0123";
    rdg_gguf *g;
    rdg_err err = rdg_gguf_parse(file, sizeof file - 1, &g, e);
    rdg_gguf_close(g);
    return err;
}

static rdg_err read_safetensors(void *ctx, rdg_error *e)
{
    rdg_safetensors *s;
    rdg_err err = rdg_safetensors_open(ctx, NULL, &s, e);
    if (!err) err = rdg_safetensors_recheck(s, e);
    rdg_safetensors_close(s);
    return err;
}

static rdg_err make_matrix(rdg_imatrix **m, rdg_error *e)
{
    const float sums[] = {1, 2, 3, 4}, counts[] = {1, 2};
    rdg_err err = rdg_imatrix_create(m, e);
    if (!err) err = rdg_imatrix_add(*m, "b", 2, 2, sums, counts, e);
    if (!err) err = rdg_imatrix_add(*m, "a", 4, 1, sums, counts, e);
    if (!err) err = rdg_imatrix_add(*m, "a", 4, 1, sums, counts, e);
    if (!err) err = rdg_imatrix_add_dataset(*m, "calib.txt", e);
    return err;
}

static rdg_err write_matrix(void *ctx, rdg_error *e)
{
    rdg_imatrix *m = NULL;
    int n = count_files();
    rdg_err err = make_matrix(&m, e);
    if (!err) err = leaves(rdg_imatrix_write(m, ctx, e), n, 1);
    rdg_imatrix_destroy(m);
    unlink(ctx);
    return err;
}

static rdg_err read_matrix(void *ctx, rdg_error *e)
{
    rdg_imatrix *m;
    rdg_err err = rdg_imatrix_read(ctx, &m, e);
    rdg_imatrix_destroy(m);
    return err;
}

static rdg_err parse_legacy(void *ctx, rdg_error *e)
{
    static const unsigned char file[] = "\1\0\0\0\1\0\0\0w\1\0\0\0\1\0\0\0\0\0\0\0\7\0\0\0\1\0\0\0d";
    rdg_imatrix *m;
    (void)ctx;
    rdg_err err = rdg_imatrix_parse(file, sizeof file - 1, &m, e);
    rdg_imatrix_destroy(m);
    return err;
}

static rdg_err write_npy(void *ctx, rdg_error *e)
{
    const float row[3] = {1, 2, 3};
    rdg_npy_writer w;
    int n = count_files();
    rdg_err err = rdg_npy_writer_open(&w, ctx, 3, e);
    if (!err) err = rdg_npy_write_rows(&w, row, 1, e);
    if (!err) err = rdg_npy_writer_commit(&w, e);
    rdg_npy_writer_close(&w);
    err = leaves(err, n, 1);
    unlink(ctx);
    return err;
}

static rdg_err read_npy(void *ctx, rdg_error *e)
{
    rdg_npy a;
    rdg_err err = rdg_npy_read(ctx, &a, e);
    rdg_npy_finish(&a);
    return err;
}

/* Each must have met at least so many faults: fewer would mean that the wrapping does not work. */
static void both(fault_fn *fn, void *ctx, int64_t min_alloc, int64_t min_io)
{
    int64_t n_alloc = fault_each(FAULT_ALLOC, fn, ctx), n_io = min_io ? fault_each(FAULT_IO, fn, ctx) : 0;
    print_message("%lld allocations and %lld system calls failed\n", (long long)n_alloc, (long long)n_io);
    assert_true(n_alloc >= min_alloc);
    assert_true(n_io >= min_io);
}

static void test_gguf(void **state)
{
    (void)state;
    char *path = rdg_path_join(dir, "w.gguf");
    both(write_one, path, 10, 5);
    both(write_split, dir, 12, 9);
    both(read_gguf, gguf_path, 6, 4);
    both(read_gguf, split_first, 10, 8);
    both(parse_unordered, NULL, 5, 0);
    rdg_free(path);
}

static void test_safetensors(void **state)
{
    (void)state;
    const char *source = getenv("RIDGE_SOURCE_DIR");
    if (!source) skip();
    char *folder = rdg_path_join(source, "models/ridge-tiny"),
         *file = rdg_path_join(source, "tests/data/golden/llama");
    both(read_safetensors, folder, 10, 10);
    both(read_safetensors, file, 8, 5); /* without an index */
    assert_true(fault_each(FAULT_JSON, read_safetensors, folder) > 100);
    rdg_free(folder);
    rdg_free(file);
}

static void test_imatrix(void **state)
{
    (void)state;
    char *path = rdg_path_join(dir, "i.gguf");
    both(write_matrix, path, 15, 4);
    both(read_matrix, matrix_path, 6, 3);
    both(parse_legacy, NULL, 3, 0);
    rdg_free(path);
}

static void test_npy(void **state)
{
    (void)state;
    char *path = rdg_path_join(dir, "w.npy");
    both(write_npy, path, 3, 5);
    both(read_npy, npy_path, 1, 3);
    rdg_free(path);
}

static int set_up(void **state)
{
    const float row[3] = {1, 2, 3};
    rdg_error e;
    rdg_imatrix *m = NULL;
    rdg_npy_writer w;
    (void)state;
    if (!mkdtemp(dir)) return -1;
    gguf_path = rdg_path_join(dir, "one.gguf");
    split_path = rdg_path_join(dir, "split.gguf");
    split_first = rdg_path_join(dir, "split-00001-of-00002.gguf");
    matrix_path = rdg_path_join(dir, "matrix.gguf");
    npy_path = rdg_path_join(dir, "a.npy");
    bool failed = write_gguf(gguf_path, 0, &e) || write_gguf(split_path, 128, &e) || make_matrix(&m, &e) ||
                  rdg_imatrix_write(m, matrix_path, &e) || rdg_npy_writer_open(&w, npy_path, 3, &e) ||
                  rdg_npy_write_rows(&w, row, 1, &e) || rdg_npy_writer_commit(&w, &e);
    rdg_imatrix_destroy(m);
    return failed ? -1 : 0;
}

static int tear_down(void **state)
{
    char *second = rdg_path_join(dir, "split-00002-of-00002.gguf");
    char *const paths[] = {gguf_path, split_path, split_first, second, matrix_path, npy_path};
    (void)state;
    for (int i = 0; i < RDG_COUNTOF(paths); i++) {
        unlink(paths[i]);
        rdg_free(paths[i]);
    }
    return rmdir(dir); /* fails when something was left behind */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gguf),
        cmocka_unit_test(test_safetensors),
        cmocka_unit_test(test_imatrix),
        cmocka_unit_test(test_npy),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

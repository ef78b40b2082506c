/* GGUF on disk: sparse files with room for every lie, what is no file, bytes that belong to nothing, and
 * split models whose parts do not fit. */
#include "../support/gguf_hostile.h"
#include "../support/temp_dir.h"
#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char *in_dir(const char *name)
{
    char *path = rdg_path_join(dir, name);
    assert_non_null(path);
    return path;
}

static void write_file(const char *path, const rdg_buf *b)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b->data, 1, b->len, f), b->len);
    assert_int_equal(fclose(f), 0);
}

/* A sparse file may be huge: limits must hold where the bytes do exist. */
static void test_sparse(void **state)
{
    (void)state;
    const uint64_t size = (uint64_t)1 << 36;
    char *path = in_dir("sparse.gguf");
    rdg_error e;
    rdg_gguf *g;
    rdg_buf b;
    rdg_buf_init(&b);
    put_header(&b, 0, 1);
    put_array(&b, "k", STR, (uint64_t)1 << 32);
    write_file(path, &b);
    assert_int_equal(truncate(path, (off_t)size), 0);
    assert_error(rdg_gguf_open(path, NULL, &g, &e), RDG_E_LIMIT, &e, "4294967296 strings");
    rdg_buf_clear(&b);
    put_header(&b, (uint64_t)1 << 30, 0);
    write_file(path, &b);
    assert_int_equal(truncate(path, (off_t)size), 0);
    assert_error(rdg_gguf_open(path, NULL, &g, &e), RDG_E_LIMIT, &e, "1073741824 tensors");
    rdg_buf_clear(&b);
    put_header(&b, 0, 1);
    put_key(&b, "k", STR);
    put_u64(&b, (uint64_t)1 << 30);
    write_file(path, &b);
    assert_int_equal(truncate(path, (off_t)size), 0);
    assert_error(rdg_gguf_open(path, NULL, &g, &e), RDG_E_LIMIT, &e, "the limit is 67108864");
    unlink(path);
    rdg_free(path);
    rdg_buf_finish(&b);
}

static void test_no_files(void **state)
{
    (void)state;
    rdg_error e;
    rdg_gguf *g;
    char *path = in_dir("fifo");
    assert_error(rdg_gguf_open(dir, NULL, &g, &e), RDG_E_IO, &e, "directory");
    assert_error(rdg_gguf_open(path, NULL, &g, &e), RDG_E_IO, &e, path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_error(rdg_gguf_open(path, NULL, &g, &e), RDG_E_IO, &e, "not a regular file");
    unlink(path);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    close(fd);
    assert_error(rdg_gguf_open(path, NULL, &g, &e), RDG_E_MALFORMED, &e, "empty");
    unlink(path);
    rdg_free(path);
}

static void count_warning(void *user, rdg_log_level level, const char *text)
{
    *(int *)user += level == RDG_LOG_WARN && strstr(text, "belong to nothing");
}

static void test_trailing_bytes(void **state)
{
    (void)state;
    int n_warnings = 0;
    const rdg_log log = {.message = count_warning, .user = &n_warnings};
    char *path = in_dir("trailing.gguf");
    rdg_error e;
    rdg_gguf *g;
    rdg_buf b;
    rdg_buf_init(&b);
    tensor(&b, "t", 1, 4, 0, F32, 0); /* 16 of 4096 bytes used */
    write_file(path, &b);
    assert_ok(rdg_gguf_open(path, &log, &g, &e), &e);
    assert_int_equal(n_warnings, 1);
    rdg_gguf_close(g);
    unlink(path);
    rdg_free(path);
    rdg_buf_finish(&b);
}

/* Split models
 * ------------------------------------------------------------------------------------------------ */

typedef struct split_case {
    uint32_t no[2], count[2], total;
    const char *name_1; /* of the tensor in the second part */
    bool second_lacks_keys, second_missing;
    rdg_err code;
    const char *part;
} split_case;

static void write_part(const char *file, const split_case *c, int i)
{
    char *path = in_dir(file);
    bool keys = i == 0 || !c->second_lacks_keys;
    rdg_buf b;
    rdg_buf_init(&b);
    put_header(&b, 1, keys ? 3 : 0);
    if (keys) {
        put_kv_u32(&b, "split.no", c->no[i]);
        put_kv_u32(&b, "split.count", c->count[i]);
        put_kv_u32(&b, "split.tensors.count", c->total);
    }
    put_tensor(&b, i == 0 ? "a" : c->name_1, 1, 8, 0, F32, 0);
    put_data(&b, 32, 32);
    write_file(path, &b);
    rdg_buf_finish(&b);
    rdg_free(path);
}

static void test_split(void **state)
{
    (void)state;
    const split_case cases[] = {
        {{0, 1}, {2, 2}, 2, "b", false, false, RDG_OK, NULL},
        {{0, 0}, {2, 2}, 2, "b", false, false, RDG_E_MALFORMED, "says it is part 1 of 2 where part 2 of 2"},
        {{0, 1}, {2, 3}, 2, "b", false, false, RDG_E_MALFORMED, "says it is part 2 of 3"},
        {{0, 1}, {2, 2}, 3, "b", false, false, RDG_E_MALFORMED, "the parts hold 2 tensors"},
        {{0, 1}, {2, 2}, 2, "a", false, false, RDG_E_MALFORMED, "'a': the tensor appears twice"},
        {{0, 1}, {2, 2}, 2, "b", true, false, RDG_E_MALFORMED, "'split.no' is missing"},
        {{0, 1}, {2, 2}, 2, "b", false, true, RDG_E_IO, "m-00002-of-00002.gguf"},
        {{1, 1}, {2, 2}, 2, "b", false, false, RDG_E_ARGUMENT, "open the first part"},
        {{0, 1}, {65535, 2}, 2, "b", false, false, RDG_E_UNSUPPORTED, "'-00001-of-65535.gguf'"},
        {{0, 1}, {65536, 2}, 2, "b", false, false, RDG_E_MALFORMED, "no integer from 0 to 65535"},
        {{0, 1},
         {2, 2},
         UINT32_MAX,
         "b",
         false,
         false,
         RDG_E_MALFORMED,
         "'split.tensors.count' is no integer"},
        {{0, 1}, {1, 2}, 1, "b", false, false, RDG_OK, NULL}, /* one part is a file like any other */
    };
    char *first = in_dir("m-00001-of-00002.gguf"), *second = in_dir("m-00002-of-00002.gguf");
    for (int i = 0; i < RDG_COUNTOF(cases); i++) {
        const split_case *c = &cases[i];
        rdg_error e = {0};
        rdg_gguf *g;
        write_part("m-00001-of-00002.gguf", c, 0);
        write_part("m-00002-of-00002.gguf", c, 1);
        if (c->second_missing) unlink(second);
        print_message("split case %d\n", i);
        if (c->code) {
            assert_error(rdg_gguf_open(first, NULL, &g, &e), c->code, &e, c->part);
            assert_null(g);
        } else {
            assert_ok(rdg_gguf_open(first, NULL, &g, &e), &e);
            assert_int_equal(rdg_gguf_n_parts(g), c->count[0]);
            rdg_gguf_close(g);
        }
    }
    unlink(first);
    unlink(second);
    rdg_free(first);
    rdg_free(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sparse),
        cmocka_unit_test(test_no_files),
        cmocka_unit_test(test_trailing_bytes),
        cmocka_unit_test(test_split),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}

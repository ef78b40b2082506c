/* .npy files: what is written is read back, known bytes, files that lie. */
#include "../support/support.h"
#include "base/mem.h"
#include "format/npy.h"

#include <unistd.h>

static void test_round_trip(void **state)
{
    (void)state;
    char path[] = "/tmp/ridge-npy-XXXXXX";
    const float rows[6] = {1, -2, 3.5f, 0, 1e-40f, 3e38f};
    rdg_npy_writer w;
    rdg_npy a;
    rdg_error e;
    unsigned char *raw;
    size_t bytes;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_ok(rdg_npy_writer_open(&w, path, 3, &e), &e);
    assert_ok(rdg_npy_write_rows(&w, rows, 1, &e), &e);
    assert_ok(rdg_npy_write_rows(&w, rows + 3, 1, &e), &e);
    assert_error(rdg_npy_write_rows(&w, rows, -1, &e), RDG_E_ARGUMENT, &e, "-1 rows");
    assert_ok(rdg_npy_writer_commit(&w, &e), &e);
    rdg_npy_writer_close(&w);
    assert_ok(rdg_npy_read(path, &a, &e), &e);
    assert_int_equal(a.type, RDG_NPY_FLOAT32);
    assert_int_equal(a.n_dims, 2);
    assert_int_equal(a.shape[0], 2);
    assert_int_equal(a.shape[1], 3);
    assert_int_equal(a.shape[2], 1);
    assert_memory_equal(a.f32, rows, sizeof rows);
    rdg_npy_finish(&a);
    assert_ok(rdg_file_read(path, 1000, false, (char **)&raw, &bytes, &e), &e);
    assert_int_equal(bytes, 128 + sizeof rows);
    assert_memory_equal(
        raw, "\x93NUMPY\1\0\x76\0{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } ", 70);
    assert_int_equal(raw[127], '\n');
    rdg_free(raw);
    /* abandoned: the old file stays */
    assert_ok(rdg_npy_writer_open(&w, path, 1, &e), &e);
    rdg_npy_writer_close(&w);
    assert_true(rdg_file_exists(path));
    unlink(path);
    assert_error(rdg_npy_writer_open(&w, path, 0, &e), RDG_E_ARGUMENT, &e, "0 columns");
}

static rdg_err parse(const char *dictionary, size_t data_bytes, rdg_npy *a, rdg_error *e)
{
    char file[512] = "\x93NUMPY\1\0";
    uint16_t n = (uint16_t)strlen(dictionary);
    const int32_t values[] = {5, -6, 7, 8, 9, 10, 11, 12};
    memcpy(file + 8, &n, 2);
    memcpy(file + 10, dictionary, n);
    memcpy(file + 10 + n, values, sizeof values);
    return rdg_npy_parse(file, 10 + n + data_bytes, a, e);
}

static void test_parse(void **state)
{
    (void)state;
    const struct {
        const char *dictionary;
        size_t data_bytes;
        rdg_err code;
    } cases[] = {
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }\n", 24, RDG_OK},
        {"{'shape':(6,),'fortran_order':False,'descr':'<i4'}", 24, RDG_OK},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (), }", 4, RDG_OK},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (0, 5)}", 0, RDG_OK},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }", 20, RDG_E_MALFORMED},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }", 28, RDG_E_MALFORMED},
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (2, 3), }", 24, RDG_E_UNSUPPORTED},
        {"{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }", 24, RDG_E_UNSUPPORTED},
        {"{'descr': '<i4', 'shape': (2, 3), }", 24, RDG_E_MALFORMED},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (-2, -3), }", 24, RDG_E_MALFORMED},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (1,1,1,1,6), }", 24, RDG_E_MALFORMED},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", 24,
         RDG_E_MALFORMED},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (4611686018427387905, 1), }", 4, RDG_E_MALFORMED},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (4611686018427387904, 4, 0), }", 0,
         RDG_E_MALFORMED},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999, 1), }", 4,
         RDG_E_MALFORMED},
        {"{'descr': '<i4', 'descr': '<i4', 'fortran_order': False, 'shape': (1,), }", 4, RDG_E_MALFORMED},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), 'x': 1}", 24, RDG_E_MALFORMED},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3)", 24, RDG_E_MALFORMED},
        {"", 24, RDG_E_MALFORMED},
        {"{", 24, RDG_E_MALFORMED},
        {"{}", 24, RDG_E_MALFORMED},
    };
    for (int i = 0; i < RDG_COUNTOF(cases); i++) {
        rdg_npy a;
        rdg_error e = {0};
        print_message("%s\n", cases[i].dictionary);
        assert_int_equal(parse(cases[i].dictionary, cases[i].data_bytes, &a, &e), cases[i].code);
        if (!cases[i].code) {
            assert_int_equal(a.type, RDG_NPY_INT32);
            assert_int_equal(a.n_elements, cases[i].data_bytes / 4);
            if (a.n_elements > 1) assert_int_equal(a.i32[1], -6);
        } else {
            assert_null(a.i32);
        }
        rdg_npy_finish(&a);
    }
}

static void test_prefix(void **state)
{
    (void)state;
    rdg_npy a;
    rdg_error e;
    assert_error(rdg_npy_parse("\x93NUMPX\1\0\1\0{}", 12, &a, &e), RDG_E_MALFORMED, &e, "does not begin");
    assert_error(rdg_npy_parse("\x93NUMPY\4\0\1\0{}", 12, &a, &e), RDG_E_UNSUPPORTED, &e, "version 4");
    assert_error(rdg_npy_parse("\x93NUMPY\1\0\3\0{}", 12, &a, &e), RDG_E_MALFORMED, &e, "a header of 3");
    assert_error(rdg_npy_parse("\x93NUMPY\2\0\xff\xff\xff\xff", 12, &a, &e), RDG_E_MALFORMED, &e,
                 "a header of");
    for (size_t n = 0; n < 12; n++)
        assert_error(rdg_npy_parse("\x93NUMPY\1\0\1\0{}", n, &a, &e), RDG_E_MALFORMED, &e, "does not begin");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_prefix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

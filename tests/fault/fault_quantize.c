/* rdg_quantize_file when the Nth allocation, write or sync fails, for every N: an error, no leak, no file. */
#include <ridge/imatrix.h>
#include <ridge/quantize.h>
#include "base/compiler.h"
#include "base/mem.h"
#include "../support/support.h"
#include "../support/fault.h"

#include <dirent.h>
#include <unistd.h>

static char dir[] = "/tmp/ridge-fault-XXXXXX";
static char in_path[64], out_path[64];

static int setup(void **state)
{
    const int64_t dim[3] = {256, 4, 3}, norm[1] = {256};
    static float data[256 * 4 * 3];
    rdg_gguf_writer *w;
    rdg_error e = {0};
    (void)state;
    if (!mkdtemp(dir)) return -1;
    snprintf(in_path, sizeof in_path, "%s/in.gguf", dir);
    snprintf(out_path, sizeof out_path, "%s/out.gguf", dir);
    for (int i = 0; i < RDG_COUNTOF(data); i++) data[i] = (float)(i % 97) - 48.0f;
    assert_ok(rdg_gguf_writer_create(in_path, &w, &e), &e);
    rdg_gguf_set_str(w, "general.architecture", "llama");
    rdg_gguf_set_u32(w, "llama.expert_count", 3);
    rdg_gguf_add_tensor(w, "blk.0.ffn_up_exps.weight", RDG_TYPE_F32, 3, dim);
    rdg_gguf_add_tensor(w, "blk.0.attn_norm.weight", RDG_TYPE_F32, 1, norm);
    rdg_gguf_add_tensor(w, "blk.0.ffn_down.weight", RDG_TYPE_F32, 2, (const int64_t[]){96, 5});
    assert_ok(rdg_gguf_writer_begin(w, &e), &e);
    assert_ok(rdg_gguf_write_data(w, data, sizeof data, &e), &e);
    assert_ok(rdg_gguf_write_data(w, data, 1024, &e), &e);
    assert_ok(rdg_gguf_write_data(w, data, 96 * 5 * 4, &e), &e);
    assert_ok(rdg_gguf_writer_finish(w, &e), &e);
    rdg_gguf_writer_destroy(w);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(in_path);
    unlink(out_path);
    return rmdir(dir);
}

static void every_fault(fault_kind kind, rdg_err expected, uint64_t split_bytes)
{
    static const float sums[256 * 3] = {1}, counts[3] = {1, 0, 1};
    const rdg_tensor_override o = {"ffn_down", RDG_TYPE_Q5_K};
    rdg_imatrix *m;
    rdg_error e = {0};
    assert_ok(rdg_imatrix_create(&m, &e), &e);
    assert_ok(rdg_imatrix_add(m, "blk.0.ffn_up_exps.weight", 256, 3, sums, counts, &e), &e);
    rdg_quantize_params p = {.recipe = RDG_RECIPE_Q4_K_M,
                             .imatrix = m,
                             .overrides = &o,
                             .n_overrides = 1,
                             .output_type = -1,
                             .token_embedding_type = -1,
                             .n_threads = 2,
                             .split_bytes = split_bytes};
    int n;
    for (n = 1;; n++) {
        rdg_quantize_result r;
        int64_t live = fault_live();
        assert_true(n < 10000);
        memset(&e, 0, sizeof e);
        fault_start(kind, n);
        rdg_err err = rdg_quantize_file(in_path, out_path, &p, &r, &e);
        bool faulted = fault_stop();
        if (!faulted) {
            assert_ok(err, &e);
            rdg_quantize_result_finish(&r);
            assert_int_equal(fault_live(), live);
            break;
        }
        if (err != expected) fail_msg("fault %d: %s: %s", n, rdg_err_name(err), e.message);
        assert_int_equal(e.code, expected);
        assert_true(e.message[0] != '\0');
        assert_null(r.tensors);
        assert_int_equal(fault_live(), live);
        assert_int_equal(files_in(dir), 1);
    }
    print_message("%d faults\n", n - 1);
    assert_true(n > (kind == FAULT_ALLOC ? 20 : kind == FAULT_WRITE ? 2 : 1));
    rdg_imatrix_destroy(m);
    DIR *d = opendir(dir);
    char path[400];
    for (struct dirent *f; (f = readdir(d));) { /* the output, whole or in parts */
        snprintf(path, sizeof path, "%s/%s", dir, f->d_name);
        if (strncmp(f->d_name, "out", 3) == 0) unlink(path);
    }
    closedir(d);
}

static void nth_allocation(void **state)
{
    (void)state;
    every_fault(FAULT_ALLOC, RDG_E_NOMEM, 0);
    every_fault(FAULT_ALLOC, RDG_E_NOMEM, 600);
}

static void nth_write(void **state)
{
    (void)state;
    every_fault(FAULT_WRITE, RDG_E_IO, 0);
    every_fault(FAULT_WRITE, RDG_E_IO, 600);
}

static void nth_sync(void **state)
{
    (void)state;
    every_fault(FAULT_SYNC, RDG_E_IO, 600);
}

static void nth_system_call(void **state)
{
    (void)state;
    every_fault(FAULT_IO, RDG_E_IO, 0);
    every_fault(FAULT_IO, RDG_E_IO, 600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nth_allocation),
        cmocka_unit_test(nth_write),
        cmocka_unit_test(nth_sync),
        cmocka_unit_test(nth_system_call),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

/* rdg_convert when the Nth allocation, write or sync fails, for every N: an error, no leak, no file. */
#include <ridge/convert.h>
#include "../support/support.h"
#include "../support/fault.h"

#include <unistd.h>

static char dir[] = "/tmp/ridge-fault-XXXXXX";
static char out_path[64];

static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(dir)) return -1;
    snprintf(out_path, sizeof out_path, "%s/out.gguf", dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(out_path);
    return rmdir(dir);
}

/* Returns how many calls of this kind a conversion makes. */
static int every_fault(const char *model, int type, fault_kind kind, rdg_err expected)
{
    char path[512];
    rdg_convert_params p = {.type = type, .n_threads = 2};
    snprintf(path, sizeof path, "%s/tests/data/golden-extra/%s", RIDGE_SOURCE_DIR, model);
    for (int n = 1;; n++) {
        rdg_convert_result r;
        rdg_error e = {0};
        int64_t live = fault_live();
        assert_true(n < 10000);
        fault_start(kind, n);
        rdg_err err = rdg_convert(path, out_path, &p, &r, &e);
        bool failed = fault_stop();
        rdg_convert_result_finish(&r);
        assert_int_equal(fault_live(), live);
        if (!failed) {
            assert_ok(err, &e);
            assert_int_equal(files_in(dir), 1);
            unlink(out_path);
            return n - 1;
        }
        if (err != expected || err != e.code || !e.message[0])
            print_error("fault %d: %s, code %s: \"%s\"\n", n, rdg_err_name(err), rdg_err_name(e.code),
                        e.message);
        assert_int_equal(err, expected);
        assert_int_equal(e.code, expected);
        assert_true(e.message[0] != 0);
        assert_int_equal(files_in(dir), 0);
    }
}

static void allocations(void **state)
{
    (void)state;
    assert_true(every_fault("phi3-long", -1, FAULT_ALLOC, RDG_E_NOMEM) > 50);
    assert_true(every_fault("gptoss-clamp", RDG_RECIPE_Q4_0, FAULT_ALLOC, RDG_E_NOMEM) > 50);
}

static void writes(void **state)
{
    (void)state;
    assert_true(every_fault("phi3-long", -1, FAULT_WRITE, RDG_E_IO) > 0);
    assert_true(every_fault("phi3-long", RDG_RECIPE_Q8_0, FAULT_SYNC, RDG_E_IO) > 0);
}

/* Opening, measuring, mapping and reading each file of the folder, and what belongs to the output. */
static void system_calls(void **state)
{
    (void)state;
    assert_true(every_fault("phi3-long", RDG_RECIPE_Q8_0, FAULT_IO, RDG_E_IO) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(allocations), cmocka_unit_test(writes),
                                       cmocka_unit_test(system_calls)};
    return cmocka_run_group_tests(tests, setup, teardown);
}

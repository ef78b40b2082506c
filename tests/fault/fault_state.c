/* Loading a model, evaluating, saving and restoring a state when the Nth allocation or the Nth system call
 * fails, for every N: an error, no leak, no half-written file; a state that was there before stays. */
#include <ridge/ridge.h>
#include "../support/support.h"
#include "../support/fault.h"

#include <unistd.h>

static char dir[] = "/tmp/ridge-fault-XXXXXX";
static char model_path[64], state_path[64];

static int setup(void **state)
{
    rdg_error e = {0};
    rdg_convert_params p = {.type = RDG_RECIPE_Q8_0, .n_threads = 1};
    (void)state;
    if (!mkdtemp(dir)) return -1;
    snprintf(model_path, sizeof model_path, "%s/model.gguf", dir);
    snprintf(state_path, sizeof state_path, "%s/a.state", dir);
    assert_ok(rdg_convert(RIDGE_SOURCE_DIR "/tests/data/golden/gemma3", model_path, &p, NULL, &e), &e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(model_path);
    unlink(state_path);
    return rmdir(dir);
}

static rdg_err open_session(rdg_session **s, rdg_error *e)
{
    rdg_model *m;
    rdg_session_params p = {
        .n_ctx = 48, .n_batch = 8, .n_threads = 1, .kv_type_k = RDG_TYPE_F16, .kv_type_v = RDG_TYPE_Q8_0};
    rdg_err err = rdg_model_load(model_path, NULL, &m, e);
    if (err) return err;
    err = rdg_session_create(m, &p, s, e);
    rdg_model_release(m);
    return err;
}

/* The whole way, from the file of the model to that of the state. */
static rdg_err save(void *ctx, rdg_error *e)
{
    const int32_t tokens[] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};
    rdg_session *s;
    (void)ctx;
    rdg_err err = open_session(&s, e);
    if (err) return err;
    err = rdg_session_eval(s, tokens, 12, RDG_LOGITS_LAST, e);
    if (!err) err = rdg_session_save_state(s, state_path, "note", 4, e);
    rdg_session_destroy(s);
    return err;
}

static rdg_err load(void *ctx, rdg_error *e)
{
    rdg_session *s;
    char *note = NULL;
    size_t n;
    (void)ctx;
    rdg_err err = open_session(&s, e);
    if (err) return err;
    err = rdg_session_load_state(s, state_path, &note, &n, e);
    if (err)
        assert_true(rdg_session_n_past(s) == 0 && !note);
    else
        assert_true(rdg_session_n_past(s) == 12 && n == 4);
    rdg_text_free(note);
    rdg_session_destroy(s);
    return err;
}

static void saving(void **state)
{
    (void)state;
    assert_true(fault_each(FAULT_ALLOC, save, NULL) > 50);
    assert_int_equal(files_in(dir), 2);
    assert_true(fault_each(FAULT_IO, save, NULL) > 5);
    assert_true(fault_each(FAULT_WRITE, save, NULL) > 0);
    assert_int_equal(files_in(dir), 2);
}

static void restoring(void **state)
{
    rdg_error e = {0};
    (void)state;
    assert_ok(save(NULL, &e), &e);
    assert_true(fault_each(FAULT_ALLOC, load, NULL) > 50);
    assert_true(fault_each(FAULT_IO, load, NULL) > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(saving), cmocka_unit_test(restoring)};
    return cmocka_run_group_tests(tests, setup, teardown);
}

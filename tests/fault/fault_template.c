/* Chat templates and samplers when the Nth allocation fails, for every N: NOMEM or the same result as ever,
 * no leak. A sampler whose first tokens are in must not allocate at all. */
#include <ridge/sampler.h>
#include <ridge/template.h>
#include "base/file.h"
#include "base/mem.h"
#include "../support/support.h"
#include "../support/fault.h"

#include <jansson.h>

#define DATA RIDGE_SOURCE_DIR "/tests/data/templates/"

static rdg_err render(const char *text, size_t n, const char *json, rdg_template_result *out, rdg_error *e)
{
    rdg_template *t;
    *out = (rdg_template_result){0};
    rdg_err err = rdg_template_compile(text, n, NULL, &t, e);
    if (err) return err;
    rdg_template_input in = {json, strlen(json), "<s>", "</s>", {2026, 1, 2, 3, 4, 5}};
    err = rdg_template_render(t, &in, out, e);
    rdg_template_destroy(t);
    return err;
}

static void test_template(void **state)
{
    (void)state;
    json_error_t je;
    json_t *cases = json_load_file(DATA "cases.json", 0, &je);
    assert_non_null(cases);
    /* the longer the system message, the more blocks the arena and the buffers take */
    json_t *messages = json_object_get(json_object_get(cases, "tool_call"), "messages");
    char *big = rdg_alloc(300001), *text;
    memset(big, 'x', 300000);
    json_array_insert_new(messages, 0, json_pack("{ssss}", "role", "system", "content", big));
    char *json = json_dumps(json_object_get(cases, "tool_call"), 0);
    size_t n_text;
    rdg_error e = {0};
    rdg_template_result want;
    assert_ok(rdg_file_read(DATA "Qwen3-Coder.jinja", 1 << 20, false, &text, &n_text, &e), &e);
    assert_ok(render(text, n_text, json, &want, &e), &e);
    int n = 1;
    for (bool faulted = true; faulted; n++) {
        rdg_template_result got;
        int64_t live = fault_live();
        memset(&e, 0, sizeof e);
        fault_start(FAULT_ALLOC, n);
        rdg_err err = render(text, n_text, json, &got, &e);
        faulted = fault_stop();
        if (err) {
            if (err != RDG_E_NOMEM || e.code != err || !strstr(e.message, "memory"))
                fail_msg("fault %d: %s: %s", n, rdg_err_name(err), e.message);
            assert_true(faulted && !got.text);
        } else {
            assert_string_equal(got.text, want.text);
            assert_int_equal(got.n_input_spans, want.n_input_spans);
            rdg_template_result_free(&got);
        }
        assert_int_equal(fault_live(), live);
    }
    print_message("%d allocations\n", n - 2);
    assert_true(n > 15);
    rdg_template_result_free(&want);
    free(json);
    json_decref(cases);
    rdg_free(text);
    rdg_free(big);
}

static void all_stages(rdg_sampler_params *p, const int32_t *breaker, const rdg_logit_bias *bias)
{
    rdg_sampler_defaults(p);
    p->typical_p = 0.9f;
    p->top_n_sigma = 2;
    p->xtc_probability = 0.5f;
    p->repeat_penalty = 1.1f;
    p->dry_multiplier = 0.8f;
    p->dry_last_n = 100;
    p->dynatemp_range = 0.5f;
    p->dry_breakers = breaker;
    p->n_dry_breakers = 1;
    p->bias = bias;
    p->n_bias = 1;
}

static void test_sampler(void **state)
{
    enum { N = 3000 };
    static float logits[N];
    (void)state;
    rdg_sampler_params p;
    rdg_error e = {0};
    rdg_sampler *s = NULL;
    int32_t breaker = 7, token;
    rdg_logit_bias bias = {3, 1};
    all_stages(&p, &breaker, &bias);
    for (int i = 0; i < N; i++) logits[i] = (float)((i * 7919) % 1009) / 100;
    int64_t live = fault_live();
    for (int n = 1;; n++) {
        fault_start(FAULT_ALLOC, n);
        rdg_err err = rdg_sampler_create(&p, N, &s, &e);
        if (!err) err = rdg_sampler_accept(s, 1, &e);
        bool faulted = fault_stop();
        if (!faulted) {
            assert_ok(err, &e);
            break;
        }
        assert_int_equal(err, RDG_E_NOMEM);
        assert_int_equal(e.code, err);
        rdg_sampler_destroy(s);
        assert_int_equal(fault_live(), live);
    }
    fault_start(FAULT_ALLOC, 1);
    for (int i = 0; i < 2000; i++) {
        assert_ok(rdg_sampler_pick(s, logits, &token, &e), &e);
        assert_ok(rdg_sampler_accept(s, token, &e), &e);
    }
    assert_false(fault_stop());
    rdg_sampler_destroy(s);
    assert_int_equal(fault_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_template), cmocka_unit_test(test_sampler)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

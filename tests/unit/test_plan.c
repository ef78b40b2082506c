/* The plan and its executor on the demo model: values that live at the same time never share memory, fusing
 * changes nothing but rounding, threads change nothing at all, states and importance sums are what they
 * should be. */
#include "base/cpu.h"
#include "engine/session_internal.h"
#include "ops/matmul/matmul.h"
#include <ridge/ridge.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#ifndef RIDGE_SOURCE_DIR
#define RIDGE_SOURCE_DIR "."
#endif

static char model_path[] = "/tmp/ridge-plan-XXXXXX";
static rdg_model *model;

static int load_model(void **state)
{
    (void)state;
    rdg_error e = {0};
    rdg_convert_params p = {.type = RDG_RECIPE_F32, .n_threads = 1};
    int fd = mkstemp(model_path);
    if (fd < 0) return -1;
    close(fd);
    if (rdg_convert(RIDGE_SOURCE_DIR "/models/ridge-tiny", model_path, &p, NULL, &e) ||
        rdg_model_load(model_path, NULL, &model, &e)) {
        print_error("%s\n", e.message);
        return -1;
    }
    return 0;
}

static int drop_model(void **state)
{
    (void)state;
    rdg_model_release(model);
    unlink(model_path);
    return 0;
}

static rdg_plan *make_plan(int64_t n_tokens, int64_t n_outputs, bool fuse)
{
    rdg_error e = {0};
    rdg_plan *p;
    rdg_plan_options o = {.n_tokens = n_tokens,
                          .n_outputs = n_outputs,
                          .n_ctx = 128,
                          .n_batch = 64,
                          .kv_type_k = RDG_TYPE_F32,
                          .kv_type_v = RDG_TYPE_F32};
    if (rdg_model_build_plan(model, &o, fuse, &p, &e)) fail_msg("%s", e.message);
    return p;
}

static void living_values_do_not_overlap(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{1, 1}, {1, 0}, {7, 7}, {64, 1}};
    for (int s = 0; s < RDG_COUNTOF(sizes); s++) {
        rdg_plan *p = make_plan(sizes[s][0], sizes[s][1], true);
        int n_pairs = 0;
        for (size_t i = 0; i < p->n_values; i++) {
            const rdg_value *a = &p->values[i];
            if (a->place < 0) continue;
            int64_t a_end = a->place + rdg_tensor_bytes(&a->shape);
            assert_true(a_end <= p->scratch_bytes && a->place % 256 == 0);
            for (size_t k = 0; k < i; k++) {
                const rdg_value *b = &p->values[k];
                if (b->place < 0 || a->last_use < b->first_use || b->last_use < a->first_use) continue;
                assert_true(a_end <= b->place || b->place + rdg_tensor_bytes(&b->shape) <= a->place);
                n_pairs++;
            }
        }
        assert_true(n_pairs > 20);
        rdg_plan_destroy(p);
    }
}

static int count_op(const rdg_plan *p, const char *name)
{
    int n = 0;
    for (size_t i = 0; i < p->n_nodes; i++) n += !strcmp(p->nodes[i].op->name, name);
    return n;
}

static void passes_do_what_they_say(void **state)
{
    (void)state;
    rdg_plan *plain = make_plan(1, 1, false), *fused = make_plan(1, 1, true), *silent = make_plan(1, 0, true);
    int64_t n_layer = rdg_model_get_info(model)->n_layer;
    assert_int_equal(count_op(plain, "add"), 2 * n_layer);
    assert_int_equal(count_op(fused, "add"), 0);
    assert_int_equal(count_op(plain, "matvec"), count_op(fused, "matvec"));
    /* Without logits the output product goes, and the last block's work behind its KV cache with it. */
    assert_true(count_op(silent, "matvec") < count_op(fused, "matvec") - 1);
    assert_int_equal(count_op(silent, "kv_store"), count_op(fused, "kv_store"));
    rdg_plan_destroy(silent);
    rdg_plan_destroy(fused);
    rdg_plan_destroy(plain);
}

static void wrong_shapes_are_named(void **state)
{
    (void)state;
    rdg_error e = {0};
    rdg_plan *p;
    rdg_plan_options o = {.n_tokens = 1,
                          .n_outputs = 1,
                          .n_ctx = 8,
                          .n_batch = 1,
                          .kv_type_k = RDG_TYPE_F32,
                          .kv_type_v = RDG_TYPE_F32};
    assert_int_equal(rdg_plan_create(model->gguf, &o, &p, &e), RDG_OK);
    assert_int_equal(rdg_plan_weight(p, "token_embd.weight", 3, 5, 0), RDG_NO_VALUE);
    assert_int_equal(rdg_plan_weight(p, "no.such.tensor", 3, 5, 0), RDG_NO_VALUE); /* the first error stays */
    assert_int_equal(rdg_plan_finish(p, true, &e), RDG_E_MALFORMED);
    assert_non_null(strstr(e.message, "token_embd.weight"));
    rdg_plan_destroy(p);
    o.n_outputs = 2;
    assert_int_equal(rdg_plan_create(model->gguf, &o, &p, &e), RDG_E_ARGUMENT);
}

/* Logits of a fixed sequence: a prefill in two pieces, then single tokens. */
enum { N_TOKENS = 40 };
static float *evaluate(int n_threads, int64_t n_batch, rdg_type kv)
{
    rdg_error e = {0};
    rdg_session *s;
    rdg_session_params sp;
    int32_t ids[N_TOKENS];
    int64_t n_vocab = rdg_model_get_info(model)->n_vocab;
    float *out = malloc((size_t)(N_TOKENS * n_vocab) * sizeof *out);
    assert_non_null(out);
    for (int i = 0; i < N_TOKENS; i++) ids[i] = (i * 977 + 5) % (int32_t)n_vocab;
    rdg_session_defaults(&sp);
    sp.n_ctx = 64;
    sp.n_batch = n_batch;
    sp.n_threads = n_threads;
    sp.kv_type_k = sp.kv_type_v = kv;
    if (rdg_session_create(model, &sp, &s, &e)) fail_msg("%s", e.message);
    static const int64_t pieces[] = {17, 16, 1, 1, 5};
    int64_t at = 0;
    for (int i = 0; i < RDG_COUNTOF(pieces); i++) {
        if (rdg_session_eval(s, ids + at, pieces[i], RDG_LOGITS_ALL, &e)) fail_msg("%s", e.message);
        memcpy(out + at * n_vocab, rdg_session_logits(s, 0), (size_t)(pieces[i] * n_vocab) * sizeof *out);
        assert_null(rdg_session_logits(s, pieces[i]));
        at += pieces[i];
    }
    assert_int_equal(at, N_TOKENS);
    assert_int_equal(rdg_session_n_past(s), N_TOKENS);
    assert_int_equal(rdg_session_eval(s, ids, 30, RDG_LOGITS_LAST, &e), RDG_E_CONTEXT_FULL);
    assert_int_equal(rdg_session_n_past(s), N_TOKENS);
    ids[0] = (int32_t)n_vocab;
    assert_int_equal(rdg_session_eval(s, ids, 1, RDG_LOGITS_LAST, &e), RDG_E_ARGUMENT);
    rdg_session_destroy(s);
    return out;
}

/* ||a - b|| / ||a||; NaN anywhere makes it NaN, which no bound accepts. */
static double relative_difference(const float *a, const float *b)
{
    int64_t n = N_TOKENS * rdg_model_get_info(model)->n_vocab;
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        norm += (double)a[i] * a[i];
    }
    return sqrt(difference / norm);
}

static void threads_change_nothing(void **state)
{
    (void)state;
    float *one = evaluate(1, 64, RDG_TYPE_F16), *three = evaluate(3, 64, RDG_TYPE_F16);
    assert_memory_equal(one, three, (size_t)(N_TOKENS * rdg_model_get_info(model)->n_vocab) * sizeof *one);
    free(three);
    free(one);
}

static void cache_types_and_batches_agree(void **state)
{
    (void)state;
    static const struct {
        rdg_type kv;
        int64_t n_batch;
        double bound;
    } rows[] = {{RDG_TYPE_F32, 5, 1e-5},
                {RDG_TYPE_F16, 64, 1e-3},
                {RDG_TYPE_BF16, 64, 6e-3},
                {RDG_TYPE_Q8_0, 64, 0.03},
                {RDG_TYPE_Q4_0, 64, 0.3}};
    float *base = evaluate(1, 64, RDG_TYPE_F32);
    for (int i = 0; i < RDG_COUNTOF(rows); i++) {
        float *other = evaluate(1, rows[i].n_batch, rows[i].kv);
        double difference = relative_difference(base, other);
        print_message("KV %s, batch %d: relative difference %.5f\n", rdg_type_name(rows[i].kv),
                      (int)rows[i].n_batch, difference);
        assert_true(difference <= rows[i].bound);
        free(other);
    }
    free(base);
}

/* The imatrix of one and of three threads is the same, and its counts are the tokens of the text. */
static void imatrix_does_not_depend_on_threads(void **state)
{
    (void)state;
    rdg_error e = {0};
    rdg_imatrix *m[2];
    int32_t ids[64];
    for (int i = 0; i < 64; i++) ids[i] = (i * 31 + 7) % 8000;
    for (int i = 0; i < 2; i++) {
        rdg_collect_params p = {.n_ctx = 32, .n_threads = i ? 3 : 1};
        rdg_collect_result r;
        if (rdg_imatrix_collect(model, ids, 64, &p, &m[i], &r, &e)) fail_msg("%s", e.message);
        assert_int_equal(r.n_chunks, 2);
    }
    assert_int_equal(rdg_imatrix_n(m[0]), 7 * rdg_model_get_info(model)->n_layer);
    for (int64_t i = 0; i < rdg_imatrix_n(m[0]); i++) {
        const rdg_imatrix_entry *a = rdg_imatrix_at(m[0], i), *b = rdg_imatrix_at(m[1], i);
        assert_string_equal(a->name, b->name);
        assert_memory_equal(a->sums, b->sums, (size_t)a->n_columns * sizeof *a->sums);
        assert_true(a->counts[0] == 64 && b->counts[0] == 64);
        double total = 0;
        for (int64_t c = 0; c < a->n_columns; c++) total += a->sums[c];
        assert_true(total > 0 && isfinite(total));
    }
    rdg_imatrix_destroy(m[0]);
    rdg_imatrix_destroy(m[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(living_values_do_not_overlap),  cmocka_unit_test(passes_do_what_they_say),
        cmocka_unit_test(wrong_shapes_are_named),        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(cache_types_and_batches_agree), cmocka_unit_test(imatrix_does_not_depend_on_threads),
    };
    return cmocka_run_group_tests(tests, load_model, drop_model);
}

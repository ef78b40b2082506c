/* Base log-probabilities: what is written comes back, and files that lie about their size are refused. */
#include "../support/support.h"
#include "format/logits_base.h"

#include <math.h>

enum { N_CTX = 6, N_VOCAB = 5, ROWS = 2 };
static const int32_t tokens[2 * N_CTX] = {0, 1, 2, 3, 4, 3, 2, 1, 0, 1, 2, 3};
static const float logits[N_VOCAB] = {1, 4, -30, 2, 4};

/* Two chunks of two rows that are all alike. */
static size_t make(unsigned char *file, bool with_nll)
{
    const rdg_logits_base shape = rdg_logits_base_shape(N_CTX, N_VOCAB, 2);
    const int32_t head[3] = {N_CTX, N_VOCAB, 2};
    const float nll = 1.25f;
    double sum = 0;
    size_t n = 0;
    for (int v = 0; v < N_VOCAB; v++) sum += exp(logits[v]);
    memcpy(file, "_logits_", 8);
    memcpy(file + 8, head, sizeof head);
    memcpy(file + 20, tokens, sizeof tokens);
    n = 20 + sizeof tokens;
    assert_int_equal(shape.n_rows, ROWS);
    for (int i = 0; i < 2 * ROWS; i++, n += (size_t)shape.row_words * 2)
        rdg_logits_base_encode(&shape, logits, 4, log(sum), (uint16_t *)(void *)(file + n));
    for (int i = 0; i < 2 * ROWS && with_nll; i++, n += sizeof nll) memcpy(file + n, &nll, sizeof nll);
    return n;
}

static void test_round_trip(void **state)
{
    (void)state;
    _Alignas(8) unsigned char file[512];
    float other[N_VOCAB] = {1, 4, -30, 2, 4};
    rdg_logits_base b;
    rdg_error e;
    bool same;
    double sum = 0, kl = 0;
    for (int v = 0; v < N_VOCAB; v++) sum += exp(logits[v]);
    for (int with_nll = 0; with_nll < 2; with_nll++) {
        size_t n = make(file, with_nll);
        assert_ok(rdg_logits_base_parse(file, n, N_CTX, N_VOCAB, &b, &e), &e);
        assert_ok(rdg_logits_base_check(&b, tokens, 2, &e), &e);
        assert_int_equal(b.n_chunks, 2);
        assert_true(fabs(rdg_logits_base_divergence(&b, 3, logits, log(sum), 1, &same)) < 1e-3);
        assert_true(same);
        rdg_logits_base_divergence(&b, 3, logits, log(sum), 4, &same); /* equal at the top */
        assert_true(same);
        rdg_logits_base_divergence(&b, 3, logits, log(sum), 3, &same);
        assert_false(same);
        assert_true(fabs(rdg_logits_base_nll(&b, 3, 0) - (with_nll ? 1.25 : log(sum) - 1)) < 1e-3);
    }
    /* What the other model thinks twice as likely on the log scale: KL by the formula. */
    double other_sum = 0;
    for (int v = 0; v < N_VOCAB; v++) other_sum += exp(other[v] *= 2);
    for (int v = 0; v < N_VOCAB; v++) {
        double lp = logits[v] - log(sum);
        if (lp > -16) kl += exp(lp) * (lp - (other[v] - log(other_sum)));
    }
    assert_true(kl > 0.01);
    assert_true(fabs(rdg_logits_base_divergence(&b, 0, other, log(other_sum), 1, &same) - kl) < 1e-3);
}

static void test_refused(void **state)
{
    (void)state;
    _Alignas(8) unsigned char file[512];
    int32_t changed[2 * N_CTX];
    rdg_logits_base b;
    rdg_error e;
    size_t n = make(file, true);
    for (size_t cut = 0; cut < n; cut++)
        if (cut != n - 4 * ROWS * 2) /* without the trailer it is whole */
            assert_error(rdg_logits_base_parse(file, cut, N_CTX, N_VOCAB, &b, &e), RDG_E_MALFORMED, &e, "");
    assert_error(rdg_logits_base_parse(file, n, N_CTX + 2, N_VOCAB, &b, &e), RDG_E_MALFORMED, &e, "context");
    assert_error(rdg_logits_base_parse(file, n, N_CTX, N_VOCAB + 1, &b, &e), RDG_E_MALFORMED, &e,
                 "vocabulary");
    assert_ok(rdg_logits_base_parse(file, n, N_CTX, N_VOCAB, &b, &e), &e);
    assert_error(rdg_logits_base_check(&b, tokens, 3, &e), RDG_E_ARGUMENT, &e, "3 chunks");
    memcpy(changed, tokens, sizeof tokens);
    changed[2 * N_CTX - 1] ^= 1;
    assert_error(rdg_logits_base_check(&b, changed, 2, &e), RDG_E_MALFORMED, &e, "another text");
    assert_ok(rdg_logits_base_check(&b, changed, 1, &e), &e);
}

/* 2^30 chunks of 2^34 bytes and more, together a multiple of 2^64: a size in 64 bits would be that of the
 * head. */
static void test_size_beyond_64_bits(void **state)
{
    (void)state;
    _Alignas(8) unsigned char file[20] = "_logits_";
    const int32_t head[3] = {1 << 30, INT32_MAX - 3, 1 << 30};
    rdg_logits_base b = rdg_logits_base_shape(head[0], head[1], head[2]);
    rdg_error e;
    memcpy(file + 8, head, sizeof head);
    assert_int_equal((uint64_t)head[2] * ((uint64_t)head[0] * 4 + (uint64_t)(b.n_rows * b.row_words * 2)), 0);
    assert_error(rdg_logits_base_parse(file, sizeof file, head[0], head[1], &b, &e), RDG_E_MALFORMED, &e,
                 "20 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_size_beyond_64_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

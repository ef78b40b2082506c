/* Base files of a divergence. Each input is read as it is, and again with the head, the tokens and the length
 * put right and its scales and floors made plausible, or the rows would hardly ever be reached. */
#include "fuzz.h"
#include "format/logits_base.h"

#include <math.h>
#include <string.h>

/* Small, with a row that is padded: both forms of a file of two chunks have about 200 bytes. */
enum { N_CTX = 8, N_VOCAB = 7, AT_CHUNKS = 16, HEAD_BYTES = 20 };
static const int32_t tokens[4 * N_CTX] = {1, 2, 3, 4, 5, 6, 0, 1, 2, 2, 2, 2, 3, 3, 3, 3};

static void walk(const uint8_t *data, size_t n)
{
    static const float logits[N_VOCAB] = {0.5f, -2, 3, 0, -30, 1, 2.5f}; /* any will do */
    rdg_logits_base b = {0};
    rdg_error e = {0};
    rdg_err err = rdg_logits_base_parse(data, n, N_CTX, N_VOCAB, &b, &e);
    if (!err) {
        FUZZ_CHECK(b.n_chunks > 0 && (uint64_t)b.n_chunks < n && b.n_rows == 3 && b.row_words == 12);
        fuzz_touch(b.tokens, (size_t)(b.n_chunks * N_CTX) * 4);
        fuzz_touch(b.rows, (size_t)(b.n_chunks * b.n_rows * b.row_words) * 2);
        if (b.nll) fuzz_touch(b.nll, (size_t)(b.n_chunks * b.n_rows) * 4);
        b.n_chunks = b.n_chunks < 4 ? b.n_chunks : 4; /* as many as there are tokens for */
        err = rdg_logits_base_check(&b, tokens, b.n_chunks, &e);
    }
    FUZZ_CHECK(err == RDG_OK || (err == RDG_E_MALFORMED && e.code == err && e.message[0]));
    for (int64_t i = 0; i < b.n_chunks * b.n_rows && !err; i++) {
        bool same;
        double kl = rdg_logits_base_divergence(&b, i, logits, 3.6, 2, &same);
        FUZZ_CHECK(isfinite(kl) && isfinite(rdg_logits_base_nll(&b, i, (int32_t)(i % N_VOCAB))));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const rdg_logits_base shape = rdg_logits_base_shape(N_CTX, N_VOCAB, 1);
    const size_t row_bytes = (size_t)shape.row_words * 2,
                 plain = N_CTX * 4 + (size_t)shape.n_rows * row_bytes;
    walk(data, n);
    if (n < HEAD_BYTES + plain) return 0;
    /* With a trailer when the last byte is odd. */
    const size_t chunk = plain + (data[n - 1] & 1 ? (size_t)shape.n_rows * 4 : 0);
    int32_t n_chunks = (int32_t)((n - HEAD_BYTES) / chunk);
    if (n_chunks < 1) return 0;
    n_chunks = n_chunks < 4 ? n_chunks : 4;
    n = HEAD_BYTES + (size_t)n_chunks * chunk;
    uint8_t *fixed = malloc(n);
    FUZZ_CHECK(fixed != NULL);
    memcpy(fixed, data, n);
    const int32_t head[3] = {N_CTX, N_VOCAB, n_chunks};
    memcpy(fixed, "_logits_", 8);
    memcpy(fixed + 8, head, sizeof head);
    memcpy(fixed + HEAD_BYTES, tokens, (size_t)n_chunks * N_CTX * 4);
    walk(fixed, n);
    for (int64_t i = 0; i < n_chunks * shape.n_rows; i++) {
        uint8_t *row = fixed + HEAD_BYTES + (size_t)n_chunks * N_CTX * 4 + (size_t)i * row_bytes;
        float v[2];
        memcpy(v, row, sizeof v);
        for (int k = 0; k < 2; k++)
            v[k] = k ? 1 - fabsf(isfinite(v[k]) ? v[k] : 0) : fminf(fabsf(isfinite(v[k]) ? v[k] : 0), 1e-3f);
        memcpy(row, v, sizeof v);
    }
    walk(fixed, n);
    free(fixed);
    return 0;
}

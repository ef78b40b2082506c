/* SentencePiece model files. */
#include "fuzz.h"
#include "format/sentencepiece.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    rdg_sentencepiece m;
    rdg_error e = {0};
    rdg_err err = rdg_sentencepiece_parse(data, n, &m, &e);
    FUZZ_CHECK(err != RDG_E_NOMEM && err != RDG_E_INTERNAL);
    if (err) {
        FUZZ_CHECK(e.code == err && e.message[0] && m.tokens == NULL);
        return 0;
    }
    FUZZ_CHECK(m.n_tokens > 0);
    for (int32_t i = 0; i < m.n_tokens; i++) {
        fuzz_touch(m.tokens[i].p, m.tokens[i].n + 1);
        FUZZ_CHECK(isfinite(m.scores[i]) && m.types[i] >= 1 && m.types[i] <= 6);
    }
    FUZZ_CHECK(m.unk_id < m.n_tokens && m.bos_id < m.n_tokens && m.eos_id < m.n_tokens &&
               m.pad_id < m.n_tokens);
    fuzz_touch(m.charsmap.p, m.charsmap.n);
    rdg_sentencepiece_finish(&m);
    return 0;
}

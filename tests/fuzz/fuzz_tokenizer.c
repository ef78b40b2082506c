/* A tokenizer from the keys of any GGUF file, and a text. */
#include "fuzz.h"
#include <ridge/tokenizer.h>

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char text[] = " The <s> caf\xc3\xa9 <0x41> \xe4\xbd\xa0\n\xff 12a";
    rdg_gguf *g;
    rdg_tokenizer *t;
    rdg_error e = {0};
    int32_t *ids;
    size_t n_ids;
    if (rdg_gguf_parse(data, n, &g, &e)) return 0;
    rdg_err err = rdg_tokenizer_create(g, NULL, &t, &e);
    FUZZ_CHECK(err != RDG_E_NOMEM && err != RDG_E_INTERNAL && (err != 0) == (t == NULL));
    rdg_gguf_close(g);
    if (err) {
        FUZZ_CHECK(e.code == err && e.message[0]);
        return 0;
    }
    for (int32_t i = -1; i <= rdg_tokenizer_n_vocab(t); i++) {
        rdg_str bytes = rdg_token_bytes(t, i, true), piece = rdg_token_piece(t, i);
        fuzz_touch(bytes.p, bytes.n);
        fuzz_touch(piece.p, piece.n);
        FUZZ_CHECK(rdg_token_kind(t, i) <= RDG_TOKEN_BYTE);
        if (piece.n) FUZZ_CHECK(rdg_token_find(t, piece.p, piece.n) >= 0);
    }
    FUZZ_CHECK(rdg_tokenizer_bos(t) < rdg_tokenizer_n_vocab(t) &&
               rdg_tokenizer_eos(t) < rdg_tokenizer_n_vocab(t));
    err = rdg_tokenize(t, text, sizeof text - 1,
                       (rdg_tokenize_params){.add_special = true, .parse_special = true}, &ids, &n_ids, &e);
    FUZZ_CHECK(!err || err == RDG_E_LIMIT);
    if (!err) {
        for (size_t i = 0; i < n_ids; i++) FUZZ_CHECK(ids[i] >= 0 && ids[i] < rdg_tokenizer_n_vocab(t));
        rdg_tokens_free(ids);
    }
    rdg_tokenizer_destroy(t);
    return 0;
}

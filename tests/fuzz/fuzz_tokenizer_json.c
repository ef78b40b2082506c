/* tokenizer.json, or vocab.json and merges.txt with a zero byte between them. */
#include "fuzz.h"
#include "format/tokenizer_json.h"

#include <string.h>

static void check(rdg_err err, rdg_tokenizer_json *t, const rdg_error *e)
{
    FUZZ_CHECK(err != RDG_E_NOMEM && err != RDG_E_INTERNAL);
    if (err) {
        FUZZ_CHECK(e->code == err && e->message[0] && t->tokens == NULL);
        return;
    }
    for (int32_t i = 0; i < t->n_tokens; i++)
        if (t->tokens[i].p) fuzz_touch(t->tokens[i].p, t->tokens[i].n + 1);
    for (size_t i = 0; i < t->n_merges; i++) {
        const char *space = memchr(t->merges[i].p + 1, ' ', t->merges[i].n - 1);
        FUZZ_CHECK(space && space + 1 < t->merges[i].p + t->merges[i].n);
    }
    for (size_t i = 0; i < t->n_added; i++) FUZZ_CHECK(t->added[i].id >= 0 && t->added[i].id < t->n_tokens);
    for (size_t i = 0; i < t->n_expressions; i++) fuzz_touch(t->expressions[i].p, t->expressions[i].n);
    for (size_t i = 0; i < t->n_warnings; i++) FUZZ_CHECK(t->warnings[i][0]);
    fuzz_touch(t->charsmap.p, t->charsmap.n);
    FUZZ_CHECK(t->unk_id < t->n_tokens && t->bos_id < t->n_tokens && t->eos_id < t->n_tokens);
    rdg_tokenizer_json_finish(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const char *text = (const char *)data, *zero = n ? memchr(text, 0, n) : NULL;
    rdg_tokenizer_json t;
    rdg_error e = {0};
    check(rdg_tokenizer_json_parse(text, n, &t, &e), &t, &e);
    if (zero) {
        size_t n_vocab = (size_t)(zero - text);
        check(rdg_tokenizer_json_parse_pair(text, n_vocab, zero + 1, n - n_vocab - 1, &t, &e), &t, &e);
    }
    return 0;
}

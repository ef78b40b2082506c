/* Reader of SentencePiece model files (tokenizer.model), through protobuf-c and a schema of the needed
 * fields. */
#ifndef RDG_FORMAT_SENTENCEPIECE_H
#define RDG_FORMAT_SENTENCEPIECE_H

#include <ridge/gguf.h> /* rdg_str */
#include "base/mem.h"

typedef struct rdg_sentencepiece {
    rdg_arena arena; /* owns everything below */
    bool unigram;    /* else BPE by score */
    int32_t n_tokens;
    rdg_str *tokens;
    float *scores;
    unsigned char *types;                   /* rdg_token_type: SentencePiece numbers them in the same way */
    int32_t unk_id, bos_id, eos_id, pad_id; /* -1 if none */
    bool add_space_prefix, remove_extra_whitespaces;
    rdg_str charsmap;
} rdg_sentencepiece;

/* Everything is copied. UNSUPPORTED for word and character models. On failure m is empty. */
rdg_err rdg_sentencepiece_parse(const void *data, size_t bytes, rdg_sentencepiece *m, rdg_error *e);
void rdg_sentencepiece_finish(rdg_sentencepiece *m);

#endif

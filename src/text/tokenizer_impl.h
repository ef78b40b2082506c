/* Private to the tokenizer's files: the structure and the four encoders. */
#ifndef RDG_TEXT_TOKENIZER_IMPL_H
#define RDG_TEXT_TOKENIZER_IMPL_H

#include "text/bpe.h"
#include "text/pretokenizer.h"
#include "text/special.h"
#include "text/vocab.h"

struct rdg_tokenizer {
    rdg_vocab vocab;
    rdg_arena arena;  /* output texts, extra symbols */
    rdg_strmap index; /* stored text → id; an ordinary token wins over a special one of the same text */
    rdg_str *output;  /* by id: what the token adds to a text */
    bool *is_end;     /* by id */
    int32_t byte_token[256]; /* BPE: the token of a single byte; SPM, UNIGRAM: <0xNN>; -1 if there is none */
    rdg_special special[2];  /* [0] user-defined tokens only, [1] with control and unknown tokens */

    rdg_pretokenizer *pre; /* BPE */
    rdg_bpe bpe;           /* BPE, SPM */
    rdg_str *extra;        /* texts of the symbols n_tokens, n_tokens + 1, … */
    size_t n_extra, extra_cap;
    rdg_strmap extra_index;   /* text → symbol */
    int32_t byte_symbol[256]; /* BPE: the symbol of a byte */
    bool words; /* SPM: no token crosses from another character to U+2581, so words are independent */

    rdg_trie trie;       /* UNIGRAM, WORDPIECE: ordinary tokens */
    float unknown_score; /* UNIGRAM */
};

/* Output ids. */
typedef struct rdg_ids {
    int32_t *p;
    size_t n, cap;
} rdg_ids;
rdg_err rdg_ids_push(rdg_ids *ids, int32_t id, rdg_error *e);

/* Preparation at load, one for each kind. */
rdg_err rdg_bpe_prepare(rdg_tokenizer *t, const rdg_log *log, rdg_error *e);
rdg_err rdg_spm_prepare(rdg_tokenizer *t, const rdg_log *log, rdg_error *e);
rdg_err rdg_unigram_prepare(rdg_tokenizer *t, const rdg_log *log, rdg_error *e);
rdg_err rdg_wordpiece_prepare(rdg_tokenizer *t, const rdg_log *log, rdg_error *e);

/* Encoding of a fragment without special tokens. `prefix`: a space prefix is due. */
rdg_err rdg_bpe_encode(const rdg_tokenizer *t, const char *text, size_t n, bool prefix, rdg_ids *ids,
                       rdg_error *e);
rdg_err rdg_spm_encode(const rdg_tokenizer *t, const char *text, size_t n, bool prefix, rdg_ids *ids,
                       rdg_error *e);
rdg_err rdg_unigram_encode(const rdg_tokenizer *t, const char *text, size_t n, bool prefix, rdg_ids *ids,
                           rdg_error *e);
rdg_err rdg_wordpiece_encode(const rdg_tokenizer *t, const char *text, size_t n, bool prefix, rdg_ids *ids,
                             rdg_error *e);

/* An ordinary token: one that text may turn into. */
static inline bool rdg_vocab_is_ordinary(const rdg_vocab *v, int32_t id)
{
    return v->types[id] == RDG_TOKEN_NORMAL || v->types[id] == RDG_TOKEN_UNDEFINED;
}
/* The ordinary token of a text, or -1. */
int32_t rdg_tokenizer_ordinary(const rdg_tokenizer *t, const char *text, size_t n);
/* The number of a text as a symbol of merges: its ordinary token, or a number of its own. -1 on exhaustion.
 */
int32_t rdg_tokenizer_symbol(rdg_tokenizer *t, const char *text, size_t n);
/* A byte that is no token of the vocabulary in any other way. */
rdg_err rdg_tokenizer_push_bytes(const rdg_tokenizer *t, const char *text, size_t n, rdg_ids *ids,
                                 rdg_error *e);

/* The mapping between bytes and printable characters of byte-level BPE. */
uint32_t rdg_byte_to_char(unsigned char byte);
int rdg_char_to_byte(uint32_t cp); /* -1 if it stands for no byte */

/* Remembers what short pieces of one fragment became. */
typedef struct rdg_piece_cache {
    rdg_strmap map; /* piece → index into spans */
    struct {
        size_t at;
        uint32_t n;
    } * spans;
    size_t n, cap;
} rdg_piece_cache;
void rdg_piece_cache_init(rdg_piece_cache *c);
void rdg_piece_cache_finish(rdg_piece_cache *c);
/* Appends the ids if the piece is known. */
rdg_err rdg_piece_cache_get(const rdg_piece_cache *c, const char *text, size_t n, rdg_ids *ids, bool *found,
                            rdg_error *e);
/* The piece became ids->p[at …]. Its bytes are borrowed. Failing to remember is no error. */
void rdg_piece_cache_put(rdg_piece_cache *c, const char *text, size_t n, const rdg_ids *ids, size_t at);

/* Unicode normalisation by RDG_NORMALIZE_*; invalid bytes are kept. */
rdg_err rdg_normalize(const char *text, size_t n, unsigned steps, rdg_buf *out, rdg_error *e);

#endif

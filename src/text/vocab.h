/* A vocabulary as plain data, between the file formats and the tokenizer: read from GGUF keys (vocab_gguf.c)
 * or filled by the converter, written back to GGUF keys, and turned into a tokenizer (tokenizer.c). */
#ifndef RDG_TEXT_VOCAB_H
#define RDG_TEXT_VOCAB_H

#include <ridge/tokenizer.h>
#include "base/mem.h"

#define RDG_SPACE_MARK   "\xe2\x96\x81" /* U+2581 stands for a space in SentencePiece vocabularies */
#define RDG_SPACE_MARK_N 3

typedef enum rdg_vocab_kind {
    RDG_VOCAB_SPM,       /* "llama": BPE over characters, by score or by merges, byte fallback */
    RDG_VOCAB_BPE,       /* "gpt2": BPE over bytes */
    RDG_VOCAB_WORDPIECE, /* "bert" */
    RDG_VOCAB_UNIGRAM,   /* "t5" */
    RDG_VOCAB_KIND_COUNT
} rdg_vocab_kind;

typedef enum rdg_vocab_special {
    RDG_SPECIAL_BOS,
    RDG_SPECIAL_EOS,
    RDG_SPECIAL_EOT,
    RDG_SPECIAL_EOM,
    RDG_SPECIAL_UNK,
    RDG_SPECIAL_SEP,
    RDG_SPECIAL_PAD,
    RDG_SPECIAL_CLS,
    RDG_SPECIAL_MASK,
    RDG_SPECIAL_FIM_PRE,
    RDG_SPECIAL_FIM_SUF,
    RDG_SPECIAL_FIM_MID,
    RDG_SPECIAL_FIM_PAD,
    RDG_SPECIAL_FIM_REP,
    RDG_SPECIAL_FIM_SEP,
    RDG_SPECIAL_COUNT
} rdg_vocab_special;

enum { RDG_STRIP_LEFT = 1, RDG_STRIP_RIGHT = 2 }; /* whitespace next to a special token that it swallows */

typedef struct rdg_vocab {
    rdg_arena arena; /* owns everything below */
    rdg_vocab_kind kind;
    const char *model, *pre; /* tokenizer.ggml.model and .pre; pre is "" if the file has none */
    int32_t n_tokens;
    rdg_str *tokens;
    unsigned char *types; /* rdg_token_type */
    unsigned char *strip; /* RDG_STRIP_*, or NULL */
    float *scores;        /* or NULL */
    size_t n_merges;
    rdg_str *merges;      /* "left right" by rank */
    size_t n_expressions; /* pre-tokeniser; 0: those that go with the name `pre` */
    rdg_str *expressions;
    int32_t special[RDG_SPECIAL_COUNT]; /* -1 if none */
    bool add_bos, add_eos, add_space_prefix, remove_extra_whitespaces;
    bool prefix_first_only;   /* the space prefix goes before the text only, not after each special token */
    bool prefix_unless_space; /* and not before a text that begins with a space already */
    bool ignore_merges;       /* a piece that is a token as a whole is not cut up and merged */
    unsigned normalize;       /* RDG_NORMALIZE_* of format/tokenizer_json.h */
    rdg_str charsmap;         /* UNIGRAM: SentencePiece's normalisation table */
    size_t n_selftests;       /* texts with the ids they gave when the file was made */
    struct rdg_vocab_selftest {
        rdg_str text;
        const int32_t *ids;
        size_t n_ids;
    } * selftests;
} rdg_vocab;

/* Empty: no tokens, no special ids. */
void rdg_vocab_init(rdg_vocab *v);
void rdg_vocab_finish(rdg_vocab *v);
/* Sets kind, model, and all that depends on the kind and on the name `pre` when a file does not say
 * otherwise. */
void rdg_vocab_set_kind(rdg_vocab *v, rdg_vocab_kind kind, const char *pre);
const char *rdg_vocab_kind_name(rdg_vocab_kind kind); /* "llama", … */
/* The two parts of a merge, and in `joined` (failed: no memory) what they become. False: it has no two. */
bool rdg_vocab_merge(const rdg_vocab *v, size_t rank, rdg_str *left, rdg_str *right, rdg_buf *joined);

/* Reads the tokenizer.* keys. NOT_FOUND: there is no tokenizer. On failure v is empty. */
rdg_err rdg_vocab_read(const rdg_gguf *g, const rdg_log *log, rdg_vocab *v, rdg_error *e);
/* Sets the keys, except those of the self-tests. Errors of the writer are kept by it; the result is about
 * memory only. */
rdg_err rdg_vocab_write(const rdg_vocab *v, rdg_gguf_writer *w, rdg_error *e);
rdg_err rdg_vocab_write_selftests(const struct rdg_vocab_selftest *tests, size_t n, rdg_gguf_writer *w,
                                  rdg_error *e);

/* Builds a tokenizer over v, which it takes over (v is empty afterwards, also on failure). */
rdg_err rdg_tokenizer_from_vocab(rdg_vocab *v, const rdg_log *log, rdg_tokenizer **out, rdg_error *e);

#endif

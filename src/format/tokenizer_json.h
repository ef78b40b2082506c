/* Reader of Hugging Face's tokenizer.json. It turns the file's nested components into a flat description;
 * what of it ridge cannot reproduce is listed in warnings, never dropped in silence. */
#ifndef RDG_FORMAT_TOKENIZER_JSON_H
#define RDG_FORMAT_TOKENIZER_JSON_H

#include <ridge/gguf.h> /* rdg_str */
#include "base/mem.h"

typedef enum rdg_tokenizer_json_model {
    RDG_TOKENIZER_JSON_BPE,
    RDG_TOKENIZER_JSON_UNIGRAM,
    RDG_TOKENIZER_JSON_WORDPIECE
} rdg_tokenizer_json_model;

enum { /* steps of the normaliser, applied in the order of these bits */
       RDG_NORMALIZE_NFC = 1,
       RDG_NORMALIZE_NFD = 2,
       RDG_NORMALIZE_NFKC = 4,
       RDG_NORMALIZE_NFKD = 8,
       RDG_NORMALIZE_LOWERCASE = 16,
       RDG_NORMALIZE_STRIP_ACCENTS = 32,
};

typedef struct rdg_added_token {
    rdg_str text;
    int32_t id;
    bool special, lstrip, rstrip, normalized, single_word;
} rdg_added_token;

typedef struct rdg_tokenizer_json {
    rdg_arena arena; /* owns everything below */
    rdg_tokenizer_json_model model;

    int32_t n_tokens; /* highest id + 1, added tokens included */
    rdg_str *tokens;  /* by id; p is NULL where the file has no such id */
    bool *in_vocab;   /* the id is part of the model's own vocabulary, not only an added token */
    float *scores;    /* UNIGRAM only: log probabilities */
    size_t n_merges;  /* BPE only */
    rdg_str *merges;  /* "left right"; a space inside a part is written as U+0120 */
    size_t n_added;
    rdg_added_token *added;

    int32_t unk_id; /* -1 if none */
    bool byte_fallback, ignore_merges;
    rdg_str continuing_prefix; /* WORDPIECE: "##" */

    unsigned normalize; /* RDG_NORMALIZE_* */
    bool bert_normalizer, bert_chinese_chars, bert_clean_text;
    bool prepend;              /* a normaliser or pre-tokeniser puts U+2581 in front of the text */
    bool prepend_first;        /* ... only at the very start, not after each special token */
    bool prepend_unless_space; /* ... and not before a text that begins with a space */
    bool metaspace;            /* spaces become U+2581 */
    bool collapse_spaces, strip_right;
    rdg_str charsmap; /* decoded bytes of "Precompiled" */

    bool byte_level, add_prefix_space;
    bool bert_pre_tokenizer;
    size_t n_expressions; /* applied in sequence: matches and gaps are both kept */
    rdg_str *expressions;

    bool has_post_processor, adds_bos, adds_eos;
    int32_t bos_id, eos_id; /* what the post-processor adds; -1 if nothing */

    size_t n_warnings;
    const char **warnings;
} rdg_tokenizer_json;

/* data need not be NUL-terminated; everything is copied. On failure t is empty. */
rdg_err rdg_tokenizer_json_parse(const char *data, size_t bytes, rdg_tokenizer_json *t, rdg_error *e);
/* vocab.json and merges.txt, the older pair of files with the same content as a byte-level BPE
 * tokenizer.json. */
rdg_err rdg_tokenizer_json_parse_pair(const char *vocab, size_t vocab_bytes, const char *merges,
                                      size_t merges_bytes, rdg_tokenizer_json *t, rdg_error *e);
void rdg_tokenizer_json_finish(rdg_tokenizer_json *t);

#endif

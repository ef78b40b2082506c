/* Pre-tokenisers: lists of regular expressions that cut text into pieces before merging. */
#ifndef RDG_TEXT_PRETOKENIZER_H
#define RDG_TEXT_PRETOKENIZER_H

#include <ridge/gguf.h> /* rdg_str */
#include "base/mem.h"

enum { RDG_PRE_EXPRESSIONS = 8 }; /* the longest list in the table has fewer */

/* What a name in tokenizer.ggml.pre stands for. */
typedef struct rdg_pre_rule {
    const char *names;                            /* space-separated; the first is the one to write */
    const char *expressions[RDG_PRE_EXPRESSIONS]; /* applied in sequence, NULL-terminated */
    bool ignore_merges, add_bos;                  /* defaults that come with the name */
} rdg_pre_rule;

const rdg_pre_rule *rdg_pre_rule_find(const char *name); /* NULL if unknown */
const rdg_pre_rule *rdg_pre_rule_default(void);          /* for a file without a name */
/* out holds RDG_PRE_EXPRESSIONS; returns how many are set. */
size_t rdg_pre_rule_expressions(const rdg_pre_rule *rule, rdg_str *out);
/* Finds the name of a list of expressions, best one with the same ignore_merges; returns its length, 0 if
 * there is none. */
size_t rdg_pre_rule_name(const rdg_str *expressions, size_t n, bool ignore_merges, char *name,
                         size_t name_bytes);

typedef struct rdg_pretokenizer rdg_pretokenizer;
/* Compiles; a compiled pre-tokeniser is immutable. MALFORMED names expression and position. */
rdg_err rdg_pretokenizer_create(const rdg_str *expressions, size_t n, rdg_pretokenizer **out, rdg_error *e);
void rdg_pretokenizer_destroy(rdg_pretokenizer *p);
/* Sets *ends to the end offsets of the pieces, in order (rdg_free). The pieces cover the text. */
rdg_err rdg_pretokenizer_split(const rdg_pretokenizer *p, const char *text, size_t n, size_t **ends,
                               size_t *n_ends, rdg_error *e);

#endif

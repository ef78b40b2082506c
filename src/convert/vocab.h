/* The tokenizer of a Hugging Face folder → tokenizer.* keys of a GGUF file. */
#ifndef RDG_CONVERT_VOCAB_H
#define RDG_CONVERT_VOCAB_H

#include <ridge/gguf.h>
#include "base/mem.h"

typedef struct rdg_vocab_report {
    rdg_arena arena;         /* owns the warnings */
    char model[16], pre[64]; /* what was written */
    int64_t n_tokens;        /* padding included */
    int64_t n_padding;
    const char **warnings; /* each also went to the log */
    int n_warnings;
} rdg_vocab_report;
void rdg_vocab_report_finish(rdg_vocab_report *r);

/* Reads tokenizer.json, tokenizer.model or vocab.json + merges.txt, and tokenizer_config.json, config.json,
 * generation_config.json and chat_template.jinja for ids, flags and templates. The vocabulary is padded to
 * n_vocab tokens, the rows of the embedding (0: not). NOT_FOUND: the folder has no tokenizer; nothing was
 * set. r is valid in every case. */
rdg_err rdg_vocab_convert(const char *dir, int64_t n_vocab, rdg_gguf_writer *w, rdg_vocab_report *r,
                          const rdg_log *log, rdg_error *e);

#endif

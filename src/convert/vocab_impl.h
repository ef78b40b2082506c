/* Private to vocab*.c: what the conversion of one folder's tokenizer shares. */
#ifndef RDG_CONVERT_VOCAB_IMPL_H
#define RDG_CONVERT_VOCAB_IMPL_H

#include "convert/vocab.h"
#include "base/map.h"
#include "format/json.h"
#include "format/sentencepiece.h"
#include "format/tokenizer_json.h"
#include "text/vocab.h"

enum { RDG_VOCAB_MAX_TOKENS = 1 << 24 };

typedef struct converter {
    const char *dir;
    int64_t n_vocab;
    rdg_gguf_writer *writer;
    rdg_vocab_report *report;
    const rdg_log *log;
    rdg_error *e;
    rdg_vocab vocab;
    rdg_strmap index;                                      /* token text → id */
    json_t *tokenizer_config, *config, *generation_config; /* or NULL */
    json_t *added_decoder; /* {"id": {content, special, …}} or NULL; borrowed */
    json_t *added_json;    /* {"content": id} or NULL */
} converter;

rdg_err rdg_vocab_no_memory(converter *c);
/* Into the report and the log. */
void rdg_vocab_warn(converter *c, const char *fmt, ...) RDG_PRINTF(2, 3);

/* The vocabulary from one kind of file (vocab_tokens.c). */
rdg_err rdg_vocab_from_json(converter *c, const rdg_tokenizer_json *t);
/* t: a tokenizer.json beside it, whose added tokens count, or NULL. */
rdg_err rdg_vocab_from_sentencepiece(converter *c, const rdg_sentencepiece *m, const rdg_tokenizer_json *t);
bool rdg_vocab_is_sentencepiece_like(const rdg_tokenizer_json *t);
int64_t rdg_vocab_added_bound(converter *c);
rdg_err rdg_vocab_apply_added(converter *c);
rdg_err rdg_vocab_fill_padding(converter *c);

#endif

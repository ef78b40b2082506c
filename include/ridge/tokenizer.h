/* Text <-> token ids, from the tokenizer.ggml.* metadata of a GGUF file.
 * Kinds: byte-level BPE ("gpt2"), SentencePiece-style BPE with byte fallback ("llama"), Unigram ("t5"),
 * WordPiece
 * ("bert"). A tokenizer is immutable: any number of threads may use one. */
#ifndef RIDGE_TOKENIZER_H
#define RIDGE_TOKENIZER_H

#include <ridge/gguf.h>
#include <ridge/template.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rdg_tokenizer rdg_tokenizer;

typedef enum rdg_token_type {
    RDG_TOKEN_UNDEFINED,
    RDG_TOKEN_NORMAL,
    RDG_TOKEN_UNKNOWN,
    RDG_TOKEN_CONTROL,
    RDG_TOKEN_USER_DEFINED,
    RDG_TOKEN_UNUSED,
    RDG_TOKEN_BYTE
} rdg_token_type;

/* NOT_FOUND: the file has no tokenizer (it still runs by token ids). Copies what it needs: g may be closed.
 */
rdg_err rdg_tokenizer_create(const rdg_gguf *g, const rdg_log *log, rdg_tokenizer **out, rdg_error *e);
void rdg_tokenizer_destroy(rdg_tokenizer *t);

typedef struct rdg_tokenize_params {
    bool add_special;   /* BOS in front, EOS behind, as the model wants (add_bos_token, add_eos_token) */
    bool parse_special; /* control tokens written in the text become their ids; never set it for user input */
} rdg_tokenize_params;

/* *ids is owned by the caller (rdg_tokens_free). Empty text gives no ids besides BOS/EOS. Text need not be
 * valid UTF-8: an invalid byte is treated as U+FFFD by the pre-tokeniser's expressions but its bytes are kept
 * where the vocabulary can express them. */
rdg_err rdg_tokenize(const rdg_tokenizer *t, const char *text, size_t n, rdg_tokenize_params params,
                     int32_t **ids, size_t *n_ids, rdg_error *e);
/* One text, control tokens parsed, but not where they touch a span: what a conversation brought into a
 * rendered template (rdg_template_result). A span that holds none makes no difference: piece by piece, words
 * and space prefixes would come out otherwise. Spans rise, are disjoint and not empty. */
rdg_err rdg_tokenize_spans(const rdg_tokenizer *t, const char *text, size_t n, const rdg_template_span *spans,
                           size_t n_spans, bool add_special, int32_t **ids, size_t *n_ids, rdg_error *e);
void rdg_tokens_free(int32_t *ids);

/* The text of one token as it appears in output, raw bytes (may be part of a UTF-8 character). Control tokens
 * give nothing unless `special`. Pointer lives as long as t. An id out of range gives an empty string. */
rdg_str rdg_token_bytes(const rdg_tokenizer *t, int32_t id, bool special);
/* The vocabulary entry as stored (byte-level BPE: mapped characters). */
rdg_str rdg_token_piece(const rdg_tokenizer *t, int32_t id);
rdg_token_type rdg_token_kind(const rdg_tokenizer *t, int32_t id);

/* Whole text; strips the one leading space that SentencePiece adds. The string is owned by the caller
 * (rdg_text_free). */
rdg_err rdg_detokenize(const rdg_tokenizer *t, const int32_t *ids, size_t n_ids, bool special, char **text,
                       size_t *n, rdg_error *e);
void rdg_text_free(char *text);

int64_t rdg_tokenizer_n_vocab(const rdg_tokenizer *t);
int32_t rdg_tokenizer_bos(const rdg_tokenizer *t); /* -1 if there is none; likewise below */
int32_t rdg_tokenizer_eos(const rdg_tokenizer *t);
int32_t rdg_tokenizer_eot(const rdg_tokenizer *t);
int32_t rdg_tokenizer_unk(const rdg_tokenizer *t);
bool rdg_tokenizer_add_bos(const rdg_tokenizer *t);
bool rdg_tokenizer_add_eos(const rdg_tokenizer *t);
bool rdg_token_is_end(const rdg_tokenizer *t,
                      int32_t id); /* ends generation: eos, eot, eom and known names */
/* Id of the token with exactly this stored piece, or -1. */
int32_t rdg_token_find(const rdg_tokenizer *t, const char *piece, size_t n);
const char *rdg_tokenizer_model(const rdg_tokenizer *t); /* "gpt2", "llama", … */
const char *rdg_tokenizer_pre(const rdg_tokenizer *t);   /* "llama-bpe", … or "" */

/* Streaming output: feeds tokens, hands out only whole UTF-8 characters. Invalid sequences that can never
 * become a character are passed on as they are. */
typedef struct rdg_stream {
    const rdg_tokenizer *tokenizer;
    char pending[8];
    size_t n_pending;
    bool started; /* the leading space has been dealt with */
} rdg_stream;
void rdg_stream_init(rdg_stream *s, const rdg_tokenizer *t);
/* Appends the token's text to out (at least 8 + token length bytes: out is grown by the caller's buffer
 * callback). */
rdg_err rdg_stream_token(rdg_stream *s, int32_t id, bool special,
                         void (*emit)(void *user, const char *text, size_t n), void *user);
/* What is left at the end: an incomplete character's bytes. */
void rdg_stream_finish(rdg_stream *s, void (*emit)(void *user, const char *text, size_t n), void *user);

#ifdef __cplusplus
}
#endif
#endif

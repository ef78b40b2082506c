/* Private to tokenizer_json*.c: the components of tokenizer.json around the model. `depth` bounds nested
 * sequences. */
#ifndef RDG_FORMAT_TOKENIZER_JSON_PARTS_H
#define RDG_FORMAT_TOKENIZER_JSON_PARTS_H

#include "format/names.h"
#include "format/tokenizer_json.h"

#include <jansson.h>
#include <string.h>

rdg_err rdg_tokenizer_json_normalizer(rdg_tokenizer_json *t, json_t *j, int depth, rdg_error *e);
rdg_err rdg_tokenizer_json_pre_tokenizer(rdg_tokenizer_json *t, json_t *j, int depth, rdg_error *e);
rdg_err rdg_tokenizer_json_post_processor(rdg_tokenizer_json *t, json_t *j, int depth, rdg_error *e);

/* Shared helpers: copy a JSON string into the arena; note a warning. */
rdg_err rdg_tokenizer_json_string(rdg_tokenizer_json *t, const json_t *j, rdg_str *s, rdg_error *e);
rdg_err rdg_tokenizer_json_warn(rdg_tokenizer_json *t, rdg_error *e, const char *fmt, ...) RDG_PRINTF(3, 4);

/* A text of the file for a message. */
static inline rdg_quoted quote(const char *text)
{
    return rdg_quote(text ? text : "", text ? strlen(text) : 0);
}

#endif

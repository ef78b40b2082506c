/* What template and chat share: a model's chat template and the texts of its tokens. */
#ifndef RDG_CLI_TEMPLATE_H
#define RDG_CLI_TEMPLATE_H

#include "cli.h"

#include <ridge/template.h>

/* Compiles the file's tokenizer.chat_template, or tokenizer.chat_template.NAME; NOT_FOUND, with the names
 * that there are, if it has none. */
rdg_err cli_template_of_model(const rdg_gguf *g, const char *name, rdg_template **out, rdg_error *e);
/* A token's text as a NUL-terminated string ("" for id -1), owned by the caller; NULL without memory. */
char *cli_token_text(const rdg_tokenizer *t, int32_t id);
/* The local time. */
rdg_template_time cli_template_now(void);

#endif

/* One cli_command per file cmd_NAME.c. */
#ifndef RDG_CLI_COMMANDS_H
#define RDG_CLI_COMMANDS_H

#include "cli.h"

extern const cli_command cmd_bench;
extern const cli_command cmd_bench_op;
extern const cli_command cmd_chat;
extern const cli_command cmd_check;
extern const cli_command cmd_convert;
extern const cli_command cmd_detokenize;
extern const cli_command cmd_devices;
extern const cli_command cmd_embed;
extern const cli_command cmd_imatrix;
extern const cli_command cmd_inspect;
extern const cli_command cmd_logits;
extern const cli_command cmd_ops;
extern const cli_command cmd_perplexity;
extern const cli_command cmd_quantize;
extern const cli_command cmd_run;
extern const cli_command cmd_synth;
extern const cli_command cmd_template;
extern const cli_command cmd_tokenize;

#endif

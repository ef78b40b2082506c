/* The table of commands. */
#include "commands.h"

#include <signal.h>

const cli_command *const cli_commands[] = {
    &cmd_convert,    &cmd_imatrix,    &cmd_quantize, &cmd_inspect, &cmd_tokenize,
    &cmd_detokenize, &cmd_logits,     &cmd_run,      &cmd_chat,    &cmd_template,
    &cmd_embed,      &cmd_perplexity, &cmd_bench,    &cmd_synth,   &cmd_devices,
    &cmd_ops,        &cmd_check,      &cmd_bench_op, NULL,
};

int main(int argc, char **argv)
{
    /* A reader that goes away and a file that may not grow are write errors with a message, not signals. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    return cli_main(argc, argv);
}

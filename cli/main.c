/* The table of commands. */
#include "commands.h"

#include <signal.h>

const cli_command *const cli_commands[] = {
    &cmd_convert, &cmd_imatrix, &cmd_quantize, &cmd_inspect, &cmd_tokenize, &cmd_detokenize, &cmd_logits,
    &cmd_run, &cmd_embed, &cmd_perplexity, &cmd_bench, &cmd_synth, &cmd_devices, &cmd_ops,
    &cmd_check, &cmd_bench_op, NULL,
};

int main(int argc, char **argv)
{
    /* A reader that goes away is a write error with a message, not a signal. */
    signal(SIGPIPE, SIG_IGN);
    return cli_main(argc, argv);
}

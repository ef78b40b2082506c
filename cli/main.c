/* The table of commands. */
#include "commands.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>

const cli_command *const cli_commands[] = {
    &cmd_convert,    &cmd_imatrix,    &cmd_quantize, &cmd_inspect, &cmd_tokenize,
    &cmd_detokenize, &cmd_logits,     &cmd_run,      &cmd_chat,    &cmd_template,
    &cmd_embed,      &cmd_perplexity, &cmd_bench,    &cmd_synth,   &cmd_devices,
    &cmd_ops,        &cmd_check,      &cmd_bench_op, NULL,
};

/* A standard stream that was closed would be the next file that is opened: what is printed would go into a
 * model, what is read would come from one. Its place is taken by something that cannot be used in its way. */
static int occupy_standard_streams(void)
{
    for (int fd = 0; fd < 3; fd++) {
        if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
        if (open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd) return -1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (occupy_standard_streams()) return EXIT_FAILED;
    /* A reader that goes away and a file that may not grow are write errors with a message, not signals. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    return cli_main(argc, argv);
}

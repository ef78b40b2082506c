/* The frame of the command line: one table of commands, one table of options per command. The tables drive
 * parsing, --help and the man page, so they cannot disagree. Only cli/ prints, reads the environment or
 * exits.
 */
#ifndef RDG_CLI_CLI_H
#define RDG_CLI_CLI_H

#include <ridge/ridge.h>

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_REJECTED = 3,
    EXIT_NEGATIVE = 4,
    EXIT_UNDECIDED = 5
};

typedef enum cli_kind {
    CLI_FLAG,   /* bool */
    CLI_INT,    /* int64_t; min … max */
    CLI_FLOAT,  /* double; min … max */
    CLI_STRING, /* const char *, points into argv */
    CLI_LIST,   /* cli_list: may be given several times */
} cli_kind;

typedef struct cli_list {
    const char **items;
    int n;
} cli_list;

typedef struct cli_option {
    const char *name;     /* "--temp"; or "-n" alone */
    const char *alias;    /* "-n", or NULL */
    const char *argument; /* "T" in the usage line; NULL for a flag */
    cli_kind kind;
    size_t offset;    /* into the command's option struct */
    double min, max;  /* INT, FLOAT; min == max: any */
    const char *help; /* one line; the default is part of it */
    unsigned needs;   /* common options: which of these bits a command must have in `uses`; 0: none */
    unsigned unless;  /* common options: which bits a command must not have */
} cli_option;

/* What a command does with the common options. Without its bit an option is not in the command's help and is
 * ignored with a warning. */
enum {
    CLI_THREADS = 1,
    CLI_DEVICE = 2,
    CLI_DIVIDE = 4, /* --gpu-layers, --device-memory */
    CLI_SEED = 8,
    CLI_MODEL = CLI_THREADS | CLI_DEVICE | CLI_DIVIDE, /* a session on a device */
    CLI_WRITES = 16, /* no option: Ctrl-C asks it to stop, so that it can remove what it has written */
    CLI_TALKS = 32,  /* a conversation: it refuses --json */
};

/* Rows that commands share whose option struct S has n_ctx; n_batch and kv_type. */
#define CLI_CONTEXT_ROW(S)                                                                                   \
    {                                                                                                        \
        "--context", "-c", "N", CLI_INT, offsetof(S, n_ctx), 1, 1e9,                                         \
            "context (default: the smaller of the model's and 4096)"                                         \
    }
#define CLI_BATCH_ROW(S)                                                                                     \
    {                                                                                                        \
        "--batch", "-b", "N", CLI_INT, offsetof(S, n_batch), 1, 1e6, "prompt tokens a step (default: 512)"   \
    }
#define CLI_KV_TYPE_ROW(S)                                                                                   \
    {                                                                                                        \
        "--kv-type", NULL, "T", CLI_STRING, offsetof(S, kv_type), 0, 0,                                      \
            "type of the KV cache (default: f16)"                                                            \
    }

/* Options that are parsed for every command. */
typedef struct cli_common {
    int64_t n_threads; /* 0 = physical cores */
    const char *device;
    int64_t gpu_layers;    /* -1 = as many as fit */
    int64_t device_memory; /* bytes; 0 = what is free */
    int64_t seed;
    bool quiet, verbose, json;
} cli_common;

typedef struct cli {
    const struct cli_command *command;
    cli_common common;
    const char **args; /* positional arguments */
    int n_args;
    rdg_log log;      /* warnings to stderr, progress when stderr is a terminal */
    json_t *warnings; /* array of what was warned about */
    bool shows_progress, progress_shown;
    bool seed_given;
    char cache_dir[512];
} cli;

typedef struct cli_command {
    const char *name;
    const char *group;         /* "pipeline" or "bench" */
    const char *summary;       /* one line for `ridge help` */
    const char *usage;         /* positional part: "MODEL -f TEXT -o OUT" */
    const char *description;   /* paragraphs for --help and the man page */
    const cli_option *options; /* ends with a NULL name; may be NULL */
    const void *defaults;      /* the option struct's initial value */
    size_t options_bytes;
    int min_args, max_args; /* positional; max -1 = any number */
    unsigned uses;          /* CLI_THREADS … */
    int (*run)(cli *c, void *options);
} cli_command;

/* --device, --gpu-layers and --device-memory, and where compiled kernels are kept. */
void cli_set_device(cli *c, rdg_session_params *p);
/* The defaults, what the common options say of threads, device and log, and a cache of this type. */
rdg_session_params cli_session_params(cli *c, rdg_type kv);
/* The ids of a text with what the model puts around one, to be freed with rdg_tokens_free. */
rdg_err cli_tokenize(const rdg_model *m, const char *text, size_t n_text, int32_t **ids, size_t *n,
                     rdg_error *e);
/* What runs where: the `placement` of a report. */
json_t *cli_placement_json(const rdg_session *s);

/* The table, main.c. */
extern const cli_command *const cli_commands[]; /* NULL-terminated */

/* cli.c
 * ------------------------------------------------------------------------------------------------------- */

int cli_main(int argc, char **argv);
/* Prints "ridge: COMMAND: message" and returns the exit code of the error's class. */
int cli_error(const cli *c, const rdg_error *e);
/* Usage errors: prints the message and where help is; returns EXIT_USAGE. */
int cli_usage(const cli *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void cli_warn(cli *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A line on stderr unless -q. */
void cli_note(cli *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void cli_progress_done(cli *c); /* ends a progress line, if one is shown */

/* Prints the document (which it takes over) with `warnings` added; EXIT_FAILED if stdout cannot be written.
 */
int cli_print_json(cli *c, json_t *document);
json_t *cli_real(double v);               /* null for NaN and infinities */
json_t *cli_str(const char *s, size_t n); /* a JSON string; bytes that are not UTF-8 become U+FFFD */
/* Flushes stdout; EXIT_FAILED with a message if that fails (full disk, closed pipe). */
int cli_finish_stdout(cli *c);

int cli_threads(const cli *c);                             /* -t, or the physical cores */
bool cli_begins_with(const char *path, const char *magic); /* false for what cannot be read */
/* "-p TEXT" or "-f FILE" (- = stdin): the text, owned by the caller. */
rdg_err cli_read_text(const char *text, const char *path, char **out, size_t *n, rdg_error *e);
const char *cli_bytes(double bytes, char *buf, size_t n); /* "4.92 GB" */
/* Comma- or space-separated token ids; the array is owned by the caller. */
rdg_err cli_parse_ids(const char *text, int32_t **ids, size_t *n, rdg_error *e);

#endif

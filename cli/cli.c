/* Parsing, help, messages: everything the commands share. */
#include "cli.h"
#include "base/cpu.h"
#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <stdio.h>

#ifndef RDG_VERSION
#define RDG_VERSION "unknown"
#endif

static const cli_option common_options[] = {
    {"--threads", "-t", "N", CLI_INT, offsetof(cli_common, n_threads), 1, 1024,
     "CPU threads (default: physical cores)", CLI_THREADS},
    {"--device", NULL, "D", CLI_STRING, offsetof(cli_common, device), 0, 0,
     "auto, cpu or vulkan[:N] (default: cpu)", CLI_DEVICE},
    {"--gpu-layers", NULL, "N", CLI_INT, offsetof(cli_common, gpu_layers), 0, 1024,
     "blocks on the GPU, the last ones (default: as many as fit)", CLI_DIVIDE},
    {"--device-memory", NULL, "BYTES", CLI_INT, offsetof(cli_common, device_memory), 1, 9e15,
     "use no more of the GPU's memory (default: what is free)", CLI_DIVIDE},
    {"--seed", NULL, "N", CLI_INT, offsetof(cli_common, seed), 0, 9e15, "seed of everything random",
     CLI_SEED},
    {"--json", NULL, NULL, CLI_FLAG, offsetof(cli_common, json), 0, 0, "one JSON document on standard output",
     0, CLI_TALKS},
    {"--quiet", "-q", NULL, CLI_FLAG, offsetof(cli_common, quiet), 0, 0, "no progress and no notes"},
    {"--verbose", "-v", NULL, CLI_FLAG, offsetof(cli_common, verbose), 0, 0, "say more"},
    {NULL, NULL, NULL, CLI_FLAG, 0, 0, 0, NULL},
};

/* Messages
 * ---------------------------------------------------------------------------------------------------- */

static void end_progress_line(cli *c)
{
    if (c->progress_shown) fputs("\r\033[K", stderr);
    c->progress_shown = false;
}

void cli_progress_done(cli *c)
{
    end_progress_line(c);
}

static void on_message(void *user, rdg_log_level level, const char *text)
{
    cli *c = user;
    if (level == RDG_LOG_WARN) {
        json_array_append_new(c->warnings, cli_str(text, strlen(text)));
    } else if (c->common.quiet || (level == RDG_LOG_DEBUG && !c->common.verbose)) {
        return;
    }
    end_progress_line(c);
    fprintf(stderr, "ridge: %s: %s%s\n", c->command->name, level == RDG_LOG_WARN ? "warning: " : "", text);
}

/* Set by a signal while a command writes. */
static volatile sig_atomic_t stop_asked;
/* Where the output may be half written: what each word of the command line would be written as. NULL ends. */
static char **half_written;

static void on_stop(int number)
{
    static const char text[] = "\nridge: stopping after this step; once more ends at once\n";
    if (stop_asked) {
        for (char **path = half_written; path && *path; path++) unlink(*path);
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    stop_asked = 1;
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) return;
}

/* What a terminal or a shell sends to end a command makes it stop by itself, the second time at once. */
static void stop_on_signals(int argc, char **argv)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    char **paths = rdg_alloc_array((size_t)argc + 1, sizeof *paths); /* kept until the program ends */
    for (int i = 0, n = 0; paths && i < argc; i++) {
        const char *value = argv[i][0] == '-' ? strchr(argv[i], '=') : NULL;
        if ((paths[n] = rdg_out_temp_path(value ? value + 1 : argv[i]))) n++;
    }
    half_written = paths;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const struct sigaction action = {.sa_handler = on_stop, .sa_flags = SA_RESTART};
        struct sigaction before;
        if (!sigaction(numbers[i], NULL, &before) && before.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
    }
}

static int on_progress(void *user, const char *what, double done, double total)
{
    cli *c = user;
    enum { WIDTH = 30 };
    if (!c->shows_progress || stop_asked) return stop_asked;
    double share = total > 0 ? done / total : 0;
    int filled = (int)(share * WIDTH);
    fprintf(stderr, "\r\033[K%s [%.*s%.*s] %3.0f %%", what, filled, "##############################",
            WIDTH - filled, "..............................", share * 100);
    fflush(stderr);
    c->progress_shown = true;
    return stop_asked;
}

int cli_error(const cli *c, const rdg_error *e)
{
    if (c->progress_shown) fputs("\r\033[K", stderr);
    fprintf(stderr, "ridge: %s: %s\n", c->command->name, e->message[0] ? e->message : rdg_err_text(e->code));
    switch (e->code) {
    case RDG_E_ARGUMENT: return EXIT_USAGE;
    case RDG_E_MALFORMED:
    case RDG_E_UNSUPPORTED:
    case RDG_E_LIMIT:
    case RDG_E_NOT_FOUND:
    case RDG_E_CONTEXT_FULL: return EXIT_REJECTED;
    default: return EXIT_FAILED;
    }
}

int cli_usage(const cli *c, const char *fmt, ...)
{
    va_list ap;
    fprintf(stderr, "ridge: %s: ", c->command->name);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, " (see `ridge %s --help`)\n", c->command->name);
    return EXIT_USAGE;
}

void cli_warn(cli *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char text[1024];
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    on_message(c, RDG_LOG_WARN, text);
}

void cli_note(cli *c, const char *fmt, ...)
{
    va_list ap;
    if (c->common.quiet) return;
    end_progress_line(c);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

/* Output
 * ------------------------------------------------------------------------------------------------------ */

static int stdout_failed(const char *command, int native)
{
    fprintf(stderr, "ridge: %s: cannot write standard output: %s\n", command,
            native ? strerror(native) : "an earlier write failed");
    return EXIT_FAILED;
}

static int finish_stdout(const char *command)
{
    /* stdio drops the text of a failed write and its errno is gone by now, but the mark on the stream stays.
     */
    errno = 0;
    return fflush(stdout) == 0 && !ferror(stdout) ? EXIT_DONE : stdout_failed(command, errno);
}

int cli_finish_stdout(cli *c)
{
    return finish_stdout(c->command->name);
}

int cli_print_json(cli *c, json_t *document)
{
    if (!json_object_get(document, "warnings")) json_object_set(document, "warnings", c->warnings);
    errno = 0;
    bool written = json_dumpf(document, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(10)) == 0 &&
                   fputc('\n', stdout) != EOF;
    int native = errno;
    json_decref(document);
    return written ? cli_finish_stdout(c) : stdout_failed(c->command->name, native);
}

json_t *cli_real(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

/* Length of the valid UTF-8 character at p, 0 if there is none. */
static size_t utf8_length(const unsigned char *p, size_t n)
{
    static const struct {
        unsigned char mask, lead;
        size_t length;
        uint32_t least;
    } forms[] = {{0x80, 0x00, 1, 0}, {0xe0, 0xc0, 2, 0x80}, {0xf0, 0xe0, 3, 0x800}, {0xf8, 0xf0, 4, 0x10000}};
    for (size_t f = 0; f < 4; f++) {
        if ((p[0] & forms[f].mask) != forms[f].lead || n < forms[f].length) continue;
        uint32_t cp = p[0] & (unsigned char)~forms[f].mask;
        for (size_t i = 1; i < forms[f].length; i++) {
            if ((p[i] & 0xc0) != 0x80) return 0;
            cp = cp << 6 | (p[i] & 0x3f);
        }
        return cp < forms[f].least || cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000) ? 0 : forms[f].length;
    }
    return 0;
}

json_t *cli_str(const char *s, size_t n)
{
    rdg_buf b;
    rdg_buf_init(&b);
    for (size_t i = 0; i < n;) {
        size_t length = utf8_length((const unsigned char *)s + i, n - i);
        rdg_buf_append(&b, length ? s + i : "\xef\xbf\xbd", length ? length : 3);
        i += length ? length : 1;
    }
    json_t *j = b.failed ? NULL : json_stringn(b.data ? b.data : "", b.len);
    rdg_buf_finish(&b);
    return j ? j : json_null();
}

const char *cli_bytes(double bytes, char *buf, size_t n)
{
    static const char *const unit[] = {"B", "kB", "MB", "GB", "TB"};
    int u = 0;
    while (bytes >= 1000 && u < 4) {
        bytes /= 1000;
        u++;
    }
    snprintf(buf, n, u == 0 ? "%.0f %s" : "%.2f %s", bytes, unit[u]);
    return buf;
}

/* Input
 * ------------------------------------------------------------------------------------------------------- */

int cli_threads(const cli *c)
{
    return c->common.n_threads ? (int)c->common.n_threads : rdg_cpu_physical_cores();
}

rdg_err cli_read_text(const char *text, const char *path, char **out, size_t *n, rdg_error *e)
{
    enum { TEXT_LIMIT_BYTES = 1 << 30 };
    *out = NULL;
    if (path) return rdg_file_read(path, TEXT_LIMIT_BYTES, true, out, n, e);
    *n = strlen(text);
    *out = rdg_strdup(text);
    return *out ? RDG_OK : rdg_fail(e, RDG_E_NOMEM, "no memory for the text");
}

bool cli_begins_with(const char *path, const char *magic)
{
    char start[16];
    size_t n = strlen(magic);
    FILE *f = n <= sizeof start ? fopen(path, "rb") : NULL;
    if (!f) return false;
    bool same = fread(start, 1, n, f) == n && !memcmp(start, magic, n);
    fclose(f);
    return same;
}

rdg_err cli_parse_ids(const char *text, int32_t **ids, size_t *n, rdg_error *e)
{
    size_t cap = 0;
    *ids = NULL;
    *n = 0;
    for (const char *p = text + strspn(text, ", \t\n"); *p; p += strspn(p, ", \t\n")) {
        char *end;
        errno = 0;
        long v = strtol(p, &end, 10);
        if (end == p || (*end && !strchr(", \t\n", *end)) || errno || v < 0 || v > INT32_MAX) {
            rdg_free(*ids);
            *ids = NULL;
            return rdg_fail(e, RDG_E_ARGUMENT,
                            "'%.20s' is not a token id; ids are whole numbers separated by commas", p);
        }
        if (!rdg_grow(ids, *n, &cap, sizeof **ids)) {
            rdg_free(*ids);
            *ids = NULL;
            return rdg_fail(e, RDG_E_NOMEM, "no memory for the token ids");
        }
        (*ids)[(*n)++] = (int32_t)v;
        p = end;
    }
    return RDG_OK;
}

/* Help
 * -------------------------------------------------------------------------------------------------------- */

/* Characters of UTF-8 text. */
static int columns_of(const char *s, size_t n)
{
    int columns = 0;
    for (size_t i = 0; i < n; i++) columns += (s[i] & 0xc0) != 0x80;
    return columns;
}

/* Words filled into lines, those after the first indented; an empty line ends a paragraph. `column` is where
 * the first word goes. */
static void print_filled(const char *text, int indent, int column)
{
    enum { LINE_COLUMNS = 100 };
    for (bool first = true; *text; first = false) {
        size_t space = strspn(text, " \n"), n = strcspn(text + space, " \n");
        bool paragraph = !first && !strncmp(text, "\n\n", 2);
        if (!n) break;
        int columns = columns_of(text + space, n);
        if (paragraph || (!first && column + 1 + columns > LINE_COLUMNS)) {
            printf("%s\n%*s", paragraph ? "\n" : "", indent, "");
            column = indent;
        } else if (!first) {
            putchar(' ');
            column++;
        }
        printf("%.*s", (int)n, text + space);
        column += columns;
        text += space + n;
    }
    putchar('\n');
}

static void print_options(const cli_option *o, unsigned uses)
{
    enum { HELP_COLUMN = 31 };
    for (; o && o->name; o++) {
        char left[64];
        if ((o->needs & ~uses) || (o->unless & uses)) continue;
        snprintf(left, sizeof left, "%s%s%s%s%s", o->alias ? o->alias : "", o->alias ? ", " : "", o->name,
                 o->argument ? " " : "", o->argument ? o->argument : "");
        int used = printf("  %-28s ", left);
        print_filled(o->help, HELP_COLUMN, used);
    }
}

static void print_help(const cli_command *k)
{
    printf("ridge %s: %s\n\nUsage: ridge %s%s%s [OPTIONS]\n\n", k->name, k->summary, k->name,
           k->usage[0] ? " " : "", k->usage);
    print_filled(k->description, 0, 0);
    if (k->options) {
        printf("\nOptions:\n");
        print_options(k->options, 0);
    }
    printf("\nCommon options:\n");
    print_options(common_options, k->uses);
    printf("\nExit codes: 0 done, 1 failed while running, 2 usage, 3 input rejected, 4 verdict negative, 5 "
           "undecided.\n");
}

static void print_overview(FILE *f)
{
    static const char *const groups[][2] = {
        {"pipeline", "The pipeline: from a Hugging Face folder to text"},
        {"bench", "The bench: what the hardware could do, and what it does"}};
    fprintf(f,
            "ridge %s: run language models at the speed of memory, and see how far each kernel is from it\n\n"
            "Usage: ridge COMMAND [ARGUMENTS] [OPTIONS]\n",
            RDG_VERSION);
    for (size_t g = 0; g < 2; g++) {
        fprintf(f, "\n%s\n", groups[g][1]);
        for (int i = 0; cli_commands[i]; i++)
            if (!strcmp(cli_commands[i]->group, groups[g][0]))
                fprintf(f, "  %-11s %s\n", cli_commands[i]->name, cli_commands[i]->summary);
    }
    fprintf(f, "\n`ridge COMMAND --help` tells the rest; `ridge --version` the version.\n");
}

/* roff text: a leading dot or quote and every backslash and hyphen need care. */
static void print_roff(const char *s)
{
    for (bool line_start = true; *s; s++) {
        if (line_start && (*s == '.' || *s == '\'')) fputs("\\&", stdout);
        if (*s == '\\')
            fputs("\\e", stdout);
        else if (*s == '-')
            fputs("\\-", stdout);
        else
            putchar(*s);
        line_start = *s == '\n';
    }
}

static void print_man_options(const cli_option *o)
{
    for (; o && o->name; o++) {
        printf(".TP\n.B ");
        if (o->alias) {
            print_roff(o->alias);
            printf(", ");
        }
        print_roff(o->name);
        if (o->argument) printf(" \\fI%s\\fR", o->argument);
        printf("\n");
        print_roff(o->help);
        printf("\n");
    }
}

/* ridge(1) from the same tables. */
static void print_man(void)
{
    printf(".TH RIDGE 1 \"\" \"ridge %s\" \"User commands\"\n.SH NAME\nridge \\- run language models, "
           "measure kernels\n"
           ".SH SYNOPSIS\n.B ridge\n.I COMMAND\n[\\fIARGUMENTS\\fR] [\\fIOPTIONS\\fR]\n.SH COMMANDS\n",
           RDG_VERSION);
    for (int i = 0; cli_commands[i]; i++) {
        const cli_command *k = cli_commands[i];
        printf(".SS \"ridge %s ", k->name);
        print_roff(k->usage);
        printf("\"\n");
        print_roff(k->description);
        printf("\n");
        print_man_options(k->options);
    }
    printf(".SH COMMON OPTIONS\nWhere they mean nothing to a command they are ignored with a warning; its "
           "\\fB\\-\\-help\\fR lists those it takes.\n");
    print_man_options(common_options);
    printf(".SH EXIT STATUS\n0 done, 1 failed while running, 2 usage, 3 input rejected, 4 verdict negative, "
           "5 verdict undecided.\n");
}

/* Parsing
 * ----------------------------------------------------------------------------------------------------- */

static const cli_option *find_option(const cli_option *table, const char *name, size_t n)
{
    for (const cli_option *o = table; o && o->name; o++)
        if ((strlen(o->name) == n && !strncmp(o->name, name, n)) ||
            (o->alias && strlen(o->alias) == n && !strncmp(o->alias, name, n)))
            return o;
    return NULL;
}

static int set_number(const cli *c, const cli_option *o, void *base, const char *value)
{
    char *end;
    double v;
    errno = 0;
    if (o->kind == CLI_INT) {
        long long whole = strtoll(value, &end, 10);
        v = (double)whole;
        memcpy((char *)base + o->offset, &(int64_t){whole}, sizeof(int64_t));
    } else {
        v = strtod(value, &end);
        memcpy((char *)base + o->offset, &v, sizeof v);
    }
    if (end == value || *end || errno || !isfinite(v))
        return cli_usage(c, "%s takes a %snumber, not '%s'", o->name, o->kind == CLI_INT ? "whole " : "",
                         value);
    if (o->min != o->max && (v < o->min || v > o->max))
        return cli_usage(c, "%s %s is out of range: %.15g to %.15g", o->name, value, o->min, o->max);
    return EXIT_DONE;
}

static int set_option(const cli *c, const cli_option *o, void *base, const char *value)
{
    if (o->kind == CLI_INT || o->kind == CLI_FLOAT) return set_number(c, o, base, value);
    if (o->kind == CLI_STRING) {
        memcpy((char *)base + o->offset, &value, sizeof value);
        return EXIT_DONE;
    }
    cli_list *list = (cli_list *)((char *)base + o->offset);
    const char **items = rdg_realloc_array(list->items, (size_t)list->n + 1, sizeof *items);
    if (!items) return EXIT_FAILED;
    list->items = items;
    list->items[list->n++] = value;
    return EXIT_DONE;
}

/* A word that starts with '-' is an option unless it is "-" or a number ("-1" after an option is that
 * option's). */
static int parse(cli *c, int argc, char **argv, void *options)
{
    bool only_args = false;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (only_args || word[0] != '-' || !word[1]) {
            c->args[c->n_args++] = word;
            continue;
        }
        if (!strcmp(word, "--")) {
            only_args = true;
            continue;
        }
        const char *equals = !strncmp(word, "--", 2) ? strchr(word, '=') : NULL;
        size_t n = equals ? (size_t)(equals - word) : strlen(word);
        void *base = options;
        const cli_option *o = find_option(c->command->options, word, n);
        if (!o) {
            o = find_option(common_options, word, n);
            base = &c->common;
        }
        if (!o) return cli_usage(c, "unknown option '%s'", word);
        if (o->needs & ~c->command->uses)
            cli_warn(c, "%s means nothing to `ridge %s` and is ignored", o->name, c->command->name);
        if (o->kind == CLI_FLAG) {
            if (equals) return cli_usage(c, "%s takes no value", o->name);
            memcpy((char *)base + o->offset, &(bool){true}, sizeof(bool));
            continue;
        }
        if (!equals && i + 1 >= argc) return cli_usage(c, "%s needs a value: %s", o->name, o->argument);
        int rc = set_option(c, o, base, equals ? equals + 1 : argv[++i]);
        if (rc) return rc;
        if (base == &c->common && !strcmp(o->name, "--seed")) c->seed_given = true;
    }
    if (c->n_args < c->command->min_args)
        return cli_usage(c, "too few arguments: ridge %s %s", c->command->name, c->command->usage);
    if (c->command->max_args >= 0 && c->n_args > c->command->max_args)
        return cli_usage(c, "unexpected argument '%s': ridge %s %s", c->args[c->command->max_args],
                         c->command->name, c->command->usage);
    return EXIT_DONE;
}

static bool wants_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--"); i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return true;
    return false;
}

static int run_command(const cli_command *k, int argc, char **argv)
{
    cli c = {.command = k, .common = {.gpu_layers = -1}, .warnings = json_array()};
    c.log = (rdg_log){.message = on_message, .user = &c};
    if (wants_help(argc, argv)) {
        print_help(k);
        json_decref(c.warnings);
        return cli_finish_stdout(&c);
    }
    void *options = rdg_alloc(k->options_bytes);
    c.args = rdg_alloc_array((size_t)argc + 1, sizeof *c.args);
    int rc = EXIT_FAILED;
    if (options && c.args && c.warnings) {
        if (k->options_bytes) memcpy(options, k->defaults, k->options_bytes);
        rc = parse(&c, argc, argv, options);
        if (rc == EXIT_DONE) {
            c.log.progress = on_progress;
            c.shows_progress = !c.common.quiet && isatty(STDERR_FILENO);
            if (k->uses & CLI_WRITES) stop_on_signals(argc, argv);
            rc = k->run(&c, options);
            end_progress_line(&c);
        }
    }
    for (const cli_option *o = k->options; options && o && o->name; o++)
        if (o->kind == CLI_LIST) rdg_free(((cli_list *)((char *)options + o->offset))->items);
    rdg_free(c.args);
    rdg_free(options);
    json_decref(c.warnings);
    return rc;
}

static const cli_command *find_command(const char *name)
{
    for (int i = 0; cli_commands[i]; i++)
        if (!strcmp(cli_commands[i]->name, name)) return cli_commands[i];
    return NULL;
}

int cli_main(int argc, char **argv)
{
    if (argc < 2) {
        print_overview(stderr);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (!strcmp(name, "--version")) {
        printf("ridge %s\n", RDG_VERSION);
        return finish_stdout("version");
    }
    if (!strcmp(name, "help") || !strcmp(name, "--help") || !strcmp(name, "-h")) {
        const cli_command *k = argc > 2 ? find_command(argv[2]) : NULL;
        if (argc > 2 && !strcmp(argv[2], "--man")) {
            print_man();
        } else if (k) {
            print_help(k);
        } else if (argc > 2) {
            fprintf(stderr, "ridge: help: there is no command '%s'; `ridge help` lists them\n", argv[2]);
            return EXIT_USAGE;
        } else {
            print_overview(stdout);
        }
        return finish_stdout("help");
    }
    const cli_command *k = find_command(name);
    if (!k) {
        fprintf(stderr, "ridge: %s '%s'; `ridge help` lists the commands\n",
                name[0] == '-' ? "a command comes first, not" : "there is no command", name);
        return EXIT_USAGE;
    }
    return run_command(k, argc - 2, argv + 2);
}

/* $XDG_CACHE_HOME/ridge or $HOME/.cache/ridge, made if it is missing; NULL where neither can be had. */
static const char *cache_dir(char *out, size_t bytes)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (xdg && *xdg == '/') {
        n = snprintf(out, bytes, "%s", xdg);
    } else if (home && *home == '/') {
        n = snprintf(out, bytes, "%s/.cache", home);
    }
    if (n < 0 || (size_t)n + sizeof "/ridge" > bytes) return NULL;
    mkdir(out, 0700);
    memcpy(out + n, "/ridge", sizeof "/ridge");
    mkdir(out, 0700);
    return rdg_is_directory(out) ? out : NULL;
}

void cli_set_device(cli *c, rdg_session_params *p)
{
    int64_t layers = c->common.gpu_layers;
    p->device = c->common.device;
    p->gpu_layers = layers == 0 ? -1 : RDG_MAX(layers, 0);
    p->device_memory_bytes = (uint64_t)c->common.device_memory;
    if (p->device && strcmp(p->device, "cpu") != 0)
        p->cache_dir = cache_dir(c->cache_dir, sizeof c->cache_dir);
}

rdg_session_params cli_session_params(cli *c, rdg_type kv)
{
    rdg_session_params p;
    rdg_session_defaults(&p);
    p.n_threads = (int)c->common.n_threads;
    p.kv_type_k = p.kv_type_v = kv;
    p.log = &c->log;
    cli_set_device(c, &p);
    return p;
}

rdg_err cli_tokenize(const rdg_model *m, const char *text, size_t n_text, int32_t **ids, size_t *n,
                     rdg_error *e)
{
    const rdg_tokenizer *t = rdg_model_tokenizer(m);
    if (!t) return rdg_fail(e, RDG_E_UNSUPPORTED, "the model has no tokenizer, so text cannot be read");
    return rdg_tokenize(t, text, n_text, (rdg_tokenize_params){.add_special = true}, ids, n, e);
}

json_t *cli_placement_json(const rdg_session *s)
{
    rdg_placement rows[RDG_PLACEMENTS_MAX];
    int n = rdg_session_placements(s, rows);
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        const rdg_placement *p = &rows[i];
        json_array_append_new(
            list, json_pack("{s:s, s:I, s:I, s:b, s:b, s:I, s:I, s:I, s:s}", "device", p->device,
                            "first_block", (json_int_t)p->first_block, "n_blocks", (json_int_t)p->n_blocks,
                            "embedding", p->embedding, "output", p->output, "weight_bytes",
                            (json_int_t)p->weight_bytes, "kv_bytes", (json_int_t)p->kv_bytes, "scratch_bytes",
                            (json_int_t)p->scratch_bytes, "reason", p->reason));
    }
    return list;
}

/* Runs a fuzz target without a fuzzing engine: every file of the folders named, then mutations of them.
 *
 *   replay_NAME FOLDER…      RIDGE_MUTATIONS  how many mutations (20000)
 *                            RIDGE_SEED       repeats a run; else the clock decides, and the seed is printed
 *                            RIDGE_FIRST      the first mutation to run (0)
 *
 * A crash, a sanitizer's report, an input that takes more than 10 seconds of processor time or one allocation
 * of more than 256 MiB fails the run; the input is then left in crash-NAME in the working folder and its
 * number is printed. */
#include "fuzz.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

enum { MAX_SEED_BYTES = 1 << 20, MAX_INPUT_BYTES = 2 << 20, SECONDS_PER_INPUT = 10 };

/* Told to sanitizers, when the build has one. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "max_allocation_size_mb=256:allocator_may_return_null=0:handle_abort=1";
}
const char *__ubsan_default_options(void);
const char *__ubsan_default_options(void)
{
    return "halt_on_error=1:print_stacktrace=1";
}
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

/* What is being run, for the report of a crash. */
static struct {
    const char *program;
    const uint8_t *data;
    size_t n;
    uint64_t number;
} current;

static void save_input(void)
{
    char path[256], text[320];
    snprintf(path, sizeof path, "crash-%s", current.program);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0) return;
    if (write(fd, current.data, current.n) != (ssize_t)current.n) path[0] = '?';
    close(fd);
    int n =
        snprintf(text, sizeof text, "failed at input %" PRIu64 ", which is in %s\n", current.number, path);
    if (write(STDERR_FILENO, text, (size_t)n) < 0) return;
}

static void on_signal(int signal_number)
{
    save_input();
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void watch_signals(void)
{
    const int without_sanitizer[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    signal(SIGPROF, on_signal);
    if (__sanitizer_set_death_callback) {
        __sanitizer_set_death_callback(save_input);
        return;
    }
    for (int i = 0; i < RDG_COUNTOF(without_sanitizer); i++) signal(without_sanitizer[i], on_signal);
    const struct rlimit memory = {.rlim_cur = 2u << 30, .rlim_max = 2u << 30};
    setrlimit(RLIMIT_AS, &memory); /* more is NULL, which targets report as a failure of theirs */
}

/* Of the processor's time: a machine that stands still for a while is no hang. One that waits for ever is
 * left to the test's own limit. 0: no limit. */
static void limit_time(int seconds)
{
    const struct itimerval limit = {.it_value.tv_sec = seconds};
    setitimer(ITIMER_PROF, &limit, NULL);
}

/* The input in a block of its own length, so that a read past its end is seen. */
static void run(const uint8_t *data, size_t n, uint64_t number)
{
    uint8_t *exact = malloc(n ? n : 1);
    if (!exact) exit(1);
    if (n) memcpy(exact, data, n);
    current.data = exact;
    current.n = n;
    current.number = number;
    limit_time(SECONDS_PER_INPUT);
    LLVMFuzzerTestOneInput(exact, n);
    limit_time(0);
    free(exact);
}

/* Corpus
 * ------------------------------------------------------------------------------------------------------ */

typedef struct seed {
    char *name, *data;
    size_t n;
} seed;

typedef struct corpus {
    seed *seeds;
    size_t n, cap;
} corpus;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const seed *)a)->name, ((const seed *)b)->name);
}

static int load_folder(corpus *c, const char *folder)
{
    struct dirent *entry;
    DIR *d = opendir(folder);
    int ok = 1;
    if (!d) {
        fprintf(stderr, "cannot list %s\n", folder);
        return 0;
    }
    while (ok && (entry = readdir(d))) {
        rdg_error e;
        if (entry->d_name[0] == '.') continue;
        if (!rdg_grow(&c->seeds, c->n, &c->cap, sizeof *c->seeds)) exit(1);
        seed *s = &c->seeds[c->n++];
        *s = (seed){.name = rdg_path_join(folder, entry->d_name)};
        ok = !rdg_file_read(s->name, MAX_SEED_BYTES, false, &s->data, &s->n, &e);
        if (!ok) fprintf(stderr, "%s\n", e.message);
    }
    closedir(d);
    return ok;
}

static void free_corpus(corpus *c)
{
    for (size_t i = 0; i < c->n; i++) {
        rdg_free(c->seeds[i].name);
        rdg_free(c->seeds[i].data);
    }
    rdg_free(c->seeds);
}

/* Mutations
 * --------------------------------------------------------------------------------------------------- */

/* Counts, lengths and offsets that have broken readers. */
static uint64_t interesting(rdg_rng *r, size_t n)
{
    static const uint64_t fixed[] = {0,
                                     1,
                                     2,
                                     3,
                                     4,
                                     7,
                                     8,
                                     9,
                                     13,
                                     31,
                                     32,
                                     33,
                                     64,
                                     255,
                                     256,
                                     257,
                                     0xffff,
                                     0x10000,
                                     0x7fffffff,
                                     0x80000000,
                                     0xffffffff,
                                     0x100000000,
                                     INT64_MAX,
                                     (uint64_t)INT64_MAX + 1,
                                     UINT64_MAX,
                                     UINT64_MAX - 7,
                                     UINT64_MAX / 8,
                                     UINT64_MAX / 24 + 1,
                                     UINT64_MAX / 64};
    switch (rdg_rng_below(r, 4)) {
    case 0: return rdg_rng_below(r, n + 2);
    case 1: return (uint64_t)1 << rdg_rng_below(r, 64);
    default: return fixed[rdg_rng_below(r, RDG_COUNTOF(fixed))];
    }
}

/* One change in place; p has room for MAX_INPUT_BYTES. Returns the new length. */
static size_t mutate_once(uint8_t *p, size_t n, rdg_rng *r, const corpus *c)
{
    size_t at = n ? (size_t)rdg_rng_below(r, n) : 0, len = 1 + (size_t)rdg_rng_below(r, 1 + RDG_MIN(n, 64));
    uint64_t value;
    switch (rdg_rng_below(r, 10)) {
    case 0: /* cut */ return at;
    case 1: /* drop a range */
        len = RDG_MIN(len, n - at);
        memmove(p + at, p + at + len, n - at - len);
        return n - len;
    case 2: /* repeat a range */
        len = RDG_MIN(len, n - at);
        if (n + len > MAX_INPUT_BYTES) return n;
        memmove(p + at + len, p + at, n - at);
        return n + len;
    case 3: { /* insert bytes of another seed */
        const seed *s = &c->seeds[rdg_rng_below(r, c->n)];
        size_t from = s->n ? (size_t)rdg_rng_below(r, s->n) : 0;
        len = RDG_MIN(len, s->n - from);
        if (n + len > MAX_INPUT_BYTES) return n;
        memmove(p + at + len, p + at, n - at);
        memcpy(p + at, s->data + from, len);
        return n + len;
    }
    case 4:
    case 5: /* a number of 1, 2, 4 or 8 bytes */
        len = (size_t)1 << rdg_rng_below(r, 4);
        value = interesting(r, n);
        if (n >= len) memcpy(p + RDG_MIN(at, n - len), &value, len);
        return n;
    case 6: /* a number a little off */
        len = (size_t)1 << rdg_rng_below(r, 4);
        if (n < len) return n;
        at = RDG_MIN(at, n - len);
        value = 0;
        memcpy(&value, p + at, len);
        value += rdg_rng_below(r, 33) - 16;
        memcpy(p + at, &value, len);
        return n;
    case 7: /* any byte */
        if (n) p[at] = (uint8_t)rdg_rng_next(r);
        return n;
    default: /* one bit */
        if (n) p[at] ^= (uint8_t)(1u << rdg_rng_below(r, 8));
        return n;
    }
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static void mutate(const corpus *c)
{
    uint64_t n = number_from("RIDGE_MUTATIONS", 20000), first = number_from("RIDGE_FIRST", 0);
    uint64_t start = number_from("RIDGE_SEED", (uint64_t)rdg_clock_ns());
    uint8_t *p = malloc(MAX_INPUT_BYTES);
    if (!p) exit(1);
    printf("%" PRIu64 " mutations, RIDGE_SEED=%" PRIu64 "\n", n, start);
    fflush(stdout);
    for (uint64_t i = first; i < n; i++) {
        rdg_rng r;
        rdg_rng_seed(&r, start + i);
        const seed *s = &c->seeds[rdg_rng_below(&r, c->n)];
        size_t bytes = s->n;
        memcpy(p, s->data, bytes);
        for (uint64_t k = 1 + rdg_rng_below(&r, 4); k > 0; k--) bytes = mutate_once(p, bytes, &r, c);
        run(p, bytes, i);
    }
    free(p);
}

int main(int argc, char **argv)
{
    corpus c = {0};
    int ok = 1;
    current.program = rdg_path_base(argv[0]);
    for (int i = 1; i < argc && ok; i++) ok = load_folder(&c, argv[i]);
    if (ok && c.n == 0) {
        fprintf(stderr, "no seeds: name a folder of the corpus\n");
        ok = 0;
    }
    if (!ok) {
        free_corpus(&c);
        return 1;
    }
    qsort(c.seeds, c.n, sizeof *c.seeds, by_name); /* so that a seed number repeats a run */
    watch_signals();
    for (size_t i = 0; i < c.n; i++) run((const uint8_t *)c.seeds[i].data, c.seeds[i].n, i);
    printf("%zu files\n", c.n);
    mutate(&c);
    free_corpus(&c);
    return 0;
}

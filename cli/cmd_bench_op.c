/* bench-op: one operation timed, all its variants in turn */
#include "commands.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/sort.h"
#include "ops/check.h"
#include "ops/check_data.h"
#include "ops/cpu_run.h"
#include "ops/shapes.h"
#include "profile/roofs_cpu.h"

#include <string.h>

typedef struct options {
    const char *variant, *shape;
    bool cold, warm;
    double seconds;
} options;

static const options defaults = {.seconds = 3};

static const cli_option table[] = {
    {"--variant", NULL, "V", CLI_STRING, offsetof(options, variant), 0, 0,
     "only this variant (default: all that take the shape)"},
    {"--shape", NULL, "S", CLI_STRING, offsetof(options, shape), 0, 0,
     "KEY=VALUE,… ; the defaults are printed with every result"},
    {"--cold", NULL, NULL, CLI_FLAG, offsetof(options, cold), 0, 0,
     "operands come from memory: caches are emptied before each call (default)"},
    {"--warm", NULL, NULL, CLI_FLAG, offsetof(options, warm), 0, 0,
     "operands are where the call before left them"},
    {"--seconds", NULL, "S", CLI_FLOAT, offsetof(options, seconds), 0.01, 3600,
     "time to spend on timing (default: 3)"},
    {NULL, NULL, NULL, CLI_FLAG, 0, 0, 0, NULL},
};

enum { MAX_VARIANTS = 32, MAX_RUNS = 2000, MIN_RUNS = 5, EVICT_BYTES = 256 << 20 };

typedef struct lane {
    const rdg_variant *variant;
    void *scratch;
    double *seconds; /* [MAX_RUNS] */
    bool failed;     /* the check of this build says so */
    double median, p25, p75;
} lane;

typedef struct job {
    cli *c;
    const options *o;
    const rdg_op *op;
    rdg_op_call call;
    rdg_check_data data;
    rdg_pool *pool;
    char shape[256];
    char *evict;
    lane lanes[MAX_VARIANTS];
    int n_lanes, n_runs;
    rdg_cost cost;
    rdg_cpu_roofs roofs;
} job;

static void on_result(void *user, const rdg_check_result *r)
{
    job *j = user;
    for (int i = 0; r->verdict == RDG_CHECK_FAILED && i < j->n_lanes; i++)
        if (j->lanes[i].variant == r->variant && !j->lanes[i].failed) {
            j->lanes[i].failed = true;
            cli_warn(j->c, "%s is wrong, so it is not timed: %s, seed %llu: %s", r->variant->name,
                     r->case_name, (unsigned long long)r->seed, r->message);
        }
}

static rdg_err choose_lanes(job *j, rdg_error *e)
{
    const uint32_t features = rdg_cpu_features();
    for (const rdg_variant *const *v = j->op->variants; *v && j->n_lanes < MAX_VARIANTS; v++) {
        if ((*v)->backend != RDG_BACKEND_CPU || ((*v)->requires_mask & ~features)) continue;
        if ((*v)->accepts && !(*v)->accepts(&j->call)) continue;
        if (j->o->variant && strcmp(j->o->variant, (*v)->name) != 0) continue;
        j->lanes[j->n_lanes++].variant = *v;
    }
    if (j->n_lanes == 0)
        return rdg_fail(e, RDG_E_NOT_FOUND, "no CPU variant %s%s of %s takes this shape on this machine",
                        j->o->variant ? "named " : "", j->o->variant ? j->o->variant : "", j->op->name);
    for (int i = 0; i < j->n_lanes; i++) {
        lane *l = &j->lanes[i];
        size_t bytes = rdg_cpu_scratch_bytes(&j->call, l->variant->cpu, cli_threads(j->c));
        l->seconds = rdg_alloc_array(MAX_RUNS, sizeof *l->seconds);
        l->scratch = rdg_alloc_aligned(64, RDG_MAX(bytes, 64));
        if (!l->seconds || !l->scratch)
            return rdg_fail(e, RDG_E_NOMEM, "no memory for the scratch of %s", l->variant->name);
        memset(l->scratch, 0, bytes);
    }
    return RDG_OK;
}

static rdg_err check_lanes(job *j, uint64_t seed, rdg_error *e)
{
    rdg_check_cpu cpu;
    rdg_check_runner runner;
    rdg_check_totals totals = {0};
    rdg_check_options o = {.seed = seed, .variant = j->o->variant, .report = on_result, .user = j};
    rdg_err err = rdg_check_cpu_create(&cpu, cli_threads(j->c), rdg_cpu_features(), &runner, e);
    if (err) return err;
    err = rdg_check_op(j->op, &runner, &o, &totals, e);
    rdg_check_cpu_finish(&cpu);
    return err;
}

static void read_all(void *ctx, int thread, int n_threads)
{
    job *j = ctx;
    const size_t part = EVICT_BYTES / (size_t)n_threads / 64 * 64;
    volatile char *p = j->evict + part * (size_t)thread;
    for (size_t i = 0; i < part; i += 64) p[i]++;
}

/* Variants take turns, so that whatever else the machine does falls on all of them. */
static void time_lanes(job *j)
{
    const double end = rdg_clock_seconds() + j->o->seconds;
    for (int r = -1; r < MAX_RUNS && (r < MIN_RUNS || rdg_clock_seconds() < end); r++) {
        for (int i = 0; i < j->n_lanes; i++) {
            lane *l = &j->lanes[i];
            if (l->failed) continue;
            if (!j->o->warm) rdg_pool_run(j->pool, read_all, j);
            int64_t start = rdg_clock_ns();
            rdg_cpu_run_with(j->pool, &j->call, l->variant->cpu, l->scratch);
            if (r >= 0)
                l->seconds[r] = (double)(rdg_clock_ns() - start) * 1e-9; /* the first is for page faults */
        }
        j->n_runs = r + 1;
    }
    for (int i = 0; i < j->n_lanes; i++) {
        lane *l = &j->lanes[i];
        rdg_sort_doubles(l->seconds, (size_t)j->n_runs);
        l->median = l->seconds[j->n_runs / 2];
        l->p25 = l->seconds[j->n_runs / 4];
        l->p75 = l->seconds[j->n_runs * 3 / 4];
    }
}

/* The least time the measured roofs allow. Variants with 8-bit activations are held against the 8-bit rate.
 */
static double floor_seconds(const job *j, const lane *l, const char **bound)
{
    const bool int8 = rdg_rounds_to_bytes(l->variant->rounding);
    double compute =
        j->cost.flops / (int8 && j->roofs.int8.rate > 0 ? j->roofs.int8.rate : j->roofs.fp32.rate);
    double memory = (j->cost.bytes_read + j->cost.bytes_written) / j->roofs.read.rate;
    *bound = memory >= compute ? "memory" : "compute";
    return RDG_MAX(memory, compute);
}

static json_t *lane_json(const job *j, const lane *l)
{
    const char *bound;
    const double bytes = j->cost.bytes_read + j->cost.bytes_written, least = floor_seconds(j, l, &bound);
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s}", "op", j->op->name, "variant", l->variant->name,
                          "shape", j->shape, "temperature", j->o->warm ? "warm" : "cold", "verdict",
                          l->failed ? "failed" : "passed");
    json_object_set_new(o, "bytes", cli_real(bytes));
    json_object_set_new(o, "flops", cli_real(j->cost.flops));
    if (l->failed) return o; /* no speed without a correct result */
    json_object_set_new(o, "seconds",
                        json_pack("{s:o, s:o, s:o, s:i}", "median", cli_real(l->median), "p25",
                                  cli_real(l->p25), "p75", cli_real(l->p75), "n", j->n_runs));
    json_object_set_new(o, "bandwidth_bytes_per_second", cli_real(bytes / l->median));
    json_object_set_new(o, "flops_per_second", cli_real(j->cost.flops / l->median));
    json_object_set_new(o, "bound", json_string(bound));
    json_object_set_new(o, "fraction_of_roof", cli_real(least / l->median));
    return o;
}

static int print_results(job *j)
{
    char text[32];
    int rc = EXIT_DONE;
    json_t *list = json_array();
    for (int i = 0; i < j->n_lanes; i++)
        if (j->lanes[i].failed) rc = EXIT_NEGATIVE;
    if (j->c->common.json) {
        for (int i = 0; i < j->n_lanes; i++) json_array_append_new(list, lane_json(j, &j->lanes[i]));
        json_t *doc = json_deep_copy(json_array_get(list, 0)); /* the variant that would be chosen */
        json_object_set_new(doc, "variants", list);
        json_object_set_new(doc, "read_bytes_per_second", cli_real(j->roofs.read.rate));
        json_object_set_new(doc, "n_threads", json_integer(cli_threads(j->c)));
        int written = cli_print_json(j->c, doc);
        return written ? written : rc;
    }
    printf("%s %s, %d threads, %s, %d runs\n", j->op->name, j->shape, cli_threads(j->c),
           j->o->warm ? "warm" : "cold", j->n_runs);
    printf("%s read and written, %.4g flop; roofs: read %.1f GB/s, fp32 %.0f GFLOP/s, int8 %.0f GOP/s\n",
           cli_bytes(j->cost.bytes_read + j->cost.bytes_written, text, sizeof text), j->cost.flops,
           j->roofs.read.rate / 1e9, j->roofs.fp32.rate / 1e9, j->roofs.int8.rate / 1e9);
    printf("%-26s %12s %25s %10s %11s %16s  check\n", "variant", "median us", "p25 … p75", "GB/s", "GFLOP/s",
           "share of roof");
    for (int i = 0; i < j->n_lanes; i++) {
        const lane *l = &j->lanes[i];
        const char *bound;
        double least = floor_seconds(j, l, &bound);
        if (l->failed) {
            printf("%-26s %12s %25s %10s %11s %16s  FAILED\n", l->variant->name, "-", "-", "-", "-", "-");
            continue;
        }
        printf("%-26s %12.1f %12.1f … %10.1f %10.2f %11.1f %6.1f %% %s  passed\n", l->variant->name,
               l->median * 1e6, l->p25 * 1e6, l->p75 * 1e6,
               (j->cost.bytes_read + j->cost.bytes_written) / l->median * 1e-9,
               j->cost.flops / l->median * 1e-9, 100.0 * least / l->median, bound);
    }
    json_decref(list);
    int written = cli_finish_stdout(j->c);
    return written ? written : rc;
}

static rdg_err prepare(job *j, uint64_t seed, rdg_error *e)
{
    rdg_err err = rdg_shape_call(j->op, j->o->shape, &j->call, j->shape, sizeof j->shape, e);
    if (!err) err = choose_lanes(j, e);
    if (!err) err = check_lanes(j, seed, e);
    if (!err) err = rdg_check_data_create(&j->data, &j->call, NULL, 0, seed, e);
    if (err) return err;
    rdg_shape_prepare(&j->call, seed);
    j->op->cost(&j->call, &j->cost);
    j->evict = rdg_alloc(EVICT_BYTES);
    if (!j->evict) return rdg_fail(e, RDG_E_NOMEM, "no memory to empty the caches with");
    err = rdg_cpu_measure_roofs(cli_threads(j->c), &j->roofs, e);
    return err ? err : rdg_pool_create(cli_threads(j->c), &j->pool, e);
}

static int run_bench_op(cli *c, void *opts)
{
    const options *o = opts;
    rdg_error e = {0};
    int rc;
    const uint64_t seed =
        c->seed_given ? (uint64_t)c->common.seed : (uint64_t)rdg_clock_ns() % UINT64_C(9000000000000000);
    if (o->cold && o->warm) return cli_usage(c, "give either --cold or --warm");
    if (!rdg_op_find(c->args[0]))
        return cli_usage(c, "there is no operation '%s'; `ridge ops` lists them", c->args[0]);
    if (c->common.device && strcmp(c->common.device, "cpu") != 0 && strcmp(c->common.device, "auto") != 0)
        return cli_usage(
            c,
            "single operations are timed on the CPU only; `ridge bench MODEL --device %s` times whole steps",
            c->common.device);
    job *j = rdg_alloc(sizeof *j);
    if (!j) return cli_error(c, &(rdg_error){.code = RDG_E_NOMEM, .message = "no memory"});
    j->c = c;
    j->o = o;
    j->op = rdg_op_find(c->args[0]);
    if (prepare(j, seed, &e)) {
        rc = cli_error(c, &e);
    } else {
        time_lanes(j);
        rc = print_results(j);
    }
    for (int i = 0; i < j->n_lanes; i++) {
        rdg_free(j->lanes[i].seconds);
        rdg_free(j->lanes[i].scratch);
    }
    rdg_pool_destroy(j->pool);
    rdg_free(j->evict);
    rdg_check_data_finish(&j->data);
    rdg_free(j);
    return rc;
}

const cli_command cmd_bench_op = {
    .name = "bench-op",
    .group = "bench",
    .summary = "one operation timed, with its share of the roof",
    .usage = "OP",
    .description = "Checks every variant of the operation against the reference, then times those that "
                   "passed: in turn, so that\n"
                   "they share whatever else the machine does. Bytes and flops are the operation's exact "
                   "cost; the roofs are\n"
                   "measured first. Warm, a small operation may exceed the memory roof, because it does not "
                   "go to memory.\n"
                   "Exit code 4 if a variant failed its check.",
    .options = table,
    .defaults = &defaults,
    .options_bytes = sizeof defaults,
    .min_args = 1,
    .max_args = 1,
    .uses = CLI_THREADS | CLI_DEVICE | CLI_SEED,
    .run = run_bench_op,
};

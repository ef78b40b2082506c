#include "bench_timeline.h"
#include "commands.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/sort.h"
#include "engine/decode.h"
#include "graph/gpu_exec.h"
#include "graph/gpu_load.h"
#include "graph/split_exec.h"
#include "profile/roofs_cpu.h"
#include "profile/roofs_gpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    int64_t n_prompt, n_decode, repeats, depth, n_batch;
    const char *kv_type, *variant, *timeline;
    bool nodes, load;
    double temperature, top_p, min_p;
    int64_t top_k;
} options;

static const options defaults = {.n_prompt = 512,
                                 .n_decode = 128,
                                 .repeats = 5,
                                 .n_batch = 512,
                                 .kv_type = "f16",
                                 .top_k = 40,
                                 .top_p = 0.95,
                                 .min_p = 0.05};

static const cli_option table[] = {
    {"--prompt", "-p", "N", CLI_INT, offsetof(options, n_prompt), 0, 1e6,
     "tokens of prefill, 0 = none (default: 512)"},
    {"--decode", "-n", "N", CLI_INT, offsetof(options, n_decode), 0, 1e6,
     "tokens of decode, 0 = none (default: 128)"},
    {"--repeat", "-r", "N", CLI_INT, offsetof(options, repeats), 1, 1e6, "repetitions (default: 5)"},
    {"--depth", NULL, "N", CLI_INT, offsetof(options, depth), 0, 1e6,
     "positions already in the KV cache (default: 0)"},
    CLI_BATCH_ROW(options),
    CLI_KV_TYPE_ROW(options),
    {"--variant", NULL, "V", CLI_STRING, offsetof(options, variant), 0, 0,
     "kernel variant to prefer where it exists"},
    {"--nodes", NULL, NULL, CLI_FLAG, offsetof(options, nodes), 0, 0,
     "where the time of a decode step and a prefill step goes, by operation"},
    {"--load", NULL, NULL, CLI_FLAG, offsetof(options, load), 0, 0,
     "time the load of the weights to a GPU as well, beside reading and copying alone"},
    {"--temp", NULL, "T", CLI_FLOAT, offsetof(options, temperature), 0, 100,
     "decode picks tokens at this temperature, 0 = greedy (default: 0)"},
    {"--top-k", NULL, "K", CLI_INT, offsetof(options, top_k), 0, 1e9, "with --temp: as in run (default: 40)"},
    {"--top-p", NULL, "P", CLI_FLOAT, offsetof(options, top_p), 0, 1,
     "with --temp: as in run (default: 0.95)"},
    {"--min-p", NULL, "P", CLI_FLOAT, offsetof(options, min_p), 0, 1,
     "with --temp: as in run (default: 0.05)"},
    {"--timeline", NULL, "FILE", CLI_STRING, offsetof(options, timeline), 0, 0,
     "GPU: busy and idle time of decode from timestamps; a trace of every launch goes to FILE (none with -)"},
    {NULL, NULL, NULL, CLI_FLAG, 0, 0, 0, NULL},
};

typedef struct speeds {
    double median, min, max; /* over the repetitions */
} speeds;

typedef struct job {
    cli *c;
    const options *o;
    rdg_model *model;
    rdg_session *session;
    int32_t *tokens;      /* depth + the longer of prompt and decode */
    double *samples;      /* of tokens a second, of the read bandwidth around them, of the share of it */
    rdg_cpu_meter *meter; /* on the CPU */
    speeds prefill, decode, read, share;
    double bytes_per_token;
    rdg_load_times load;
    cli_timeline timeline;
    rdg_gpu_roofs gpu_roofs;               /* on a GPU; zeros: not measured */
    double flops_per_second, compute_roof; /* of prefill on a GPU */
    json_t *nodes;
} job;

static speeds summarise(double *samples, int64_t n)
{
    rdg_sort_doubles(samples, (size_t)n);
    return (speeds){rdg_median_sorted(samples, (size_t)n), samples[0], samples[n - 1]};
}

/* An empty cache of the wanted depth. */
static rdg_err rewind_to_depth(job *j, rdg_error *e)
{
    if (rdg_session_n_past(j->session) >= j->o->depth && j->o->depth > 0)
        return rdg_session_truncate(j->session, j->o->depth, e);
    rdg_session_reset(j->session);
    return j->o->depth ? rdg_session_eval(j->session, j->tokens, j->o->depth, RDG_LOGITS_NONE, e) : RDG_OK;
}

static rdg_err time_prefill(job *j, double *tokens_per_second, rdg_error *e)
{
    rdg_err err = rewind_to_depth(j, e);
    if (err) return err;
    double start = rdg_clock_seconds();
    err = rdg_session_eval(j->session, j->tokens + j->o->depth, j->o->n_prompt, RDG_LOGITS_LAST, e);
    *tokens_per_second = (double)j->o->n_prompt / (rdg_clock_seconds() - start);
    return err;
}

static bool go_on(void *user, int32_t token)
{
    (void)user;
    (void)token;
    return true;
}

static rdg_sample_params sample_of(const options *o)
{
    return (rdg_sample_params){.temperature = (float)o->temperature,
                               .top_k = (int32_t)o->top_k,
                               .top_p = (float)o->top_p,
                               .min_p = (float)o->min_p};
}

/* On a GPU each token is picked, so that steps follow each other without the host; on the CPU if that was
 * asked for. */
static rdg_err time_decode(job *j, double *tokens_per_second, rdg_error *e)
{
    rdg_err err = rewind_to_depth(j, e);
    double start = rdg_clock_seconds();
    if (!err && (rdg_session_picks_on_device(j->session) || j->o->temperature > 0)) {
        int64_t n_done;
        const rdg_decode d = {.token = j->tokens[j->o->depth],
                              .n = j->o->n_decode,
                              .sample = sample_of(j->o),
                              .seed = (uint64_t)j->c->common.seed,
                              .on_token = go_on};
        err = rdg_session_decode(j->session, &d, &n_done, e);
        *tokens_per_second = (double)j->o->n_decode / (rdg_clock_seconds() - start);
        return err;
    }
    for (int64_t i = 0; i < j->o->n_decode && !err; i++)
        err = rdg_session_eval(j->session, j->tokens + j->o->depth + i, 1, RDG_LOGITS_LAST, e);
    *tokens_per_second = (double)j->o->n_decode / (rdg_clock_seconds() - start);
    return err;
}

/* Warm-up first, so that page faults, plans and caches stay out of the numbers. */
static rdg_err measure_prefill(job *j, rdg_error *e)
{
    double ignored;
    if (j->o->n_prompt == 0) return RDG_OK;
    rdg_err err = time_prefill(j, &ignored, e);
    for (int64_t r = 0; r < j->o->repeats && !err; r++) {
        err = time_prefill(j, &j->samples[r], e);
        rdg_log_progress(&j->c->log, "prefill", (double)(r + 1), (double)j->o->repeats);
    }
    if (!err) j->prefill = summarise(j->samples, j->o->repeats);
    return err;
}

/* Each repetition is set against the bandwidth read just before and just after it: on a shared machine the
 * roof of another second says nothing. */
static rdg_err measure_decode(job *j, rdg_error *e)
{
    double ignored, *read = j->samples + j->o->repeats, *share = read + j->o->repeats;
    if (j->o->n_decode == 0) return RDG_OK;
    rdg_err err = time_decode(j, &ignored, e);
    if (err) return err;
    j->bytes_per_token = (double)rdg_session_bytes_per_token(j->session);
    double before = j->meter ? rdg_cpu_meter_read(j->meter) : NAN;
    for (int64_t r = 0; r < j->o->repeats && !err; r++) {
        err = time_decode(j, &j->samples[r], e);
        double after = j->meter ? rdg_cpu_meter_read(j->meter) : NAN;
        read[r] = 0.5 * (before + after);
        share[r] = j->samples[r] * j->bytes_per_token / read[r];
        before = after;
        rdg_log_progress(&j->c->log, "decode", (double)(r + 1), (double)j->o->repeats);
    }
    if (err) return err;
    j->decode = summarise(j->samples, j->o->repeats);
    j->read = summarise(read, j->o->repeats);
    j->share = summarise(share, j->o->repeats);
    return RDG_OK;
}

typedef struct group {
    const char *op, *variant, *tag;
    rdg_type type;
    int64_t count;
    double seconds, bytes, flops;
} group;

static int by_seconds(const void *a, const void *b)
{
    const group *x = a, *y = b;
    return x->seconds < y->seconds ? 1 : x->seconds > y->seconds ? -1 : 0;
}

/* One step with a clock around every node, added up by operation, role and variant. */
static rdg_err time_nodes(job *j, int64_t n_tokens, const char *what, rdg_error *e)
{
    rdg_session *s = j->session;
    rdg_prepared *prepared;
    rdg_err err = rewind_to_depth(j, e);
    if (!err) err = rdg_session_plan(s, n_tokens, 1, &prepared, e);
    if (err) return err;
    const rdg_plan *p = prepared->plan;
    rdg_node_time *times = rdg_alloc_array(p->n_nodes, sizeof *times);
    group *groups = rdg_alloc_array(p->n_nodes, sizeof *groups);
    if (!times || !groups) {
        err = rdg_fail(e, RDG_E_NOMEM, "no memory for the times");
        goto done;
    }
    for (int64_t i = 0; i < n_tokens; i++) s->positions[i] = (int32_t)(j->o->depth + i);
    s->output_rows[0] = (int32_t)(n_tokens - 1);
    rdg_step step = {.tokens = j->tokens + j->o->depth,
                     .positions = s->positions,
                     .output_rows = s->output_rows,
                     .n_visible = j->o->depth + n_tokens};
    const float *output;
    for (int warm = 0; warm < 2 && !err; warm++)
        err = s->exec->class->run(s->exec, prepared, &step, &output, times, e);
    if (err) goto done;
    int n_groups = 0;
    double total = 0, bytes = 0, flops = 0;
    for (size_t i = 0; i < p->n_nodes; i++) {
        rdg_op_call call;
        rdg_cost cost;
        rdg_plan_call(p, i, &call);
        call.n_visible = step.n_visible;
        call.op->cost(&call, &cost);
        bytes += cost.bytes_read + cost.bytes_written;
        flops += cost.flops;
        const char *kernel = s->exec->class->kernel_name(s->exec, prepared, i);
        if (!kernel) continue; /* its work is done, and counted, in the launch of a later node */
        const char *tag = p->nodes[i].tag ? p->nodes[i].tag : "";
        int g = 0;
        while (g < n_groups && (strcmp(groups[g].variant, kernel) || groups[g].type != call.operand[0].type ||
                                strcmp(groups[g].tag, tag)))
            g++;
        if (g == n_groups)
            groups[n_groups++] =
                (group){.op = call.op->name, .variant = kernel, .type = call.operand[0].type, .tag = tag};
        double seconds = (double)(times[i].end_ns - times[i].begin_ns) * 1e-9;
        groups[g].seconds += seconds;
        groups[g].bytes += bytes;
        groups[g].flops += flops;
        groups[g].count++;
        total += seconds;
        bytes = flops = 0;
    }
    qsort(groups, (size_t)n_groups, sizeof *groups, by_seconds);
    if (!j->c->common.json) printf("\n%s, %.3f ms:\n", what, total * 1e3);
    for (int g = 0; g < n_groups; g++) {
        const group *k = &groups[g];
        if (!j->c->common.json)
            printf("  %5.1f %%  %8.3f ms  %4lld x %-10s %-14s %-6s %-24s %7.1f GB/s %8.1f GFLOP/s\n",
                   k->seconds / total * 100, k->seconds * 1e3, (long long)k->count, k->op, k->tag,
                   rdg_type_name(k->type), k->variant, k->bytes / k->seconds / 1e9,
                   k->flops / k->seconds / 1e9);
        json_array_append_new(j->nodes, json_pack("{s:s, s:s, s:s, s:s, s:I, s:o, s:o, s:o}", "step", what,
                                                  "op", k->op, "tag", k->tag, "variant", k->variant, "count",
                                                  (json_int_t)k->count, "seconds", cli_real(k->seconds),
                                                  "bytes", cli_real(k->bytes), "flops", cli_real(k->flops)));
    }
done:
    rdg_free(groups);
    rdg_free(times);
    return err;
}

static rdg_err prepare(job *j, rdg_type kv, rdg_error *e)
{
    const options *o = j->o;
    rdg_rng rng;
    int64_t n = o->depth + RDG_MAX(o->n_prompt, o->n_decode);
    rdg_session_params p = cli_session_params(j->c, kv);
    p.n_ctx = n + 1;
    p.n_batch = o->n_batch;
    p.variant = o->variant;
    rdg_err err = rdg_model_load(j->c->args[0], &j->c->log, &j->model, e);
    if (!err) err = rdg_session_create(j->model, &p, &j->session, e);
    if (err) return err;
    j->tokens = rdg_alloc_array((size_t)n, sizeof *j->tokens);
    j->samples = rdg_alloc_array(3 * (size_t)o->repeats, sizeof *j->samples);
    if (!j->tokens || !j->samples) return rdg_fail(e, RDG_E_NOMEM, "no memory for %lld tokens", (long long)n);
    rdg_rng_seed(&rng, (uint64_t)j->c->common.seed);
    for (int64_t i = 0; i < n; i++)
        j->tokens[i] = (int32_t)rdg_rng_below(&rng, (uint64_t)rdg_model_get_info(j->model)->n_vocab);
    return RDG_OK;
}

/* Before anything else is on the device: the weights are there once more while they are timed. */
static rdg_err time_load(job *j, rdg_error *e)
{
    rdg_plan *plan;
    rdg_plan_options o = {.n_tokens = 1, .n_outputs = 1, .n_ctx = 1, .n_batch = 1};
    rdg_exec *part = rdg_exec_split_gpu(j->session->exec);
    rdg_device *d = rdg_exec_gpu_device(part ? part : j->session->exec);
    if (!d) return rdg_fail(e, RDG_E_ARGUMENT, "--load times the way to a GPU: give one with --device");
    rdg_err err = rdg_model_build_plan(j->model, &o, true, &plan, e);
    if (!err) err = rdg_gpu_measure_load(d, plan, j->session->pool, NULL, (int)j->o->repeats, &j->load, e);
    rdg_plan_destroy(plan);
    return err;
}

static double slower_half(const rdg_load_times *t)
{
    return RDG_MAX(t->read_seconds, t->copy_seconds);
}

static json_t *load_json(const rdg_load_times *t)
{
    double bytes = (double)t->bytes;
    return json_pack("{s:o, s:{s:o, s:o, s:o}, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:o, s:b}", "bytes",
                     cli_real(bytes), "seconds", "median", cli_real(t->seconds), "min",
                     cli_real(t->min_seconds), "max", cli_real(t->max_seconds), "reserve_seconds",
                     cli_real(t->reserve_seconds), "bytes_per_second", cli_real(bytes / t->seconds),
                     "read_bytes_per_second", cli_real(bytes / t->read_seconds), "fill_bytes_per_second",
                     cli_real(bytes / t->fill_seconds), "copy_bytes_per_second",
                     cli_real(bytes / t->copy_seconds), "fraction_of_slower",
                     cli_real(slower_half(t) / t->seconds), "n_threads", t->n_threads, "staging_bytes",
                     cli_real((double)t->staging_bytes), "from_map", t->from_map);
}

static void print_load(const rdg_load_times *t)
{
    double gb = (double)t->bytes / 1e9;
    printf("  load    %6.3f GB in %.3f s (%.3f … %.3f), %.3f s of it for buffers: "
           "%.1f GB/s = %.0f %% of the slower half\n",
           gb, t->seconds, t->min_seconds, t->max_seconds, t->reserve_seconds, gb / t->seconds,
           slower_half(t) / t->seconds * 100);
    printf("          reading alone %.1f GB/s (%.1f with rows turned), copying alone %.1f GB/s; "
           "%d threads, from the %s\n",
           gb / t->read_seconds, gb / t->fill_seconds, gb / t->copy_seconds, t->n_threads,
           t->from_map ? "map" : "file");
}

static json_t *speeds_json(const speeds *s)
{
    return json_pack("{s:o, s:o, s:o}", "median", cli_real(s->median), "min", cli_real(s->min), "max",
                     cli_real(s->max));
}

static bool roof_known(const job *j)
{
    return j->meter || j->gpu_roofs.read > 0;
}

static int report(job *j)
{
    const options *o = j->o;
    double bandwidth = j->decode.median * j->bytes_per_token;
    if (j->c->common.json) {
        json_t *doc = json_pack("{s:s, s:i, s:o}", "device", rdg_session_device(j->session), "n_threads",
                                rdg_session_n_threads(j->session), "read_bytes_per_second",
                                cli_real(roof_known(j) ? j->read.median : NAN));
        json_object_set_new(doc, "placement", cli_placement_json(j->session));
        json_t *prefill = json_array();
        if (o->n_prompt)
            json_array_append_new(
                prefill,
                json_pack("{s:I, s:o, s:o, s:o, s:o}", "n_tokens", (json_int_t)o->n_prompt,
                          "tokens_per_second", speeds_json(&j->prefill), "flops_per_second",
                          cli_real(j->compute_roof > 0 ? j->flops_per_second : NAN), "roof_flops_per_second",
                          cli_real(j->compute_roof > 0 ? j->compute_roof : NAN), "fraction_of_compute",
                          cli_real(j->flops_per_second / j->compute_roof)));
        json_object_set_new(doc, "prefill", prefill);
        if (o->n_decode)
            json_object_set_new(doc, "decode",
                                json_pack("{s:I, s:o, s:o, s:o, s:o, s:I}", "n_tokens",
                                          (json_int_t)o->n_decode, "tokens_per_second",
                                          speeds_json(&j->decode), "bytes_per_token",
                                          cli_real(j->bytes_per_token), "bandwidth_bytes_per_second",
                                          cli_real(bandwidth), "fraction_of_read_bandwidth",
                                          cli_real(j->share.median), "depth", (json_int_t)o->depth));
        if (o->load) json_object_set_new(doc, "load", load_json(&j->load));
        if (o->nodes) json_object_set(doc, "nodes", j->nodes);
        if (o->timeline) json_object_set_new(doc, "timeline", cli_timeline_json(&j->timeline));
        return cli_print_json(j->c, doc);
    }
    printf("%s, %d threads, depth %lld\n", rdg_session_device(j->session), rdg_session_n_threads(j->session),
           (long long)o->depth);
    if (o->load) print_load(&j->load);
    if (o->n_prompt) {
        printf("  prefill %5lld tokens  %9.2f tokens/s  (%.2f … %.2f)", (long long)o->n_prompt,
               j->prefill.median, j->prefill.min, j->prefill.max);
        if (j->compute_roof > 0)
            printf("  %.3g TFLOP/s = %.1f %% of the %.3g measured here", j->flops_per_second / 1e12,
                   j->flops_per_second / j->compute_roof * 100, j->compute_roof / 1e12);
        putchar('\n');
    }
    if (o->n_decode) {
        printf("  decode  %5lld tokens  %9.2f tokens/s  (%.2f … %.2f)  %.3f GB a token, %.1f GB/s",
               (long long)o->n_decode, j->decode.median, j->decode.min, j->decode.max,
               j->bytes_per_token / 1e9, bandwidth / 1e9);
        if (isfinite(j->share.median))
            printf(j->meter ? " = %.1f %% (%.1f … %.1f) of the %.1f GB/s (%.1f … %.1f) read around each"
                            : " = %.1f %% (%.1f … %.1f) of the %.1f GB/s (%.1f … %.1f) read before and after",
                   j->share.median * 100, j->share.min * 100, j->share.max * 100, j->read.median / 1e9,
                   j->read.min / 1e9, j->read.max / 1e9);
        putchar('\n');
    }
    if (o->timeline) cli_timeline_print(&j->timeline, j->c->common.verbose);
    return cli_finish_stdout(j->c);
}

static rdg_err create_meter(job *j, rdg_error *e)
{
    if (strcmp(rdg_session_device(j->session), "cpu") != 0) return RDG_OK;
    return rdg_cpu_meter_create(rdg_session_n_threads(j->session), &j->meter, e);
}

/* The GPU's roofs, before and after; the better counts: what is measured low would flatter the model. */
static rdg_err measure_gpu_roofs(job *j, rdg_error *e)
{
    rdg_gpu_roofs again, *r = &j->gpu_roofs;
    rdg_device *d = rdg_exec_gpu_device(j->session->exec);
    if (!d) return RDG_OK;
    rdg_err err = rdg_gpu_measure_roofs(d, &again, e);
    if (err == RDG_E_NOMEM) { /* the model fills the device */
        cli_warn(j->c, "the device's bandwidth was not measured: %s", e->message);
        return RDG_OK;
    }
    if (err) return err;
    bool first = r->read == 0;
    double low = first ? again.read : RDG_MIN(r->read, again.read);
    r->read = RDG_MAX(r->read, again.read);
    r->fp32 = RDG_MAX(r->fp32, again.fp32);
    r->fp16 = RDG_MAX(r->fp16, again.fp16);
    r->matrix_fp16 = RDG_MAX(r->matrix_fp16, again.matrix_fp16);
    if (first || again.launch_seconds < r->launch_seconds) r->launch_seconds = again.launch_seconds;
    j->read = (speeds){.median = r->read, .min = low, .max = r->read};
    return RDG_OK;
}

/* Of the whole prompt: useful work, from shapes alone. */
static double prefill_flops(const job *j)
{
    double flops = 0;
    for (int64_t done = 0, n; done < j->o->n_prompt; done += n) {
        rdg_prepared *prepared;
        n = RDG_MIN(j->o->n_prompt - done, j->o->n_batch);
        if (rdg_session_plan(j->session, n, done + n == j->o->n_prompt, &prepared, NULL)) return NAN;
        for (size_t i = 0; i < prepared->plan->n_nodes; i++) {
            rdg_op_call call;
            rdg_cost cost;
            rdg_plan_call(prepared->plan, i, &call);
            call.n_visible = j->o->depth + done + n;
            call.op->cost(&call, &cost);
            flops += cost.flops;
        }
    }
    return flops;
}

/* What a product of floats can reach: the fastest of the device's units. */
static double compute_roof(const rdg_gpu_roofs *r)
{
    return RDG_MAX(r->matrix_fp16, RDG_MAX(r->fp16, r->fp32));
}

static void set_gpu_share(job *j)
{
    if (j->gpu_roofs.read == 0) return;
    if (j->o->n_prompt) j->flops_per_second = prefill_flops(j) / (double)j->o->n_prompt * j->prefill.median;
    j->compute_roof = compute_roof(&j->gpu_roofs);
    double scale = j->bytes_per_token / j->gpu_roofs.read;
    j->share = (speeds){j->decode.median * scale, j->decode.min * scale, j->decode.max * scale};
}

static rdg_err rewind_job(void *user, rdg_error *e)
{
    return rewind_to_depth(user, e);
}

static rdg_err time_launches(job *j, rdg_error *e)
{
    cli_timeline_job t = {.c = j->c,
                          .session = j->session,
                          .token = j->tokens[j->o->depth],
                          .n = j->o->n_decode,
                          .repeats = j->o->repeats,
                          .sample = sample_of(j->o),
                          .seed = (uint64_t)j->c->common.seed,
                          .rewind = rewind_job,
                          .user = j};
    rdg_err err = cli_timeline_measure(&t, &j->timeline, e);
    j->timeline.launch_seconds = j->gpu_roofs.read > 0 ? j->gpu_roofs.launch_seconds : NAN;
    if (!err && strcmp(j->o->timeline, "-") != 0)
        err = cli_timeline_write(&t, &j->timeline, j->o->timeline, e);
    return err;
}

static int run(cli *c, void *opts)
{
    const options *o = opts;
    rdg_error e = {0};
    rdg_type kv;
    if (!rdg_type_from_name(o->kv_type, &kv)) return cli_usage(c, "unknown type '%s'", o->kv_type);
    if (o->n_prompt + o->n_decode == 0 && !o->load)
        return cli_usage(c, "-p 0 and -n 0 leave nothing to measure");
    if (o->timeline && o->n_decode == 0) return cli_usage(c, "--timeline is about decode: -n must not be 0");
    job j = {.c = c, .o = o, .nodes = json_array()};
    rdg_err err = prepare(&j, kv, &e);
    if (!err && o->load) err = time_load(&j, &e);
    if (!err) err = create_meter(&j, &e);
    if (!err) err = measure_gpu_roofs(&j, &e);
    if (!err) err = measure_prefill(&j, &e);
    if (!err) err = measure_decode(&j, &e);
    if (!err) err = measure_gpu_roofs(&j, &e);
    if (!err) set_gpu_share(&j);
    if (!err && o->timeline && o->n_decode) err = time_launches(&j, &e);
    cli_progress_done(c);
    if (!err && o->nodes && o->n_decode) err = time_nodes(&j, 1, "decode step", &e);
    if (!err && o->nodes && o->n_prompt)
        err = time_nodes(&j, RDG_MIN(o->n_prompt, o->n_batch), "prefill step", &e);
    int rc = err ? cli_error(c, &e) : report(&j);
    json_decref(j.nodes);
    cli_timeline_finish(&j.timeline);
    rdg_free(j.samples);
    rdg_free(j.tokens);
    rdg_cpu_meter_destroy(j.meter);
    rdg_session_destroy(j.session);
    rdg_model_release(j.model);
    return rc;
}

const cli_command cmd_bench = {
    .name = "bench",
    .group = "pipeline",
    .summary = "prefill and decode speed, with the share of the measured bandwidth",
    .usage = "MODEL",
    .description =
        "Random tokens through the model: a warm-up, then the median and spread of several repetitions.\n"
        "Decode is set against the read bandwidth measured on this device in the same run.\n\n"
        "--load loads the weights to a GPU again and again (page cache warm, at most 64 times), each\n"
        "time followed by reading without copying and copying without reading, by the same threads. Reading\n"
        "goes through the same staging memory; copying in pieces of 4 MiB or more, one for each thread, as\n"
        "shorter ones cross the bus more slowly. In JSON: load{bytes, seconds{median,min,max}, "
        "reserve_seconds "
        "(making the\n"
        "buffers, part of seconds), bytes_per_second, read_bytes_per_second, fill_bytes_per_second\n"
        "(reading with rows laid out for the kernels), copy_bytes_per_second, fraction_of_slower\n"
        "(of the slower of reading and copying), n_threads, staging_bytes, from_map (read from the map\n"
        "rather than with system calls, which proved slower)}.\n\n"
        "--timeline decodes, at most 32 times, and says how much of the time between the first and the last\n"
        "launch the device was idle: between the launches of a token, and between tokens. Launches that run\n"
        "side by side count once. A launch counts as busy from the moment the device comes to it, so its "
        "way\n"
        "to the cores is not seen; \"at most\" adds what an empty launch takes for each one that waits for\n"
        "others. Launches that overlap those they wait for are timed by their own workgroups, the others by\n"
        "timestamps; time in which all that run are waiting is part of busy, and told apart\n"
        "(waiting_seconds). Times cost time: how much is measured beside them, and the last line sets the\n"
        "launches against a token without. FILE is a trace for chrome://tracing or Perfetto; waited_us is\n"
        "what a launch waited. In JSON: timeline{n_tokens, n_launches, n_ordered, n_begun_early, seconds,\n"
        "waiting_seconds, busy_seconds, idle_inside_seconds, idle_between_seconds, largest_gap_seconds,\n"
        "idle_fraction, pick_seconds, launch_seconds, idle_fraction_at_most, tokens_per_second,\n"
        "tokens_per_second_stamped, idle_fraction_unstamped, stamps_cost_fraction,\n"
        "tokens[{begin_seconds, seconds, busy_seconds, gap_before_seconds}]}, and the same under otherData "
        "in FILE.",
    .options = table,
    .defaults = &defaults,
    .options_bytes = sizeof defaults,
    .min_args = 1,
    .max_args = 1,
    .uses = CLI_MODEL | CLI_SEED,
    .run = run,
};

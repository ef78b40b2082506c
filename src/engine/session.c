/* A session: one sequence on one device. Splits what is evaluated into steps of at most n_batch tokens, keeps
 * plans ready by size and gathers logits. All tensor work is the executor's. */
#include "engine/session_internal.h"
#include "base/cpu.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { DEFAULT_CONTEXT = 4096, DEFAULT_BATCH = 512 };

void rdg_session_defaults(rdg_session_params *p)
{
    *p = (rdg_session_params){.kv_type_k = RDG_TYPE_F16, .kv_type_v = RDG_TYPE_F16};
}

static bool kv_type_ok(rdg_type t)
{
    return t == RDG_TYPE_F32 || t == RDG_TYPE_F16 || t == RDG_TYPE_BF16 || t == RDG_TYPE_Q8_0 ||
           t == RDG_TYPE_Q4_0;
}

static rdg_err resolve_params(rdg_session *s, const rdg_session_params *p, rdg_error *e)
{
    rdg_session_params *r = &s->params;
    int64_t trained = s->model->hparams.n_ctx_train;
    *r = *p;
    if (r->n_ctx == 0) r->n_ctx = trained > 0 ? RDG_MIN(trained, DEFAULT_CONTEXT) : DEFAULT_CONTEXT;
    if (r->n_batch == 0) r->n_batch = DEFAULT_BATCH;
    if (r->n_threads == 0) r->n_threads = rdg_cpu_physical_cores();
    if (r->cpu_mask == 0) r->cpu_mask = UINT32_MAX;
    if (r->n_ctx < 1 || r->n_ctx > INT32_MAX / 2)
        return rdg_fail(e, RDG_E_ARGUMENT, "a context of %" PRId64 " positions is not possible", r->n_ctx);
    if (r->n_batch < 1)
        return rdg_fail(e, RDG_E_ARGUMENT, "a batch of %" PRId64 " tokens is not possible", r->n_batch);
    if (r->gpu_layers < -1)
        return rdg_fail(e, RDG_E_ARGUMENT, "%" PRId64 " blocks on the GPU are not possible", r->gpu_layers);
    if (!kv_type_ok(r->kv_type_k) || !kv_type_ok(r->kv_type_v))
        return rdg_fail(e, RDG_E_ARGUMENT,
                        "a KV cache of %s and %s: F32, F16, BF16, Q8_0 and Q4_0 are possible",
                        rdg_type_name(r->kv_type_k), rdg_type_name(r->kv_type_v));
    r->n_batch = RDG_MIN(r->n_batch, r->n_ctx);
    if (trained > 0 && r->n_ctx > trained)
        rdg_log_warn(r->log,
                     "the context of %" PRId64 " is longer than the %" PRId64 " the model was trained on",
                     r->n_ctx, trained);
    return RDG_OK;
}

static rdg_plan_options plan_options(const rdg_session *s, int64_t n_tokens, int64_t n_outputs)
{
    return (rdg_plan_options){.n_tokens = n_tokens,
                              .n_outputs = n_outputs,
                              .n_ctx = s->params.n_ctx,
                              .n_batch = s->params.n_batch,
                              .kv_type_k = s->params.kv_type_k,
                              .kv_type_v = s->params.kv_type_v,
                              .collect_imatrix = s->collect_imatrix,
                              .embeddings = s->embeddings};
}

/* The executor, with the plans by which it judges what fits on a GPU. */
static rdg_err create_exec(rdg_session *s, rdg_error *e)
{
    const rdg_session_params *p = &s->params;
    rdg_plan *sizing[2] = {NULL, NULL};
    rdg_exec_request request = {.device = p->device,
                                .gguf = s->model->gguf,
                                .shared = s->model->shared,
                                .pool = s->pool,
                                .cpu_mask = p->cpu_mask,
                                .variant = p->variant,
                                .cache_dir = p->cache_dir,
                                .gpu_layers = p->gpu_layers,
                                .device_memory_bytes = p->device_memory_bytes,
                                .log = p->log};
    rdg_err err = RDG_OK;
    if ((!p->device || !strcmp(p->device, "cpu")) && (p->gpu_layers > 0 || p->device_memory_bytes))
        rdg_log_warn(p->log,
                     "blocks or memory of a GPU were asked for, but the device is the CPU (--device)");
    for (int i = 0; i < 2 && !err && p->device && strcmp(p->device, "cpu"); i++) {
        rdg_plan_options o = plan_options(s, i == 0 ? p->n_batch : 1, s->embeddings ? 0 : 1);
        err = rdg_model_build_plan(s->model, &o, true, &sizing[i], e);
        request.sizing[i] = sizing[i];
    }
    if (!err) err = rdg_exec_create(&request, &s->exec, e);
    rdg_plan_destroy(sizing[0]);
    rdg_plan_destroy(sizing[1]);
    return err;
}

rdg_err rdg_session_create_for(rdg_model *m, const rdg_session_params *p, bool collect_imatrix,
                               bool embeddings, rdg_session **out, rdg_error *e)
{
    rdg_err err;
    *out = NULL;
    rdg_session *s = rdg_alloc(sizeof *s);
    if (!s) return rdg_fail(e, RDG_E_NOMEM, "no memory for a session");
    rdg_model_retain(m);
    s->model = m;
    s->collect_imatrix = collect_imatrix;
    s->embeddings = embeddings || !m->hparams.causal;
    if ((err = resolve_params(s, p, e))) goto fail;
    s->positions = rdg_alloc_array((size_t)s->params.n_batch, sizeof *s->positions);
    s->output_rows = rdg_alloc_array((size_t)s->params.n_batch, sizeof *s->output_rows);
    s->tokens = rdg_alloc_array((size_t)s->params.n_ctx, sizeof *s->tokens);
    if (!s->positions || !s->output_rows || !s->tokens) {
        err = rdg_fail(e, RDG_E_NOMEM,
                       "no memory for a session of %" PRId64 " positions; use a smaller context (-c)",
                       s->params.n_ctx);
        goto fail;
    }
    if ((err = rdg_pool_create(s->params.n_threads, &s->pool, e))) goto fail;
    if ((err = create_exec(s, e))) goto fail;
    *out = s;
    return RDG_OK;
fail:
    rdg_session_destroy(s);
    return err;
}

rdg_err rdg_session_create(rdg_model *m, const rdg_session_params *p, rdg_session **out, rdg_error *e)
{
    if (!m->hparams.causal) { /* its rows are n_embd wide: whoever reads logits would read beyond them */
        *out = NULL;
        return rdg_fail(e, RDG_E_UNSUPPORTED,
                        "%s is an encoder: it has no logits and cannot generate; use it for embeddings",
                        m->arch->name);
    }
    return rdg_session_create_for(m, p, false, false, out, e);
}

void rdg_session_destroy(rdg_session *s)
{
    if (!s) return;
    rdg_exec_destroy(s->exec);
    rdg_pool_destroy(s->pool);
    rdg_free(s->logits);
    rdg_free(s->tokens);
    rdg_free(s->output_rows);
    rdg_free(s->positions);
    rdg_model_release(s->model);
    rdg_free(s);
}

rdg_err rdg_session_plan(rdg_session *s, int64_t n_tokens, int64_t n_outputs, rdg_prepared **out,
                         rdg_error *e)
{
    for (int i = 0; i < s->n_plans; i++) {
        if (s->plans[i].n_tokens != n_tokens || s->plans[i].n_outputs != n_outputs) continue;
        *out = s->plans[i].prepared;
        return RDG_OK;
    }
    rdg_plan_options o = plan_options(s, n_tokens, n_outputs);
    rdg_plan *plan;
    rdg_err err = rdg_model_build_plan(s->model, &o, true, &plan, e);
    if (err) return err;
    session_plan fresh = {.n_tokens = n_tokens, .n_outputs = n_outputs};
    if ((err = s->exec->class->prepare(s->exec, plan, &fresh.prepared, e))) return err;
    int slot = s->n_plans;
    if (s->n_plans < SESSION_PLANS) {
        s->n_plans++;
    } else {
        slot = s->next_victim;
        s->next_victim = (s->next_victim + 1) % SESSION_PLANS;
        s->exec->class->release(s->exec, s->plans[slot].prepared);
    }
    s->plans[slot] = fresh;
    *out = fresh.prepared;
    return RDG_OK;
}

rdg_err rdg_session_load(rdg_session *s, rdg_load_info *info, rdg_error *e)
{
    rdg_prepared *prepared;
    rdg_err err = rdg_session_plan(s, 1, s->embeddings ? 0 : 1, &prepared, e);
    if (info) *info = (rdg_load_info){.bytes = s->exec->upload_bytes, .seconds = s->exec->upload_seconds};
    return err;
}

static rdg_err check_tokens(const rdg_session *s, const int32_t *tokens, int64_t n, rdg_error *e)
{
    if (n < 1) return rdg_fail(e, RDG_E_ARGUMENT, "there is no token to evaluate");
    for (int64_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= s->model->hparams.n_vocab)
            return rdg_fail(e, RDG_E_ARGUMENT,
                            "token %d at index %" PRId64 " is outside the vocabulary of %" PRId64, tokens[i],
                            i, s->model->hparams.n_vocab);
    if (n > s->params.n_ctx - s->n_past)
        return rdg_fail(e, RDG_E_CONTEXT_FULL,
                        "%" PRId64 " tokens more do not fit: %" PRId64 " of %" PRId64
                        " positions are taken; use a larger context (-c)",
                        n, s->n_past, s->params.n_ctx);
    return RDG_OK;
}

static int64_t output_width(const rdg_session *s)
{
    return s->embeddings ? s->model->hparams.n_embd : s->model->hparams.n_vocab;
}

rdg_err rdg_session_reserve_logits(rdg_session *s, int64_t rows, rdg_error *e)
{
    size_t need;
    int64_t width = output_width(s);
    if (RDG_MUL_OVERFLOW((size_t)rows, (size_t)width, &need))
        return rdg_fail(e, RDG_E_LIMIT, "%" PRId64 " rows of logits are too many", rows);
    if (need <= s->logits_cap) return RDG_OK;
    float *p = rdg_realloc_array(s->logits, need, sizeof *p);
    if (!p) return rdg_fail(e, RDG_E_NOMEM, "no memory for %" PRId64 " rows of logits", rows);
    s->logits = p;
    s->logits_cap = need;
    return RDG_OK;
}

/* One step of n <= n_batch tokens; its n_outputs rows are appended to s->logits. */
static rdg_err run_step(rdg_session *s, const int32_t *tokens, int64_t n, int64_t n_outputs, rdg_error *e)
{
    rdg_prepared *prepared;
    rdg_err err = rdg_session_plan(s, n, n_outputs, &prepared, e);
    if (err) return err;
    for (int64_t i = 0; i < n; i++) s->positions[i] = (int32_t)(s->n_past + i);
    for (int64_t i = 0; i < n_outputs; i++) s->output_rows[i] = (int32_t)(n - n_outputs + i);
    rdg_step step = {.tokens = tokens,
                     .positions = s->positions,
                     .output_rows = s->output_rows,
                     .n_visible = s->n_past + n};
    const float *output = NULL;
    if ((err = s->exec->class->run(s->exec, prepared, &step, &output, NULL, e))) {
        if (err == RDG_E_DEVICE_LOST) s->lost = *e;
        return err;
    }
    int64_t width = output_width(s), rows = s->embeddings ? n : n_outputs;
    if (output) memcpy(s->logits + s->n_logits_rows * width, output, (size_t)(rows * width) * sizeof *output);
    memmove(s->tokens + s->n_past, tokens, (size_t)n * sizeof *tokens); /* a shift gives our own */
    s->n_logits_rows += rows;
    s->n_past += n;
    s->logits_at = rows ? s->n_past : -1;
    return RDG_OK;
}

rdg_err rdg_session_eval(rdg_session *s, const int32_t *tokens, int64_t n, rdg_logits_mode mode, rdg_error *e)
{
    rdg_error local;
    if (!e) e = &local;
    if (s->lost.code) return rdg_fail(e, s->lost.code, "%s", s->lost.message);
    rdg_err err = check_tokens(s, tokens, n, e);
    if (err) return err;
    if (s->embeddings && n > s->params.n_batch && !s->model->hparams.causal)
        return rdg_fail(e, RDG_E_CONTEXT_FULL,
                        "%" PRId64 " tokens do not fit into one batch of %" PRId64
                        ", which a bidirectional model needs",
                        n, s->params.n_batch);
    int64_t rows = s->embeddings || mode == RDG_LOGITS_ALL ? n : mode == RDG_LOGITS_LAST ? 1 : 0;
    if ((err = rdg_session_reserve_logits(s, RDG_MAX(rows, 1), e))) return err;
    s->n_logits_rows = 0;
    for (int64_t done = 0; done < n;) {
        int64_t part = RDG_MIN(n - done, s->params.n_batch);
        bool last = done + part == n;
        int64_t outputs = s->embeddings                     ? 0
                          : mode == RDG_LOGITS_ALL          ? part
                          : mode == RDG_LOGITS_LAST && last ? 1
                                                            : 0;
        if ((err = run_step(s, tokens + done, part, outputs, e))) return err;
        done += part;
    }
    return RDG_OK;
}

const float *rdg_session_logits(const rdg_session *s, int64_t i)
{
    return i >= 0 && i < s->n_logits_rows ? s->logits + i * output_width(s) : NULL;
}

int64_t rdg_session_n_past(const rdg_session *s)
{
    return s->n_past;
}

int64_t rdg_session_n_ctx(const rdg_session *s)
{
    return s->params.n_ctx;
}

const int32_t *rdg_session_tokens(const rdg_session *s)
{
    return s->tokens;
}

int rdg_session_n_threads(const rdg_session *s)
{
    return s->params.n_threads;
}

/* Slots of the smallest window cache; n_ctx when every layer keeps everything. */
static int64_t smallest_cache(const rdg_session *s)
{
    int64_t slots = s->params.n_ctx;
    for (int i = 0; i < s->n_plans; i++) {
        const rdg_plan *p = s->plans[i].prepared->plan;
        for (size_t k = 0; k < p->n_states; k++)
            if (p->states[k].kind == RDG_STATE_K) slots = RDG_MIN(slots, p->states[k].shape.dim[1]);
    }
    return slots;
}

rdg_err rdg_session_truncate(rdg_session *s, int64_t n_past, rdg_error *e)
{
    if (n_past < 0 || n_past > s->n_past)
        return rdg_fail(e, RDG_E_ARGUMENT, "cannot cut a sequence of %" PRId64 " tokens to %" PRId64,
                        s->n_past, n_past);
    /* A window layer's slot holds the latest position only. Going back is possible while the slots of the
     * window in front of n_past have not been reused. */
    int64_t window = s->model->hparams.window, kept_from = s->n_past - smallest_cache(s);
    if (n_past > 0 && n_past < s->n_past && window > 0 &&
        RDG_MAX(kept_from, s->window_first) > RDG_MAX(n_past - window, 0))
        return rdg_fail(e, RDG_E_UNSUPPORTED,
                        "the sliding window has overwritten what position %" PRId64 " needs; start again",
                        n_past);
    if (n_past == 0) s->window_first = 0;
    s->n_past = n_past;
    return RDG_OK;
}

void rdg_session_reset(rdg_session *s)
{
    s->n_past = s->window_first = 0;
}

rdg_err rdg_session_shift(rdg_session *s, int64_t n_keep, int64_t n_drop, rdg_error *e)
{
    if (n_keep < 0 || n_drop < 1 || n_keep > s->n_past || n_drop > s->n_past - n_keep)
        return rdg_fail(e, RDG_E_ARGUMENT,
                        "cannot keep %" PRId64 " and drop %" PRId64 " of %" PRId64 " tokens", n_keep, n_drop,
                        s->n_past);
    int64_t total = s->n_past - n_drop;
    rdg_err err = rdg_session_truncate(s, n_keep, e);
    if (err == RDG_E_UNSUPPORTED) err = rdg_session_truncate(s, 0, e);
    if (err) return err;
    memmove(s->tokens + n_keep, s->tokens + n_keep + n_drop, (size_t)(total - n_keep) * sizeof *s->tokens);
    return total > s->n_past
               ? rdg_session_eval(s, s->tokens + s->n_past, total - s->n_past, RDG_LOGITS_LAST, e)
               : RDG_OK;
}

const char *rdg_session_device(const rdg_session *s)
{
    return s->exec->class->name;
}

int rdg_session_placements(const rdg_session *s, rdg_placement out[RDG_PLACEMENTS_MAX])
{
    const rdg_exec *x = s->exec;
    if (x->n_placements) {
        memcpy(out, x->placements, (size_t)x->n_placements * sizeof *out);
        return x->n_placements;
    }
    out[0] = (rdg_placement){.n_blocks = s->model->hparams.n_layer,
                             .embedding = true,
                             .output = true,
                             .weight_bytes = s->model->info.weight_bytes,
                             .kv_bytes = x->state_bytes,
                             .scratch_bytes = x->scratch_bytes};
    snprintf(out[0].device, sizeof out[0].device, "%s", x->class->name);
    return 1;
}

uint64_t rdg_session_kv_bytes(const rdg_session *s)
{
    return s->exec->state_bytes;
}

uint64_t rdg_session_scratch_bytes(const rdg_session *s)
{
    return s->exec->scratch_bytes;
}

uint64_t rdg_session_bytes_per_token(const rdg_session *s)
{
    rdg_prepared *prepared;
    double bytes = 0;
    if (rdg_session_plan((rdg_session *)s, 1, s->embeddings ? 0 : 1, &prepared, NULL)) return 0;
    for (size_t i = 0; i < prepared->plan->n_nodes; i++) {
        rdg_op_call call;
        rdg_cost cost;
        rdg_plan_call(prepared->plan, i, &call);
        call.n_visible = s->n_past + 1;
        bool from_memory =
            false; /* activations of one token stay in cache: count nodes that read weights or states */
        for (int k = 0; k < call.op->n_operands; k++) {
            rdg_value_id v = prepared->plan->nodes[i].operand[k];
            if (v == RDG_NO_VALUE) continue;
            rdg_value_kind kind = prepared->plan->values[v].kind;
            from_memory |= kind == RDG_VALUE_WEIGHT ||
                           (kind == RDG_VALUE_STATE && (call.op->operands[k].flags & 3) == RDG_OPERAND_IN);
        }
        if (!from_memory) continue;
        call.op->cost(&call, &cost);
        bytes += cost.bytes_read;
    }
    return (uint64_t)bytes;
}

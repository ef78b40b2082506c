#include "ops/shapes.h"
#include "ops/cases.h"
#include "ops/act/act.h"
#include "ops/add/add.h"
#include "ops/attention/attention.h"
#include "ops/combine/combine.h"
#include "ops/embed/embed.h"
#include "ops/experts/experts.h"
#include "ops/glu/glu.h"
#include "ops/kv_store/kv_store.h"
#include "ops/layernorm/layernorm.h"
#include "ops/matmul/matmul.h"
#include "ops/mul/mul.h"
#include "ops/rmsnorm/rmsnorm.h"
#include "ops/rope/rope.h"
#include "ops/route/route.h"
#include "ops/sample/sample.h"
#include "ops/sumsq/sumsq.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

typedef struct shape {
    int64_t n, rows, columns, tokens, heads, kv_heads, head_dim, keys, experts, used, top_k;
    rdg_type type;
} shape;

static const struct key {
    const char *name;
    size_t offset;
} keys[] = {
    {"n", offsetof(shape, n)},
    {"rows", offsetof(shape, rows)},
    {"columns", offsetof(shape, columns)},
    {"tokens", offsetof(shape, tokens)},
    {"heads", offsetof(shape, heads)},
    {"kv_heads", offsetof(shape, kv_heads)},
    {"keys", offsetof(shape, keys)},
    {"head_dim", offsetof(shape, head_dim)},
    {"experts", offsetof(shape, experts)},
    {"used", offsetof(shape, used)},
    {"top_k", offsetof(shape, top_k)},
};

static void f32(rdg_op_call *call, int operand, int64_t d0, int64_t d1, int64_t d2)
{
    rdg_tensor_init(&call->operand[operand], RDG_TYPE_F32, d0, d1, d2, 1);
}

static void i32(rdg_op_call *call, int operand, int64_t d0, int64_t d1)
{
    rdg_tensor_init(&call->operand[operand], RDG_TYPE_I32, d0, d1, 1, 1);
}

static void build_matmul(const shape *s, rdg_op_call *call)
{
    rdg_tensor_init(&call->operand[RDG_MATMUL_WEIGHT], s->type, s->columns, s->rows, 1, 1);
    f32(call, RDG_MATMUL_X, s->columns, s->tokens, 1);
    f32(call, RDG_MATMUL_OUT, s->rows, s->tokens, 1);
}

static void build_experts(const shape *s, rdg_op_call *call)
{
    rdg_tensor_init(&call->operand[RDG_EXPERTS_WEIGHT], s->type, s->columns, s->rows, s->experts, 1);
    f32(call, RDG_EXPERTS_X, s->columns, 1, s->tokens);
    i32(call, RDG_EXPERTS_IDS, s->used, s->tokens);
    f32(call, RDG_EXPERTS_OUT, s->rows, s->used, s->tokens);
}

static void build_embed(const shape *s, rdg_op_call *call)
{
    const rdg_embed_params p = {.scale = 1.0f};
    rdg_case_params(call, &p, sizeof p);
    rdg_tensor_init(&call->operand[RDG_EMBED_TABLE], s->type, s->columns, s->rows, 1, 1);
    i32(call, RDG_EMBED_IDS, s->tokens, 1);
    f32(call, RDG_EMBED_OUT, s->columns, s->tokens, 1);
}

/* x, weight, out: rmsnorm; layernorm has a bias between. */
static void build_norm(const shape *s, rdg_op_call *call)
{
    const float eps = 1e-5f; /* both parameter structs are this one number */
    rdg_case_params(call, &eps, sizeof eps);
    for (int i = 1; i < call->op->n_operands - 1; i++) f32(call, i, s->n, 1, 1);
    f32(call, 0, s->n, s->rows, 1);
    f32(call, call->op->n_operands - 1, s->n, s->rows, 1);
}

static void build_elementwise(const shape *s, rdg_op_call *call)
{
    const rdg_add_params add = {1.0f, 1.0f};
    const rdg_glu_params glu = {.act = RDG_ACT_SILU};
    const rdg_act_params act = {.act = RDG_ACT_GELU_TANH, .cap = 1.0f};
    if (call->op == &rdg_op_add) rdg_case_params(call, &add, sizeof add);
    if (call->op == &rdg_op_glu) rdg_case_params(call, &glu, sizeof glu);
    if (call->op == &rdg_op_act) rdg_case_params(call, &act, sizeof act);
    for (int i = 0; i < call->op->n_operands; i++) f32(call, i, s->n, s->rows, 1);
}

static void build_rope(const shape *s, rdg_op_call *call)
{
    const rdg_rope_params p = {.style = RDG_ROPE_NEOX,
                               .n_dims = (int32_t)s->head_dim,
                               .freq_base = 5e5f,
                               .freq_scale = 1.0f,
                               .magnitude = 1.0f};
    rdg_case_params(call, &p, sizeof p);
    f32(call, RDG_ROPE_X, s->head_dim, s->heads, s->tokens);
    i32(call, RDG_ROPE_POS, s->tokens, 1);
    f32(call, RDG_ROPE_OUT, s->head_dim, s->heads, s->tokens);
}

static void build_kv_store(const shape *s, rdg_op_call *call)
{
    f32(call, RDG_KV_STORE_X, s->head_dim, s->kv_heads, s->tokens);
    i32(call, RDG_KV_STORE_POS, s->tokens, 1);
    rdg_tensor_init(&call->operand[RDG_KV_STORE_CACHE], s->type, s->head_dim, s->keys, s->kv_heads, 1);
}

static void build_attention(const shape *s, rdg_op_call *call)
{
    const rdg_attention_params p = {.scale = 1.0f / sqrtf((float)s->head_dim), .causal = 1};
    rdg_case_params(call, &p, sizeof p);
    f32(call, RDG_ATTENTION_Q, s->head_dim, s->heads, s->tokens);
    rdg_tensor_init(&call->operand[RDG_ATTENTION_K], s->type, s->head_dim, s->keys, s->kv_heads, 1);
    rdg_tensor_init(&call->operand[RDG_ATTENTION_V], s->type, s->head_dim, s->keys, s->kv_heads, 1);
    i32(call, RDG_ATTENTION_POS, s->tokens, 1);
    f32(call, RDG_ATTENTION_OUT, s->head_dim, s->heads, s->tokens);
    call->n_visible = s->keys;
}

static void build_route(const shape *s, rdg_op_call *call)
{
    const rdg_route_params p = {.kind = RDG_ROUTE_RENORMALISED, .scale = 1.0f};
    rdg_case_params(call, &p, sizeof p);
    f32(call, RDG_ROUTE_LOGITS, s->experts, s->tokens, 1);
    i32(call, RDG_ROUTE_IDS, s->used, s->tokens);
    f32(call, RDG_ROUTE_WEIGHTS, s->used, s->tokens, 1);
}

static void build_combine(const shape *s, rdg_op_call *call)
{
    f32(call, RDG_COMBINE_X, s->n, s->used, s->tokens);
    f32(call, RDG_COMBINE_WEIGHTS, s->used, s->tokens, 1);
    f32(call, RDG_COMBINE_RESIDUAL, s->n, s->tokens, 1);
    f32(call, RDG_COMBINE_OUT, s->n, s->tokens, 1);
}

static void build_sumsq(const shape *s, rdg_op_call *call)
{
    f32(call, RDG_SUMSQ_X, s->columns, 1, s->tokens);
    f32(call, RDG_SUMSQ_SUMS, s->columns, 1, 1);
    f32(call, RDG_SUMSQ_COUNTS, 1, 1, 1);
}

static void build_sample(const shape *s, rdg_op_call *call)
{
    const rdg_sample_params p = {
        .temperature = 0.8f, .top_k = (int32_t)s->top_k, .top_p = 0.95f, .min_p = 0.05f};
    rdg_case_params(call, &p, sizeof p);
    f32(call, RDG_SAMPLE_LOGITS, s->n, 1, 1);
    i32(call, RDG_SAMPLE_DRAW, 3, 1);
    i32(call, RDG_SAMPLE_ID, 1, 1);
}

/* One decode step of a model of about eight billion weights, unless the operation is about many tokens. */
static const struct row {
    const rdg_op *op;
    const char *defaults;
    void (*build)(const shape *s, rdg_op_call *call);
} rows[] = {
    {&rdg_op_matvec, "columns=4096,rows=14336,tokens=1,type=Q4_K", build_matmul},
    {&rdg_op_matmul, "columns=4096,rows=4096,tokens=128,type=Q4_K", build_matmul},
    {&rdg_op_experts, "columns=2048,rows=768,experts=64,used=8,tokens=1,type=Q4_K", build_experts},
    {&rdg_op_embed, "columns=4096,rows=32000,tokens=1,type=Q4_K", build_embed},
    {&rdg_op_rmsnorm, "n=4096,rows=1", build_norm},
    {&rdg_op_layernorm, "n=4096,rows=1", build_norm},
    {&rdg_op_rope, "head_dim=128,heads=32,tokens=1", build_rope},
    {&rdg_op_kv_store, "head_dim=128,kv_heads=8,tokens=1,keys=4096,type=F16", build_kv_store},
    {&rdg_op_attention, "head_dim=128,heads=32,kv_heads=8,tokens=1,keys=4096,type=F16", build_attention},
    {&rdg_op_glu, "n=14336,rows=1", build_elementwise},
    {&rdg_op_act, "n=14336,rows=1", build_elementwise},
    {&rdg_op_add, "n=4096,rows=1", build_elementwise},
    {&rdg_op_mul, "n=4096,rows=1", build_elementwise},
    {&rdg_op_route, "experts=64,used=8,tokens=1", build_route},
    {&rdg_op_combine, "n=4096,used=8,tokens=1", build_combine},
    {&rdg_op_sumsq, "columns=4096,tokens=512", build_sumsq},
    {&rdg_op_sample, "n=128256,top_k=40", build_sample},
};

static const struct row *row_of(const rdg_op *op)
{
    for (int i = 0; i < RDG_COUNTOF(rows); i++)
        if (rows[i].op == op) return &rows[i];
    return NULL;
}

const char *rdg_shape_defaults(const rdg_op *op)
{
    const struct row *r = row_of(op);
    return r ? r->defaults : NULL;
}

/* "key=" stands at the start of the list or after a comma. */
static bool has_key(const char *list, const char *key, size_t n)
{
    for (const char *p = list; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
        if (!strncmp(p, key, n) && p[n] == '=') return true;
    return false;
}

static rdg_err set_key(shape *s, const char *key, size_t n, const char *value, size_t n_value, rdg_error *e)
{
    char text[32], *end;
    if (n_value == 0 || n_value >= sizeof text)
        return rdg_fail(e, RDG_E_ARGUMENT, "shape: %.*s has no sensible value", (int)n, key);
    memcpy(text, value, n_value);
    text[n_value] = 0;
    if (n == 4 && !strncmp(key, "type", 4))
        return rdg_type_from_name(text, &s->type)
                   ? RDG_OK
                   : rdg_fail(e, RDG_E_ARGUMENT, "shape: there is no type '%s'", text);
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (*end || errno || v < 1 || v > 1 << 24)
        return rdg_fail(e, RDG_E_ARGUMENT, "shape: %.*s=%s: 1 to %d is possible", (int)n, key, text, 1 << 24);
    for (int i = 0; i < RDG_COUNTOF(keys); i++)
        if (strlen(keys[i].name) == n && !strncmp(keys[i].name, key, n))
            memcpy((char *)s + keys[i].offset, &(int64_t){v}, sizeof(int64_t));
    return RDG_OK;
}

static rdg_err parse(const struct row *r, const char *text, shape *s, rdg_error *e)
{
    for (const char *p = text; *p;) {
        size_t n_pair = strcspn(p, ","), n = strcspn(p, "=");
        if (n >= n_pair || !has_key(r->defaults, p, n))
            return rdg_fail(e, RDG_E_ARGUMENT, "shape: '%.*s' is not understood; %s takes %s", (int)n_pair, p,
                            r->op->name, r->defaults);
        rdg_err err = set_key(s, p, n, p + n + 1, n_pair - n - 1, e);
        if (err) return err;
        p += n_pair + (p[n_pair] == ',');
    }
    return RDG_OK;
}

static void describe(const struct row *r, const shape *s, char *full, size_t bytes)
{
    size_t at = 0;
    full[0] = 0;
    for (const char *p = r->defaults; *p && at + 1 < bytes;) {
        size_t n_pair = strcspn(p, ","), n = strcspn(p, "=");
        int64_t v = 0;
        for (int i = 0; i < RDG_COUNTOF(keys); i++)
            if (strlen(keys[i].name) == n && !strncmp(keys[i].name, p, n))
                memcpy(&v, (const char *)s + keys[i].offset, sizeof v);
        const char *comma = at ? "," : "";
        int wrote =
            v ? snprintf(full + at, bytes - at, "%s%.*s=%lld", comma, (int)n, p, (long long)v)
              : snprintf(full + at, bytes - at, "%s%.*s=%s", comma, (int)n, p, rdg_type_name(s->type));
        at += wrote > 0 ? (size_t)wrote : 0;
        p += n_pair + (p[n_pair] == ',');
    }
}

/* The largest operand a shape may ask for: a mistyped number should not take the machine down. */
static rdg_err check_sizes(const rdg_op_call *call, rdg_error *e)
{
    const double limit = 8e9;
    for (int i = 0; i < call->op->n_operands; i++) {
        const rdg_tensor *t = &call->operand[i];
        double n = (double)t->dim[0] * (double)t->dim[1] * (double)t->dim[2];
        if (n > limit)
            return rdg_fail(e, RDG_E_LIMIT, "shape: operand %s has %.3g elements, more than %.0e",
                            call->op->operands[i].name, n, limit);
    }
    return RDG_OK;
}

rdg_err rdg_shape_call(const rdg_op *op, const char *text, rdg_op_call *call, char *full, size_t full_bytes,
                       rdg_error *e)
{
    const struct row *r = row_of(op);
    shape s = {0};
    *call = (rdg_op_call){.op = op};
    if (!r) return rdg_fail(e, RDG_E_UNSUPPORTED, "operation %s has no shapes to time", op->name);
    rdg_err err = parse(r, r->defaults, &s, e);
    if (!err) err = parse(r, text ? text : "", &s, e);
    if (err) return err;
    r->build(&s, call);
    describe(r, &s, full, full_bytes);
    err = check_sizes(call, e);
    return err ? err : rdg_op_check(call, e);
}

void rdg_shape_prepare(rdg_op_call *call, uint64_t seed)
{
    if (call->op == &rdg_op_embed)
        rdg_case_ids(&call->operand[RDG_EMBED_IDS], call->operand[RDG_EMBED_TABLE].dim[1], seed);
    if (call->op == &rdg_op_experts) { /* distinct experts for a token, as a router picks them */
        const rdg_tensor *ids = &call->operand[RDG_EXPERTS_IDS];
        rdg_case_ids(ids, call->operand[RDG_EXPERTS_WEIGHT].dim[2], seed);
        for (int64_t t = 0; t < ids->dim[1]; t++)
            for (int64_t k = 1; k < ids->dim[0]; k++) {
                int32_t *row = rdg_tensor_row(ids, t, 0, 0);
                row[k] = (int32_t)((row[0] + k * 7) % call->operand[RDG_EXPERTS_WEIGHT].dim[2]);
            }
    }
    int operand = call->op == &rdg_op_rope        ? RDG_ROPE_POS
                  : call->op == &rdg_op_kv_store  ? RDG_KV_STORE_POS
                  : call->op == &rdg_op_attention ? RDG_ATTENTION_POS
                                                  : -1;
    if (operand < 0) return;
    /* the last token is the newest of the cache */
    const int64_t n_tokens = call->operand[operand].dim[0];
    int64_t last = call->n_visible ? call->n_visible - 1 : n_tokens - 1 + (int64_t)(seed % 1000);
    if (call->op == &rdg_op_kv_store) last = call->operand[RDG_KV_STORE_CACHE].dim[1] - 1;
    for (int64_t t = 0; t < n_tokens; t++)
        ((int32_t *)call->operand[operand].data)[t] = (int32_t)(last - (n_tokens - 1 - t));
}

/* Synthetic models: the published shapes of real ones, random blocks for weights, types by the same recipes.
 */
#include "base/mem.h"
#include "base/rng.h"
#include "quant/recipe.h"
#include <ridge/gguf.h>
#include <ridge/synth.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct shape {
    const char *name, *arch;
    int64_t n_layers, n_embd, n_head, n_head_kv, head_dim, n_ff, n_vocab, n_ctx;
    int64_t n_expert, n_expert_used; /* 0 = dense; n_ff is then an expert's */
    float rope_base;
    bool tied, qk_norm;
} shape;

/* From the models' published config.json files. */
static const shape shapes[] = {
    {"llama-1b", "llama", 16, 2048, 32, 8, 64, 8192, 128256, 131072, 0, 0, 5e5f, true, false},
    {"llama-3b", "llama", 28, 3072, 24, 8, 128, 8192, 128256, 131072, 0, 0, 5e5f, true, false},
    {"llama-8b", "llama", 32, 4096, 32, 8, 128, 14336, 128256, 131072, 0, 0, 5e5f, false, false},
    {"llama-70b", "llama", 80, 8192, 64, 8, 128, 28672, 128256, 131072, 0, 0, 5e5f, false, false},
    {"mistral-7b", "llama", 32, 4096, 32, 8, 128, 14336, 32768, 32768, 0, 0, 1e6f, false, false},
    {"mixtral-8x7b", "llama", 32, 4096, 32, 8, 128, 14336, 32000, 32768, 8, 2, 1e6f, false, false},
    {"qwen3-0.6b", "qwen3", 28, 1024, 16, 8, 128, 3072, 151936, 40960, 0, 0, 1e6f, true, true},
    {"qwen3-4b", "qwen3", 36, 2560, 32, 8, 128, 9728, 151936, 40960, 0, 0, 1e6f, true, true},
    {"qwen3-8b", "qwen3", 36, 4096, 32, 8, 128, 12288, 151936, 40960, 0, 0, 1e6f, false, true},
    {"qwen3-30b-a3b", "qwen3moe", 48, 2048, 32, 4, 128, 768, 151936, 40960, 128, 8, 1e6f, false, true},
};

const char *rdg_synth_list(void)
{
    return "llama-1b llama-3b llama-8b llama-70b mistral-7b mixtral-8x7b qwen3-0.6b qwen3-4b qwen3-8b "
           "qwen3-30b-a3b";
}

enum { POOL_ELEMENTS = 256 * 1024, CHUNK_BYTES = 1 << 20 };

typedef struct synth {
    const rdg_synth_params *p;
    shape s;
    rdg_arena arena;
    rdg_recipe_tensor *tensors;
    int64_t (*dims)[3];
    size_t n, cap, cap_dims;
    bool failed;
    float *normal;                       /* POOL_ELEMENTS of mean 0, variance 1 / n_embd */
    unsigned char *pool[RDG_TYPE_COUNT]; /* the same, quantised; made at first use */
    rdg_rng rng;
} synth;

static void add(synth *y, const char *name, int64_t d0, int64_t d1, int64_t d2)
{
    if (y->failed) return;
    char *copy = rdg_arena_format(&y->arena, "%s", name);
    if (!copy || !rdg_grow(&y->tensors, y->n, &y->cap, sizeof *y->tensors) ||
        !rdg_grow(&y->dims, y->n, &y->cap_dims, sizeof *y->dims)) {
        y->failed = true;
        return;
    }
    y->tensors[y->n] = (rdg_recipe_tensor){.name = copy,
                                           .n_dims = d2   ? 3
                                                     : d1 ? 2
                                                          : 1,
                                           .n_columns = d0,
                                           .type = RDG_TYPE_F32};
    y->dims[y->n][0] = d0;
    y->dims[y->n][1] = d1 ? d1 : 1;
    y->dims[y->n][2] = d2 ? d2 : 1;
    y->n++;
}

static void add_block(synth *y, int64_t layer, const char *name, int64_t d0, int64_t d1, int64_t d2)
{
    char full[64];
    snprintf(full, sizeof full, "blk.%" PRId64 ".%s.weight", layer, name);
    add(y, full, d0, d1, d2);
}

static void list_tensors(synth *y)
{
    const shape *s = &y->s;
    add(y, "token_embd.weight", s->n_embd, s->n_vocab, 0);
    for (int64_t i = 0; i < s->n_layers; i++) {
        add_block(y, i, "attn_norm", s->n_embd, 0, 0);
        add_block(y, i, "attn_q", s->n_embd, s->n_head * s->head_dim, 0);
        add_block(y, i, "attn_k", s->n_embd, s->n_head_kv * s->head_dim, 0);
        add_block(y, i, "attn_v", s->n_embd, s->n_head_kv * s->head_dim, 0);
        if (s->qk_norm) {
            add_block(y, i, "attn_q_norm", s->head_dim, 0, 0);
            add_block(y, i, "attn_k_norm", s->head_dim, 0, 0);
        }
        add_block(y, i, "attn_output", s->n_head * s->head_dim, s->n_embd, 0);
        add_block(y, i, "ffn_norm", s->n_embd, 0, 0);
        if (s->n_expert) add_block(y, i, "ffn_gate_inp", s->n_embd, s->n_expert, 0);
        add_block(y, i, s->n_expert ? "ffn_gate_exps" : "ffn_gate", s->n_embd, s->n_ff, s->n_expert);
        add_block(y, i, s->n_expert ? "ffn_up_exps" : "ffn_up", s->n_embd, s->n_ff, s->n_expert);
        add_block(y, i, s->n_expert ? "ffn_down_exps" : "ffn_down", s->n_ff, s->n_embd, s->n_expert);
    }
    add(y, "output_norm.weight", s->n_embd, 0, 0);
    if (!s->tied) add(y, "output.weight", s->n_embd, s->n_vocab, 0);
}

static void set_key(rdg_gguf_writer *w, const char *arch, const char *suffix, int64_t value)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", arch, suffix);
    rdg_gguf_set_u32(w, key, (uint32_t)value);
}

static void set_metadata(const synth *y, rdg_gguf_writer *w)
{
    const shape *s = &y->s;
    char key[96], name[96];
    snprintf(name, sizeof name, "synthetic %s", s->name);
    rdg_gguf_set_str(w, "general.architecture", s->arch);
    rdg_gguf_set_str(w, "general.name", name);
    rdg_gguf_set_str(w, "general.description",
                     "random weights with the shapes of a real model; for speed measurements only");
    rdg_gguf_set_u32(w, "general.file_type", (uint32_t)y->p->recipe);
    rdg_gguf_set_u32(w, "general.quantization_version", 2);
    set_key(w, s->arch, "block_count", s->n_layers);
    set_key(w, s->arch, "context_length", s->n_ctx);
    set_key(w, s->arch, "embedding_length", s->n_embd);
    set_key(w, s->arch, "feed_forward_length", s->n_ff);
    set_key(w, s->arch, "attention.head_count", s->n_head);
    set_key(w, s->arch, "attention.head_count_kv", s->n_head_kv);
    set_key(w, s->arch, "attention.key_length", s->head_dim);
    set_key(w, s->arch, "attention.value_length", s->head_dim);
    set_key(w, s->arch, "rope.dimension_count", s->head_dim);
    set_key(w, s->arch, "vocab_size", s->n_vocab);
    if (s->n_expert) {
        set_key(w, s->arch, "expert_count", s->n_expert);
        set_key(w, s->arch, "expert_used_count", s->n_expert_used);
        set_key(w, s->arch, "expert_feed_forward_length", s->n_ff);
    }
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", s->arch);
    rdg_gguf_set_f32(w, key, 1e-5f);
    snprintf(key, sizeof key, "%s.rope.freq_base", s->arch);
    rdg_gguf_set_f32(w, key, s->rope_base);
    rdg_gguf_set_str(w, "tokenizer.ggml.model", "none");
}

static rdg_err choose_types(synth *y, rdg_error *e)
{
    rdg_recipe_model model = {.n_layers = y->s.n_layers,
                              .n_heads = y->s.n_head,
                              .n_heads_kv = y->s.n_head_kv,
                              .n_experts = y->s.n_expert};
    rdg_recipe_request request = {.recipe = y->p->recipe, .output_type = -1, .token_embedding_type = -1};
    return rdg_recipe_plan(&request, &model, y->tensors, (int64_t)y->n, &y->arena, y->p->log, e);
}

static rdg_err make_pool(synth *y, rdg_type t, rdg_error *e)
{
    if (y->pool[t]) return RDG_OK;
    y->pool[t] = rdg_alloc((size_t)rdg_type_row_bytes(t, POOL_ELEMENTS));
    if (!y->pool[t]) return rdg_fail(e, RDG_E_NOMEM, "no memory for random blocks");
    return rdg_quantise_rows(t, y->normal, y->pool[t], POOL_ELEMENTS / 256, 256, NULL, e);
}

/* Blocks in random order out of the pool: runs of a few blocks, so that filling is as fast as the disk. */
static rdg_err write_random(synth *y, rdg_gguf_writer *w, rdg_type t, int64_t n_elements,
                            unsigned char *chunk, rdg_error *e)
{
    int64_t block = rdg_type_block_bytes(t), run_elems = 256,
            run_bytes = run_elems / rdg_type_block_elems(t) * block;
    int64_t left = n_elements / rdg_type_block_elems(t) * block;
    rdg_err err = make_pool(y, t, e);
    while (left > 0 && !err) {
        int64_t part = RDG_MIN(left, CHUNK_BYTES / run_bytes * run_bytes);
        for (int64_t at = 0; at < part; at += run_bytes) {
            const unsigned char *from =
                y->pool[t] + (int64_t)rdg_rng_below(&y->rng, POOL_ELEMENTS / 256) * run_bytes;
            memcpy(chunk + at, from, (size_t)RDG_MIN(run_bytes, part - at));
        }
        err = rdg_gguf_write_data(w, chunk, (size_t)part, e);
        left -= part;
    }
    return err;
}

static rdg_err write_ones(rdg_gguf_writer *w, int64_t n, rdg_error *e)
{
    static const float one = 1.0f;
    rdg_err err = RDG_OK;
    for (int64_t i = 0; i < n && !err; i++) err = rdg_gguf_write_data(w, &one, sizeof one, e);
    return err;
}

static rdg_err write_tensors(synth *y, rdg_gguf_writer *w, rdg_error *e)
{
    rdg_err err = RDG_OK;
    unsigned char *chunk = rdg_alloc(CHUNK_BYTES);
    if (!chunk) return rdg_fail(e, RDG_E_NOMEM, "no memory");
    for (size_t i = 0; i < y->n && !err; i++) {
        int64_t n = y->dims[i][0] * y->dims[i][1] * y->dims[i][2];
        if (y->tensors[i].n_dims == 1)
            err = write_ones(w, n, e);
        else
            err = write_random(y, w, y->tensors[i].chosen, n, chunk, e);
        if (!err && rdg_log_progress(y->p->log, "synth", (double)(i + 1), (double)y->n))
            err = rdg_fail(e, RDG_E_CANCELLED, "stopped");
    }
    rdg_free(chunk);
    return err;
}

static rdg_err find_shape(synth *y, rdg_error *e)
{
    for (int i = 0; i < RDG_COUNTOF(shapes); i++)
        if (!strcmp(shapes[i].name, y->p->like)) {
            y->s = shapes[i];
            if (y->p->n_layers > 0) y->s.n_layers = y->p->n_layers;
            return RDG_OK;
        }
    return rdg_fail(e, RDG_E_ARGUMENT, "no model '%s' to be like: %s are possible", y->p->like,
                    rdg_synth_list());
}

rdg_err rdg_synth(const char *out, const rdg_synth_params *p, uint64_t *bytes, int64_t *n_params,
                  rdg_error *e)
{
    synth y = {.p = p};
    rdg_gguf_writer *w = NULL;
    rdg_arena_init(&y.arena);
    rdg_rng_seed(&y.rng, p->seed);
    rdg_err err = find_shape(&y, e);
    if (err) goto done;
    list_tensors(&y);
    y.normal = rdg_alloc_array(POOL_ELEMENTS, sizeof *y.normal);
    if (y.failed || !y.normal) {
        err = rdg_fail(e, RDG_E_NOMEM, "no memory for a list of tensors");
        goto done;
    }
    for (int64_t i = 0; i < POOL_ELEMENTS; i++)
        y.normal[i] = rdg_rng_normal(&y.rng) / sqrtf((float)y.s.n_embd);
    if ((err = choose_types(&y, e)) || (err = rdg_gguf_writer_create(out, &w, e))) goto done;
    set_metadata(&y, w);
    *n_params = 0;
    for (size_t i = 0; i < y.n; i++) {
        const rdg_recipe_tensor *t = &y.tensors[i];
        rdg_gguf_add_tensor(w, t->name, t->chosen, t->n_dims, y.dims[i]);
        *n_params += y.dims[i][0] * y.dims[i][1] * y.dims[i][2];
    }
    if ((err = rdg_gguf_writer_begin(w, e)) || (err = write_tensors(&y, w, e)) ||
        (err = rdg_gguf_writer_finish(w, e)))
        goto done;
    *bytes = rdg_gguf_writer_bytes(w);
done:
    rdg_gguf_writer_destroy(w);
    for (int i = 0; i < RDG_TYPE_COUNT; i++) rdg_free(y.pool[i]);
    rdg_free(y.normal);
    rdg_free(y.dims);
    rdg_free(y.tensors);
    rdg_arena_finish(&y.arena);
    return err;
}

/* The table of architectures and the hyper-parameters that all of them share. */
#include "model/arch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

extern const rdg_arch rdg_arch_llama, rdg_arch_granite, rdg_arch_smollm3, rdg_arch_qwen2, rdg_arch_qwen2moe,
    rdg_arch_qwen3, rdg_arch_qwen3moe, rdg_arch_gemma2, rdg_arch_gemma3, rdg_arch_phi3, rdg_arch_olmo2,
    rdg_arch_gpt_oss, rdg_arch_gpt2, rdg_arch_starcoder2, rdg_arch_stablelm, rdg_arch_glm4, rdg_arch_bert;

static const rdg_arch *const archs[] = {
    &rdg_arch_llama, &rdg_arch_granite,  &rdg_arch_smollm3, &rdg_arch_qwen2,      &rdg_arch_qwen2moe,
    &rdg_arch_qwen3, &rdg_arch_qwen3moe, &rdg_arch_gemma2,  &rdg_arch_gemma3,     &rdg_arch_phi3,
    &rdg_arch_olmo2, &rdg_arch_gpt_oss,  &rdg_arch_gpt2,    &rdg_arch_starcoder2, &rdg_arch_stablelm,
    &rdg_arch_glm4,  &rdg_arch_bert,
};
static const char arch_names[] =
    "llama granite smollm3 qwen2 qwen2moe qwen3 qwen3moe gemma2 gemma3 phi3 olmo2 gpt-oss "
    "gpt2 starcoder2 stablelm glm4 bert"; /* as above; a test compares them */

const rdg_arch *rdg_arch_at(int i)
{
    return i >= 0 && i < RDG_COUNTOF(archs) ? archs[i] : NULL;
}

const rdg_arch *rdg_arch_find(const char *name, size_t n)
{
    for (int i = 0; i < RDG_COUNTOF(archs); i++)
        if (strlen(archs[i]->name) == n && memcmp(archs[i]->name, name, n) == 0) return archs[i];
    return NULL;
}

const char *rdg_arch_list(void)
{
    return arch_names;
}

enum { MAX_HEADS = 4096, MAX_HEAD_DIM = 1024, MAX_VOCAB = 1 << 22, MAX_EMBD = 1 << 18, MAX_FF = 1 << 22 };

static void read_heads(rdg_keys *k, rdg_hparams *h)
{
    h->n_head = rdg_key_int(k, "attention.head_count", 1, MAX_HEADS, RDG_KEY_REQUIRED);
    h->n_head_kv = rdg_key_int(k, "attention.head_count_kv", 1, MAX_HEADS, h->n_head);
    if (k->failed) return;
    if (h->n_head % h->n_head_kv) {
        rdg_keys_fail(k, RDG_E_MALFORMED,
                      "key '%s.attention.head_count' is %" PRId64
                      ", not a multiple of '%s.attention.head_count_kv' %" PRId64,
                      k->arch, h->n_head, k->arch, h->n_head_kv);
        return;
    }
    bool given = rdg_key_find(k, "attention.key_length") != NULL;
    if (!given && h->n_embd % h->n_head) {
        rdg_keys_fail(k, RDG_E_MALFORMED,
                      "key '%s.embedding_length' is %" PRId64
                      ", not a multiple of '%s.attention.head_count' %" PRId64
                      ", and '%s.attention.key_length' is missing",
                      k->arch, h->n_embd, k->arch, h->n_head, k->arch);
        return;
    }
    h->head_dim_k =
        rdg_key_int(k, "attention.key_length", 1, MAX_HEAD_DIM, given ? 0 : h->n_embd / h->n_head);
    h->head_dim_v = rdg_key_int(k, "attention.value_length", 1, MAX_HEAD_DIM, h->head_dim_k);
    h->n_rot = rdg_key_int(k, "rope.dimension_count", 0, h->head_dim_k, h->head_dim_k);
    if (!k->failed && (h->head_dim_k > MAX_HEAD_DIM || h->head_dim_k % 2 || h->n_rot % 2))
        rdg_keys_fail(k, RDG_E_MALFORMED,
                      "heads of %" PRId64 " elements with %" PRId64
                      " rope dimensions: both must be even, at most %d "
                      "(keys '%s.attention.key_length', '%s.rope.dimension_count')",
                      h->head_dim_k, h->n_rot, MAX_HEAD_DIM, k->arch, k->arch);
}

static void read_experts(rdg_keys *k, rdg_hparams *h)
{
    h->n_expert = rdg_key_int(k, "expert_count", 0, RDG_MAX_EXPERTS, 0);
    h->n_ff = rdg_key_int(k, "feed_forward_length", 1, MAX_FF, h->n_expert ? 1 : RDG_KEY_REQUIRED);
    if (h->n_expert == 0) return;
    h->n_expert_used = rdg_key_int(k, "expert_used_count", 1, h->n_expert, RDG_KEY_REQUIRED);
    h->n_ff_expert = rdg_key_int(k, "expert_feed_forward_length", 1, MAX_FF, h->n_ff);
    h->n_ff_shared = rdg_key_int(k, "expert_shared_feed_forward_length", 0, MAX_FF, h->n_ff);
}

/* The key of newer files: the period as one number, or one flag a block. */
static void read_window_pattern(rdg_keys *k, const rdg_arch *arch, rdg_hparams *h)
{
    const rdg_gguf_kv *kv = rdg_key_find(k, "attention.sliding_window_pattern");
    int64_t period = arch->window_period;
    if (kv && kv->type == RDG_GGUF_ARRAY) {
        if (kv->element_type == RDG_GGUF_STRING || kv->count != (uint64_t)h->n_layer) {
            rdg_keys_fail(k, RDG_E_MALFORMED,
                          "key '%s.attention.sliding_window_pattern' must have %" PRId64
                          " flags, one a block, it has %" PRIu64,
                          k->arch, h->n_layer, kv->count);
            return;
        }
        for (int64_t il = 0; il < h->n_layer; il++)
            if (rdg_gguf_kv_int(kv, (uint64_t)il)) h->layer_flags[il] |= RDG_LAYER_LOCAL;
        return;
    }
    if (kv) period = rdg_key_int(k, "attention.sliding_window_pattern", 0, RDG_MAX_LAYERS, period);
    for (int64_t il = 0; il < h->n_layer; il++)
        if (period == 0 || il % period < period - 1) h->layer_flags[il] |= RDG_LAYER_LOCAL;
}

/* The vocabulary is what the embedding holds; the tokenizer may know fewer entries, never more. */
static void read_vocab(rdg_keys *k, rdg_hparams *h)
{
    const rdg_gguf_tensor *t = rdg_gguf_tensor_find(k->gguf, "token_embd.weight");
    if (!t) {
        rdg_keys_fail(k, RDG_E_MALFORMED, "tensor 'token_embd.weight' is missing");
        return;
    }
    h->n_vocab = t->dim[1];
    if (h->n_vocab < 1 || h->n_vocab > MAX_VOCAB)
        rdg_keys_fail(k, RDG_E_MALFORMED,
                      "tensor 'token_embd.weight' has %" PRId64 " rows, a vocabulary has 1 … %d", h->n_vocab,
                      MAX_VOCAB);
    const rdg_gguf_kv *tokens = rdg_gguf_find(k->gguf, "tokenizer.ggml.tokens");
    if (tokens && tokens->count > (uint64_t)h->n_vocab)
        rdg_keys_fail(k, RDG_E_MALFORMED,
                      "key 'tokenizer.ggml.tokens' has %" PRIu64 " entries, 'token_embd.weight' only %" PRId64
                      " rows",
                      tokens->count, h->n_vocab);
    static const char *const ids[] = {"bos",     "eos",  "eot",       "eom", "unknown",
                                      "padding", "mask", "seperator", "cls"};
    for (int i = 0; i < RDG_COUNTOF(ids) && !k->failed; i++) {
        char key[64];
        int64_t id = 0;
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", ids[i]);
        rdg_err err = rdg_gguf_get_i64(k->gguf, key, &id, &k->error);
        if (err && err != RDG_E_NOT_FOUND) k->failed = err;
        if (!err && (id < 0 || id >= h->n_vocab) && id != UINT32_MAX) /* all ones: some writers' "none" */
            rdg_keys_fail(k, RDG_E_MALFORMED,
                          "key '%s' is %" PRId64 ", the vocabulary has %" PRId64 " tokens", key, id,
                          h->n_vocab);
    }
}

static void read_common(rdg_keys *k, const rdg_arch *arch, rdg_hparams *h)
{
    h->n_layer = rdg_key_int(k, "block_count", 1, RDG_MAX_LAYERS, RDG_KEY_REQUIRED);
    k->n_layer = h->n_layer;
    h->n_embd = rdg_key_int(k, "embedding_length", 1, MAX_EMBD, RDG_KEY_REQUIRED);
    h->n_ctx_train = rdg_key_int(k, "context_length", 1, INT32_MAX, RDG_KEY_REQUIRED);
    h->norm_eps = rdg_key_float(k, arch->norm_eps_key, 1e-20f, 1.0f, RDG_KEY_REQUIRED_F);
    read_heads(k, h);
    read_experts(k, h);
    rdg_hparams_read_rope(k, arch, h);
    h->attention_scale = rdg_key_float(k, "attention.scale", 1e-6f, 1e6f, 0.0f);
    h->attn_softcap = rdg_key_float(k, "attn_logit_softcapping", 1e-3f, 1e6f, 0.0f);
    h->final_softcap = rdg_key_float(k, "final_logit_softcapping", 1e-3f, 1e6f, 0.0f);
    h->embedding_scale = rdg_key_float(k, "embedding_scale", 1e-6f, 1e6f, 1.0f);
    h->residual_scale = rdg_key_float(k, "residual_scale", 1e-6f, 1e6f, 1.0f);
    h->logit_scale = rdg_key_float(k, "logit_scale", 1e-6f, 1e6f, 1.0f);
    h->causal = rdg_key_bool(k, "attention.causal", true);
    h->window = rdg_key_int(k, "attention.sliding_window", 0, INT32_MAX, 0);
    read_window_pattern(k, arch, h);
    read_vocab(k, h);
}

rdg_err rdg_hparams_read(const rdg_gguf *g, const rdg_arch **arch, rdg_hparams *h, rdg_error *e)
{
    *arch = NULL;
    memset(h, 0, sizeof *h);
    rdg_str name;
    rdg_err err = rdg_gguf_get_str(g, "general.architecture", &name, e);
    if (err == RDG_E_NOT_FOUND)
        return rdg_fail(e, RDG_E_MALFORMED,
                        "key 'general.architecture' is missing: this file is not a model");
    if (err) return err;
    const rdg_arch *a = rdg_arch_find(name.p, name.n);
    if (!a)
        return rdg_fail(e, RDG_E_UNSUPPORTED, "architecture '%.*s' is not supported; supported are: %s",
                        (int)(name.n > 64 ? 64 : name.n), name.p, rdg_arch_list());
    snprintf(h->arch, sizeof h->arch, "%s", a->name);
    rdg_keys k = {.gguf = g, .arch = a->name};
    read_common(&k, a, h);
    if (!k.failed && a->hparams) a->hparams(&k, h);
    if (k.failed) {
        if (e) *e = k.error;
        return k.failed;
    }
    *arch = a;
    return RDG_OK;
}

/* One architecture: metadata → hyper-parameters → plan. A model file (llama.c, qwen.c, …) fills one row of the table in
 * arch.c; it uses rdg_plan_* only and never sees a device, a thread or a session. */
#ifndef RDG_MODEL_ARCH_H
#define RDG_MODEL_ARCH_H

#include "graph/plan.h"

enum { RDG_MAX_LAYERS = 1024, RDG_MAX_EXPERTS = 1024 };

/* Read from the GGUF metadata, checked: positive, finite, below sane caps, consistent. */
typedef struct rdg_hparams {
    char arch[64];
    int64_t n_vocab, n_ctx_train, n_embd, n_layer, n_ff;
    int64_t n_head, n_head_kv, head_dim_k, head_dim_v; /* n_head, n_head_kv of layer 0 if they vary (unsupported then) */
    int64_t n_rot;                                     /* rope dimensions */
    int64_t n_expert, n_expert_used, n_ff_expert, n_ff_shared;
    float norm_eps;        /* RMS or LayerNorm epsilon, whichever the architecture uses */
    float rope_base, rope_base_local;
    rdg_rope_params rope;        /* global layers: scaling resolved; style and n_dims filled by the model file */
    rdg_rope_params rope_local;  /* sliding-window layers where they differ (gemma3), else equal to rope */
    float attention_scale; /* 0 = 1/sqrt(head_dim_k) */
    float attn_softcap, final_softcap;
    float embedding_scale, residual_scale, logit_scale; /* 1 = none; logit_scale is a divisor */
    int64_t window;        /* sliding window, 0 = none */
    int64_t window_period; /* layer il is global iff (il + 1) % window_period == 0; 0: see the model file */
    bool causal;
} rdg_hparams;

typedef struct rdg_arch {
    const char *name; /* general.architecture */
    /* What the architecture needs beyond the common keys (rdg_hparams_read has run before). May be NULL. */
    rdg_err (*hparams)(const rdg_gguf *g, rdg_hparams *h, rdg_error *e);
    /* Appends the whole forward pass to p. Errors are kept in the plan. */
    void (*build)(rdg_plan *p, const rdg_hparams *h);
    const char *norm_eps_key; /* "attention.layer_norm_rms_epsilon" or "attention.layer_norm_epsilon" */
} rdg_arch;

const rdg_arch *rdg_arch_find(const char *name, size_t n); /* NULL if unknown */
const char *rdg_arch_list(void); /* "llama qwen2 …", for messages */
/* Architecture and hyper-parameters of a file. UNSUPPORTED names the architecture, MALFORMED the key and its value. */
rdg_err rdg_hparams_read(const rdg_gguf *g, const rdg_arch **arch, rdg_hparams *h, rdg_error *e);

#endif

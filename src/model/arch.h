/* One architecture: metadata → hyper-parameters → plan. A model file (llama.c, qwen.c, …) fills one row of
 * the table in arch.c; it uses rdg_plan_* only and never sees a device, a thread or a session. */
#ifndef RDG_MODEL_ARCH_H
#define RDG_MODEL_ARCH_H

#include "graph/plan.h"
#include "model/keys.h"

enum { RDG_MAX_LAYERS = 1024, RDG_MAX_EXPERTS = 1024 };

enum {
    RDG_LAYER_LOCAL = 1,   /* attends through the sliding window, rotates with rope_local */
    RDG_LAYER_NO_ROPE = 2, /* q and k are not rotated */
};

/* Read from the GGUF metadata, checked: positive, finite, below sane caps, consistent. */
typedef struct rdg_hparams {
    char arch[64];
    int64_t n_vocab, n_ctx_train, n_embd, n_layer, n_ff;
    int64_t n_head, n_head_kv, head_dim_k,
        head_dim_v; /* the same in every layer: arrays that vary are refused */
    int64_t n_rot;  /* rope dimensions */
    int64_t n_expert, n_expert_used, n_ff_expert, n_ff_shared;
    float norm_eps; /* RMS or LayerNorm epsilon, whichever the architecture uses */
    float rope_base, rope_base_local;
    rdg_rope_params rope; /* global layers: scaling resolved; the style is filled by the block builder */
    rdg_rope_params rope_local; /* sliding-window layers where they differ (gemma3), else equal to rope */
    bool longrope;              /* rope_factors_long/short.weight, chosen by the session's context */
    int64_t n_ctx_orig;         /* rope.scaling.original_context_length; the training context if absent */
    float attention_scale;      /* 0 = 1/sqrt(head_dim_k) */
    float attn_softcap, final_softcap;
    float embedding_scale, residual_scale, logit_scale; /* 1 = none; logit_scale is a divisor */
    int64_t window;                                     /* sliding window of the LOCAL layers, 0 = none */
    bool causal;
    uint8_t layer_flags[RDG_MAX_LAYERS]; /* RDG_LAYER_* */
} rdg_hparams;

typedef struct rdg_arch {
    const char *name;         /* general.architecture */
    const char *norm_eps_key; /* "attention.layer_norm_rms_epsilon" or "attention.layer_norm_epsilon" */
    /* Which layers are LOCAL if the file gives a window and no pattern of its own: il % period < period - 1,
     * so the last of every `period` layers is global; 0 = all layers. */
    int window_period;
    bool yarn_exact; /* the bounds of yarn's ramp are not rounded to whole dimensions (gpt-oss) */
    /* What the architecture needs beyond the common keys, which have been read. May be NULL. Errors stay in
     * k. */
    void (*hparams)(rdg_keys *k, rdg_hparams *h);
    /* Appends the whole forward pass to p. Errors are kept in the plan. */
    void (*build)(rdg_plan *p, const rdg_hparams *h);
} rdg_arch;

const rdg_arch *rdg_arch_find(const char *name, size_t n); /* NULL if unknown */
const rdg_arch *rdg_arch_at(int i);                        /* NULL past the last */
const char *rdg_arch_list(void);                           /* "llama qwen2 …", for messages */
/* Architecture and hyper-parameters of a file. UNSUPPORTED names the architecture, MALFORMED the key and its
 * value. */
rdg_err rdg_hparams_read(const rdg_gguf *g, const rdg_arch **arch, rdg_hparams *h, rdg_error *e);
/* rope.scaling.* and rope.freq_base* into h->rope and h->rope_local (rope_scaling.c). */
void rdg_hparams_read_rope(rdg_keys *k, const rdg_arch *arch, rdg_hparams *h);

#endif

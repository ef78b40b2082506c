/* The transformer block that nearly all decoders share, as one builder driven by a row of traits. A model
 * file is such a row and the keys that only it has. */
#ifndef RDG_MODEL_DECODER_H
#define RDG_MODEL_DECODER_H

#include "model/arch.h"

typedef enum rdg_norm_kind { RDG_NORM_RMS, RDG_NORM_LAYER } rdg_norm_kind;

typedef enum rdg_qk_norm {
    RDG_QK_NORM_NONE,
    RDG_QK_NORM_HEAD,  /* one weight row [head_dim] for every head, after the split into heads */
    RDG_QK_NORM_EACH,  /* LayerNorm with a weight row a head [head_dim, n_heads], if the file has it */
    RDG_QK_NORM_WHOLE, /* over the whole projection, before the split into heads */
} rdg_qk_norm;

typedef enum rdg_ffn_kind {
    RDG_FFN_GATED,       /* down(act(gate w) * (up w)) */
    RDG_FFN_GATED_FUSED, /* gate and up are the halves of one product, ffn_up */
    RDG_FFN_PLAIN,       /* down(act(up w)) */
} rdg_ffn_kind;

/* Norm names are those of the file without ".weight". NULL = the block has no such norm. */
typedef struct rdg_decoder {
    rdg_norm_kind norm;
    const char *attn_norm;      /* of the block's input, before attention */
    const char *attn_post_norm; /* of the attention branch, before it is added */
    const char *ffn_norm;       /* of the sum, before the FFN */
    const char *ffn_post_norm;  /* of the FFN branch, before it is added */
    rdg_rope_style rope;
    bool learned_positions; /* position_embd is added to the embedding and nothing is rotated */
    rdg_qk_norm qk_norm;
    bool sinks; /* attn_sinks: one more logit a head */
    rdg_ffn_kind ffn;
    rdg_glu_params act;
    rdg_route_kind route;  /* of models with experts */
    bool parallel_allowed; /* a block without ffn_norm feeds attn_norm's output to both branches */
} rdg_decoder;

void rdg_decoder_build(rdg_plan *p, const rdg_hparams *h, const rdg_decoder *d);

#endif

/* A Hugging Face folder as the converter sees it: config.json with its aliases, and one row per model class
 * that says which tensors it has and what becomes of each. A new architecture is a new row (see
 * docs/adding-an-architecture.md). */
#ifndef RDG_CONVERT_HF_H
#define RDG_CONVERT_HF_H

#include "base/file.h"
#include "format/json.h"
#include "base/mem.h"
#include <ridge/gguf.h>

#include <math.h>

/* What happens to a tensor on its way. Patterns: {i} block, {e} expert, {h} query head, {g} key/value head, a
 * number each; ".*" at the end is ".weight" or ".bias" (the bias is always optional); "**" at the end is
 * anything. */
enum {
    RDG_MAP_OPTIONAL = 1 << 0,  /* may be absent */
    RDG_MAP_DROP = 1 << 1,      /* known and not needed */
    RDG_MAP_HEAD = 1 << 2,      /* lm_head: dropped when the embedding is tied to it */
    RDG_MAP_PERMUTE_Q = 1 << 3, /* rows of each head from rotate-half to interleaved order */
    RDG_MAP_PERMUTE_K = 1 << 4,
    RDG_MAP_TRANSPOSE = 1 << 5, /* stored (in, out); matrices only */
    RDG_MAP_PLUS_ONE = 1 << 6,  /* 1 is added to every value */
    RDG_MAP_STACK = 1 << 7,     /* {e}, {h} or {g} becomes the outermost dimension */
    RDG_MAP_EVEN = 1 << 8,      /* every second output, from the first or … */
    RDG_MAP_ODD = 1 << 9,       /* … from the second */
    RDG_MAP_FIRST = 1 << 10,    /* the first or … */
    RDG_MAP_SECOND =
        1 << 11, /* … second half of the outputs of fused experts, (in, out) or (out, in) by shape */
    RDG_MAP_FUSED = 1 << 12, /* fused experts without halves: orientation by shape as above */
    RDG_MAP_MXFP4 = 1 << 13, /* "…_blocks" with "…_scales" beside it */
    RDG_MAP_F32 = 1 << 14,   /* always F32 */
};
typedef struct rdg_map_rule {
    const char *hf;   /* after the class's prefix has been taken off */
    const char *gguf; /* NULL for DROP. Several rules with one target are alternatives */
    unsigned flags;
} rdg_map_rule;

typedef struct rdg_hf rdg_hf;

enum { RDG_MAP_GROUPS = 8, RDG_MAP_PREFIXES = 4 };
typedef struct rdg_hf_class {
    const char *name;                           /* as in "architectures" */
    const char *arch;                           /* general.architecture */
    const char *activations;                    /* accepted hidden_act values, "silu" or "silu|swish" */
    const char *prefixes[RDG_MAP_PREFIXES];     /* the first that a tensor's name begins with is taken off */
    const rdg_map_rule *groups[RDG_MAP_GROUPS]; /* each ends with a row of hf == NULL */
    const char *defaults; /* JSON object: fields that published configs leave out; or NULL */
    bool four_times_ff;   /* no intermediate_size: four times the width */
    bool always_tied;     /* a stored lm_head is ignored */
    bool layer_norm;      /* layer_norm_eps in place of rms_norm_eps */
    bool no_rope;         /* learned positions */
    bool writes_n_rot;    /* rope.dimension_count is written even if it is the head size */
    float rotary_default; /* partial_rotary_factor if the config has none; 0 = 1 */
    /* Which layers have the window when the config has no layer_types: as rdg_arch.window_period, -1 = only
     * with use_sliding_window. */
    int window_period;
    void (*keys)(rdg_hf *c); /* keys and refusals that only this class has; may be NULL */
} rdg_hf_class;
const rdg_hf_class *rdg_hf_class_find(const char *name);
const char *rdg_hf_class_list(void);

/* A tensor that the folder does not have: rope factors. */
typedef struct rdg_hf_generated {
    char name[64];
    int64_t n;
    float *data; /* in the arena */
} rdg_hf_generated;

struct rdg_hf {
    const char *dir;
    json_t *root;
    const json_t *text; /* text_config, looked into first; or NULL */
    json_t *defaults;   /* looked into last; or NULL */
    const rdg_hf_class *cls;
    rdg_arena arena;
    rdg_gguf_writer *writer;
    const rdg_log *log;
    rdg_err failed; /* first error: later calls do nothing */
    rdg_error error;
    char **warnings;
    size_t n_warnings, cap_warnings;
    /* read by rdg_hf_read_config */
    int64_t n_layer, n_embd, n_ff, n_ctx, n_head, n_head_kv, head_dim, n_rot, n_expert, n_ff_expert;
    int tied; /* 1, 0, -1 = the config does not say */
    rdg_hf_generated generated[2];
    int n_generated;
};

/* Opens config.json and finds the class. */
rdg_err rdg_hf_open(rdg_hf *c, const char *dir, const rdg_log *log, rdg_error *e);
/* The same with the text of config.json at hand. */
rdg_err rdg_hf_parse(rdg_hf *c, const char *dir, const char *config, size_t n, rdg_error *e);
void rdg_hf_close(rdg_hf *c);
/* Sets the keys of the architecture in c->writer. */
void rdg_hf_read_config(rdg_hf *c);

void rdg_hf_fail(rdg_hf *c, rdg_err code, const char *fmt, ...) RDG_PRINTF(3, 4);
void rdg_hf_warn(rdg_hf *c, const char *fmt, ...) RDG_PRINTF(2, 3);
void rdg_hf_keep_warning(rdg_hf *c, const char *text); /* it has been logged already */

/* Fields of config.json. `names` are aliases, "n_layer|num_hidden_layers"; null counts as absent. Fallback
 * RDG_HF_REQUIRED (NAN for reals): absent is an error. */
#define RDG_HF_REQUIRED INT64_MIN
int64_t rdg_hf_int(rdg_hf *c, const char *names, int64_t lo, int64_t hi, int64_t fallback);
double rdg_hf_real(rdg_hf *c, const char *names, double fallback);
bool rdg_hf_bool(rdg_hf *c, const char *names, bool fallback);
const char *rdg_hf_str(rdg_hf *c, const char *names, const char *fallback);
const json_t *rdg_hf_find(rdg_hf *c, const char *names); /* NULL if absent or null */
/* UNSUPPORTED unless the field is absent or equals `want`. */
void rdg_hf_expect_bool(rdg_hf *c, const char *names, bool want, const char *why);

/* "<arch>.<suffix>" of the output. */
void rdg_hf_set_int(rdg_hf *c, const char *suffix, int64_t v);
void rdg_hf_set_real(rdg_hf *c, const char *suffix, double v);
void rdg_hf_set_bool(rdg_hf *c, const char *suffix, bool v);
void rdg_hf_set_str(rdg_hf *c, const char *suffix, const char *v);

/* hf_rope.c: rope.* keys, and the tensors that llama3 scaling and longrope need. */
void rdg_hf_read_rope(rdg_hf *c);
/* hf_rope.c: attention.sliding_window and its pattern. */
void rdg_hf_read_window(rdg_hf *c);

/* map_common.c: groups of rules that several classes share. */
extern const rdg_map_rule rdg_map_ends[];        /* embedding, last norm, head */
extern const rdg_map_rule rdg_map_attention[];   /* q, k, v, o */
extern const rdg_map_rule rdg_map_pre_norms[];   /* input_layernorm, post_attention_layernorm as ffn_norm */
extern const rdg_map_rule rdg_map_gated_mlp[];   /* gate, up, down */
extern const rdg_map_rule rdg_map_qk_norms[];    /* q_norm, k_norm */
extern const rdg_map_rule rdg_map_mlp_experts[]; /* router and experts as qwen names them */
#define RDG_HF_PREFIXES                                                                                      \
    {                                                                                                        \
        "model.language_model.", "language_model.model.", "language_model.", "model."                        \
    }

#endif

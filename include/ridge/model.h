/* A loaded model (weights and tokenizer, immutable, shared) and sessions on it (KV cache and working memory).
 */
#ifndef RIDGE_MODEL_H
#define RIDGE_MODEL_H

#include <ridge/tokenizer.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rdg_model rdg_model;
typedef struct rdg_session rdg_session;

typedef struct rdg_model_info {
    const char *architecture, *name; /* owned by the model */
    int64_t n_vocab, n_ctx_train, n_embd, n_layer, n_params;
    uint64_t weight_bytes; /* of all tensors */
    double map_seconds;    /* map + parse + tokenizer; no weight is read */
    const char *file_type; /* recipe name or "?" */
} rdg_model_info;

/* Maps the file and checks structure, hyper-parameters and shapes. Weights are used where they lie in the
 * map: nothing is copied or read ahead. One reference is the caller's. */
rdg_err rdg_model_load(const char *path, const rdg_log *log, rdg_model **out, rdg_error *e);
void rdg_model_retain(rdg_model *m);
void rdg_model_release(rdg_model *m); /* NULL is fine; the last release unmaps */
const rdg_model_info *rdg_model_get_info(const rdg_model *m);
const rdg_gguf *rdg_model_gguf(const rdg_model *m);
const rdg_tokenizer *rdg_model_tokenizer(const rdg_model *m); /* NULL if the file has none */

typedef struct rdg_session_params {
    int64_t n_ctx;   /* positions; 0 = the smaller of the training context and 4096 */
    int64_t n_batch; /* most tokens a prefill step; 0 = 512 */
    int n_threads;   /* 0 = physical cores */
    rdg_type kv_type_k,
        kv_type_v;      /* F16 (the default is set by rdg_session_defaults), F32, BF16, Q8_0, Q4_0 */
    const char *device; /* "cpu", "vulkan:0", "auto" or NULL = "cpu" */
    int64_t gpu_layers; /* blocks on the GPU, the last ones; 0 = as many as fit, -1 = none */
    uint64_t device_memory_bytes; /* use no more of the GPU's; 0 = what is free */
    uint32_t cpu_mask;            /* CPU feature levels to use; 0 = all found. For tests */
    const char *variant;          /* force a kernel variant by name where it exists; NULL = choose */
    const char *cache_dir; /* an existing folder where kernels compiled for a GPU are kept; NULL = nowhere */
    const rdg_log *log;
} rdg_session_params;
void rdg_session_defaults(rdg_session_params *p);

/* Sessions of one model on one GPU share the device and the weights on it, and may run on different threads.
 */
rdg_err rdg_session_create(rdg_model *m, const rdg_session_params *p, rdg_session **out, rdg_error *e);
void rdg_session_destroy(rdg_session *s);

/* What it took to bring the weights to a GPU; zeros on the CPU, which uses them in the map. */
typedef struct rdg_load_info {
    uint64_t bytes;
    double seconds;
} rdg_load_info;
/* Makes the session ready to decode now rather than at its first token: weights on the device, memory made.
 * Optional. info may be NULL. */
rdg_err rdg_session_load(rdg_session *s, rdg_load_info *info, rdg_error *e);

typedef enum rdg_logits_mode { RDG_LOGITS_NONE, RDG_LOGITS_LAST, RDG_LOGITS_ALL } rdg_logits_mode;
/* Appends n tokens to the sequence. CONTEXT_FULL if n_past + n > n_ctx: nothing is evaluated then. Ids are
 * checked. */
rdg_err rdg_session_eval(rdg_session *s, const int32_t *tokens, int64_t n, rdg_logits_mode mode,
                         rdg_error *e);
/* Row i of the last eval's logits ([n_vocab] floats): i = 0 for LAST, 0 … n-1 for ALL. Valid until the next
 * eval. */
const float *rdg_session_logits(const rdg_session *s, int64_t i);
int64_t rdg_session_n_past(const rdg_session *s);
int64_t rdg_session_n_ctx(const rdg_session *s);
int rdg_session_n_threads(const rdg_session *s);
/* Forgets positions >= n_past. UNSUPPORTED when a sliding-window layer has already overwritten what is
 * needed. */
rdg_err rdg_session_truncate(rdg_session *s, int64_t n_past, rdg_error *e);
/* Makes room: drops n_drop tokens behind the first n_keep. What follows them is evaluated again at its new
 * positions, which is exact for every architecture and cache type, and costs as much as a prompt of that
 * length. The logits are then those of the last token. */
rdg_err rdg_session_shift(rdg_session *s, int64_t n_keep, int64_t n_drop, rdg_error *e);
/* The sequence: n_past token ids. Valid until the next eval. */
const int32_t *rdg_session_tokens(const rdg_session *s);

/* State files hold the tokens, the KV cache, the logits of the last token and a note of the caller's (or
 * NULL). A session that is restored goes on as the saved one would have, on this or another device, with this
 * or another context and batch. UNSUPPORTED for a state of another model or with another cache type,
 * CONTEXT_FULL if it does not fit, MALFORMED for a file that is cut or damaged; the session is unchanged
 * then. When the device fails in the middle it is empty. The note is owned by the caller (rdg_text_free). */
rdg_err rdg_session_save_state(rdg_session *s, const char *path, const char *note, size_t note_bytes,
                               rdg_error *e);
rdg_err rdg_session_load_state(rdg_session *s, const char *path, char **note, size_t *note_bytes,
                               rdg_error *e);

const char *rdg_session_device(const rdg_session *s); /* name of the device that runs it */
/* What runs where, the CPU first: one entry, or two when a model is divided. Returns how many. */
typedef struct rdg_placement {
    char device[32]; /* "cpu", "vulkan:0" */
    int64_t first_block, n_blocks;
    bool embedding, output;                         /* the layers before and behind the blocks */
    uint64_t weight_bytes, kv_bytes, scratch_bytes; /* as planned */
    char reason[192];
} rdg_placement;
enum { RDG_PLACEMENTS_MAX = 2 };
int rdg_session_placements(const rdg_session *s, rdg_placement out[RDG_PLACEMENTS_MAX]);
/* Bytes that decoding one token at the present position must read: weights used once plus the KV cache. */
uint64_t rdg_session_bytes_per_token(const rdg_session *s);
/* KV cache and scratch memory in bytes, as planned and as allocated. */
uint64_t rdg_session_kv_bytes(const rdg_session *s);
uint64_t rdg_session_scratch_bytes(const rdg_session *s);

#ifdef __cplusplus
}
#endif
#endif

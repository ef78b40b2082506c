/* What the GGUF reader's files share: limits, the value types and the object itself.
 *
 * Limits are far above every published model and far below what a hostile file could make a process allocate;
 * the memory a file can claim is also bounded by a small multiple of its own size, because every count is
 * checked against the bytes that are left before anything is allocated for it. */
#ifndef RDG_FORMAT_GGUF_H
#define RDG_FORMAT_GGUF_H

#include <ridge/gguf.h>
#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"
#include "format/names.h"

enum {
    RDG_GGUF_MAX_KV = 1 << 16,
    RDG_GGUF_MAX_TENSORS = 1 << 20,
    RDG_GGUF_MAX_KEY_BYTES = 65535,
    RDG_GGUF_MAX_STRING_BYTES = 64 << 20,
    RDG_GGUF_MAX_STRINGS = 1 << 24, /* in all string arrays of one part together */
    RDG_GGUF_MAX_NAME_BYTES = 63,
    RDG_GGUF_DEFAULT_ALIGNMENT = 32,
    RDG_GGUF_MIN_ALIGNMENT = 8,
    RDG_GGUF_MAX_ALIGNMENT = 1 << 20,
    RDG_GGUF_MAX_PARTS = 65535, /* split.count is 16 bits wide */
    RDG_GGUF_HEADER_BYTES = 24, /* magic, version, two counts */
    RDG_GGUF_MAX_DIM_BITS = 40
};

#define RDG_GGUF_KEY_ALIGNMENT     "general.alignment"
#define RDG_GGUF_KEY_SPLIT_NO      "split.no"
#define RDG_GGUF_KEY_SPLIT_COUNT   "split.count"
#define RDG_GGUF_KEY_SPLIT_TENSORS "split.tensors.count"

/* "UINT32", … ; "?" for an id outside the table. */
const char *rdg_gguf_value_name(int64_t type);
/* Bytes of one element; 0 for STRING and ARRAY, whose size varies, and for ids outside the table. */
size_t rdg_gguf_value_bytes(int64_t type);
bool rdg_gguf_alignment_valid(uint32_t alignment);
/* Dims and type make a tensor that can exist: n_elements and bytes, or false with the reason in `why`. */
bool rdg_gguf_tensor_size(rdg_type type, int n_dims, const int64_t *dim, uint64_t *n_elements,
                          uint64_t *bytes, char *why, size_t why_bytes);

/* What finish asks before the file gets its name: it lies complete at `path`, and an error leaves no file.
 * For output that is not split. */
typedef rdg_err rdg_gguf_check(void *user, const char *path, rdg_error *e);
void rdg_gguf_writer_set_check(rdg_gguf_writer *w, rdg_gguf_check *check, void *user);

typedef struct rdg_gguf_part {
    char *path;  /* NULL if parsed from memory */
    rdg_map map; /* unmapped (fd -1) if parsed from memory */
    const unsigned char *data;
    uint64_t bytes;
    uint32_t version, alignment;
    uint64_t data_start; /* file offset of the data section */
    /* metadata of this part */
    rdg_gguf_kv *kv;
    int64_t n_kv;
    rdg_strmap kv_names;
} rdg_gguf_part;

struct rdg_gguf {
    rdg_arena arena; /* metadata arrays, string tables, tensor names */
    rdg_gguf_part *parts;
    int n_parts;
    rdg_gguf_tensor *tensors;
    int64_t n_tensors;
    size_t cap_tensors;
    rdg_strmap tensor_names;
};

/* Parses part `index` of g, whose data and bytes are set, and appends its tensors. Messages lack the file's
 * name. */
rdg_err rdg_gguf_read_part(rdg_gguf *g, int index, const rdg_log *log, rdg_error *e);
const rdg_gguf_kv *rdg_gguf_part_find(const rdg_gguf_part *part, const char *key);

#endif

/* GGUF v2 and v3 files: reading through a read-only map, without copying tensor data, and writing v3.
 * Format: formats described by the GGUF specification; every bound of an input file is checked
 * (src/format/gguf_read.c).
 *
 * Ownership: an rdg_gguf owns its maps, names and metadata; all pointers it hands out live until
 * rdg_gguf_close. Threads: a const rdg_gguf may be read by any number of threads. */
#ifndef RIDGE_GGUF_H
#define RIDGE_GGUF_H

#include <ridge/error.h>
#include <ridge/log.h>
#include <ridge/type.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rdg_gguf_value_type {
    RDG_GGUF_UINT8,
    RDG_GGUF_INT8,
    RDG_GGUF_UINT16,
    RDG_GGUF_INT16,
    RDG_GGUF_UINT32,
    RDG_GGUF_INT32,
    RDG_GGUF_FLOAT32,
    RDG_GGUF_BOOL,
    RDG_GGUF_STRING,
    RDG_GGUF_ARRAY,
    RDG_GGUF_UINT64,
    RDG_GGUF_INT64,
    RDG_GGUF_FLOAT64,
    RDG_GGUF_VALUE_TYPE_COUNT
} rdg_gguf_value_type;

/* A string inside the file: bytes, not NUL-terminated, may hold NUL. */
typedef struct rdg_str {
    const char *p;
    size_t n;
} rdg_str;

typedef struct rdg_gguf_kv {
    rdg_str key;
    rdg_gguf_value_type type; /* ARRAY: see element_type and count */
    rdg_gguf_value_type element_type;
    uint64_t count;            /* elements of an array, 1 for a scalar */
    const unsigned char *data; /* the value's bytes in the file, unaligned little-endian */
    const rdg_str *strings;    /* count strings for STRING and for arrays of STRING, else NULL */
} rdg_gguf_kv;

typedef struct rdg_gguf_tensor {
    const char *name; /* NUL-terminated, 1 … 63 bytes */
    rdg_type type;
    int n_dims;     /* 1 … 4 */
    int64_t dim[4]; /* innermost (contiguous) axis first; absent ones are 1 */
    uint64_t n_elements, bytes;
    uint64_t offset;  /* from the start of its part's data section */
    int part;         /* which file of a split model */
    const void *data; /* in the map; aligned to the file's alignment in the file, not necessarily more */
} rdg_gguf_tensor;

typedef struct rdg_gguf rdg_gguf;

/* Opens FILE, or all parts of a split model when FILE is its first part (NAME-00001-of-000NN.gguf), and
 * checks all structure. MALFORMED and UNSUPPORTED name the offset and the key or tensor. */
rdg_err rdg_gguf_open(const char *path, const rdg_log *log, rdg_gguf **out, rdg_error *e);
/* The same over bytes in memory, which must outlive the result. No split files. */
rdg_err rdg_gguf_parse(const void *data, size_t bytes, rdg_gguf **out, rdg_error *e);
void rdg_gguf_close(rdg_gguf *g);

uint32_t rdg_gguf_version(const rdg_gguf *g);
const char *rdg_gguf_path(const rdg_gguf *g); /* "" if parsed from memory */
int rdg_gguf_n_parts(const rdg_gguf *g);
uint64_t rdg_gguf_file_bytes(const rdg_gguf *g); /* all parts together */
uint32_t rdg_gguf_alignment(const rdg_gguf *g);
/* The files were cut since they were opened? IO error if so (reading the map would raise SIGBUS). */
rdg_err rdg_gguf_recheck(const rdg_gguf *g, rdg_error *e);

int64_t rdg_gguf_n_kv(const rdg_gguf *g);
const rdg_gguf_kv *rdg_gguf_kv_at(const rdg_gguf *g, int64_t i);      /* NULL out of range */
const rdg_gguf_kv *rdg_gguf_find(const rdg_gguf *g, const char *key); /* NULL if absent */

int64_t rdg_gguf_n_tensors(const rdg_gguf *g);
const rdg_gguf_tensor *rdg_gguf_tensor_at(const rdg_gguf *g,
                                          int64_t i); /* in file order; NULL out of range */
const rdg_gguf_tensor *rdg_gguf_tensor_find(const rdg_gguf *g, const char *name); /* NULL if absent; hashed */

/* Typed access. Each returns RDG_OK and the value, NOT_FOUND (value untouched, e untouched) when the key is
 * absent, MALFORMED when it has another type or does not fit. Integers accept any integer type that fits the
 * result; floats accept FLOAT32 and FLOAT64 and must be finite. */
rdg_err rdg_gguf_get_u32(const rdg_gguf *g, const char *key, uint32_t *v, rdg_error *e);
rdg_err rdg_gguf_get_i64(const rdg_gguf *g, const char *key, int64_t *v, rdg_error *e);
rdg_err rdg_gguf_get_f32(const rdg_gguf *g, const char *key, float *v, rdg_error *e);
rdg_err rdg_gguf_get_bool(const rdg_gguf *g, const char *key, bool *v, rdg_error *e);
rdg_err rdg_gguf_get_str(const rdg_gguf *g, const char *key, rdg_str *v, rdg_error *e);
/* Arrays: exactly this element type. *kv is NULL if absent (and the result NOT_FOUND). */
rdg_err rdg_gguf_get_array(const rdg_gguf *g, const char *key, rdg_gguf_value_type element,
                           const rdg_gguf_kv **kv, rdg_error *e);
/* Element i of a numeric scalar or array, converted; the caller has checked type and range. */
int64_t rdg_gguf_kv_int(const rdg_gguf_kv *kv, uint64_t i);
double rdg_gguf_kv_float(const rdg_gguf_kv *kv, uint64_t i);

/* Writing
 * ----------------------------------------------------------------------------------------------------- */

/* Metadata and tensor list are collected first; rdg_gguf_writer_begin writes the header; then the data of
 * each tensor is written in the order of declaration, in pieces of any size; finish pads, checks that all is
 * there and renames the file into place. The first error is kept: later calls return it. Destroying an
 * unfinished writer leaves no file. */
typedef struct rdg_gguf_writer rdg_gguf_writer;

rdg_err rdg_gguf_writer_create(const char *path, rdg_gguf_writer **out, rdg_error *e);
void rdg_gguf_writer_destroy(rdg_gguf_writer *w);

/* Setting a key again replaces it. Errors are kept and reported by begin, so that these may be called in a
 * row. general.alignment (UINT32) decides the alignment of the data, 32 without it. The split.* keys belong
 * to the writer: what is set for them is dropped. Floats must be finite. */
void rdg_gguf_set_u32(rdg_gguf_writer *w, const char *key, uint32_t v);
void rdg_gguf_set_i32(rdg_gguf_writer *w, const char *key, int32_t v);
void rdg_gguf_set_u16(rdg_gguf_writer *w, const char *key, uint16_t v);
void rdg_gguf_set_u64(rdg_gguf_writer *w, const char *key, uint64_t v);
void rdg_gguf_set_f32(rdg_gguf_writer *w, const char *key, float v);
void rdg_gguf_set_bool(rdg_gguf_writer *w, const char *key, bool v);
void rdg_gguf_set_str(rdg_gguf_writer *w, const char *key, const char *v);
void rdg_gguf_set_strn(rdg_gguf_writer *w, const char *key, const char *v, size_t n);
/* Numeric array: data holds count little-endian elements of the element type. */
void rdg_gguf_set_array(rdg_gguf_writer *w, const char *key, rdg_gguf_value_type element, const void *data,
                        uint64_t count);
void rdg_gguf_set_str_array(rdg_gguf_writer *w, const char *key, const rdg_str *strings, uint64_t count);
/* Copies one key as it is from a read file. */
void rdg_gguf_set_kv(rdg_gguf_writer *w, const rdg_gguf_kv *kv);
void rdg_gguf_unset(rdg_gguf_writer *w, const char *key);

/* Declares the next tensor; dim innermost first. */
void rdg_gguf_add_tensor(rdg_gguf_writer *w, const char *name, rdg_type type, int n_dims, const int64_t *dim);

/* Splits the output into parts of at most max_part_bytes of tensor data (0 = one file); before begin. The
 * path given to create is then the prefix: PATH-00001-of-000NN.gguf (a ".gguf" ending of PATH is dropped). */
void rdg_gguf_writer_split(rdg_gguf_writer *w, uint64_t max_part_bytes);

/* The size that all parts together will have, from what is declared so far. Writes nothing; begin may follow.
 */
rdg_err rdg_gguf_writer_measure(rdg_gguf_writer *w, uint64_t *bytes, rdg_error *e);
rdg_err rdg_gguf_writer_begin(rdg_gguf_writer *w, rdg_error *e);
/* Appends n bytes of the current tensor's data; moves on to the next when it is complete. A piece that
 * reaches into the next tensor is an error. */
rdg_err rdg_gguf_write_data(rdg_gguf_writer *w, const void *data, size_t n, rdg_error *e);
rdg_err rdg_gguf_writer_finish(rdg_gguf_writer *w, rdg_error *e);
uint64_t rdg_gguf_writer_bytes(const rdg_gguf_writer *w); /* size of the output so far, all parts */
/* The metadata value of a string key may be changed after begin, same length only (for checksums known at the
 * end). */
rdg_err rdg_gguf_writer_patch_str(rdg_gguf_writer *w, const char *key, const char *v, rdg_error *e);

#ifdef __cplusplus
}
#endif
#endif

/* safetensors models: one file, or a folder of shards with or without an index. Read through maps, never
 * copied.
 *
 * Ownership: names and data live until rdg_safetensors_close. Data is at any alignment: load with memcpy.
 * Threads: a const rdg_safetensors may be read by any number of threads. */
#ifndef RDG_FORMAT_SAFETENSORS_H
#define RDG_FORMAT_SAFETENSORS_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* name, bytes an element */
#define RDG_DTYPE_MAP(X)                                                                                     \
    X(BOOL, 1)                                                                                               \
    X(U8, 1)                                                                                                 \
    X(I8, 1)                                                                                                 \
    X(F8_E5M2, 1)                                                                                            \
    X(F8_E4M3, 1)                                                                                            \
    X(F8_E8M0, 1)                                                                                            \
    X(I16, 2)                                                                                                \
    X(U16, 2)                                                                                                \
    X(F16, 2)                                                                                                \
    X(BF16, 2)                                                                                               \
    X(I32, 4)                                                                                                \
    X(U32, 4)                                                                                                \
    X(F32, 4)                                                                                                \
    X(F64, 8)                                                                                                \
    X(I64, 8)                                                                                                \
    X(U64, 8)                                                                                                \
    X(C64, 8)
typedef enum rdg_dtype {
#define RDG_DTYPE_ENUM(name, bytes) RDG_DTYPE_##name,
    RDG_DTYPE_MAP(RDG_DTYPE_ENUM)
#undef RDG_DTYPE_ENUM
        RDG_DTYPE_COUNT
} rdg_dtype;
const char *rdg_dtype_name(rdg_dtype t); /* "BF16"; "?" out of range */
size_t rdg_dtype_bytes(rdg_dtype t);     /* 0 out of range */

enum { RDG_SAFETENSORS_MAX_DIMS = 8 };

typedef struct rdg_safetensor {
    const char *name; /* printable UTF-8, 1 … 255 bytes */
    rdg_dtype dtype;
    int n_dims;                              /* 0 (a scalar) … 8 */
    int64_t shape[RDG_SAFETENSORS_MAX_DIMS]; /* outermost first, as stored; 0 is legal; absent ones are 1 */
    uint64_t n_elements, bytes;
    uint64_t offset;  /* of the data in its file */
    int file;         /* see rdg_safetensors_file */
    const void *data; /* bytes long; unaligned */
} rdg_safetensor;

typedef struct rdg_safetensors rdg_safetensors;

/* PATH is a .safetensors file, an index (model.safetensors.index.json), or a folder with either: the index
 * decides if there is one, else all model*.safetensors are read. Everything is checked: shards that are
 * missing, tensors in no or two shards, and offsets that leave holes, overlap or disagree with the shape. */
rdg_err rdg_safetensors_open(const char *path, const rdg_log *log, rdg_safetensors **out, rdg_error *e);
/* One file in memory, which must outlive the result. */
rdg_err rdg_safetensors_parse(const void *data, size_t bytes, rdg_safetensors **out, rdg_error *e);
void rdg_safetensors_close(rdg_safetensors *s);

int64_t rdg_safetensors_n(const rdg_safetensors *s);
/* In order of files and, inside a file, of data. NULL out of range. */
const rdg_safetensor *rdg_safetensors_at(const rdg_safetensors *s, int64_t i);
const rdg_safetensor *rdg_safetensors_find(const rdg_safetensors *s, const char *name); /* NULL if absent */
int rdg_safetensors_n_files(const rdg_safetensors *s);
const char *rdg_safetensors_file(const rdg_safetensors *s, int i); /* its path; "" if parsed from memory */
uint64_t rdg_safetensors_bytes(const rdg_safetensors *s);          /* of all tensors' data */
/* The files were cut since they were opened? IO error if so (reading the map would raise SIGBUS). */
rdg_err rdg_safetensors_recheck(const rdg_safetensors *s, rdg_error *e);

#endif

/* GGUF files byte by byte, right or wrong: each function appends what it is told, nothing is checked. */
#ifndef RDG_TESTS_GGUF_BUILD_H
#define RDG_TESTS_GGUF_BUILD_H

#include <ridge/gguf.h>
#include "base/mem.h"

#include <string.h>

static inline void put_u8(rdg_buf *b, uint8_t v)
{
    rdg_buf_append(b, &v, sizeof v);
}

static inline void put_u32(rdg_buf *b, uint32_t v)
{
    rdg_buf_append(b, &v, sizeof v);
}

static inline void put_u64(rdg_buf *b, uint64_t v)
{
    rdg_buf_append(b, &v, sizeof v);
}

static inline void put_zeros(rdg_buf *b, uint64_t n)
{
    for (; n > 0; n--) put_u8(b, 0);
}

static inline void put_strn(rdg_buf *b, const char *s, size_t n)
{
    put_u64(b, n);
    rdg_buf_append(b, s, n);
}

static inline void put_str(rdg_buf *b, const char *s)
{
    put_strn(b, s, strlen(s));
}

static inline void put_header(rdg_buf *b, uint64_t n_tensors, uint64_t n_kv)
{
    rdg_buf_puts(b, "GGUF");
    put_u32(b, 3);
    put_u64(b, n_tensors);
    put_u64(b, n_kv);
}

/* A key and its type; the value follows. */
static inline void put_key(rdg_buf *b, const char *key, uint32_t type)
{
    put_str(b, key);
    put_u32(b, type);
}

static inline void put_kv_u32(rdg_buf *b, const char *key, uint32_t v)
{
    put_key(b, key, RDG_GGUF_UINT32);
    put_u32(b, v);
}

static inline void put_kv_str(rdg_buf *b, const char *key, const char *v)
{
    put_key(b, key, RDG_GGUF_STRING);
    put_str(b, v);
}

/* A key and the head of an array; the elements follow. */
static inline void put_array(rdg_buf *b, const char *key, uint32_t element, uint64_t count)
{
    put_key(b, key, RDG_GGUF_ARRAY);
    put_u32(b, element);
    put_u64(b, count);
}

/* Dims beyond the fourth are ones. */
static inline void put_tensor(rdg_buf *b, const char *name, uint32_t n_dims, uint64_t d0, uint64_t d1,
                              uint32_t type, uint64_t offset)
{
    put_str(b, name);
    put_u32(b, n_dims);
    for (uint32_t i = 0; i < n_dims && i < 8; i++) put_u64(b, i == 0 ? d0 : i == 1 ? d1 : 1);
    put_u32(b, type);
    put_u64(b, offset);
}

/* Padding to the data section and so many bytes of data. */
static inline void put_data(rdg_buf *b, uint64_t alignment, uint64_t n)
{
    put_zeros(b, (alignment - b->len % alignment) % alignment + n);
}

#endif

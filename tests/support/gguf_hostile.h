/* What the tests of hostile GGUF files share: files from builders, and a table of those that are refused. */
#ifndef RDG_TESTS_GGUF_HOSTILE_H
#define RDG_TESTS_GGUF_HOSTILE_H

#include "support.h"
#include "gguf_build.h"

enum { F32 = RDG_TYPE_F32, U8 = RDG_GGUF_UINT8, BOOL = RDG_GGUF_BOOL, STR = RDG_GGUF_STRING };

/* A file of that version; one with that alignment and a tensor. */
static inline void version(rdg_buf *b, uint32_t v)
{
    put_header(b, 0, 0);
    memcpy(b->data + 4, &v, 4);
}

static inline void alignment(rdg_buf *b, uint32_t v)
{
    put_header(b, 1, 1);
    put_kv_u32(b, "general.alignment", v);
    put_tensor(b, "t", 1, 4, 0, F32, 0);
    put_data(b, 32, 16);
}

/* One tensor with 4 KiB of data behind it. */
static inline void tensor(rdg_buf *b, const char *name, uint32_t n_dims, uint64_t d0, uint64_t d1,
                          uint32_t type, uint64_t offset)
{
    put_header(b, 1, 0);
    put_tensor(b, name, n_dims, d0, d1, type, offset);
    put_data(b, 32, 4096);
}

/* The file in a block of its own length, so that a checker sees a read past its end. */
static inline rdg_err parse_exact(const rdg_buf *b, rdg_gguf **g, void **block, rdg_error *e)
{
    *block = malloc(b->len ? b->len : 1);
    assert_non_null(*block);
    if (b->len) memcpy(*block, b->data, b->len);
    return rdg_gguf_parse(*block, b->len, g, e);
}

typedef struct hostile_row {
    const char *name; /* what the file does; published reports of the same trick are named beside it */
    void (*build)(rdg_buf *b);
    rdg_err code;
    const char *part; /* of the message */
} hostile_row;

static inline void refuse_rows(const hostile_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        rdg_error e = {0};
        rdg_gguf *g = (void *)&e;
        void *block;
        rdg_buf b;
        rdg_buf_init(&b);
        rows[i].build(&b);
        print_message("%s\n", rows[i].name);
        assert_error(parse_exact(&b, &g, &block, &e), rows[i].code, &e, rows[i].part);
        assert_null(g);
        assert_int_equal(rdg_gguf_parse(block, b.len, &g, NULL), rows[i].code); /* without an error to fill */
        free(block);
        rdg_buf_finish(&b);
    }
}

#endif

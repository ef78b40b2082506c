/* What the tests of hostile GGUF files share: files from builders, and a table of those that are refused. */
#ifndef RDG_TESTS_GGUF_HOSTILE_H
#define RDG_TESTS_GGUF_HOSTILE_H

#include "support.h"
#include "gguf_build.h"

enum { F32 = RDG_TYPE_F32, U8 = RDG_GGUF_UINT8, BOOL = RDG_GGUF_BOOL, STR = RDG_GGUF_STRING };

/* A file of that version; one with that alignment and a tensor. */
static inline void version(rdg_buf *b, uint64_t v)
{
    uint32_t word = (uint32_t)v;
    put_header(b, 0, 0);
    memcpy(b->data + 4, &word, 4);
}

static inline void alignment(rdg_buf *b, uint64_t v)
{
    put_header(b, 1, 1);
    put_kv_u32(b, "general.alignment", (uint32_t)v);
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

typedef struct one_tensor {
    const char *name;
    uint32_t n_dims;
    uint64_t d0, d1;
    uint32_t type;
    uint64_t offset;
} one_tensor;

typedef struct hostile_row {
    const char *name; /* what the file does; published reports of the same trick are named beside it */
    rdg_err code;
    const char *part; /* of the message */
    /* The file: of a builder, of one with a value, of a first word and zeros, or of one tensor. */
    void (*build)(rdg_buf *b);
    void (*of)(rdg_buf *b, uint64_t value);
    uint64_t value;
    const char *magic;
    one_tensor tensor;
} hostile_row;

static inline void build_row(const hostile_row *r, rdg_buf *b)
{
    const one_tensor *t = &r->tensor;
    if (r->build) {
        r->build(b);
    } else if (r->of) {
        r->of(b, r->value);
    } else if (r->magic) {
        rdg_buf_puts(b, r->magic);
        put_zeros(b, 40);
    } else {
        assert_non_null(t->name);
        tensor(b, t->name, t->n_dims, t->d0, t->d1, t->type, t->offset);
    }
}

static inline void refuse_rows(const hostile_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        rdg_error e = {0};
        rdg_gguf *g = (void *)&e;
        void *block;
        rdg_buf b;
        rdg_buf_init(&b);
        build_row(&rows[i], &b);
        print_message("%s\n", rows[i].name);
        assert_error(parse_exact(&b, &g, &block, &e), rows[i].code, &e, rows[i].part);
        assert_null(g);
        assert_int_equal(rdg_gguf_parse(block, b.len, &g, NULL), rows[i].code); /* without an error to fill */
        free(block);
        rdg_buf_finish(&b);
    }
}

#endif

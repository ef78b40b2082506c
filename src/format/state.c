#include "format/state.h"
#include "format/names.h"

#include <inttypes.h>
#include <string.h>

static const char magic[8] = {'R', 'D', 'G', 'S', 'T', 'A', 'T', 'E'};

/* Offsets in the header. */
enum {
    AT_VERSION = 8,
    AT_N_RECORDS = 12,
    AT_FILE_BYTES = 16,
    AT_MODEL = 24,
    AT_TYPE_K = 32,
    AT_TYPE_V = 36,
    AT_N_VOCAB = 40,
    AT_N_LOGITS = 44,
    AT_N_TOKENS = 48,
    AT_NOTE_BYTES = 56,
    AT_FLAGS = 64,
    AT_ZERO = 68,
    AT_NAME = 72,
};

/* Reading
 * ----------------------------------------------------------------------------------------------------- */

static uint32_t get32(const unsigned char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint64_t get64(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static bool cache_type(uint32_t t)
{
    return t == RDG_TYPE_F32 || t == RDG_TYPE_F16 || t == RDG_TYPE_BF16 || t == RDG_TYPE_Q8_0 ||
           t == RDG_TYPE_Q4_0;
}

/* Fields that say by themselves whether they can be right. */
static rdg_err read_head(const unsigned char *p, size_t bytes, rdg_state_head *h, rdg_error *e)
{
    if (bytes < sizeof magic || memcmp(p, magic, sizeof magic) != 0)
        return rdg_fail(e, RDG_E_MALFORMED, "not a state file: it does not begin with RDGSTATE");
    if (bytes < RDG_STATE_HEAD_BYTES + RDG_STATE_TRAILER_BYTES)
        return rdg_fail(e, RDG_E_MALFORMED, "the state file is cut: %zu bytes, its header alone has %d",
                        bytes, RDG_STATE_HEAD_BYTES);
    if (get32(p + AT_VERSION) != RDG_STATE_VERSION)
        return rdg_fail(e, RDG_E_UNSUPPORTED, "version %" PRIu32 " of the state format, %d is read",
                        get32(p + AT_VERSION), RDG_STATE_VERSION);
    if (get64(p + AT_FILE_BYTES) != bytes)
        return rdg_fail(e, RDG_E_MALFORMED, "the state file has %zu bytes, its header says %" PRIu64, bytes,
                        get64(p + AT_FILE_BYTES));
    if (!cache_type(get32(p + AT_TYPE_K)) || !cache_type(get32(p + AT_TYPE_V)))
        return rdg_fail(e, RDG_E_MALFORMED, "offset %d: types %" PRIu32 " and %" PRIu32 " are no cache's",
                        AT_TYPE_K, get32(p + AT_TYPE_K), get32(p + AT_TYPE_V));
    *h = (rdg_state_head){.model = get64(p + AT_MODEL),
                          .type = {(rdg_type)get32(p + AT_TYPE_K), (rdg_type)get32(p + AT_TYPE_V)},
                          .n_records = get32(p + AT_N_RECORDS),
                          .n_vocab = get32(p + AT_N_VOCAB),
                          .n_logits = get32(p + AT_N_LOGITS),
                          .flags = get32(p + AT_FLAGS),
                          .note_bytes = get64(p + AT_NOTE_BYTES)};
    memcpy(h->model_name, p + AT_NAME, RDG_STATE_MODEL_BYTES);
    uint64_t n_tokens = get64(p + AT_N_TOKENS);
    if (n_tokens > INT32_MAX)
        return rdg_fail(e, RDG_E_MALFORMED, "offset %d: %" PRIu64 " tokens are not possible", AT_N_TOKENS,
                        n_tokens);
    h->n_tokens = (int64_t)n_tokens;
    if (h->n_records > RDG_STATE_MAX_RECORDS)
        return rdg_fail(e, RDG_E_LIMIT, "offset %d: %" PRIu32 " records, at most %d are read", AT_N_RECORDS,
                        h->n_records, RDG_STATE_MAX_RECORDS);
    if (h->n_vocab > INT32_MAX || (h->n_logits && h->n_logits != h->n_vocab))
        return rdg_fail(e, RDG_E_MALFORMED, "offset %d: %" PRIu32 " logits for a vocabulary of %" PRIu32,
                        AT_N_LOGITS, h->n_logits, h->n_vocab);
    if (h->flags & ~(uint32_t)RDG_STATE_LONG_ROPE || get32(p + AT_ZERO))
        return rdg_fail(e, RDG_E_UNSUPPORTED, "offset %d: flags %#" PRIx32 " are not known", AT_FLAGS,
                        h->flags);
    return RDG_OK;
}

/* n elements of so many bytes at *at, in front of the trailer. */
static rdg_err take(const rdg_state_file *f, size_t *at, uint64_t n, size_t elem_bytes, const char *what,
                    const unsigned char **p, rdg_error *e)
{
    size_t left = f->bytes - RDG_STATE_TRAILER_BYTES - *at;
    if (n > left / elem_bytes)
        return rdg_fail(e, RDG_E_MALFORMED,
                        "offset %zu: %" PRIu64 " %s of %zu bytes, but only %zu bytes are left", *at, n, what,
                        elem_bytes, left);
    *p = f->data + *at;
    *at += (size_t)n * elem_bytes;
    return RDG_OK;
}

rdg_err rdg_state_next(const rdg_state_file *f, size_t *at, rdg_state_record *r, rdg_error *e)
{
    const unsigned char *p = NULL;
    size_t start = *at;
    uint64_t n_rows;
    rdg_err err = take(f, at, 1, RDG_STATE_RECORD_BYTES, "record", &p, e);
    if (err) return err;
    *r = (rdg_state_record){
        .layer = get32(p), .kind = get32(p + 4), .row_elems = get32(p + 8), .n_heads = get32(p + 12)};
    uint64_t first = get64(p + 16), n_positions = get64(p + 24), n_tokens = (uint64_t)f->head.n_tokens;
    if (r->kind > 1)
        return rdg_fail(e, RDG_E_MALFORMED, "offset %zu: a record of kind %" PRIu32, start, r->kind);
    rdg_type type = f->head.type[r->kind];
    if (r->row_elems < 1 || r->row_elems > RDG_STATE_MAX_ROW || r->n_heads < 1 ||
        r->n_heads > RDG_STATE_MAX_ROW || r->row_elems % (uint32_t)rdg_type_block_elems(type))
        return rdg_fail(e, RDG_E_MALFORMED,
                        "offset %zu: %" PRIu32 " heads of %" PRIu32 " elements of type %s", start, r->n_heads,
                        r->row_elems, rdg_type_name(type));
    if (first > n_tokens || n_positions != n_tokens - first)
        return rdg_fail(e, RDG_E_MALFORMED,
                        "offset %zu: %" PRIu64 " positions from %" PRIu64 " do not end at the %" PRIu64
                        " of the file",
                        start, n_positions, first, n_tokens);
    r->first = (int64_t)first;
    r->n_positions = (int64_t)n_positions;
    r->row_bytes = (size_t)rdg_type_row_bytes(type, r->row_elems);
    n_rows = n_positions * r->n_heads; /* below 2^31 * 2^16 */
    return take(f, at, n_rows, r->row_bytes, "cache rows", &r->rows, e);
}

static rdg_err check_tokens(const rdg_state_file *f, rdg_error *e)
{
    for (int64_t i = 0; i < f->head.n_tokens; i++)
        if (get32(f->tokens + 4 * i) >= f->head.n_vocab)
            return rdg_fail(e, RDG_E_MALFORMED,
                            "token %" PRId32 " at index %" PRId64 " is outside the vocabulary of %" PRIu32,
                            (int32_t)get32(f->tokens + 4 * i), i, f->head.n_vocab);
    return RDG_OK;
}

static rdg_err check_sum(const rdg_state_file *f, rdg_error *e)
{
    rdg_hash64 h;
    size_t n = f->bytes - RDG_STATE_TRAILER_BYTES;
    rdg_hash64_init(&h);
    rdg_hash64_update(&h, f->data, n);
    return rdg_hash64_value(&h) == get64(f->data + n)
               ? RDG_OK
               : rdg_fail(e, RDG_E_MALFORMED, "the state file is damaged: its checksum does not fit");
}

rdg_err rdg_state_parse(const void *data, size_t bytes, rdg_state_file *f, rdg_error *e)
{
    size_t at = RDG_STATE_HEAD_BYTES;
    *f = (rdg_state_file){.data = data, .bytes = bytes};
    rdg_err err = read_head(data, bytes, &f->head, e);
    if (!err) err = take(f, &at, (uint64_t)f->head.n_tokens, 4, "tokens", &f->tokens, e);
    if (!err) err = take(f, &at, f->head.n_logits, 4, "logits", &f->logits, e);
    if (!err) err = take(f, &at, f->head.note_bytes, 1, "note", &f->note, e);
    if (!err) err = check_tokens(f, e);
    f->records_at = at;
    for (uint32_t i = 0; i < f->head.n_records && !err; i++) {
        rdg_state_record r;
        err = rdg_state_next(f, &at, &r, e);
    }
    if (!err && at != bytes - RDG_STATE_TRAILER_BYTES)
        err = rdg_fail(e, RDG_E_MALFORMED, "offset %zu: %zu bytes more than the header tells of", at,
                       bytes - RDG_STATE_TRAILER_BYTES - at);
    return err ? err : check_sum(f, e);
}

/* Writing
 * ----------------------------------------------------------------------------------------------------- */

rdg_err rdg_state_write(rdg_state_writer *w, const void *data, size_t n, rdg_error *e)
{
    if (!n) return RDG_OK;
    rdg_hash64_update(&w->hash, data, n);
    return rdg_out_write(&w->out, data, n, e);
}

static void put32(unsigned char *p, uint32_t v)
{
    memcpy(p, &v, sizeof v);
}

static void put64(unsigned char *p, uint64_t v)
{
    memcpy(p, &v, sizeof v);
}

rdg_err rdg_state_writer_open(rdg_state_writer *w, const char *path, const rdg_state_head *h,
                              const int32_t *tokens, const float *logits, const char *note,
                              uint64_t rows_bytes, rdg_error *e)
{
    unsigned char p[RDG_STATE_HEAD_BYTES] = {0};
    size_t tokens_bytes = (size_t)h->n_tokens * 4, logits_bytes = (size_t)h->n_logits * 4;
    uint64_t bytes = RDG_STATE_HEAD_BYTES + tokens_bytes + logits_bytes + h->note_bytes + rows_bytes +
                     (uint64_t)h->n_records * RDG_STATE_RECORD_BYTES + RDG_STATE_TRAILER_BYTES;
    memcpy(p, magic, sizeof magic);
    put32(p + AT_VERSION, RDG_STATE_VERSION);
    put32(p + AT_N_RECORDS, h->n_records);
    put64(p + AT_FILE_BYTES, bytes);
    put64(p + AT_MODEL, h->model);
    put32(p + AT_TYPE_K, (uint32_t)h->type[0]);
    put32(p + AT_TYPE_V, (uint32_t)h->type[1]);
    put32(p + AT_N_VOCAB, h->n_vocab);
    put32(p + AT_N_LOGITS, h->n_logits);
    put64(p + AT_N_TOKENS, (uint64_t)h->n_tokens);
    put64(p + AT_NOTE_BYTES, h->note_bytes);
    put32(p + AT_FLAGS, h->flags);
    memcpy(p + AT_NAME, h->model_name, strnlen(h->model_name, RDG_STATE_MODEL_BYTES));
    *w = (rdg_state_writer){.out = {.fd = -1}};
    rdg_hash64_init(&w->hash);
    rdg_err err = rdg_out_open(&w->out, path, e);
    if (!err) err = rdg_state_write(w, p, sizeof p, e);
    if (!err) err = rdg_state_write(w, tokens, tokens_bytes, e);
    if (!err) err = rdg_state_write(w, logits, logits_bytes, e);
    if (!err) err = rdg_state_write(w, note, (size_t)h->note_bytes, e);
    return err;
}

rdg_err rdg_state_write_record(rdg_state_writer *w, const rdg_state_record *r, rdg_error *e)
{
    unsigned char p[RDG_STATE_RECORD_BYTES];
    put32(p, r->layer);
    put32(p + 4, r->kind);
    put32(p + 8, r->row_elems);
    put32(p + 12, r->n_heads);
    put64(p + 16, (uint64_t)r->first);
    put64(p + 24, (uint64_t)r->n_positions);
    return rdg_state_write(w, p, sizeof p, e);
}

rdg_err rdg_state_writer_commit(rdg_state_writer *w, rdg_error *e)
{
    uint64_t sum = rdg_hash64_value(&w->hash);
    rdg_err err = rdg_out_write(&w->out, &sum, sizeof sum, e);
    return err ? err : rdg_out_commit(&w->out, e);
}

void rdg_state_writer_close(rdg_state_writer *w)
{
    rdg_out_close(&w->out);
}

/* SentencePiece model files, see sentencepiece.h. Unpacking two bytes of file can cost a hundred of memory,
 * so the allocator given to protobuf-c has a budget in proportion to the file. */
#include "format/sentencepiece.h"
#include "format/sentencepiece.pb-c.h"

#include <math.h>
#include <string.h>

enum { MAX_TOKENS = 1 << 24, BUDGET_FACTOR = 160, BUDGET_BASE = 1 << 20 };

typedef struct budget {
    size_t left;
    rdg_err failed; /* why an allocation was refused */
} budget;

static void *budget_alloc(void *user, size_t bytes)
{
    budget *b = user;
    if (bytes > b->left) {
        b->failed = RDG_E_LIMIT;
        return NULL;
    }
    b->left -= bytes;
    void *p = rdg_alloc(bytes);
    if (!p) b->failed = RDG_E_NOMEM;
    return p;
}

static void budget_free(void *user, void *p)
{
    (void)user;
    rdg_free(p);
}

static rdg_err copy_id(const RdgSpm__Model *in, int32_t id, const char *name, int32_t *out, rdg_error *e)
{
    *out = -1;
    if (id < 0) return RDG_OK;
    if ((size_t)id >= in->n_pieces)
        return rdg_fail(e, RDG_E_MALFORMED, "tokenizer.model: %s %d is not an id of %zu pieces", name,
                        (int)id, in->n_pieces);
    *out = id;
    return RDG_OK;
}

static rdg_err copy_ids(const RdgSpm__Model *in, rdg_sentencepiece *m, rdg_error *e)
{
    static const RdgSpm__Trainer defaults = RDG_SPM__TRAINER__INIT;
    const RdgSpm__Trainer *t = in->trainer ? in->trainer : &defaults;
    rdg_err err;
    if (t->model_type != RDG_SPM__TRAINER__MODEL_TYPE__UNIGRAM &&
        t->model_type != RDG_SPM__TRAINER__MODEL_TYPE__BPE)
        return rdg_fail(e, RDG_E_UNSUPPORTED,
                        "tokenizer.model: model type %d; unigram (1) and BPE (2) are supported",
                        (int)t->model_type);
    m->unigram = t->model_type == RDG_SPM__TRAINER__MODEL_TYPE__UNIGRAM;
    if ((err = copy_id(in, t->unk_id, "unk_id", &m->unk_id, e))) return err;
    if ((err = copy_id(in, t->bos_id, "bos_id", &m->bos_id, e))) return err;
    if ((err = copy_id(in, t->eos_id, "eos_id", &m->eos_id, e))) return err;
    return copy_id(in, t->pad_id, "pad_id", &m->pad_id, e);
}

static rdg_err copy_pieces(const RdgSpm__Model *in, rdg_sentencepiece *m, rdg_error *e)
{
    size_t n = in->n_pieces;
    m->tokens = rdg_arena_array(&m->arena, n, sizeof *m->tokens);
    m->scores = rdg_arena_array(&m->arena, n, sizeof *m->scores);
    m->types = rdg_arena_array(&m->arena, n, sizeof *m->types);
    if (!m->tokens || !m->scores || !m->types) goto no_memory;
    for (size_t i = 0; i < n; i++) {
        const RdgSpm__Piece *p = in->pieces[i];
        if ((int)p->type < RDG_SPM__PIECE__TYPE__NORMAL || (int)p->type > RDG_SPM__PIECE__TYPE__BYTE)
            return rdg_fail(e, RDG_E_MALFORMED, "tokenizer.model: piece %zu has unknown type %d", i,
                            (int)p->type);
        if (!isfinite(p->score))
            return rdg_fail(e, RDG_E_MALFORMED, "tokenizer.model: piece %zu has no finite score", i);
        m->tokens[i].n = p->piece.len;
        m->tokens[i].p = rdg_arena_strndup(&m->arena, (const char *)p->piece.data, p->piece.len);
        if (!m->tokens[i].p) goto no_memory;
        m->scores[i] = p->score;
        m->types[i] = (unsigned char)p->type;
    }
    m->n_tokens = (int32_t)n;
    return RDG_OK;
no_memory:
    return rdg_fail(e, RDG_E_NOMEM, "tokenizer.model: out of memory for %zu pieces", n);
}

static rdg_err copy_normalizer(const RdgSpm__Model *in, rdg_sentencepiece *m, rdg_error *e)
{
    static const RdgSpm__Normalizer defaults = RDG_SPM__NORMALIZER__INIT;
    const RdgSpm__Normalizer *n = in->normalizer ? in->normalizer : &defaults;
    m->add_space_prefix = n->add_dummy_prefix;
    m->remove_extra_whitespaces = n->remove_extra_whitespaces;
    m->charsmap.n = n->precompiled_charsmap.len;
    if (m->charsmap.n == 0) return RDG_OK;
    m->charsmap.p = rdg_arena_strndup(&m->arena, (const char *)n->precompiled_charsmap.data, m->charsmap.n);
    return m->charsmap.p ? RDG_OK : rdg_fail(e, RDG_E_NOMEM, "tokenizer.model: out of memory");
}

rdg_err rdg_sentencepiece_parse(const void *data, size_t bytes, rdg_sentencepiece *m, rdg_error *e)
{
    budget b = {.left = BUDGET_BASE};
    ProtobufCAllocator allocator = {budget_alloc, budget_free, &b};
    *m = (rdg_sentencepiece){.unk_id = -1, .bos_id = -1, .eos_id = -1, .pad_id = -1};
    rdg_arena_init(&m->arena);
    size_t extra;
    if (RDG_MUL_OVERFLOW(bytes, (size_t)BUDGET_FACTOR, &extra) || RDG_ADD_OVERFLOW(b.left, extra, &b.left))
        return rdg_fail(e, RDG_E_LIMIT, "tokenizer.model: %zu bytes is too long", bytes);
    RdgSpm__Model *in = rdg_spm__model__unpack(&allocator, bytes, data);
    if (!in)
        return rdg_fail(e, b.failed ? b.failed : RDG_E_MALFORMED, "tokenizer.model: %s (%zu bytes)",
                        b.failed ? "not enough memory to unpack it" : "not a SentencePiece model", bytes);
    rdg_err err;
    if (in->n_pieces == 0)
        err = rdg_fail(e, RDG_E_MALFORMED, "tokenizer.model: no pieces");
    else if (in->n_pieces > MAX_TOKENS)
        err = rdg_fail(e, RDG_E_LIMIT, "tokenizer.model: %zu pieces, at most %d are read", in->n_pieces,
                       MAX_TOKENS);
    else
        err = copy_ids(in, m, e);
    if (!err) err = copy_pieces(in, m, e);
    if (!err) err = copy_normalizer(in, m, e);
    rdg_spm__model__free_unpacked(in, &allocator);
    if (err) rdg_sentencepiece_finish(m);
    return err;
}

void rdg_sentencepiece_finish(rdg_sentencepiece *m)
{
    rdg_arena_finish(&m->arena);
    *m = (rdg_sentencepiece){0};
}

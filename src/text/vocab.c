/* Vocabularies as data: initial values and what the kind implies, see vocab.h. */
#include "text/vocab.h"
#include "text/pretokenizer.h"
#include "format/tokenizer_json.h"

#include <string.h>

void rdg_vocab_init(rdg_vocab *v)
{
    *v = (rdg_vocab){.model = "", .pre = ""};
    rdg_arena_init(&v->arena);
    for (int i = 0; i < RDG_SPECIAL_COUNT; i++) v->special[i] = -1;
}

void rdg_vocab_finish(rdg_vocab *v)
{
    rdg_arena_finish(&v->arena);
    rdg_vocab_init(v);
}

static const struct {
    const char *name;
    signed char bos, eos, unk, sep, pad, mask; /* ids used when a file names none */
    bool add_bos, add_eos, add_space_prefix;
} kinds[RDG_VOCAB_KIND_COUNT] = {
    [RDG_VOCAB_SPM] = {"llama", 1, 2, 0, -1, -1, -1, true, false, true},
    [RDG_VOCAB_BPE] = {"gpt2", 11, 11, -1, -1, -1, -1, false, false, false},
    [RDG_VOCAB_WORDPIECE] = {"bert", 101, 102, 100, 102, 0, 103, true, true, false},
    [RDG_VOCAB_UNIGRAM] = {"t5", -1, 1, 2, -1, 0, -1, false, true, false},
};

const char *rdg_vocab_kind_name(rdg_vocab_kind kind)
{
    return kinds[kind].name;
}

void rdg_vocab_set_kind(rdg_vocab *v, rdg_vocab_kind kind, const char *pre)
{
    const rdg_pre_rule *rule = rdg_pre_rule_find(pre);
    v->kind = kind;
    v->model = kinds[kind].name;
    v->special[RDG_SPECIAL_BOS] = kinds[kind].bos;
    v->special[RDG_SPECIAL_EOS] = kinds[kind].eos;
    v->special[RDG_SPECIAL_UNK] = kinds[kind].unk;
    v->special[RDG_SPECIAL_SEP] = kinds[kind].sep;
    v->special[RDG_SPECIAL_PAD] = kinds[kind].pad;
    v->special[RDG_SPECIAL_MASK] = kinds[kind].mask;
    v->add_bos = kinds[kind].add_bos;
    v->add_eos = kinds[kind].add_eos;
    v->add_space_prefix = kinds[kind].add_space_prefix;
    v->normalize = kind == RDG_VOCAB_WORDPIECE ? RDG_NORMALIZE_LOWERCASE | RDG_NORMALIZE_STRIP_ACCENTS : 0;
    if (kind == RDG_VOCAB_BPE && rule) {
        v->add_bos = rule->add_bos;
        v->ignore_merges = rule->ignore_merges;
    }
}

bool rdg_vocab_merge(const rdg_vocab *v, size_t rank, rdg_str *left, rdg_str *right, rdg_buf *joined)
{
    rdg_str m = v->merges[rank];
    /* neither part is empty; the left one may begin with a space */
    const char *space = m.n > 1 ? memchr(m.p + 1, ' ', m.n - 1) : NULL;
    rdg_buf_clear(joined);
    if (!space || space + 1 == m.p + m.n) return false;
    *left = (rdg_str){m.p, (size_t)(space - m.p)};
    *right = (rdg_str){space + 1, m.n - left->n - 1};
    rdg_buf_append(joined, left->p, left->n);
    rdg_buf_append(joined, right->p, right->n);
    return true;
}

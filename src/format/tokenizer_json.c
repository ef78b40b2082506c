/* tokenizer.json, see tokenizer_json.h.
 * The library behind this format composes its components freely; real files use a few dozen shapes. Each
 * component that has a meaning here sets fields of the flat description, each other one adds a warning with
 * its name. */
#include "format/tokenizer_json.h"
#include "format/json.h"
#include "format/tokenizer_json_parts.h"

#include <string.h>

/* The largest vocabularies in use have 262,144 entries. */
enum { MAX_TOKENS = 1 << 24, MAX_MERGES = 1 << 25 };

static rdg_err no_memory(rdg_error *e)
{
    return rdg_fail(e, RDG_E_NOMEM, "tokenizer.json: out of memory");
}

rdg_err rdg_tokenizer_json_string(rdg_tokenizer_json *t, const json_t *j, rdg_str *s, rdg_error *e)
{
    s->n = json_string_length(j);
    s->p = rdg_arena_strndup(&t->arena, json_string_value(j), s->n);
    return s->p ? RDG_OK : no_memory(e);
}

/* Vocabulary --------------------------------------------------------------------------------------------- */

/* Id range check before anything is sized by an id: a file may leave holes, but not name an id far beyond its
 * count. */
static rdg_err check_id(json_int_t id, size_t n_entries, const char *what, const char *text, rdg_error *e)
{
    if (id >= 0 && id < MAX_TOKENS && (uint64_t)id < 2 * (uint64_t)n_entries + 65536) return RDG_OK;
    return rdg_fail(e, RDG_E_MALFORMED, "tokenizer.json: %s: id %lld of %s is out of range for %zu entries",
                    what, (long long)id, quote(text).text, n_entries);
}

static rdg_err size_tokens(rdg_tokenizer_json *t, int32_t n, rdg_error *e)
{
    t->n_tokens = n;
    t->tokens = rdg_arena_array(&t->arena, (size_t)n, sizeof *t->tokens);
    t->in_vocab = rdg_arena_array(&t->arena, (size_t)n, sizeof *t->in_vocab);
    if (t->model == RDG_TOKENIZER_JSON_UNIGRAM)
        t->scores = rdg_arena_array(&t->arena, (size_t)n, sizeof *t->scores);
    if (!t->tokens || !t->in_vocab || (t->model == RDG_TOKENIZER_JSON_UNIGRAM && !t->scores))
        return no_memory(e);
    return RDG_OK;
}

/* {"piece": id, …} */
static rdg_err read_vocab_object(rdg_tokenizer_json *t, json_t *vocab, rdg_error *e)
{
    const char *piece;
    size_t n;
    json_t *value;
    json_object_keylen_foreach(vocab, piece, n, value)
    {
        if (!json_is_integer(value))
            return rdg_fail(e, RDG_E_MALFORMED, "tokenizer.json: model.vocab: the id of %s is not an integer",
                            quote(piece).text);
        int32_t id = (int32_t)json_integer_value(value);
        if (t->tokens[id].p)
            return rdg_fail(e, RDG_E_MALFORMED, "tokenizer.json: model.vocab: id %d is given to %s and to %s",
                            (int)id, quote(t->tokens[id].p).text, quote(piece).text);
        t->tokens[id].p = rdg_arena_strndup(&t->arena, piece, n);
        t->tokens[id].n = n;
        t->in_vocab[id] = true;
        if (!t->tokens[id].p) return no_memory(e);
    }
    return RDG_OK;
}

/* [["piece", score], …] */
static rdg_err read_vocab_array(rdg_tokenizer_json *t, json_t *vocab, rdg_error *e)
{
    size_t i;
    json_t *entry;
    json_array_foreach(vocab, i, entry)
    {
        json_t *piece = json_array_get(entry, 0), *score = json_array_get(entry, 1);
        if (!json_is_string(piece) || !json_is_number(score))
            return rdg_fail(e, RDG_E_MALFORMED,
                            "tokenizer.json: model.vocab[%zu] is not a pair of piece and score", i);
        rdg_err err = rdg_tokenizer_json_string(t, piece, &t->tokens[i], e);
        if (err) return err;
        t->scores[i] = (float)json_number_value(score);
        t->in_vocab[i] = true;
    }
    return RDG_OK;
}

/* Sizes the token table: the highest id of the vocabulary and the added tokens. */
static rdg_err scan_ids(rdg_tokenizer_json *t, json_t *vocab, json_t *added, rdg_error *e)
{
    size_t n_entries = json_array_size(added), i;
    json_int_t highest = -1;
    json_t *value;
    const char *piece;
    rdg_err err;
    if (json_is_array(vocab)) {
        n_entries += json_array_size(vocab);
        highest = (json_int_t)json_array_size(vocab) - 1;
        if (highest >= MAX_TOKENS) return check_id(highest, 0, "model.vocab", "", e);
    } else {
        n_entries += json_object_size(vocab);
        json_object_foreach(vocab, piece, value)
        {
            json_int_t id = json_integer_value(value);
            if ((err = check_id(id, n_entries, "model.vocab", piece, e))) return err;
            if (id > highest) highest = id;
        }
    }
    json_array_foreach(added, i, value)
    {
        json_t *id = json_object_get(value, "id"), *content = json_object_get(value, "content");
        if (!json_is_integer(id) || !json_is_string(content))
            return rdg_fail(e, RDG_E_MALFORMED,
                            "tokenizer.json: added_tokens[%zu] has no integer id or no content", i);
        if ((err =
                 check_id(json_integer_value(id), n_entries, "added_tokens", json_string_value(content), e)))
            return err;
        if (json_integer_value(id) > highest) highest = json_integer_value(id);
    }
    return size_tokens(t, (int32_t)highest + 1, e);
}

static rdg_err read_added(rdg_tokenizer_json *t, json_t *added, rdg_error *e)
{
    size_t i;
    json_t *j;
    t->added = rdg_arena_array(&t->arena, json_array_size(added), sizeof *t->added);
    if (!t->added) return no_memory(e);
    json_array_foreach(added, i, j)
    {
        rdg_added_token *a = &t->added[i];
        rdg_err err = rdg_tokenizer_json_string(t, json_object_get(j, "content"), &a->text, e);
        if (err) return err;
        a->id = (int32_t)json_integer_value(json_object_get(j, "id"));
        a->special = json_is_true(json_object_get(j, "special"));
        a->lstrip = json_is_true(json_object_get(j, "lstrip"));
        a->rstrip = json_is_true(json_object_get(j, "rstrip"));
        a->normalized = json_is_true(json_object_get(j, "normalized"));
        a->single_word = json_is_true(json_object_get(j, "single_word"));
        rdg_str *old = &t->tokens[a->id];
        if (old->p && (old->n != a->text.n || memcmp(old->p, a->text.p, old->n) != 0)) {
            err = rdg_tokenizer_json_warn(t, e, "added token %s takes id %d from %s", quote(a->text.p).text,
                                          (int)a->id, quote(old->p).text);
            if (err) return err;
            t->in_vocab[a->id] = false;
        }
        *old = a->text;
        t->n_added++;
    }
    return RDG_OK;
}

/* Merges ------------------------------------------------------------------------------------------------- */

/* Appends a part of a merge given as a pair: its spaces would be taken for the separator. */
static void append_part(rdg_buf *b, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i] == ' ')
            rdg_buf_append(b, "\xc4\xa0", 2);
        else
            rdg_buf_putc(b, p[i]);
    }
}

static rdg_err read_merges(rdg_tokenizer_json *t, json_t *merges, rdg_error *e)
{
    size_t i;
    json_t *j;
    rdg_buf b;
    rdg_err err = RDG_OK;
    if (!json_is_array(merges))
        return rdg_fail(e, RDG_E_MALFORMED, "tokenizer.json: model.merges is not an array");
    if (json_array_size(merges) > MAX_MERGES)
        return rdg_fail(e, RDG_E_LIMIT, "tokenizer.json: model.merges has %zu entries, at most %d are read",
                        json_array_size(merges), MAX_MERGES);
    rdg_buf_init(&b);
    t->merges = rdg_arena_array(&t->arena, json_array_size(merges), sizeof *t->merges);
    if (!t->merges) {
        err = no_memory(e);
        goto done;
    }
    json_array_foreach(merges, i, j)
    {
        json_t *left = json_array_get(j, 0), *right = json_array_get(j, 1);
        rdg_str *m = &t->merges[i];
        rdg_buf_clear(&b);
        if (json_is_string(j) && json_string_length(j) >= 3) {
            rdg_buf_append(&b, json_string_value(j), json_string_length(j));
        } else if (json_array_size(j) == 2 && json_string_length(left) && json_string_length(right)) {
            append_part(&b, json_string_value(left), json_string_length(left));
            rdg_buf_putc(&b, ' ');
            append_part(&b, json_string_value(right), json_string_length(right));
        } else {
            err = rdg_fail(e, RDG_E_MALFORMED,
                           "tokenizer.json: model.merges[%zu] is neither \"left right\" nor a pair", i);
            goto done;
        }
        m->n = b.len;
        m->p = b.failed ? NULL : rdg_arena_strndup(&t->arena, b.data, b.len);
        if (!m->p) {
            err = no_memory(e);
            goto done;
        }
        const char *space = memchr(m->p + 1, ' ', m->n - 1);
        if (!space || space + 1 == m->p + m->n) {
            err = rdg_fail(e, RDG_E_MALFORMED, "tokenizer.json: model.merges[%zu] %s has no two parts", i,
                           quote(m->p).text);
            goto done;
        }
        t->n_merges++;
    }
done:
    rdg_buf_finish(&b);
    return err;
}

/* Model -------------------------------------------------------------------------------------------------- */

static int32_t find_token(const rdg_tokenizer_json *t, const char *text, size_t n)
{
    for (int32_t i = 0; i < t->n_tokens; i++)
        if (t->tokens[i].p && t->tokens[i].n == n && memcmp(t->tokens[i].p, text, n) == 0) return i;
    return -1;
}

static rdg_err model_kind(rdg_tokenizer_json *t, json_t *model, rdg_error *e)
{
    static const struct {
        const char *name;
        rdg_tokenizer_json_model kind;
    } kinds[] = {{"BPE", RDG_TOKENIZER_JSON_BPE},
                 {"Unigram", RDG_TOKENIZER_JSON_UNIGRAM},
                 {"WordPiece", RDG_TOKENIZER_JSON_WORDPIECE}};
    const char *type = json_string_value(json_object_get(model, "type"));
    json_t *vocab = json_object_get(model, "vocab");
    if (!type) { /* old files leave it out; the shape of the rest tells */
        type = json_object_get(model, "merges")                      ? "BPE"
               : json_is_array(vocab)                                ? "Unigram"
               : json_object_get(model, "continuing_subword_prefix") ? "WordPiece"
                                                                     : "(none)";
    }
    for (int i = 0; i < RDG_COUNTOF(kinds); i++) {
        if (strcmp(type, kinds[i].name) != 0) continue;
        t->model = kinds[i].kind;
        bool array = t->model == RDG_TOKENIZER_JSON_UNIGRAM;
        if (array ? json_is_array(vocab) : json_is_object(vocab)) return RDG_OK;
        return rdg_fail(e, RDG_E_MALFORMED, "tokenizer.json: model.vocab of a %s model is not an %s", type,
                        array ? "array" : "object");
    }
    return rdg_fail(e, RDG_E_UNSUPPORTED,
                    "tokenizer.json: model type %s; BPE, Unigram and WordPiece are supported",
                    quote(type).text);
}

static rdg_err read_model(rdg_tokenizer_json *t, json_t *model, json_t *added, rdg_error *e)
{
    rdg_err err;
    json_t *vocab = json_object_get(model, "vocab"), *j;
    if ((err = model_kind(t, model, e))) return err;
    if ((err = scan_ids(t, vocab, added, e))) return err;
    err = json_is_array(vocab) ? read_vocab_array(t, vocab, e) : read_vocab_object(t, vocab, e);
    if (err) return err;
    if ((err = read_added(t, added, e))) return err;
    if (t->model == RDG_TOKENIZER_JSON_BPE && (err = read_merges(t, json_object_get(model, "merges"), e)))
        return err;

    t->byte_fallback = json_is_true(json_object_get(model, "byte_fallback"));
    t->ignore_merges = json_is_true(json_object_get(model, "ignore_merges"));
    t->unk_id = -1;
    if (json_is_integer(j = json_object_get(model, "unk_id"))) {
        json_int_t id = json_integer_value(j);
        if (id < 0 || id >= t->n_tokens)
            return rdg_fail(e, RDG_E_MALFORMED, "tokenizer.json: model.unk_id %lld is not an id of %d tokens",
                            (long long)id, (int)t->n_tokens);
        t->unk_id = (int32_t)id;
    }
    if (json_is_string(j = json_object_get(model, "unk_token")))
        t->unk_id = find_token(t, json_string_value(j), json_string_length(j));
    j = json_object_get(model, "continuing_subword_prefix");
    if (t->model == RDG_TOKENIZER_JSON_WORDPIECE) {
        t->continuing_prefix = (rdg_str){"##", 2};
        if (json_is_string(j) && (err = rdg_tokenizer_json_string(t, j, &t->continuing_prefix, e)))
            return err;
    } else if (json_string_length(j) > 0) {
        return rdg_fail(e, RDG_E_UNSUPPORTED,
                        "tokenizer.json: model.continuing_subword_prefix %s with this model type",
                        quote(json_string_value(j)).text);
    }
    j = json_object_get(model, "end_of_word_suffix");
    if (json_string_length(j) > 0)
        return rdg_fail(e, RDG_E_UNSUPPORTED, "tokenizer.json: model.end_of_word_suffix %s",
                        quote(json_string_value(j)).text);
    return RDG_OK;
}

/* Files -------------------------------------------------------------------------------------------------- */

rdg_err rdg_tokenizer_json_parse(const char *data, size_t bytes, rdg_tokenizer_json *t, rdg_error *e)
{
    *t = (rdg_tokenizer_json){.unk_id = -1, .bos_id = -1, .eos_id = -1};
    rdg_arena_init(&t->arena);
    json_t *root;
    rdg_err err = rdg_json_parse(data, bytes, "tokenizer.json", &rdg_json_large, &root, e);
    if (err) return err;
    json_t *model = json_object_get(root, "model");
    if (!json_is_object(model))
        err = rdg_fail(e, RDG_E_MALFORMED, "tokenizer.json: no object \"model\"");
    else
        err = read_model(t, model, json_object_get(root, "added_tokens"), e);
    if (!err) err = rdg_tokenizer_json_normalizer(t, json_object_get(root, "normalizer"), 0, e);
    if (!err) err = rdg_tokenizer_json_pre_tokenizer(t, json_object_get(root, "pre_tokenizer"), 0, e);
    if (!err) err = rdg_tokenizer_json_post_processor(t, json_object_get(root, "post_processor"), 0, e);
    json_decref(root);
    if (err) rdg_tokenizer_json_finish(t);
    return err;
}

/* merges.txt: one merge a line; the first line may be a "#version" comment. */
static rdg_err read_merge_lines(rdg_tokenizer_json *t, const char *p, size_t n, rdg_error *e)
{
    const char *end = p + n;
    size_t cap = 0, line_no = 0;
    rdg_str *merges = NULL;
    rdg_err err = RDG_OK;
    for (const char *next; p < end; p = next) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        next = stop ? stop + 1 : end;
        if (!stop) stop = end;
        if (stop > p && stop[-1] == '\r') stop--;
        size_t len = (size_t)(stop - p);
        line_no++;
        if (len == 0 || (line_no == 1 && p[0] == '#')) continue;
        const char *space = len > 1 ? memchr(p + 1, ' ', len - 1) : NULL;
        if (!space || space + 1 == stop) {
            err = rdg_fail(e, RDG_E_MALFORMED, "merges.txt: line %zu has no two parts", line_no);
            break;
        }
        if (t->n_merges >= MAX_MERGES) {
            err = rdg_fail(e, RDG_E_LIMIT, "merges.txt: more than %d merges", MAX_MERGES);
            break;
        }
        char *copy = rdg_arena_strndup(&t->arena, p, len);
        if (!copy || !rdg_grow(&merges, t->n_merges, &cap, sizeof *merges)) {
            err = no_memory(e);
            break;
        }
        merges[t->n_merges++] = (rdg_str){copy, len};
    }
    if (!err) {
        t->merges = rdg_arena_array(&t->arena, t->n_merges, sizeof *merges);
        if (!t->merges)
            err = no_memory(e);
        else if (t->n_merges)
            memcpy(t->merges, merges, t->n_merges * sizeof *merges);
    }
    rdg_free(merges);
    return err;
}

rdg_err rdg_tokenizer_json_parse_pair(const char *vocab, size_t vocab_bytes, const char *merges,
                                      size_t merges_bytes, rdg_tokenizer_json *t, rdg_error *e)
{
    *t = (rdg_tokenizer_json){.unk_id = -1, .bos_id = -1, .eos_id = -1, .byte_level = true};
    rdg_arena_init(&t->arena);
    json_t *root;
    rdg_err err = rdg_json_parse(vocab, vocab_bytes, "vocab.json", &rdg_json_large, &root, e);
    if (err) return err;
    err = scan_ids(t, root, NULL, e);
    if (!err) err = read_vocab_object(t, root, e);
    if (!err) err = read_merge_lines(t, merges, merges_bytes, e);
    json_decref(root);
    if (err) rdg_tokenizer_json_finish(t);
    return err;
}

void rdg_tokenizer_json_finish(rdg_tokenizer_json *t)
{
    rdg_arena_finish(&t->arena);
    *t = (rdg_tokenizer_json){0};
}

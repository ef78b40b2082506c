/* Any text with any vocabulary. The input is lines: flags, then tokens and merges, then an empty line and the
 * text. flags   a kind (0 … 3) and letters: p space prefix, f only first, u unless space, r remove spaces, i
 * ignore merges, n NFC, l lower case, s parse special tokens, the second character also picks one of `rules`
 *   tokens  a type (N normal, C control, U user-defined, K unknown, B byte, L/R user-defined that strips) and
 * the text merges  M and "left right" */
#include "fuzz.h"
#include "format/tokenizer_json.h"
#include "text/vocab.h"

#include <string.h>

enum { MAX_TOKENS = 512, MAX_MERGES = 512 };

static const char *const rules[] = {"",       "gpt-2",  "llama-bpe", "qwen2",  "deepseek-llm",
                                    "tekken", "falcon", "superbpe",  "default"};

typedef struct sink {
    rdg_buf b;
} sink;

static void emit(void *user, const char *text, size_t n)
{
    sink *s = user;
    FUZZ_CHECK(n > 0);
    rdg_buf_append(&s->b, text, n);
}

static rdg_token_type type_of(char c)
{
    switch (c) {
    case 'C': return RDG_TOKEN_CONTROL;
    case 'K': return RDG_TOKEN_UNKNOWN;
    case 'B': return RDG_TOKEN_BYTE;
    case 'U':
    case 'L':
    case 'R': return RDG_TOKEN_USER_DEFINED;
    default: return RDG_TOKEN_NORMAL;
    }
}

/* Fills the vocabulary; returns where the text begins. */
static size_t read_vocab(const char *p, size_t n, rdg_vocab *v, bool *special)
{
    size_t at = 0;
    v->tokens = rdg_arena_array(&v->arena, MAX_TOKENS, sizeof *v->tokens);
    v->types = rdg_arena_alloc(&v->arena, MAX_TOKENS);
    v->strip = rdg_arena_alloc(&v->arena, MAX_TOKENS);
    v->scores = rdg_arena_array(&v->arena, MAX_TOKENS, sizeof *v->scores);
    v->merges = rdg_arena_array(&v->arena, MAX_MERGES, sizeof *v->merges);
    for (bool first = true; at < n; first = false) {
        const char *line = p + at, *end = memchr(line, '\n', n - at);
        size_t len = end ? (size_t)(end - line) : n - at;
        at += len + (end != NULL);
        if (first) {
            bool has[256] = {false};
            for (size_t i = 1; i < len; i++) has[(unsigned char)line[i]] = true;
            unsigned rule = len > 1 && line[1] >= '0' ? (unsigned)(line[1] - '0') % RDG_COUNTOF(rules) : 0;
            rdg_vocab_set_kind(v, (rdg_vocab_kind)(len ? (unsigned char)line[0] % RDG_VOCAB_KIND_COUNT : 0),
                               rules[rule]);
            v->pre = rules[rule];
            v->add_space_prefix = has['p'];
            v->prefix_first_only = has['f'];
            v->prefix_unless_space = has['u'];
            v->remove_extra_whitespaces = has['r'];
            v->ignore_merges = has['i'];
            v->normalize = (has['n'] ? RDG_NORMALIZE_NFC : 0) | (has['l'] ? RDG_NORMALIZE_LOWERCASE : 0);
            *special = has['s'];
        } else if (len == 0) {
            break;
        } else if (line[0] == 'M' && v->n_merges < MAX_MERGES) {
            v->merges[v->n_merges++] = (rdg_str){rdg_arena_strndup(&v->arena, line + 1, len - 1), len - 1};
        } else if (v->n_tokens < MAX_TOKENS) {
            int32_t id = v->n_tokens++;
            v->tokens[id] = (rdg_str){rdg_arena_strndup(&v->arena, line + 1, len - 1), len - 1};
            v->types[id] = (unsigned char)type_of(line[0]);
            v->strip[id] = line[0] == 'L' ? RDG_STRIP_LEFT : line[0] == 'R' ? RDG_STRIP_RIGHT : 0;
            v->scores[id] = -(float)((id * 7 + 3) % 50); /* ties, too */
        }
    }
    if (v->n_tokens == 0) {
        v->tokens[v->n_tokens++] = (rdg_str){"a", 1};
        v->types[0] = RDG_TOKEN_NORMAL;
    }
    for (int i = 0; i < RDG_SPECIAL_COUNT; i++)
        if (v->special[i] >= v->n_tokens) v->special[i] = -1;
    return at;
}

/* Nothing brought in: control tokens as parsed. All of it: none, but BOS and EOS. The middle: in bounds. */
static void try_spans(const rdg_tokenizer *t, const char *text, size_t n)
{
    const rdg_template_span spans[] = {{0, n}, {n / 3, n - n / 3}};
    rdg_error e = {0};
    int32_t *ids, *parsed;
    size_t n_ids, n_parsed;
    if (n == 0) return;
    for (int k = 0; k < 2; k++) {
        rdg_err err = rdg_tokenize_spans(t, text, n, &spans[k], 1, false, &ids, &n_ids, &e);
        FUZZ_CHECK(!err || err == RDG_E_LIMIT);
        for (size_t i = 0; !err && i < n_ids; i++) {
            FUZZ_CHECK(ids[i] >= 0 && ids[i] < rdg_tokenizer_n_vocab(t));
            if (k == 0)
                FUZZ_CHECK(rdg_token_kind(t, ids[i]) != RDG_TOKEN_CONTROL || ids[i] == rdg_tokenizer_unk(t));
        }
        rdg_tokens_free(ids);
    }
    if (rdg_tokenize_spans(t, text, n, NULL, 0, false, &ids, &n_ids, &e)) return;
    FUZZ_CHECK(
        !rdg_tokenize(t, text, n, (rdg_tokenize_params){.parse_special = true}, &parsed, &n_parsed, &e));
    FUZZ_CHECK(n_ids == n_parsed && (!n_ids || !memcmp(ids, parsed, n_ids * sizeof *ids)));
    rdg_tokens_free(parsed);
    rdg_tokens_free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    rdg_vocab v;
    rdg_tokenizer *t;
    rdg_error e = {0};
    int32_t *ids;
    size_t n_ids, n_text;
    char *text;
    bool special = false;
    rdg_vocab_init(&v);
    size_t at = read_vocab((const char *)data, n, &v, &special);
    rdg_err err = rdg_tokenizer_from_vocab(&v, NULL, &t, &e);
    FUZZ_CHECK(err != RDG_E_NOMEM && err != RDG_E_INTERNAL && v.n_tokens == 0);
    if (err) {
        FUZZ_CHECK(e.code == err && e.message[0] && t == NULL);
        return 0;
    }
    rdg_tokenize_params params = {.add_special = true, .parse_special = special};
    err = rdg_tokenize(t, (const char *)data + at, n - at, params, &ids, &n_ids, &e);
    FUZZ_CHECK(!err || err == RDG_E_LIMIT);
    if (!err) {
        sink s = {0};
        rdg_stream stream;
        for (size_t i = 0; i < n_ids; i++) {
            FUZZ_CHECK(ids[i] >= 0 && ids[i] < rdg_tokenizer_n_vocab(t));
            if (!special && i > 0 &&
                i + 1 < n_ids) /* user text gives no control tokens; BOS and EOS are at the ends */
                FUZZ_CHECK(rdg_token_kind(t, ids[i]) != RDG_TOKEN_CONTROL || ids[i] == rdg_tokenizer_unk(t));
        }
        FUZZ_CHECK(!rdg_detokenize(t, ids, n_ids, special, &text, &n_text, &e));
        rdg_stream_init(&stream, t);
        for (size_t i = 0; i < n_ids; i++) FUZZ_CHECK(!rdg_stream_token(&stream, ids[i], special, emit, &s));
        rdg_stream_finish(&stream, emit, &s);
        FUZZ_CHECK(s.b.len == n_text && (n_text == 0 || memcmp(s.b.data, text, n_text) == 0));
        rdg_buf_finish(&s.b);
        rdg_text_free(text);
        rdg_tokens_free(ids);
    }
    try_spans(t, (const char *)data + at, n - at);
    rdg_tokenizer_destroy(t);
    return 0;
}

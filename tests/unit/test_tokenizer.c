/* The tokenizer against ids from the models' own tokenizers, and what must hold for any text. */
#include "../support/random.h"
#include "base/file.h"
#include "base/mem.h"
#include "convert/vocab.h"
#include "text/special.h"
#include <ridge/tokenizer.h>

#include <jansson.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#define DATA RIDGE_SOURCE_DIR "/tests/data/tokenizer"

static char path[512];
static char last_warning[1024];

static void keep_warning(void *user, rdg_log_level level, const char *text)
{
    (void)user;
    if (level == RDG_LOG_WARN) snprintf(last_warning, sizeof last_warning, "%s", text);
}

static const rdg_log warnings = {.message = keep_warning};

static rdg_tokenizer *open_tokenizer(const char *file)
{
    rdg_error e = {0};
    rdg_gguf *g;
    rdg_tokenizer *t;
    assert_ok(rdg_gguf_open(file, NULL, &g, &e), &e);
    assert_ok(rdg_tokenizer_create(g, NULL, &t, &e), &e);
    rdg_gguf_close(g); /* the tokenizer has copied what it needs */
    return t;
}

static char *read_text(const char *file, size_t *n)
{
    rdg_error e = {0};
    char *data;
    assert_ok(rdg_file_read(file, 16 << 20, false, &data, n, &e), &e);
    return data;
}

/* Reference vectors
 * ------------------------------------------------------------------------------------------- */

static bool same_ids(const int32_t *ids, size_t n, const char *line)
{
    for (size_t i = 0;; i++) {
        char *end;
        long want = strtol(line, &end, 10);
        if (end == line) return i == n;
        if (i >= n || ids[i] != want) return false;
        line = end;
    }
}

/* All 46 texts of `texts` against the lines of `ids`. */
static void check_vectors(const char *gguf, const char *texts, const char *ids)
{
    static const char separator[] = "\n__ggml_vocab_test__\n";
    rdg_error e = {0};
    size_t n, n_out;
    rdg_tokenizer *t = open_tokenizer(gguf);
    char *in = read_text(texts, &n), *out = read_text(ids, &n_out), *text = in, *line = out;
    int cases = 0;
    for (char *stop; (stop = strstr(text, separator)); text = stop + strlen(separator), cases++) {
        char *newline = strchr(line, '\n');
        int32_t *got;
        size_t n_got;
        assert_non_null(newline);
        *newline = 0;
        assert_ok(rdg_tokenize(t, text, (size_t)(stop - text), (rdg_tokenize_params){0}, &got, &n_got, &e),
                  &e);
        if (!same_ids(got, n_got, line)) {
            print_error("%s: text %d \"%.*s\": expected %s\n", gguf, cases, (int)(stop - text), text, line);
            fail();
        }
        rdg_tokens_free(got);
        line = newline + 1;
    }
    assert_int_equal(cases, 46);
    rdg_free(in);
    rdg_free(out);
    rdg_tokenizer_destroy(t);
}

static void test_reference_vectors(void **state)
{
    static const char *const names[] = {"gpt-2", "phi-3", "bert-bge"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char out[512];
        snprintf(path, sizeof path, DATA "/%s.gguf", names[i]);
        snprintf(out, sizeof out, DATA "/%s.out", names[i]);
        check_vectors(path, DATA "/texts.inp", out);
    }
}

static void test_more_reference_vectors(void **state)
{
    static const char *const names[] = {"mpt",          "starcoder", "refact", "falcon", "deepseek-coder",
                                        "deepseek-llm", "llama-spm"};
    const char *data = getenv("RIDGE_TEST_DATA");
    (void)state;
    if (!data) {
        print_message("RIDGE_TEST_DATA is not set: 7 more vocabularies are not checked\n");
        skip();
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char in[512], out[512];
        snprintf(path, sizeof path, "%s/tokenizer/ggml-vocab-%s.gguf", data, names[i]);
        snprintf(in, sizeof in, "%s/tokenizer/ggml-vocab-%s.gguf.inp", data, names[i]);
        snprintf(out, sizeof out, "%s/tokenizer/ggml-vocab-%s.gguf.out", data, names[i]);
        check_vectors(path, in, out);
    }
}

/* Folder → GGUF → ids, against the library that made the folder. */
static void check_folder(const char *folder, const char *vectors, bool parse_special)
{
    rdg_error e = {0};
    rdg_gguf_writer *w;
    rdg_vocab_report r;
    char out[] = "/tmp/ridge-tokenizer-XXXXXX";
    size_t n, i, k;
    json_t *one;
    int fd = mkstemp(out);
    assert_true(fd >= 0);
    close(fd);
    assert_ok(rdg_gguf_writer_create(out, &w, &e), &e);
    rdg_gguf_set_str(w, "general.architecture", "llama");
    assert_ok(rdg_vocab_convert(folder, 0, w, &r, NULL, &e), &e);
    assert_ok(rdg_gguf_writer_begin(w, &e), &e);
    assert_ok(rdg_gguf_writer_finish(w, &e), &e);
    rdg_gguf_writer_destroy(w);
    rdg_vocab_report_finish(&r);
    rdg_tokenizer *t = open_tokenizer(out);
    unlink(out);
    char *data = read_text(vectors, &n);
    json_t *list = json_loadb(data, n, JSON_ALLOW_NUL, NULL);
    assert_true(json_array_size(list) >= 80);
    rdg_free(data);
    json_array_foreach(list, i, one)
    {
        json_t *text = json_object_get(one, "text"), *want = json_object_get(one, "ids");
        rdg_tokenize_params params = {.add_special = json_is_true(json_object_get(one, "add_special")),
                                      .parse_special = parse_special};
        int32_t *ids;
        size_t n_ids;
        assert_ok(
            rdg_tokenize(t, json_string_value(text), json_string_length(text), params, &ids, &n_ids, &e), &e);
        bool same = n_ids == json_array_size(want);
        for (k = 0; same && k < n_ids; k++) same = ids[k] == json_integer_value(json_array_get(want, k));
        if (!same) {
            print_error("%s: vector %zu \"%s\": got", folder, i, json_string_value(text));
            for (k = 0; k < n_ids; k++) print_error(" %d", (int)ids[k]);
            print_error("\n");
            fail();
        }
        rdg_tokens_free(ids);
    }
    json_decref(list);
    rdg_tokenizer_destroy(t);
}

static void test_folders(void **state)
{
    static const struct {
        const char *name;
        bool parse_special;
    } folders[] = {{"bpe-metaspace", true},
                   {"bpe-no-prefix", true},
                   {"bpe-prepend", true},
                   {"byte-level-nfc", true},
                   {"unigram", true},
                   {"wordpiece", true},
                   {"wordpiece-cased", true},
                   {"sentencepiece-bpe", false},
                   {"sentencepiece-unigram", false},
                   {"sentencepiece-unigram-bytes", false}};
    (void)state;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char vectors[512];
        snprintf(path, sizeof path, DATA "/%s", folders[i].name);
        snprintf(vectors, sizeof vectors, DATA "/%s/vectors.json", folders[i].name);
        check_folder(path, vectors, folders[i].parse_special);
    }
    check_folder(RIDGE_SOURCE_DIR "/models/ridge-tiny", DATA "/ridge-tiny/vectors.json", true);
}

/* Any text
 * ---------------------------------------------------------------------------------------------------- */

typedef struct collected {
    rdg_buf text;
    bool whole; /* every piece so far was valid UTF-8 */
} collected;

static void collect(void *user, const char *text, size_t n)
{
    collected *c = user;
    rdg_buf_append(&c->text, text, n);
    json_t *s = json_stringn(text, n); /* NULL if it is no valid UTF-8 */
    if (!s) c->whole = false;
    json_decref(s);
}

static size_t random_text(rdg_rng *rng, char *text, size_t cap, bool valid)
{
    static const char *const parts[] = {
        "the ", " a", "\n",       "\xc3\xa9", "\xe4\xbd\xa0", "\xf0\x9f\x99\x82", "'s", "  ",
        "<s>",  "12", "\xd0\xbf", "x",        "\t",           "e\xcc\x81"};
    size_t n = 0, count = rdg_rng_below(rng, 40);
    for (size_t i = 0; i < count && n + 8 < cap; i++) {
        if (!valid && rdg_rng_below(rng, 3) == 0) {
            text[n++] = (char)rdg_rng_below(rng, 256);
            if (n > 2 && !memcmp(text + n - 3, "\xe2\x96\x81", 3))
                n--; /* SentencePiece's own mark for a space */
        } else {
            const char *part = parts[rdg_rng_below(rng, sizeof parts / sizeof *parts)];
            memcpy(text + n, part, strlen(part));
            n += strlen(part);
        }
    }
    return n;
}

/* detokenise(tokenise(x)) = x, and the same through the stream, which never cuts a character. */
static void test_round_trip(void **state)
{
    static const char *const names[] = {"gpt-2", "phi-3"};
    rdg_rng rng;
    (void)state;
    seed_fresh(&rng);
    for (size_t m = 0; m < 2; m++) {
        snprintf(path, sizeof path, DATA "/%s.gguf", names[m]);
        rdg_tokenizer *t = open_tokenizer(path);
        for (int round = 0; round < 2000; round++) {
            bool valid = round % 2;
            char text[512];
            size_t n = random_text(&rng, text, sizeof text, valid), n_ids, n_back;
            int32_t *ids;
            char *back;
            rdg_error e = {0};
            collected c = {.whole = true};
            rdg_stream s;
            assert_ok(rdg_tokenize(t, text, n, (rdg_tokenize_params){0}, &ids, &n_ids, &e), &e);
            assert_ok(rdg_detokenize(t, ids, n_ids, false, &back, &n_back, &e), &e);
            assert_int_equal(n_back, n);
            assert_memory_equal(back, text, n);
            rdg_stream_init(&s, t);
            for (size_t i = 0; i < n_ids; i++)
                assert_ok(rdg_stream_token(&s, ids[i], false, collect, &c), &e);
            rdg_stream_finish(&s, collect, &c);
            assert_int_equal(c.text.len, n);
            if (n) assert_memory_equal(c.text.data, text, n);
            if (valid) assert_true(c.whole);
            rdg_buf_finish(&c.text);
            rdg_text_free(back);
            rdg_tokens_free(ids);
        }
        rdg_tokenizer_destroy(t);
    }
}

/* One byte a token is the hardest case: single byte tokens of the SPM vocabulary. */
static void test_stream_bytes(void **state)
{
    static const struct {
        const char *bytes;
        int n_emitted; /* calls until the end of input, before finish */
    } cases[] = {
        {"\xf0\x9f\x99\x82", 1},
        {"\xe4\xbd\xa0\xe5\xa5\xbd", 2},
        {"\xff\xfe", 2},
        {"\xe4\xbd"
         "A",
         1},
        {"\xe4\xe4\xbd\xa0", 2},
        {"\xf0\x9f\x99", 0},
        {"\xed\xa0\x80", 2},
        {"\xc0\x80", 2},
        {"\xf4\x90\x80\x80", 3},
        {"\xe0\x80\x80", 2},
        {"a\xc3\xa9z", 3},
    };
    (void)state;
    rdg_tokenizer *t = open_tokenizer(DATA "/phi-3.gguf");
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        rdg_stream s;
        collected c = {.whole = true};
        rdg_error e = {0};
        int emitted = 0;
        rdg_stream_init(&s, t);
        for (const char *p = cases[k].bytes; *p; p++) {
            char piece[8];
            snprintf(piece, sizeof piece, "<0x%02X>", (unsigned)(unsigned char)*p);
            int32_t id = rdg_token_find(t, piece, 6);
            assert_true(id >= 0);
            assert_int_equal(rdg_token_kind(t, id), RDG_TOKEN_BYTE);
            assert_int_equal(rdg_token_bytes(t, id, false).n, 1);
            size_t before = c.text.len;
            assert_ok(rdg_stream_token(&s, id, false, collect, &c), &e);
            emitted += c.text.len > before;
        }
        if (emitted != cases[k].n_emitted) print_error("case %zu: %d pieces\n", k, emitted);
        assert_int_equal(emitted, cases[k].n_emitted);
        rdg_stream_finish(&s, collect, &c);
        assert_int_equal(c.text.len, strlen(cases[k].bytes));
        assert_memory_equal(c.text.data, cases[k].bytes, c.text.len);
        rdg_buf_finish(&c.text);
    }
    rdg_tokenizer_destroy(t);
}

/* Special tokens
 * ---------------------------------------------------------------------------------------------- */

static void check_ids(rdg_tokenizer *t, const char *text, bool parse, bool add, size_t n_want,
                      const int32_t *want)
{
    rdg_error e = {0};
    int32_t *ids;
    size_t n;
    assert_ok(rdg_tokenize(t, text, strlen(text),
                           (rdg_tokenize_params){.parse_special = parse, .add_special = add}, &ids, &n, &e),
              &e);
    if (n != n_want || (n && memcmp(ids, want, n * sizeof *ids) != 0)) {
        print_error("\"%s\": got", text);
        for (size_t i = 0; i < n; i++) print_error(" %d", (int)ids[i]);
        print_error("\n");
        fail();
    }
    rdg_tokens_free(ids);
}

static void test_special(void **state)
{
    rdg_error e = {0};
    char *text;
    size_t n;
    (void)state;
    rdg_tokenizer *t = open_tokenizer(DATA "/phi-3.gguf");
    assert_true(rdg_tokenizer_add_bos(t));
    assert_int_equal(rdg_tokenizer_bos(t), 1);
    assert_true(rdg_token_is_end(t, 32000)); /* eos */
    assert_true(rdg_token_is_end(t, 32007)); /* <|end|> */
    assert_false(rdg_token_is_end(t, 32010));
    assert_false(rdg_token_is_end(t, -1));
    /* 15043 = "▁Hello"; Phi-3's <|user|> swallows the newline behind it */
    check_ids(t, "<|user|>\nHello<|end|>\n", true, true, 4, (int32_t[]){1, 32010, 15043, 32007});
    check_ids(t, "Hello", false, true, 2, (int32_t[]){1, 15043});
    check_ids(t, "", true, true, 1, (int32_t[]){1});
    check_ids(t, "", true, false, 0, NULL);
    int32_t *ids;
    assert_ok(rdg_tokenize(t, "<|user|>", 8, (rdg_tokenize_params){0}, &ids, &n, &e), &e);
    for (size_t i = 0; i < n; i++) assert_int_not_equal(rdg_token_kind(t, ids[i]), RDG_TOKEN_CONTROL);
    assert_true(n > 1);
    rdg_tokens_free(ids);
    /* control tokens give text only when asked for */
    const int32_t out[] = {1, 32010, 15043, 32007, 99999, -5};
    assert_ok(rdg_detokenize(t, out, 6, false, &text, &n, &e), &e);
    assert_string_equal(text, "Hello");
    rdg_text_free(text);
    assert_ok(rdg_detokenize(t, out, 6, true, &text, &n, &e), &e);
    assert_string_equal(text, "<s><|user|>Hello<|end|>");
    rdg_text_free(text);
    rdg_tokenizer_destroy(t);

    t = open_tokenizer(DATA "/gpt-2.gguf");
    assert_false(rdg_tokenizer_add_bos(t));
    check_ids(t, "<|endoftext|>", true, true, 1, (int32_t[]){50256});
    check_ids(t, "", true, true, 0, NULL);
    assert_string_equal(rdg_tokenizer_model(t), "gpt2");
    assert_string_equal(rdg_tokenizer_pre(t), "gpt-2");
    assert_int_equal(rdg_tokenizer_n_vocab(t), 50257);
    assert_int_equal(rdg_token_piece(t, 220).n, 2); /* "Ġ" */
    assert_int_equal(rdg_token_bytes(t, 220, false).p[0], ' ');
    rdg_tokenizer_destroy(t);

    t = open_tokenizer(DATA "/bert-bge.gguf");
    check_ids(t, "Hello", false, true, 3, (int32_t[]){101, 7592, 102});
    check_ids(t, "Hello", false, false, 1, (int32_t[]){7592});
    check_ids(t, "hello\xe2\x96\x81world", false, false, 1, (int32_t[]){100}); /* not the mark of a word */
    assert_ok(rdg_detokenize(t, (int32_t[]){101, 7592, 2088, 102}, 4, false, &text, &n, &e), &e);
    assert_string_equal(text, "hello world");
    rdg_text_free(text);
    rdg_tokenizer_destroy(t);
}

/* Spans that were brought into a template
 * ---------------------------------------------------------------------------------------------- */

enum { MAX_SPANS = 64 };
typedef struct rendering {
    rdg_buf text;
    rdg_template_span spans[MAX_SPANS];
    size_t n_spans;
    int n_control; /* written by the template */
} rendering;

static void add(rendering *r, const char *text, bool foreign)
{
    size_t begin = r->text.len;
    rdg_buf_puts(&r->text, text);
    if (!foreign || !*text) return;
    if (r->n_spans &&
        r->spans[r->n_spans - 1].end == begin) /* as a template reports it, or apart: no matter */
        r->spans[r->n_spans - 1].end = r->text.len;
    else
        r->spans[r->n_spans++] = (rdg_template_span){begin, r->text.len};
}

/* Text of both origins in any order; control tokens from the template, and from the user too if `evil`. */
static void render_random(rendering *r, const char *control, bool evil, rdg_rng *rng)
{
    static const char *const pieces[] = {
        "Hello", " world", "  ", "\n", "don't", "\xc3\xbc", "\xe6\x9d\xb1\xe4\xba\xac", "123",
        ".",     " \n",    "a",  "lo", " ",     "|>",       "\xf0\x9f\x99\x82",         "th"};
    r->n_spans = 0;
    r->n_control = 0;
    rdg_buf_clear(&r->text);
    for (uint64_t i = 0, n = 1 + rdg_rng_below(rng, 20); i < n; i++) {
        bool foreign = rdg_rng_below(rng, 2) == 0, token = rdg_rng_below(rng, 4) == 0 && (evil || !foreign);
        if (r->n_spans + 1 == MAX_SPANS) foreign = false;
        r->n_control += token && !foreign;
        add(r, token ? control : pieces[rdg_rng_below(rng, RDG_COUNTOF(pieces))], foreign);
    }
}

/* All control tokens, or those of one text. */
static int count_control(const rdg_tokenizer *t, const char *which, const int32_t *ids, size_t n)
{
    int count = 0;
    int32_t id = which ? rdg_token_find(t, which, strlen(which)) : -1;
    for (size_t i = 0; i < n; i++)
        count += which ? ids[i] == id : rdg_token_kind(t, ids[i]) == RDG_TOKEN_CONTROL;
    return count;
}

static void test_spans(void **state)
{
    static const struct {
        const char *file, *control;
    } vocabularies[] = {{"phi-3", "<|user|>"}, {"gpt-2", "<|endoftext|>"}, {"bert-bge", "[SEP]"}};
    (void)state;
    rdg_rng rng;
    seed_fresh(&rng);
    for (int i = 0; i < RDG_COUNTOF(vocabularies); i++) {
        rdg_error e = {0};
        rendering r = {0};
        rdg_buf_init(&r.text);
        snprintf(path, sizeof path, DATA "/%s.gguf", vocabularies[i].file);
        rdg_tokenizer *t = open_tokenizer(path);
        for (int k = 0; k < 2000; k++) {
            int32_t *a, *b;
            size_t n_a, n_b;
            bool evil = k % 2 == 1, ends = k % 3 == 0;
            int around = ends && !strcmp(vocabularies[i].control, "[SEP]"); /* at the end of every text */
            render_random(&r, vocabularies[i].control, evil, &rng);
            const char *text = r.text.data;
            assert_ok(rdg_tokenize_spans(t, text, r.text.len, r.spans, r.n_spans, ends, &a, &n_a, &e), &e);
            assert_ok(rdg_tokenize(t, text, r.text.len,
                                   (rdg_tokenize_params){.parse_special = true, .add_special = ends}, &b,
                                   &n_b, &e),
                      &e);
            if (count_control(t, vocabularies[i].control, a, n_a) != r.n_control + around)
                fail_msg("%s: \"%s\"", path, text);
            if (!evil && (n_a != n_b || (n_a && memcmp(a, b, n_a * sizeof *a))))
                fail_msg("%s: \"%s\"", path, text);
            rdg_tokens_free(a);
            rdg_tokens_free(b);
        }
        rdg_tokenizer_destroy(t);
        rdg_buf_finish(&r.text);
    }
}

static void test_spans_and_control_tokens(void **state)
{
    static const struct {
        const char *text;
        rdg_template_span span;
        int n_control;
    } cases[] = {
        {"<|user|>Hello<|end|>", {8, 13}, 2},  {"<|user|>Hello<|end|>", {13, 20}, 1},
        {"<|user|>Hello<|end|>", {19, 20}, 1}, /* the user completes one */
        {"<|user|>Hello<|end|>", {0, 1}, 1},   {"<|user|>Hello<|end|>", {0, 20}, 0},
        {"<|user|>Hello<|end|>", {7, 14}, 0},  {"<|user|><|end|>", {8, 15}, 1},
    };
    (void)state;
    rdg_error e = {0};
    int32_t *ids;
    size_t n;
    rdg_tokenizer *t = open_tokenizer(DATA "/phi-3.gguf");
    for (int i = 0; i < RDG_COUNTOF(cases); i++) {
        size_t bytes = strlen(cases[i].text);
        assert_ok(rdg_tokenize_spans(t, cases[i].text, bytes, &cases[i].span, 1, false, &ids, &n, &e), &e);
        assert_int_equal(count_control(t, NULL, ids, n), cases[i].n_control);
        rdg_tokens_free(ids);
    }
    const rdg_template_span wrong[][2] = {{{0, 3}, {2, 4}}, {{3, 4}, {0, 1}}, {{1, 1}, {2, 3}},
                                          {{0, 1}, {1, 6}}, {{0, 1}, {4, 3}}, {{0, 1}, {SIZE_MAX, 2}}};
    for (int i = 0; i < RDG_COUNTOF(wrong); i++) {
        assert_error(rdg_tokenize_spans(t, "Hello", 5, wrong[i], 2, false, &ids, &n, &e), RDG_E_ARGUMENT, &e,
                     "span ");
        assert_null(ids);
    }
    rdg_tokenizer_destroy(t);
}

static bool ends_before(const void *user, int32_t id, size_t start, size_t end)
{
    (void)id, (void)start;
    return end <= *(const size_t *)user;
}

/* Where the longest token may not be, a shorter one may. */
static void test_shorter_tokens(void **state)
{
    (void)state;
    rdg_error e = {0};
    rdg_special s;
    rdg_special_part *parts;
    size_t n, limit = 3;
    assert_true(rdg_special_init(&s));
    assert_true(rdg_special_add(&s, "<a>b", 4, 1) && rdg_special_add(&s, "<a>", 3, 2));
    rdg_special_seal(&s);
    const rdg_special_filter f = {.accepts = ends_before, .user = &limit};
    for (int k = 0; k < 2; k++) {
        assert_ok(rdg_special_split(&s, "<a>b", 4, k ? &f : NULL, &parts, &n, &e), &e);
        assert_int_equal(n, k ? 2 : 1);
        assert_int_equal(parts[0].id, k ? 2 : 1);
        rdg_free(parts);
    }
    rdg_special_finish(&s);
}

/* Files that lie
 * ---------------------------------------------------------------------------------------------- */

/* A vocabulary of four tokens, which `spoil` changes before it is written. */
static rdg_err load_spoiled(void (*spoil)(rdg_gguf_writer *w), rdg_error *e)
{
    static const rdg_str tokens[] = {{"<unk>", 5}, {"<s>", 3}, {"a", 1}, {"<0x0A>", 6}};
    static const float scores[] = {0, 0, -1, 0};
    static const int32_t types[] = {RDG_TOKEN_UNKNOWN, RDG_TOKEN_CONTROL, RDG_TOKEN_NORMAL, RDG_TOKEN_BYTE};
    char out[] = "/tmp/ridge-tokenizer-XXXXXX";
    rdg_gguf_writer *w;
    rdg_gguf *g;
    rdg_tokenizer *t;
    int fd = mkstemp(out);
    assert_true(fd >= 0);
    close(fd);
    last_warning[0] = 0;
    assert_ok(rdg_gguf_writer_create(out, &w, e), e);
    rdg_gguf_set_str(w, "general.architecture", "llama");
    rdg_gguf_set_str(w, "tokenizer.ggml.model", "llama");
    rdg_gguf_set_str_array(w, "tokenizer.ggml.tokens", tokens, 4);
    rdg_gguf_set_array(w, "tokenizer.ggml.scores", RDG_GGUF_FLOAT32, scores, 4);
    rdg_gguf_set_array(w, "tokenizer.ggml.token_type", RDG_GGUF_INT32, types, 4);
    if (spoil) spoil(w);
    assert_ok(rdg_gguf_writer_begin(w, e), e);
    assert_ok(rdg_gguf_writer_finish(w, e), e);
    rdg_gguf_writer_destroy(w);
    assert_ok(rdg_gguf_open(out, NULL, &g, e), e);
    unlink(out);
    rdg_err err = rdg_tokenizer_create(g, &warnings, &t, e);
    rdg_gguf_close(g);
    assert_true((err == 0) == (t != NULL));
    rdg_tokenizer_destroy(t);
    return err;
}

static void no_model(rdg_gguf_writer *w)
{
    rdg_gguf_unset(w, "tokenizer.ggml.model");
}
static void model_none(rdg_gguf_writer *w)
{
    rdg_gguf_set_str(w, "tokenizer.ggml.model", "no_vocab");
}
static void model_unknown(rdg_gguf_writer *w)
{
    rdg_gguf_set_str(w, "tokenizer.ggml.model", "rwkv");
}
static void model_number(rdg_gguf_writer *w)
{
    rdg_gguf_set_u32(w, "tokenizer.ggml.model", 1);
}
static void no_tokens(rdg_gguf_writer *w)
{
    rdg_gguf_unset(w, "tokenizer.ggml.tokens");
}
static void no_scores(rdg_gguf_writer *w)
{
    rdg_gguf_unset(w, "tokenizer.ggml.scores");
}
static void scores_bytes(rdg_gguf_writer *w)
{
    rdg_gguf_set_array(w, "tokenizer.ggml.scores", RDG_GGUF_UINT8, "\0\0\0\0", 4);
}
static void scores_short(rdg_gguf_writer *w)
{
    rdg_gguf_set_array(w, "tokenizer.ggml.scores", RDG_GGUF_FLOAT32, (float[]){0, 0}, 2);
}
static void scores_nan(rdg_gguf_writer *w)
{
    rdg_gguf_set_array(w, "tokenizer.ggml.scores", RDG_GGUF_FLOAT32, "\0\0\0\0\0\0\xc0\x7f\0\0\0\0\0\0\0\0",
                       4);
}
static void types_bytes(rdg_gguf_writer *w)
{
    rdg_gguf_set_array(w, "tokenizer.ggml.token_type", RDG_GGUF_UINT8, "\1\1\1\1", 4);
}
static void types_unknown(rdg_gguf_writer *w)
{
    rdg_gguf_set_array(w, "tokenizer.ggml.token_type", RDG_GGUF_INT32, (int32_t[]){1, 1, 1, 7}, 4);
}
static void byte_signed(rdg_gguf_writer *w)
{
    static const rdg_str tokens[] = {{"<unk>", 5}, {"<s>", 3}, {"a", 1}, {"<0x-1>", 6}};
    rdg_gguf_set_str_array(w, "tokenizer.ggml.tokens", tokens, 4);
}
static void byte_lower(rdg_gguf_writer *w)
{
    static const rdg_str tokens[] = {{"<unk>", 5}, {"<s>", 3}, {"a", 1}, {"<0x0a>", 6}};
    rdg_gguf_set_str_array(w, "tokenizer.ggml.tokens", tokens, 4);
}
static void bos_outside(rdg_gguf_writer *w)
{
    rdg_gguf_set_u32(w, "tokenizer.ggml.bos_token_id", 4);
}
static void bos_string(rdg_gguf_writer *w)
{
    rdg_gguf_set_str(w, "tokenizer.ggml.bos_token_id", "1");
}
static void bad_expression(rdg_gguf_writer *w)
{
    static const rdg_str bad[] = {{"(a", 2}};
    rdg_gguf_set_str(w, "tokenizer.ggml.model", "gpt2");
    rdg_gguf_set_str_array(w, "ridge.tokenizer.pre_expressions", bad, 1);
}
static void charsmap_short(rdg_gguf_writer *w)
{
    rdg_gguf_set_str(w, "tokenizer.ggml.model", "t5");
    rdg_gguf_set_array(w, "tokenizer.ggml.precompiled_charsmap", RDG_GGUF_UINT8, "\xff\xff\xff\x7f\0\0\0\0",
                       8);
}
static void strip_outside(rdg_gguf_writer *w)
{
    rdg_gguf_set_array(w, "ridge.tokenizer.strip_left", RDG_GGUF_INT32, (int32_t[]){4}, 1);
}
static void selftest_counts(rdg_gguf_writer *w)
{
    static const rdg_str texts[] = {{"a", 1}};
    rdg_gguf_set_str_array(w, "ridge.tokenizer.selftest.texts", texts, 1);
    rdg_gguf_set_array(w, "ridge.tokenizer.selftest.counts", RDG_GGUF_INT32, (int32_t[]){2}, 1);
    rdg_gguf_set_array(w, "ridge.tokenizer.selftest.ids", RDG_GGUF_INT32, (int32_t[]){2}, 1);
}
static void selftest_differs(rdg_gguf_writer *w)
{
    selftest_counts(w);
    rdg_gguf_set_array(w, "ridge.tokenizer.selftest.counts", RDG_GGUF_INT32, (int32_t[]){1}, 1);
}

static void test_lying_files(void **state)
{
    static const struct {
        void (*spoil)(rdg_gguf_writer *w);
        rdg_err want;
        const char *message; /* in the error, or in the warning when there is none */
    } cases[] = {
        {NULL, RDG_OK, ""},
        {no_model, RDG_E_NOT_FOUND, "tokenizer.ggml.model"},
        {model_none, RDG_E_NOT_FOUND, "no_vocab"},
        {model_unknown, RDG_E_UNSUPPORTED, "rwkv"},
        {model_number, RDG_E_MALFORMED, "tokenizer.ggml.model"},
        {no_tokens, RDG_E_MALFORMED, "tokenizer.ggml.tokens"},
        {no_scores, RDG_E_MALFORMED, "tokenizer.ggml.scores"},
        {scores_bytes, RDG_E_MALFORMED, "tokenizer.ggml.scores"},
        {scores_short, RDG_E_MALFORMED, "tokenizer.ggml.scores"},
        {scores_nan, RDG_E_MALFORMED, "token 1"},
        {types_bytes, RDG_E_MALFORMED, "tokenizer.ggml.token_type"},
        {types_unknown, RDG_E_MALFORMED, "token 3"},
        {byte_signed, RDG_E_MALFORMED, "<0x-1>"},
        {byte_lower, RDG_E_MALFORMED, "<0x0a>"},
        {bos_outside, RDG_OK, "bos_token_id"},
        {bos_string, RDG_E_MALFORMED, "bos_token_id"},
        {bad_expression, RDG_E_MALFORMED, "(a"},
        {charsmap_short, RDG_E_MALFORMED, "charsmap"},
        {strip_outside, RDG_E_MALFORMED, "strip_left"},
        {selftest_counts, RDG_E_MALFORMED, "selftest.counts"},
        {selftest_differs, RDG_OK, "reference texts"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rdg_error e = {0};
        rdg_err err = load_spoiled(cases[i].spoil, &e);
        const char *text = err ? e.message : last_warning;
        if (err != cases[i].want || !strstr(text, cases[i].message)) {
            print_error("case %zu: %s: \"%s\"\n", i, rdg_err_name(err), text);
            fail();
        }
    }
}

/* A vocabulary without BOS: none is added, also when asked for. */
static void test_no_bos(void **state)
{
    static const rdg_str tokens[] = {{"a", 1}, {"b", 1}, {"ab", 2}, {"bba", 3}};
    static const rdg_str merges[] = {{"a b", 3}};
    char out[] = "/tmp/ridge-tokenizer-XXXXXX";
    rdg_error e = {0};
    rdg_gguf_writer *w;
    (void)state;
    int fd = mkstemp(out);
    assert_true(fd >= 0);
    close(fd);
    assert_ok(rdg_gguf_writer_create(out, &w, &e), &e);
    rdg_gguf_set_str(w, "general.architecture", "llama");
    rdg_gguf_set_str(w, "tokenizer.ggml.model", "gpt2");
    rdg_gguf_set_str(w, "tokenizer.ggml.pre", "llama-bpe"); /* adds BOS by default */
    rdg_gguf_set_str_array(w, "tokenizer.ggml.tokens", tokens, 4);
    rdg_gguf_set_str_array(w, "tokenizer.ggml.merges", merges, 1);
    assert_ok(rdg_gguf_writer_begin(w, &e), &e);
    assert_ok(rdg_gguf_writer_finish(w, &e), &e);
    rdg_gguf_writer_destroy(w);
    rdg_tokenizer *t = open_tokenizer(out);
    unlink(out);
    assert_int_equal(rdg_tokenizer_bos(t), -1);
    assert_int_equal(rdg_tokenizer_eos(t), -1);
    assert_false(rdg_tokenizer_add_bos(t));
    check_ids(t, "aabb", false, true, 3, (int32_t[]){0, 2, 1});
    check_ids(t, "bba", false, true, 1, (int32_t[]){3}); /* "llama-bpe" takes whole words before it merges */
    check_ids(t, "bbab", false, true, 3, (int32_t[]){1, 1, 2});
    check_ids(t, "", false, true, 0, NULL);
    rdg_tokenizer_destroy(t);
}

static void small_unigram(rdg_gguf_writer *w)
{
    static const rdg_str tokens[] = {{"<unk>", 5}, {"a", 1}, {"ab", 2}, {"c", 1}};
    rdg_gguf_set_str(w, "tokenizer.ggml.model", "t5");
    rdg_gguf_set_u32(w, "tokenizer.ggml.unknown_token_id", 0);
    rdg_gguf_set_bool(w, "tokenizer.ggml.add_eos_token", false);
    rdg_gguf_set_str_array(w, "tokenizer.ggml.tokens", tokens, 4);
    rdg_gguf_set_array(w, "tokenizer.ggml.scores", RDG_GGUF_FLOAT32, (float[]){0, -1, -5, -2}, 4);
    rdg_gguf_set_array(w, "tokenizer.ggml.token_type", RDG_GGUF_INT32, (int32_t[]){2, 1, 1, 1}, 4);
    static const rdg_str texts[] = {{"ab", 2}, {"abbc", 4}, {"", 0}};
    rdg_gguf_set_str_array(w, "ridge.tokenizer.selftest.texts", texts, 3);
    rdg_gguf_set_array(w, "ridge.tokenizer.selftest.counts", RDG_GGUF_INT32, (int32_t[]){1, 3, 0}, 3);
    rdg_gguf_set_array(w, "ridge.tokenizer.selftest.ids", RDG_GGUF_INT32, (int32_t[]){2, 2, 0, 3}, 4);
}

/* An unknown character costs more than any token: "ab" is not "a" and an unknown. */
static void test_unigram_unknown(void **state)
{
    rdg_error e = {0};
    (void)state;
    assert_ok(load_spoiled(small_unigram, &e), &e);
    assert_string_equal(last_warning, "");
}

/* One tokenizer, several threads. */
typedef struct job {
    const rdg_tokenizer *t;
    const char *text;
    size_t n, n_want;
    const int32_t *want;
    bool ok;
} job;

static void *work(void *arg)
{
    job *j = arg;
    j->ok = true;
    for (int round = 0; round < 20; round++) {
        int32_t *ids;
        size_t n;
        rdg_error e;
        if (rdg_tokenize(j->t, j->text, j->n, (rdg_tokenize_params){0}, &ids, &n, &e)) {
            j->ok = false;
            break;
        }
        if (n != j->n_want || memcmp(ids, j->want, n * sizeof *ids) != 0) j->ok = false;
        rdg_tokens_free(ids);
    }
    return NULL;
}

static void test_threads(void **state)
{
    enum { N = 4 };
    pthread_t threads[N];
    job jobs[N];
    rdg_error e = {0};
    int32_t *ids;
    size_t n, n_ids;
    (void)state;
    rdg_tokenizer *t = open_tokenizer(DATA "/gpt-2.gguf");
    char *text = read_text(DATA "/texts.inp", &n);
    assert_ok(rdg_tokenize(t, text, n, (rdg_tokenize_params){0}, &ids, &n_ids, &e), &e);
    for (int i = 0; i < N; i++) {
        jobs[i] = (job){t, text, n, n_ids, ids, false};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &jobs[i]), 0);
    }
    for (int i = 0; i < N; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < N; i++) assert_true(jobs[i].ok);
    rdg_tokens_free(ids);
    rdg_free(text);
    rdg_tokenizer_destroy(t);
}

/* Processor time that n bytes of one word take. */
static double seconds_of_word(rdg_tokenizer *t, const char *text, size_t n)
{
    rdg_error e = {0};
    int32_t *ids;
    size_t n_ids;
    const clock_t start = clock();
    assert_ok(rdg_tokenize(t, text, n, (rdg_tokenize_params){0}, &ids, &n_ids, &e), &e);
    assert_true(n_ids >= 1);
    rdg_tokens_free(ids);
    return (double)(clock() - start) / CLOCKS_PER_SEC;
}

/* One word of a megabyte must not take quadratic time, 64 times as much as an eighth of it. */
static void test_long_word(void **state)
{
    enum { N = 1 << 20 };
    static const char *const names[] = {"gpt-2", "phi-3", "bert-bge"};
    char *text = rdg_alloc(N);
    (void)state;
    assert_non_null(text);
    memset(text, 'a', N);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, DATA "/%s.gguf", names[i]);
        rdg_tokenizer *t = open_tokenizer(path);
        const double part = seconds_of_word(t, text, N / 8), whole = seconds_of_word(t, text, N);
        if (whole > 24 * part + 0.5) fail_msg("%s: %.3f s for an eighth, %.3f s", names[i], part, whole);
        rdg_tokenizer_destroy(t);
    }
    rdg_free(text);
}

/* A token far longer than any buffer one might set aside for a piece (CVE-2025-49847 overflowed such a one).
 */
static void test_long_token(void **state)
{
    enum { N = 300000 };
    static const float scores[] = {0, 0, -1, 0};
    static const int32_t types[] = {RDG_TOKEN_UNKNOWN, RDG_TOKEN_CONTROL, RDG_TOKEN_NORMAL, RDG_TOKEN_BYTE};
    static const int32_t ids[] = {2, 2};
    char out[] = "/tmp/ridge-tokenizer-XXXXXX";
    char *piece = rdg_alloc(N), *text;
    rdg_gguf_writer *w;
    rdg_error e = {0};
    size_t n;
    (void)state;
    assert_non_null(piece);
    memset(piece, 'x', N);
    rdg_str tokens[] = {{"<unk>", 5}, {"<s>", 3}, {piece, N}, {"<0x0A>", 6}};
    int fd = mkstemp(out);
    assert_true(fd >= 0);
    close(fd);
    assert_ok(rdg_gguf_writer_create(out, &w, &e), &e);
    rdg_gguf_set_str(w, "general.architecture", "llama");
    rdg_gguf_set_str(w, "tokenizer.ggml.model", "llama");
    rdg_gguf_set_str_array(w, "tokenizer.ggml.tokens", tokens, 4);
    rdg_gguf_set_array(w, "tokenizer.ggml.scores", RDG_GGUF_FLOAT32, scores, 4);
    rdg_gguf_set_array(w, "tokenizer.ggml.token_type", RDG_GGUF_INT32, types, 4);
    assert_ok(rdg_gguf_writer_begin(w, &e), &e);
    assert_ok(rdg_gguf_writer_finish(w, &e), &e);
    rdg_gguf_writer_destroy(w);
    rdg_tokenizer *t = open_tokenizer(out);
    unlink(out);
    assert_ok(rdg_detokenize(t, ids, 2, false, &text, &n, &e), &e);
    assert_int_equal(n, 2 * N);
    for (size_t i = 0; i < n; i += N) assert_memory_equal(text + i, piece, N);
    rdg_text_free(text);
    rdg_str bytes = rdg_token_bytes(t, 2, false);
    assert_int_equal(bytes.n, N);
    rdg_tokenizer_destroy(t);
    rdg_free(piece);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_vectors),
        cmocka_unit_test(test_more_reference_vectors),
        cmocka_unit_test(test_folders),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_stream_bytes),
        cmocka_unit_test(test_special),
        cmocka_unit_test(test_spans),
        cmocka_unit_test(test_spans_and_control_tokens),
        cmocka_unit_test(test_shorter_tokens),
        cmocka_unit_test(test_lying_files),
        cmocka_unit_test(test_no_bos),
        cmocka_unit_test(test_unigram_unknown),
        cmocka_unit_test(test_long_word),
        cmocka_unit_test(test_long_token),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

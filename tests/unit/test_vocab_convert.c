/* Folder → GGUF → tokenizer. The demo model's ids come from the library that trained it. */
#include "../support/support.h"
#include "base/file.h"
#include "base/mem.h"
#include "convert/vocab.h"
#include <ridge/tokenizer.h>

#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#define TINY RIDGE_SOURCE_DIR "/models/ridge-tiny"

static char dir[64]; /* scratch */

static void in_dir(char *path, size_t n, const char *name)
{
    snprintf(path, n, "%s/%s", dir, name);
}

static void write_file(const char *name, const char *text)
{
    char path[128];
    in_dir(path, sizeof path, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    fclose(f);
}

static void remove_file(const char *name)
{
    char path[128];
    in_dir(path, sizeof path, name);
    unlink(path);
}

static int setup(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/ridge-vocab-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    static const char *const names[] = {"out.gguf",
                                        "tokenizer.json",
                                        "tokenizer_config.json",
                                        "vocab.json",
                                        "merges.txt",
                                        "tokenizer.model",
                                        "config.json",
                                        "generation_config.json",
                                        "chat_template.jinja",
                                        "added_tokens.json"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) remove_file(names[i]);
    return rmdir(dir);
}

/* Converts the folder and opens the result. */
static rdg_err convert(const char *from, int64_t n_vocab, rdg_vocab_report *r, rdg_gguf **g, rdg_error *e)
{
    char path[128];
    rdg_gguf_writer *w;
    *g = NULL;
    in_dir(path, sizeof path, "out.gguf");
    assert_ok(rdg_gguf_writer_create(path, &w, e), e);
    rdg_gguf_set_str(w, "general.architecture", "llama");
    rdg_err err = rdg_vocab_convert(from, n_vocab, w, r, NULL, e);
    if (!err) {
        assert_ok(rdg_gguf_writer_begin(w, e), e);
        assert_ok(rdg_gguf_writer_finish(w, e), e);
    }
    rdg_gguf_writer_destroy(w);
    if (!err) assert_ok(rdg_gguf_open(path, NULL, g, e), e);
    return err;
}

static void test_demo_model(void **state)
{
    (void)state;
    rdg_error e = {0};
    rdg_vocab_report r;
    rdg_gguf *g;
    rdg_tokenizer *t;
    char *data;
    size_t bytes;
    assert_ok(convert(TINY, 8192, &r, &g, &e), &e);
    assert_int_equal(r.n_warnings, 0);
    assert_string_equal(r.model, "gpt2");
    assert_string_equal(r.pre, "smaug-bpe");
    assert_int_equal(r.n_tokens, 8192);
    assert_int_equal(r.n_padding, 0);
    assert_ok(rdg_tokenizer_create(g, NULL, &t, &e), &e);
    rdg_gguf_close(g);
    assert_int_equal(rdg_tokenizer_bos(t), 1);
    assert_int_equal(rdg_tokenizer_eos(t), 0);
    assert_true(rdg_tokenizer_add_bos(t));
    assert_false(rdg_tokenizer_add_eos(t));
    assert_true(rdg_token_is_end(t, 0));
    assert_true(rdg_token_is_end(t, rdg_token_find(t, "<|im_end|>", 10)));
    assert_int_equal(rdg_token_kind(t, 1), RDG_TOKEN_CONTROL);

    assert_ok(rdg_file_read(TINY "/reference.json", 1 << 20, false, &data, &bytes, &e), &e);
    json_t *root = json_loadb(data, bytes, 0, NULL), *example;
    assert_non_null(root);
    rdg_free(data);
    size_t i, k, checked = 0;
    json_array_foreach(json_object_get(root, "examples"), i, example)
    {
        json_t *prompt = json_object_get(example, "prompt"), *want = json_object_get(example, "token_ids");
        int32_t *ids;
        size_t n;
        assert_ok(rdg_tokenize(t, json_string_value(prompt), json_string_length(prompt),
                               (rdg_tokenize_params){.add_special = true}, &ids, &n, &e),
                  &e);
        assert_int_equal(n, json_array_size(want));
        for (k = 0; k < n; k++) assert_int_equal(ids[k], json_integer_value(json_array_get(want, k)));
        rdg_tokens_free(ids);
        checked++;
    }
    assert_true(checked >= 3);
    json_decref(root);
    rdg_tokenizer_destroy(t);
    rdg_vocab_report_finish(&r);
}

static const char small_bpe[] =
    "{\"added_tokens\":[{\"id\":5,\"content\":\"<s>\",\"special\":true},{\"id\":7,\"content\":\"<u>\"}],"
    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
    "\"b+|c\"},"
    "\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\",\"use_regex\":false,\"add_prefix_space\":false}]},"
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"aa\":4},\"merges\":[\"a "
    "b\",[\"a\",\"a\"]]}}";

/* vocab.json and merges.txt, added tokens from two more files, ids from config.json, the template from its
 * own file. */
static void test_pair(void **state)
{
    (void)state;
    rdg_error e = {0};
    rdg_vocab_report r;
    rdg_gguf *g;
    rdg_tokenizer *t;
    rdg_str s;
    write_file("vocab.json", "{\"a\":0,\"b\":1,\"ab\":2,\"\xc4\xa0\":3,\"\xc4\xa0"
                             "ab\":4}");
    write_file("merges.txt", "#version: 0.2\na b\n\xc4\xa0 ab\n");
    write_file("added_tokens.json", "{\"<|im_end|>\":5}");
    write_file("tokenizer_config.json",
               "{\"tokenizer_class\":\"Qwen2Tokenizer\",\"chat_template\":\"old\",\"added_tokens_decoder\":"
               "{\"6\":{\"content\":\"<tool>\",\"special\":false},\"7\":{\"content\":\"<pre>\",\"special\":"
               "true,\"rstrip\":true}}}");
    write_file("config.json", "{\"text_config\":{\"eos_token_id\":5,\"bos_token_id\":7}}");
    write_file("chat_template.jinja", "new");
    assert_ok(convert(dir, 0, &r, &g, &e), &e);
    assert_int_equal(r.n_warnings, 0);
    assert_string_equal(r.pre, "qwen2");
    assert_int_equal(r.n_tokens, 8);
    assert_ok(rdg_gguf_get_str(g, "tokenizer.chat_template", &s, &e), &e);
    assert_int_equal(s.n, 3);
    assert_memory_equal(s.p, "new", 3);
    assert_ok(rdg_tokenizer_create(g, NULL, &t, &e), &e);
    rdg_gguf_close(g);
    assert_int_equal(rdg_tokenizer_eos(t), 5);
    assert_int_equal(rdg_tokenizer_bos(t), 7);
    assert_int_equal(rdg_token_kind(t, 5), RDG_TOKEN_CONTROL); /* looks like it */
    assert_int_equal(rdg_token_kind(t, 6), RDG_TOKEN_USER_DEFINED);
    assert_int_equal(rdg_token_kind(t, 7), RDG_TOKEN_CONTROL);
    int32_t *ids;
    size_t n;
    assert_ok(rdg_tokenize(t, "<pre> \n ab ab<tool>", 19, (rdg_tokenize_params){.parse_special = true}, &ids,
                           &n, &e),
              &e);
    const int32_t want[] = {7, 2, 4, 6};
    assert_int_equal(n, 4);
    assert_memory_equal(ids, want, sizeof want);
    rdg_tokens_free(ids);
    rdg_tokenizer_destroy(t);
    rdg_vocab_report_finish(&r);
}

/* A model with fewer rows than the tokenizer has tokens: said, and no id is out of range. */
static void test_cut(void **state)
{
    (void)state;
    rdg_error e = {0};
    rdg_vocab_report r;
    rdg_gguf *g;
    rdg_tokenizer *t;
    write_file("tokenizer.json", small_bpe);
    write_file("tokenizer_config.json", "{\"bos_token\":\"<u>\",\"eos_token\":\"<s>\"}");
    assert_ok(convert(dir, 6, &r, &g, &e), &e);
    assert_int_equal(r.n_tokens, 6);
    bool cut = false, missing = false;
    for (int i = 0; i < r.n_warnings; i++) {
        cut |= strstr(r.warnings[i], "8 tokens") != NULL;
        missing |= strstr(r.warnings[i], "bos_token") != NULL;
    }
    assert_true(cut && missing);
    assert_ok(rdg_tokenizer_create(g, NULL, &t, &e), &e);
    rdg_gguf_close(g);
    assert_int_equal(rdg_tokenizer_n_vocab(t), 6);
    assert_int_equal(rdg_tokenizer_bos(t), -1);
    assert_int_equal(rdg_tokenizer_eos(t), 5);
    rdg_tokenizer_destroy(t);
    rdg_vocab_report_finish(&r);
}

static void test_malformed(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{", "tokenizer.json"},
        {"{}", "model"},
        {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{}}}", "WordLevel"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":[],\"merges\":[]}}", "model.vocab"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", "id 0"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}", "id -1"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":9000000},\"merges\":[]}}", "id 9000000"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":\"0\"},\"merges\":[]}}", "not an integer"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}", "merges[0]"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}}", "merges[0]"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}", "neither byte-level"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"added_tokens\":[{\"id\":1}]}",
         "added_tokens[0]"},
        {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":3,\"vocab\":[[\"a\",0]]}}", "unk_id 3"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\"]]}}", "vocab[0]"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rdg_error e = {0};
        rdg_vocab_report r;
        rdg_gguf *g;
        write_file("tokenizer.json", cases[i].text);
        rdg_err err = convert(dir, 0, &r, &g, &e);
        if ((err != RDG_E_MALFORMED && err != RDG_E_UNSUPPORTED) || !strstr(e.message, cases[i].message)) {
            print_error("case %zu: %s: %s\n", i, rdg_err_name(err), e.message);
            fail();
        }
        rdg_vocab_report_finish(&r);
    }
    remove_file("tokenizer.json");
    write_file("tokenizer.model", "\x0a\x03\x0a\x01");
    rdg_error e = {0};
    rdg_vocab_report r;
    rdg_gguf *g;
    assert_error(convert(dir, 0, &r, &g, &e), RDG_E_MALFORMED, &e, "tokenizer.model");
    rdg_vocab_report_finish(&r);
}

static void test_no_tokenizer(void **state)
{
    (void)state;
    rdg_error e = {0};
    rdg_vocab_report r;
    rdg_gguf *g;
    assert_error(convert(dir, 8, &r, &g, &e), RDG_E_NOT_FOUND, &e, "tokenizer.json");
    rdg_vocab_report_finish(&r);
}

/* An expression without a common name travels in the file; ids without a token are padded; named templates.
 */
static void test_small(void **state)
{
    (void)state;
    rdg_error e = {0};
    rdg_vocab_report r;
    rdg_gguf *g;
    rdg_tokenizer *t;
    rdg_str s;
    int32_t *ids;
    size_t n;
    write_file("tokenizer.json", small_bpe);
    write_file("tokenizer_config.json", "{\"bos_token\":{\"content\":\"<s>\"},\"add_bos_token\":true,\"chat_"
                                        "template\":[{\"name\":\"default\","
                                        "\"template\":\"D\"},{\"name\":\"tool_use\",\"template\":\"T\"}]}");
    write_file("generation_config.json", "{\"eos_token_id\":[5,-3,99999,7]}");
    write_file("config.json", "{\"pad_token_id\":-1,\"cls_token_id\":99999}"); /* "none", and out of range */
    assert_ok(convert(dir, 10, &r, &g, &e), &e);
    assert_int_equal(r.n_warnings, 1); /* the expression has no name */
    assert_int_equal(r.n_padding, 3);  /* 6, 8, 9 */
    assert_ok(rdg_gguf_get_str(g, "tokenizer.chat_template", &s, &e), &e);
    assert_memory_equal(s.p, "D", 1);
    assert_ok(rdg_gguf_get_str(g, "tokenizer.chat_template.tool_use", &s, &e), &e);
    assert_memory_equal(s.p, "T", 1);
    assert_ok(rdg_tokenizer_create(g, NULL, &t, &e), &e);
    assert_null(rdg_gguf_find(g, "tokenizer.ggml.padding_token_id"));
    assert_null(rdg_gguf_find(g, "tokenizer.ggml.cls_token_id"));
    rdg_gguf_close(g);
    assert_int_equal(rdg_tokenizer_bos(t), 5);
    assert_int_equal(rdg_tokenizer_eos(t), 5);
    assert_int_equal(rdg_tokenizer_eot(t), 7);
    assert_true(rdg_token_is_end(t, 7));
    assert_int_equal(rdg_token_kind(t, 6), RDG_TOKEN_UNUSED);
    assert_memory_equal(rdg_token_piece(t, 6).p, "[PAD6]", 7);
    /* "aaab<u>": the expression cuts before b, so "ab" is not merged */
    assert_ok(rdg_tokenize(t, "aaab<u><s>", 10, (rdg_tokenize_params){.add_special = true}, &ids, &n, &e),
              &e);
    const int32_t want[] = {5, 4, 0, 1, 7};
    assert_true(n >= 5); /* bytes of "<s>" have no tokens here */
    assert_memory_equal(ids, want, sizeof want);
    assert_int_equal(n, 5);
    rdg_tokens_free(ids);
    rdg_tokenizer_destroy(t);
    rdg_vocab_report_finish(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_demo_model, setup, teardown),
        cmocka_unit_test_setup_teardown(test_small, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pair, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(test_malformed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_tokenizer, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

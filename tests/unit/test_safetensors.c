/* safetensors files and folders: what is legal is read, what is not is refused with a reason. */
#include "../support/support.h"
#include "../support/temp_dir.h"
#include "base/file.h"
#include "base/mem.h"
#include "format/safetensors.h"

#include <unistd.h>

/* The file with this header and so many bytes of data, whose values count up. */
static unsigned char *build(const char *header, size_t data_bytes, size_t *bytes)
{
    uint64_t n = strlen(header);
    unsigned char *p = malloc(8 + n + data_bytes + 1);
    assert_non_null(p);
    memcpy(p, &n, 8);
    memcpy(p + 8, header, n);
    for (size_t i = 0; i < data_bytes; i++) p[8 + n + i] = (unsigned char)i;
    *bytes = 8 + n + data_bytes;
    return p;
}

static void write_file(const char *name, const void *data, size_t bytes)
{
    char *path = rdg_path_join(dir, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
    rdg_free(path);
}

static void write_model(const char *name, const char *header, size_t data_bytes)
{
    size_t bytes;
    unsigned char *p = build(header, data_bytes, &bytes);
    write_file(name, p, bytes);
    free(p);
}

static void remove_file(const char *name)
{
    char *path = rdg_path_join(dir, name);
    unlink(path);
    rdg_free(path);
}

static void test_legal(void **state)
{
    (void)state;
    size_t bytes;
    rdg_error e;
    rdg_safetensors *s;
    unsigned char *p = build(
        "{\"__metadata__\":{\"format\":\"pt\"},\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[4,"
        "16]},"
        "\"scalar\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
        "\"none\":{\"dtype\":\"I64\",\"shape\":[5,0],\"data_offsets\":[4,4]},"
        "\"\xc3\xa9.w\":{\"data_offsets\":[16,17],\"shape\":[1,1,1,1,1,1,1,1],\"dtype\":\"F8_E4M3\"}}    ",
        17, &bytes);
    assert_ok(rdg_safetensors_parse(p, bytes, &s, &e), &e);
    assert_int_equal(rdg_safetensors_n(s), 4);
    assert_int_equal(rdg_safetensors_bytes(s), 17);
    assert_int_equal(rdg_safetensors_n_files(s), 1);
    assert_string_equal(rdg_safetensors_file(s, 0), "");
    const rdg_safetensor *t = rdg_safetensors_at(s, 2); /* in order of data */
    assert_string_equal(t->name, "b");
    assert_ptr_equal(t, rdg_safetensors_find(s, "b"));
    assert_int_equal(t->dtype, RDG_DTYPE_BF16);
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->shape[0], 2);
    assert_int_equal(t->shape[1], 3);
    assert_int_equal(t->shape[2], 1);
    assert_int_equal(t->n_elements, 6);
    assert_int_equal(t->bytes, 12);
    assert_int_equal(((const unsigned char *)t->data)[0], 4);
    assert_ptr_equal(t->data, p + t->offset);
    assert_int_equal(rdg_safetensors_find(s, "scalar")->n_dims, 0);
    assert_int_equal(rdg_safetensors_find(s, "scalar")->n_elements, 1);
    assert_int_equal(rdg_safetensors_find(s, "none")->n_elements, 0);
    assert_string_equal(rdg_dtype_name(rdg_safetensors_find(s, "\xc3\xa9.w")->dtype), "F8_E4M3");
    assert_null(rdg_safetensors_find(s, "B"));
    assert_null(rdg_safetensors_at(s, 4));
    assert_null(rdg_safetensors_at(s, -1));
    rdg_safetensors_close(s);
    free(p);
    p = build("{}", 0, &bytes);
    assert_ok(rdg_safetensors_parse(p, bytes, &s, &e), &e);
    assert_int_equal(rdg_safetensors_n(s), 0);
    rdg_safetensors_close(s);
    free(p);
}

#define ENTRY(name, dtype, shape, offsets)                                                                   \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static const struct {
    const char *header;
    size_t data_bytes;
    rdg_err code;
    const char *part; /* of the message */
} lies[] = {
    {"{" ENTRY("a", "F32", "[2]", "[8,0]") "}", 8, RDG_E_MALFORMED, "'a': 'data_offsets'"},
    {"{" ENTRY("a", "F32", "[2]", "[-8,0]") "}", 8, RDG_E_MALFORMED, "'data_offsets'"},
    {"{" ENTRY("a", "F32", "[2]", "[0,8,9]") "}", 8, RDG_E_MALFORMED, "'data_offsets'"},
    {"{" ENTRY("a", "F32", "[2]", "[0]") "}", 8, RDG_E_MALFORMED, "'data_offsets'"},
    {"{" ENTRY("a", "F32", "[2]", "[0,8.0]") "}", 8, RDG_E_MALFORMED, "'data_offsets'"},
    {"{" ENTRY("a", "F32", "[2]", "[\\\"0\\\",8]") "}", 8, RDG_E_MALFORMED, "line 1"},
    {"{" ENTRY("a", "F32", "[2]", "[0,8]") "}", 7, RDG_E_MALFORMED, "ends at 8, the data section at 7"},
    {"{" ENTRY("a", "F32", "[2]", "[9223372036854775800,9223372036854775807]") "}", 8, RDG_E_MALFORMED,
     "data section"},
    {"{" ENTRY("a", "F32", "[2]", "[0,18446744073709551615]") "}", 8, RDG_E_MALFORMED, "line 1"},
    {"{" ENTRY("a", "F32", "[2]", "[0,8]") "}", 9, RDG_E_MALFORMED, "9 bytes of data"},
    {"{" ENTRY("a", "F32", "[2]", "[0,7]") "}", 8, RDG_E_MALFORMED, "need 8"},
    {"{" ENTRY("a", "F32", "[2]", "[1,9]") "}", 9, RDG_E_MALFORMED, "hole"},
    {"{" ENTRY("a", "U8", "[4]", "[0,4]") "," ENTRY("b", "U8", "[4]", "[3,7]") "}", 7, RDG_E_MALFORMED,
     "overlap"},
    {"{" ENTRY("a", "U8", "[4]", "[0,4]") "," ENTRY("b", "U8", "[4]", "[0,4]") "}", 4, RDG_E_MALFORMED,
     "overlap"},
    {"{" ENTRY("a", "U8", "[4]", "[0,4]") "," ENTRY("b", "U8", "[4]", "[5,9]") "}", 9, RDG_E_MALFORMED,
     "hole"},
    {"{" ENTRY("a", "U8", "[4]", "[0,4]") "," ENTRY("a", "U8", "[4]", "[4,8]") "}", 8, RDG_E_MALFORMED,
     "duplicate"},
    {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, RDG_E_MALFORMED,
     "duplicate"},
    {"{" ENTRY("a", "F31", "[2]", "[0,8]") "}", 8, RDG_E_UNSUPPORTED, "unknown dtype 'F31'"},
    {"{" ENTRY("a", "F32\\u0000", "[2]", "[0,8]") "}", 8, RDG_E_UNSUPPORTED, "unknown dtype 'F32\\x00'"},
    {"{" ENTRY("a", "f32", "[2]", "[0,8]") "}", 8, RDG_E_UNSUPPORTED, "unknown dtype 'f32'"},
    {"{" ENTRY("a", "F4", "[2]", "[0,1]") "}", 1, RDG_E_UNSUPPORTED, "unknown dtype 'F4'"},
    {"{" ENTRY("a", "U8", "[-2]", "[0,8]") "}", 8, RDG_E_MALFORMED, "dimension 0"},
    {"{" ENTRY("a", "U8", "[2,2.5]", "[0,8]") "}", 8, RDG_E_MALFORMED, "dimension 1"},
    {"{" ENTRY("a", "U8", "[4294967296,4294967296]", "[0,0]") "}", 0, RDG_E_MALFORMED, "63 bits"},
    {"{" ENTRY("a", "F64", "[1099511627776,1048576]", "[0,0]") "}", 0, RDG_E_MALFORMED, "63 bits"},
    {"{" ENTRY("a", "U8", "[9223372036854775807]", "[0,8]") "}", 8, RDG_E_MALFORMED, "dimension 0"},
    {"{" ENTRY("a", "U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}", 1, RDG_E_LIMIT, "9 dimensions"},
    {"{" ENTRY("a", "U8", "{}", "[0,1]") "}", 1, RDG_E_MALFORMED, "'shape' is an object"},
    {"{" ENTRY("", "U8", "[1]", "[0,1]") "}", 1, RDG_E_MALFORMED, "the name has 0 bytes"},
    {"{" ENTRY("a\\u0007", "U8", "[1]", "[0,1]") "}", 1, RDG_E_MALFORMED, "'a\\x07'"},
    {"{" ENTRY("a\\u0000b", "U8", "[1]", "[0,1]") "}", 1, RDG_E_MALFORMED, "line 1"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, RDG_E_MALFORMED, "'data_offsets' is missing"},
    {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, RDG_E_MALFORMED, "'shape' is missing"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, RDG_E_MALFORMED, "'dtype' is missing"},
    {"{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, RDG_E_MALFORMED,
     "'dtype' is an integer"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"more\":1}}", 1, RDG_E_MALFORMED,
     "4 members"},
    {"{\"a\":[]}", 0, RDG_E_MALFORMED, "'a': its entry is an array"},
    {"{\"__metadata__\":[]}", 0, RDG_E_MALFORMED, "'__metadata__' is an array"},
    {"{\"__metadata__\":{\"a\":1}}", 0, RDG_E_MALFORMED, "'a' is an integer"},
    {"{\"__metadata__\":{\"a\":[[[[[[[[[[]]]]]]]]]]}}", 0, RDG_E_LIMIT, "nested deeper"},
    {" {}", 0, RDG_E_MALFORMED, "begins with byte 20"},
    {"{} x", 0, RDG_E_MALFORMED, "line 1"},
    {"{\"a\"", 0, RDG_E_MALFORMED, "line 1"},
    {"[]", 0, RDG_E_MALFORMED, "begins with byte 5b"},
    {"{\"\xff\":1}", 0, RDG_E_MALFORMED, "line 1"},
};

static void test_lies(void **state)
{
    (void)state;
    for (int i = 0; i < RDG_COUNTOF(lies); i++) {
        size_t bytes;
        rdg_error e = {0};
        rdg_safetensors *s = (void *)&e;
        unsigned char *p = build(lies[i].header, lies[i].data_bytes, &bytes);
        print_message("%s\n", lies[i].header);
        assert_error(rdg_safetensors_parse(p, bytes, &s, &e), lies[i].code, &e, lies[i].part);
        assert_null(s);
        free(p);
    }
}

static void check_prefix(uint64_t n, rdg_err code, const char *part)
{
    unsigned char p[32] = "........{}";
    rdg_error e = {0};
    rdg_safetensors *s;
    memcpy(p, &n, 8);
    assert_error(rdg_safetensors_parse(p, 10, &s, &e), code, &e, part);
}

static void test_header_lengths(void **state)
{
    (void)state;
    rdg_error e;
    rdg_safetensors *s;
    check_prefix(UINT64_MAX, RDG_E_MALFORMED, "18446744073709551615");
    check_prefix(UINT64_MAX - 4, RDG_E_MALFORMED, "a header of");
    check_prefix((uint64_t)INT64_MAX + 1, RDG_E_MALFORMED, "a header of");
    check_prefix(3, RDG_E_MALFORMED, "a header of 3");
    check_prefix(1, RDG_E_MALFORMED, "line 1");
    for (size_t n = 0; n < 10; n++)
        assert_error(rdg_safetensors_parse("\2\0\0\0\0\0\0\0{}", n, &s, &e), RDG_E_MALFORMED, &e, "too few");
    /* over the cap of 100 MB and within the file */
    uint64_t n = 100000001;
    unsigned char *big = calloc(1, 8 + n);
    memcpy(big, &n, 8);
    big[8] = '{';
    assert_error(rdg_safetensors_parse(big, 8 + n, &s, &e), RDG_E_LIMIT, &e,
                 "offset 0: a header of 100000001");
    free(big);
    assert_error(rdg_safetensors_parse("GGUF\3\0\0\0\0\0\0\0", 12, &s, &e), RDG_E_UNSUPPORTED, &e, "GGUF");
    assert_error(rdg_safetensors_parse("version https://git-lfs", 20, &s, &e), RDG_E_UNSUPPORTED, &e, "LFS");
}

/* A valid file cut at every byte is an error, and so is one with a byte too many. */
static void test_truncation(void **state)
{
    (void)state;
    size_t bytes;
    rdg_error e;
    rdg_safetensors *s;
    unsigned char *p =
        build("{" ENTRY("a", "F32", "[2]", "[0,8]") "," ENTRY("b", "U8", "[1]", "[8,9]") "}", 9, &bytes);
    for (size_t n = 0; n < bytes; n++) {
        unsigned char *cut =
            malloc(n ? n : 1); /* its own block, so that a checker sees a read past its end */
        memcpy(cut, p, n);
        assert_int_not_equal(rdg_safetensors_parse(cut, n, &s, &e), RDG_OK);
        assert_null(s);
        free(cut);
    }
    assert_ok(rdg_safetensors_parse(p, bytes, &s, &e), &e);
    rdg_safetensors_close(s);
    assert_error(rdg_safetensors_parse(p, bytes + 1, &s, &e), RDG_E_MALFORMED, &e, "10 bytes of data");
    free(p);
}

static void write_shards(void)
{
    write_model("model-00001-of-00002.safetensors", "{" ENTRY("a", "F32", "[2]", "[0,8]") "}", 8);
    write_model("model-00002-of-00002.safetensors", "{" ENTRY("b", "U8", "[3]", "[0,3]") "}", 3);
}

static void write_index(const char *text)
{
    write_file("model.safetensors.index.json", text, strlen(text));
}

#define SHARD_1 "\"model-00001-of-00002.safetensors\""
#define SHARD_2 "\"model-00002-of-00002.safetensors\""

static void check_shards(const char *path)
{
    rdg_error e;
    rdg_safetensors *s;
    assert_ok(rdg_safetensors_open(path, NULL, &s, &e), &e);
    assert_int_equal(rdg_safetensors_n(s), 2);
    assert_int_equal(rdg_safetensors_n_files(s), 2);
    assert_int_equal(rdg_safetensors_find(s, "b")->file, 1);
    assert_non_null(strstr(rdg_safetensors_file(s, 1), "model-00002-of-00002"));
    assert_int_equal(((const unsigned char *)rdg_safetensors_find(s, "b")->data)[2], 2);
    assert_ok(rdg_safetensors_recheck(s, &e), &e);
    rdg_safetensors_close(s);
}

static void refuse_index(const char *index, const char *part)
{
    rdg_error e = {0};
    rdg_safetensors *s;
    write_index(index);
    assert_error(rdg_safetensors_open(dir, NULL, &s, &e), RDG_E_MALFORMED, &e, part);
}

static void test_folder(void **state)
{
    (void)state;
    rdg_error e;
    rdg_safetensors *s;
    char *path;
    assert_error(rdg_safetensors_open(dir, NULL, &s, &e), RDG_E_IO, &e, "holds neither");
    write_shards();
    check_shards(dir);
    write_index("{\"metadata\":{\"total_size\":11},\"weight_map\":{\"a\":" SHARD_1 ",\"b\":" SHARD_2 "}}");
    check_shards(dir);
    path = rdg_path_join(dir, "model.safetensors.index.json");
    check_shards(path);
    rdg_free(path);
    refuse_index("{\"weight_map\":{\"a\":" SHARD_1 "}", "line 1");
    refuse_index("{\"weight_map\":{\"a\":" SHARD_1 ",\"b\":" SHARD_1 "}}", "'b' is not in");
    refuse_index("{\"weight_map\":{\"a\":" SHARD_1 ",\"b\":" SHARD_2 ",\"c\":" SHARD_2 "}}", "'c' is not in");
    refuse_index("{\"weight_map\":{\"a\":" SHARD_1 ",\"b\":" SHARD_2 ",\"b\":" SHARD_2 "}}", "duplicate");
    refuse_index("{\"weight_map\":{\"a\":\"../x.safetensors\"}}", "plain name");
    refuse_index("{\"weight_map\":{\"a\":\"/etc/passwd.safetensors\"}}", "plain name");
    refuse_index("{\"weight_map\":{\"a\":\"passwd\"}}", "plain name");
    refuse_index("{\"weight_map\":{\"a\":5}}", "plain name");
    refuse_index("{\"weight_map\":{}}", "at least one");
    refuse_index("{\"weight_map\":[]}", "an array");
    refuse_index("{}", "nothing");
    write_index("{\"weight_map\":{\"a\":\"model-00003-of-00002.safetensors\"}}");
    assert_error(rdg_safetensors_open(dir, NULL, &s, &e), RDG_E_IO, &e, "model-00003-of-00002");
    write_model("model-00001-of-00002.safetensors",
                "{" ENTRY("a", "F32", "[2]", "[0,8]") "," ENTRY("x", "U8", "[1]", "[8,9]") "}", 9);
    refuse_index("{\"weight_map\":{\"a\":" SHARD_1 ",\"b\":" SHARD_2 "}}", "'x' of");
    remove_file("model.safetensors.index.json");
    /* the same tensor in two files; a shard missing */
    write_model("model-00001-of-00002.safetensors", "{" ENTRY("b", "F32", "[2]", "[0,8]") "}", 8);
    assert_error(rdg_safetensors_open(dir, NULL, &s, &e), RDG_E_MALFORMED, &e, "'b': it is in");
    remove_file("model-00001-of-00002.safetensors");
    assert_error(rdg_safetensors_open(dir, NULL, &s, &e), RDG_E_MALFORMED, &e, "model of 2");
    path = rdg_path_join(dir, "model-00002-of-00002.safetensors");
    assert_ok(rdg_safetensors_open(path, NULL, &s, &e), &e);
    rdg_safetensors_close(s);
    rdg_free(path);
    remove_file("model-00002-of-00002.safetensors");
}

/* The models that come with ridge. */
static void test_models(void **state)
{
    (void)state;
    rdg_error e;
    rdg_safetensors *s;
    const char *source = getenv("RIDGE_SOURCE_DIR");
    if (!source) skip();
    char *path = rdg_path_join(source, "models/ridge-tiny");
    assert_ok(rdg_safetensors_open(path, NULL, &s, &e), &e);
    assert_int_equal(rdg_safetensors_n_files(s), 2);
    assert_non_null(rdg_safetensors_find(s, "model.embed_tokens.weight"));
    rdg_safetensors_close(s);
    rdg_free(path);
    path = rdg_path_join(source, "tests/data/golden/llama/model.safetensors");
    assert_ok(rdg_safetensors_open(path, NULL, &s, &e), &e);
    assert_true(rdg_safetensors_n(s) > 5);
    rdg_safetensors_close(s);
    rdg_free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_legal),          cmocka_unit_test(test_lies),
        cmocka_unit_test(test_header_lengths), cmocka_unit_test(test_truncation),
        cmocka_unit_test(test_folder),         cmocka_unit_test(test_models),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}

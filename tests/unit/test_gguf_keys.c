/* GGUF files whose header, keys, values or alignment have broken readers, one row each. */
#include "../support/gguf_hostile.h"

/* Header
 * ------------------------------------------------------------------------------------------------------ */

static void nothing(rdg_buf *b)
{
    rdg_buf_append(b, "", 0);
}

static void header_cut(rdg_buf *b)
{
    put_header(b, 0, 0);
    b->len--;
}

static void magic(rdg_buf *b, const char *m)
{
    rdg_buf_puts(b, m);
    put_zeros(b, 40);
}

static void magic_unknown(rdg_buf *b)
{
    magic(b, "GGUX");
}

static void magic_ggml(rdg_buf *b)
{
    magic(b, "lmgg");
}

static void magic_ggmf(rdg_buf *b)
{
    magic(b, "fmgg");
}

static void magic_ggjt(rdg_buf *b)
{
    magic(b, "tjgg");
}

static void magic_ggla(rdg_buf *b)
{
    magic(b, "algg");
}

static void magic_zip(rdg_buf *b)
{
    magic(b, "PK\3\4");
}

static void magic_lfs(rdg_buf *b)
{
    magic(b, "version https://git-lfs.github.com/spec/v1");
}

static void magic_safetensors(rdg_buf *b)
{
    put_u64(b, 64);
    magic(b, "{\"a\":");
}

static void version_0(rdg_buf *b)
{
    version(b, 0);
}

static void version_1(rdg_buf *b)
{
    version(b, 1);
}

static void version_4(rdg_buf *b)
{
    version(b, 4);
}

static void big_endian(rdg_buf *b)
{
    version(b, 3u << 24);
}

/* Counts that overflow an allocation */
static void n_kv_overflow(rdg_buf *b)
{
    put_header(b, 0, UINT64_MAX / 64 + 2);
    put_zeros(b, 64);
}

static void n_tensors_overflow(rdg_buf *b)
{
    put_header(b, UINT64_MAX / 368 + 2, 0);
    put_zeros(b, 64);
}

static void n_tensors_negative(rdg_buf *b)
{
    put_header(b, (uint64_t)INT64_MIN, 0);
    put_zeros(b, 64);
}

static void n_kv_one_too_many(rdg_buf *b)
{
    put_header(b, 0, 2);
    put_kv_u32(b, "a.long.enough.key", 1);
}

static void n_tensors_one_too_many(rdg_buf *b)
{
    put_header(b, 2, 0);
    put_tensor(b, "a.name.that.is.long.enough.for.two.tensors", 1, 4, 0, F32, 0);
}

static void n_kv_over_limit(rdg_buf *b)
{
    put_header(b, 0, 70000);
    put_zeros(b, 70000 * 14);
}

/* Keys and values
 * --------------------------------------------------------------------------------------------- */

static void key_length(rdg_buf *b, uint64_t n)
{
    put_header(b, 0, 1);
    put_u64(b, n);
    put_zeros(b, 40);
}

static void key_length_wraps(rdg_buf *b)
{
    key_length(b, UINT64_MAX);
}

static void key_length_negative(rdg_buf *b)
{
    key_length(b, (uint64_t)INT64_MAX + 1);
}

static void key_length_1_gib(rdg_buf *b)
{
    key_length(b, 1 << 30);
}

static void key_empty(rdg_buf *b)
{
    put_header(b, 0, 1);
    put_kv_u32(b, "", 1);
    put_zeros(b, 8);
}

static void key_too_long(rdg_buf *b)
{
    put_header(b, 0, 1);
    put_u64(b, 65536);
    put_zeros(b, 65536 + 16);
}

static void key_twice(rdg_buf *b)
{
    put_header(b, 0, 3);
    put_kv_u32(b, "dup", 1);
    put_kv_u32(b, "other", 1);
    put_kv_str(b, "dup", "x");
}

static void value_type(rdg_buf *b, uint32_t type)
{
    put_header(b, 0, 1);
    put_key(b, "k", type);
    put_zeros(b, 16);
}

static void value_type_13(rdg_buf *b)
{
    value_type(b, 13);
}

static void value_type_max(rdg_buf *b)
{
    value_type(b, UINT32_MAX);
}

static void bool_2(rdg_buf *b)
{
    put_header(b, 0, 1);
    put_key(b, "k", BOOL);
    put_u8(b, 2);
}

static void bool_in_array(rdg_buf *b)
{
    put_header(b, 0, 1);
    put_array(b, "k", BOOL, 3);
    rdg_buf_append(b, "\1\0\xff", 3);
}

static void value_cut(rdg_buf *b)
{
    put_header(b, 0, 1);
    put_key(b, "k", RDG_GGUF_UINT64);
    put_zeros(b, 7);
}

static void string_length(rdg_buf *b, uint64_t n)
{
    put_header(b, 0, 1);
    put_key(b, "k", STR);
    put_u64(b, n);
    put_zeros(b, 100);
}

static void string_length_wraps(rdg_buf *b)
{
    string_length(b, UINT64_MAX);
}

static void string_length_wraps_position(rdg_buf *b)
{
    string_length(b, UINT64_MAX - 24 - 8 - 1 - 4 - 8 + 1);
}

static void string_length_1_gib(rdg_buf *b)
{
    string_length(b, 1 << 30);
}

static void array_nested(rdg_buf *b)
{
    put_header(b, 0, 1);
    put_array(b, "k", RDG_GGUF_ARRAY, 1);
    put_zeros(b, 40);
}

static void array_element_type(rdg_buf *b)
{
    put_header(b, 0, 1);
    put_array(b, "k", 13, 1);
    put_zeros(b, 40);
}

static void array_count(rdg_buf *b, uint32_t element, uint64_t count)
{
    put_header(b, 0, 1);
    put_array(b, "k", element, count);
    put_zeros(b, 40);
}

static void array_bytes_wrap(rdg_buf *b)
{
    array_count(b, RDG_GGUF_UINT64, ((uint64_t)1 << 61) + 1);
}

static void array_strings_wrap(rdg_buf *b)
{
    array_count(b, STR, ((uint64_t)1 << 60) + 1);
}

static void array_count_2_63(rdg_buf *b)
{
    array_count(b, U8, (uint64_t)1 << 63);
}

static void array_count_1_gib(rdg_buf *b)
{
    array_count(b, U8, 1 << 30);
}

static void array_strings_1_gib(rdg_buf *b)
{
    array_count(b, STR, 1 << 30);
}

static void array_strings_lack(rdg_buf *b)
{
    array_count(b, STR, 5); /* five lengths of zero fit in 40 bytes; the last string is longer */
    uint64_t n = 1;
    memcpy(b->data + b->len - 8, &n, 8);
}

/* Alignment
 * --------------------------------------------------------------------------------------------------- */

static void alignment_0(rdg_buf *b)
{
    alignment(b, 0);
}

static void alignment_4(rdg_buf *b)
{
    alignment(b, 4);
}

static void alignment_24(rdg_buf *b)
{
    alignment(b, 24);
}

static void alignment_2_21(rdg_buf *b)
{
    alignment(b, 1 << 21);
}

static void alignment_2_31(rdg_buf *b)
{
    alignment(b, 1u << 31);
}

static void alignment_typed(rdg_buf *b, uint32_t type)
{
    put_header(b, 0, 1);
    put_key(b, "general.alignment", type);
    put_u64(b, 32);
}

static void alignment_int32(rdg_buf *b)
{
    alignment_typed(b, RDG_GGUF_INT32);
    b->len -= 4;
}

static void alignment_uint64(rdg_buf *b)
{
    alignment_typed(b, RDG_GGUF_UINT64);
}

static void alignment_string(rdg_buf *b)
{
    put_header(b, 0, 1);
    put_kv_str(b, "general.alignment", "32");
}

static void alignment_array(rdg_buf *b)
{
    put_header(b, 0, 1);
    put_array(b, "general.alignment", RDG_GGUF_UINT32, 0);
}

static void split_in_memory(rdg_buf *b)
{
    put_header(b, 0, 1);
    put_kv_u32(b, "split.count", 2);
}

static const hostile_row rows[] = {
    {"empty file", nothing, RDG_E_MALFORMED, "offset 0: a GGUF header has 24 bytes"},
    {"header cut", header_cut, RDG_E_MALFORMED, "offset 0: a GGUF header has 24 bytes, the file 23"},
    {"bad magic", magic_unknown, RDG_E_MALFORMED, "47 47 55 58"},
    {"GGML", magic_ggml, RDG_E_UNSUPPORTED, "GGML"},
    {"GGMF", magic_ggmf, RDG_E_UNSUPPORTED, "GGMF"},
    {"GGJT", magic_ggjt, RDG_E_UNSUPPORTED, "GGJT"},
    {"GGLA", magic_ggla, RDG_E_UNSUPPORTED, "GGLA"},
    {"zip", magic_zip, RDG_E_UNSUPPORTED, "zip"},
    {"Git LFS pointer", magic_lfs, RDG_E_UNSUPPORTED, "Git LFS"},
    {"safetensors", magic_safetensors, RDG_E_UNSUPPORTED, "safetensors"},
    {"version 0", version_0, RDG_E_UNSUPPORTED, "offset 4: GGUF version 0"},
    {"version 1", version_1, RDG_E_UNSUPPORTED, "offset 4: GGUF version 1"},
    {"version 4", version_4, RDG_E_UNSUPPORTED, "offset 4: GGUF version 4"},
    {"big-endian", big_endian, RDG_E_UNSUPPORTED, "big-endian"},
    {"n_kv * record overflows (CVE-2024-23605)", n_kv_overflow, RDG_E_MALFORMED, "offset 16"},
    {"n_tensors * record overflows (CVE-2024-21836, CVE-2026-27940)", n_tensors_overflow, RDG_E_MALFORMED,
     "offset 8"},
    {"n_tensors negative", n_tensors_negative, RDG_E_MALFORMED, "offset 8"},
    {"n_kv one too many", n_kv_one_too_many, RDG_E_MALFORMED, "key 1: the key needs 8 bytes"},
    {"n_tensors one too many", n_tensors_one_too_many, RDG_E_MALFORMED, "tensor 1: the name needs 8 bytes"},
    {"n_kv over the limit", n_kv_over_limit, RDG_E_LIMIT, "70000 keys"},
    {"key length wraps (CVE-2024-23496)", key_length_wraps, RDG_E_MALFORMED,
     "length of 18446744073709551615"},
    {"key length as signed seek", key_length_negative, RDG_E_MALFORMED, "length of 9223372036854775808"},
    {"key of 1 GiB in a small file", key_length_1_gib, RDG_E_MALFORMED, "length of 1073741824"},
    {"key empty", key_empty, RDG_E_MALFORMED, "the key is empty"},
    {"key too long", key_too_long, RDG_E_LIMIT, "65536 bytes"},
    {"key twice", key_twice, RDG_E_MALFORMED, "key 'dup': the key appears twice"},
    {"value type 13", value_type_13, RDG_E_MALFORMED, "key 'k': value type 13"},
    {"value type 2^32-1", value_type_max, RDG_E_MALFORMED, "value type 4294967295"},
    {"BOOL of 2", bool_2, RDG_E_MALFORMED, "BOOL value 2"},
    {"BOOL of 255 in an array", bool_in_array, RDG_E_MALFORMED, "offset 51: key 'k': BOOL value 255"},
    {"value cut", value_cut, RDG_E_MALFORMED, "the value needs 8 bytes, 7 are left"},
    {"string length wraps (CVE-2024-23496)", string_length_wraps, RDG_E_MALFORMED,
     "key 'k': a string has a length of"},
    {"string length wraps the position", string_length_wraps_position, RDG_E_MALFORMED,
     "key 'k': a string has a"},
    {"string of 1 GiB in a small file", string_length_1_gib, RDG_E_MALFORMED, "length of 1073741824"},
    {"array of arrays", array_nested, RDG_E_UNSUPPORTED, "an array of arrays"},
    {"array element type 13", array_element_type, RDG_E_MALFORMED, "array element type 13"},
    {"array bytes wrap (CVE-2024-21825)", array_bytes_wrap, RDG_E_MALFORMED, "UINT64 elements does not fit"},
    {"array of strings wraps", array_strings_wrap, RDG_E_MALFORMED, "STRING elements does not fit"},
    {"array of 2^63 elements", array_count_2_63, RDG_E_MALFORMED, "UINT8 elements does not fit"},
    {"array of 1 GiB in a small file", array_count_1_gib, RDG_E_MALFORMED, "UINT8 elements does not fit"},
    {"array of 2^30 strings in a small file", array_strings_1_gib, RDG_E_MALFORMED,
     "STRING elements does not fit"},
    {"array of strings lacks the last", array_strings_lack, RDG_E_MALFORMED,
     "a string has a length of 1 bytes, 0"},
    {"alignment 0", alignment_0, RDG_E_MALFORMED, "'general.alignment': an alignment of 0"},
    {"alignment 4", alignment_4, RDG_E_MALFORMED, "an alignment of 4,"},
    {"alignment 24", alignment_24, RDG_E_MALFORMED, "an alignment of 24"},
    {"alignment 2^21", alignment_2_21, RDG_E_MALFORMED, "an alignment of 2097152"},
    {"alignment 2^31", alignment_2_31, RDG_E_MALFORMED, "an alignment of 2147483648"},
    {"alignment INT32", alignment_int32, RDG_E_MALFORMED, "type INT32, it must be UINT32"},
    {"alignment UINT64", alignment_uint64, RDG_E_MALFORMED, "type UINT64"},
    {"alignment STRING", alignment_string, RDG_E_MALFORMED, "type STRING"},
    {"alignment ARRAY", alignment_array, RDG_E_MALFORMED, "type ARRAY"},
    {"a part of a split model in memory", split_in_memory, RDG_E_UNSUPPORTED, "open the file"},
};

static void test_rows(void **state)
{
    (void)state;
    refuse_rows(rows, RDG_COUNTOF(rows));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

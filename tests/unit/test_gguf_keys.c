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

static void magic_safetensors(rdg_buf *b)
{
    put_u64(b, 64);
    rdg_buf_puts(b, "{\"a\":");
    put_zeros(b, 40);
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

static void value_type(rdg_buf *b, uint64_t type)
{
    put_header(b, 0, 1);
    put_key(b, "k", (uint32_t)type);
    put_zeros(b, 16);
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

static void alignment_typed(rdg_buf *b, uint64_t type)
{
    put_header(b, 0, 1);
    put_key(b, "general.alignment", (uint32_t)type);
    put_u64(b, 32);
}

static void alignment_int32(rdg_buf *b)
{
    alignment_typed(b, RDG_GGUF_INT32);
    b->len -= 4;
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
    {"empty file", RDG_E_MALFORMED, "offset 0: a GGUF header has 24 bytes", nothing},
    {"header cut", RDG_E_MALFORMED, "offset 0: a GGUF header has 24 bytes, the file 23", header_cut},
    {"bad magic", RDG_E_MALFORMED, "47 47 55 58", .magic = "GGUX"},
    {"GGML", RDG_E_UNSUPPORTED, "GGML", .magic = "lmgg"},
    {"GGMF", RDG_E_UNSUPPORTED, "GGMF", .magic = "fmgg"},
    {"GGJT", RDG_E_UNSUPPORTED, "GGJT", .magic = "tjgg"},
    {"GGLA", RDG_E_UNSUPPORTED, "GGLA", .magic = "algg"},
    {"zip", RDG_E_UNSUPPORTED, "zip", .magic = "PK\3\4"},
    {"Git LFS pointer", RDG_E_UNSUPPORTED, "Git LFS", .magic = "version https://git-lfs.github.com/spec/v1"},
    {"safetensors", RDG_E_UNSUPPORTED, "safetensors", magic_safetensors},
    {"version 0", RDG_E_UNSUPPORTED, "offset 4: GGUF version 0", .of = version, .value = 0},
    {"version 1", RDG_E_UNSUPPORTED, "offset 4: GGUF version 1", .of = version, .value = 1},
    {"version 4", RDG_E_UNSUPPORTED, "offset 4: GGUF version 4", .of = version, .value = 4},
    {"big-endian", RDG_E_UNSUPPORTED, "big-endian", .of = version, .value = 3u << 24},
    {"n_kv * record overflows (CVE-2024-23605)", RDG_E_MALFORMED, "offset 16", n_kv_overflow},
    {"n_tensors * record overflows (CVE-2024-21836, CVE-2026-27940)", RDG_E_MALFORMED, "offset 8",
     n_tensors_overflow},
    {"n_tensors negative", RDG_E_MALFORMED, "offset 8", n_tensors_negative},
    {"n_kv one too many", RDG_E_MALFORMED, "key 1: the key needs 8 bytes", n_kv_one_too_many},
    {"n_tensors one too many", RDG_E_MALFORMED, "tensor 1: the name needs 8 bytes", n_tensors_one_too_many},
    {"n_kv over the limit", RDG_E_LIMIT, "70000 keys", n_kv_over_limit},
    {"key length wraps (CVE-2024-23496)", RDG_E_MALFORMED, "length of 18446744073709551615", .of = key_length,
     .value = UINT64_MAX},
    {"key length as signed seek", RDG_E_MALFORMED, "length of 9223372036854775808", .of = key_length,
     .value = (uint64_t)INT64_MAX + 1},
    {"key of 1 GiB in a small file", RDG_E_MALFORMED, "length of 1073741824", .of = key_length,
     .value = 1 << 30},
    {"key empty", RDG_E_MALFORMED, "the key is empty", key_empty},
    {"key too long", RDG_E_LIMIT, "65536 bytes", key_too_long},
    {"key twice", RDG_E_MALFORMED, "key 'dup': the key appears twice", key_twice},
    {"value type 13", RDG_E_MALFORMED, "key 'k': value type 13", .of = value_type, .value = 13},
    {"value type 2^32-1", RDG_E_MALFORMED, "value type 4294967295", .of = value_type, .value = UINT32_MAX},
    {"BOOL of 2", RDG_E_MALFORMED, "BOOL value 2", bool_2},
    {"BOOL of 255 in an array", RDG_E_MALFORMED, "offset 51: key 'k': BOOL value 255", bool_in_array},
    {"value cut", RDG_E_MALFORMED, "the value needs 8 bytes, 7 are left", value_cut},
    {"string length wraps (CVE-2024-23496)", RDG_E_MALFORMED, "key 'k': a string has a length of",
     .of = string_length, .value = UINT64_MAX},
    {"string length wraps the position", RDG_E_MALFORMED, "key 'k': a string has a", .of = string_length,
     .value = UINT64_MAX - 24 - 8 - 1 - 4 - 8 + 1},
    {"string of 1 GiB in a small file", RDG_E_MALFORMED, "length of 1073741824", .of = string_length,
     .value = 1 << 30},
    {"array of arrays", RDG_E_UNSUPPORTED, "an array of arrays", array_nested},
    {"array element type 13", RDG_E_MALFORMED, "array element type 13", array_element_type},
    {"array bytes wrap (CVE-2024-21825)", RDG_E_MALFORMED, "UINT64 elements does not fit", array_bytes_wrap},
    {"array of strings wraps", RDG_E_MALFORMED, "STRING elements does not fit", array_strings_wrap},
    {"array of 2^63 elements", RDG_E_MALFORMED, "UINT8 elements does not fit", array_count_2_63},
    {"array of 1 GiB in a small file", RDG_E_MALFORMED, "UINT8 elements does not fit", array_count_1_gib},
    {"array of 2^30 strings in a small file", RDG_E_MALFORMED, "STRING elements does not fit",
     array_strings_1_gib},
    {"array of strings lacks the last", RDG_E_MALFORMED, "a string has a length of 1 bytes, 0",
     array_strings_lack},
    {"alignment 0", RDG_E_MALFORMED, "'general.alignment': an alignment of 0", .of = alignment, .value = 0},
    {"alignment 4", RDG_E_MALFORMED, "an alignment of 4,", .of = alignment, .value = 4},
    {"alignment 24", RDG_E_MALFORMED, "an alignment of 24", .of = alignment, .value = 24},
    {"alignment 2^21", RDG_E_MALFORMED, "an alignment of 2097152", .of = alignment, .value = 1 << 21},
    {"alignment 2^31", RDG_E_MALFORMED, "an alignment of 2147483648", .of = alignment, .value = 1u << 31},
    {"alignment INT32", RDG_E_MALFORMED, "type INT32, it must be UINT32", alignment_int32},
    {"alignment UINT64", RDG_E_MALFORMED, "type UINT64", .of = alignment_typed, .value = RDG_GGUF_UINT64},
    {"alignment STRING", RDG_E_MALFORMED, "type STRING", alignment_string},
    {"alignment ARRAY", RDG_E_MALFORMED, "type ARRAY", alignment_array},
    {"a part of a split model in memory", RDG_E_UNSUPPORTED, "open the file", split_in_memory},
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

/* GGUF files that have broken readers, one row each, and odd files that are legal. The names of the rows say
 * what the file does; published reports of the same trick are named beside it. */
#include "../support/support.h"
#include "../support/gguf_build.h"
#include "base/clock.h"
#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { F32 = RDG_TYPE_F32, U8 = RDG_GGUF_UINT8, BOOL = RDG_GGUF_BOOL, STR = RDG_GGUF_STRING };

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

static void version(rdg_buf *b, uint32_t v)
{
    put_header(b, 0, 0);
    memcpy(b->data + 4, &v, 4);
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

static void alignment(rdg_buf *b, uint32_t v)
{
    put_header(b, 1, 1);
    put_kv_u32(b, "general.alignment", v);
    put_tensor(b, "t", 1, 4, 0, F32, 0);
    put_data(b, 32, 16);
}

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

/* Tensors
 * ----------------------------------------------------------------------------------------------------- */

/* One tensor with 4 KiB of data behind it. */
static void tensor(rdg_buf *b, const char *name, uint32_t n_dims, uint64_t d0, uint64_t d1, uint32_t type,
                   uint64_t offset)
{
    put_header(b, 1, 0);
    put_tensor(b, name, n_dims, d0, d1, type, offset);
    put_data(b, 32, 4096);
}

static void name_empty(rdg_buf *b)
{
    tensor(b, "", 1, 4, 0, F32, 0);
}

static void name_64(rdg_buf *b)
{
    tensor(b, "0123456789012345678901234567890123456789012345678901234567890123", 1, 4, 0, F32, 0);
}

static void name_length_wraps(rdg_buf *b)
{
    put_header(b, 1, 0);
    put_u64(b, UINT64_MAX);
    put_zeros(b, 100);
}

static void name_nul(rdg_buf *b)
{
    tensor(b, "a?b", 1, 4, 0, F32, 0);
    b->data[24 + 8 + 1] = 0;
}

static void name_escape(rdg_buf *b)
{
    tensor(b, "a\033[2Jb", 1, 4, 0, F32, 0);
}

static void name_not_utf8(rdg_buf *b)
{
    tensor(b, "a\xc0\x80", 1, 4, 0, F32, 0);
}

static void name_twice(rdg_buf *b)
{
    put_header(b, 2, 0);
    put_tensor(b, "dup", 1, 4, 0, F32, 0);
    put_tensor(b, "dup", 1, 4, 0, F32, 32);
    put_data(b, 32, 64);
}

static void n_dims_0(rdg_buf *b)
{
    tensor(b, "t", 0, 0, 0, F32, 0);
}

static void n_dims_5(rdg_buf *b)
{
    tensor(b, "t", 5, 4, 1, F32, 0);
}

static void n_dims_million(rdg_buf *b)
{
    tensor(b, "t", 1000000, 4, 1, F32, 0);
}

static void n_dims_max(rdg_buf *b)
{
    tensor(b, "t", UINT32_MAX, 4, 1, F32, 0);
}

static void dim_0_is_0(rdg_buf *b)
{
    tensor(b, "t", 2, 0, 4, F32, 0);
}

static void dim_1_is_0(rdg_buf *b)
{
    tensor(b, "t", 2, 4, 0, F32, 0);
}

static void dim_negative(rdg_buf *b)
{
    tensor(b, "t", 2, 4, UINT64_MAX, F32, 0);
}

static void dim_2_42(rdg_buf *b)
{
    tensor(b, "t", 2, 4, ((uint64_t)1 << 42) + 1, F32, 0);
}

static void elements_wrap(rdg_buf *b)
{
    tensor(b, "t", 2, (uint64_t)1 << 40, (uint64_t)1 << 24, F32, 0);
}

static void bytes_wrap(rdg_buf *b)
{
    tensor(b, "t", 2, (uint64_t)1 << 40, (uint64_t)1 << 22, RDG_TYPE_F64, 0); /* 2^62 elements, 2^65 bytes */
}

static void bytes_wrap_to_4_mib(rdg_buf *b)
{
    tensor(b, "t", 2, (uint64_t)1 << 40, ((uint64_t)1 << 22) + 1, F32, 0);
}

static void bytes_2_62(rdg_buf *b)
{
    tensor(b, "t", 2, (uint64_t)1 << 40, (uint64_t)1 << 20, F32, 0);
}

static void sizes_sum_wraps(rdg_buf *b)
{
    put_header(b, 8, 0);
    for (int i = 0; i < 8; i++) {
        const char name[] = {(char)('a' + i), 0};
        put_tensor(b, name, 2, (uint64_t)1 << 40, (uint64_t)1 << 19, F32, i * ((uint64_t)1 << 61));
    }
    put_data(b, 32, 4096);
}

static void padding_wraps(rdg_buf *b)
{
    tensor(b, "t", 1, 4, 0, F32, UINT64_MAX - 31); /* aligned; + size wraps to the start */
}

static void row_no_multiple(rdg_buf *b)
{
    tensor(b, "t", 2, 255, 1, RDG_TYPE_Q4_K, 0);
}

static void type(rdg_buf *b, uint32_t t)
{
    tensor(b, "t", 1, 256, 0, t, 0);
}

static void type_removed_4(rdg_buf *b)
{
    type(b, 4);
}

static void type_removed_31(rdg_buf *b)
{
    type(b, 31);
}

static void type_removed_36(rdg_buf *b)
{
    type(b, 36);
}

static void type_43(rdg_buf *b)
{
    type(b, 43);
}

static void type_fork(rdg_buf *b)
{
    type(b, 139);
}

static void type_max(rdg_buf *b)
{
    type(b, UINT32_MAX);
}

static void offset_unaligned(rdg_buf *b)
{
    tensor(b, "t", 1, 4, 0, F32, 16);
}

static void data_past_end(rdg_buf *b)
{
    tensor(b, "t", 1, 1024, 0, F32, 32);
}

static void data_one_byte_short(rdg_buf *b)
{
    tensor(b, "t", 1, 1024, 0, F32, 0);
    b->len--;
}

static void data_absent(rdg_buf *b)
{
    put_header(b, 1, 0);
    put_tensor(b, "t", 1, 4, 0, F32, 0);
}

static void data_shared(rdg_buf *b)
{
    put_header(b, 2, 0);
    put_tensor(b, "a", 1, 16, 0, F32, 0);
    put_tensor(b, "b", 1, 16, 0, F32, 0);
    put_data(b, 32, 128);
}

static void data_overlaps(rdg_buf *b)
{
    put_header(b, 3, 0);
    put_tensor(b, "high", 1, 16, 0, F32, 64);
    put_tensor(b, "middle", 1, 9, 0, F32, 32); /* reaches four bytes into high */
    put_tensor(b, "low", 1, 8, 0, F32, 0);
    put_data(b, 32, 256);
}

static void split_in_memory(rdg_buf *b)
{
    put_header(b, 0, 1);
    put_kv_u32(b, "split.count", 2);
}

static const struct {
    const char *name;
    void (*build)(rdg_buf *b);
    rdg_err code;
    const char *part; /* of the message */
} rows[] = {
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
    {"name empty", name_empty, RDG_E_MALFORMED, "tensor 0: the name is empty"},
    {"name of 64 bytes", name_64, RDG_E_LIMIT, "the name has 64 bytes, the limit is 63"},
    {"name unreadable", name_length_wraps, RDG_E_MALFORMED, "tensor 0: the name has a length of"},
    {"name with NUL", name_nul, RDG_E_MALFORMED, "tensor 'a\\x00b': the name holds control"},
    {"name with an escape sequence", name_escape, RDG_E_MALFORMED, "'a\\x1b[2Jb'"},
    {"name not UTF-8", name_not_utf8, RDG_E_MALFORMED, "'a\\xc0\\x80'"},
    {"name twice", name_twice, RDG_E_MALFORMED, "tensor 'dup': the tensor appears twice"},
    {"0 dimensions", n_dims_0, RDG_E_MALFORMED, "tensor 't': 0 dimensions"},
    {"5 dimensions (CVE-2024-21802)", n_dims_5, RDG_E_MALFORMED, "5 dimensions"},
    {"10^6 dimensions", n_dims_million, RDG_E_MALFORMED, "1000000 dimensions"},
    {"2^32-1 dimensions", n_dims_max, RDG_E_MALFORMED, "4294967295 dimensions"},
    {"dimension 0 is 0", dim_0_is_0, RDG_E_MALFORMED, "dimension 0 is 0"},
    {"dimension 1 is 0", dim_1_is_0, RDG_E_MALFORMED, "dimension 1 is 0"},
    {"dimension negative", dim_negative, RDG_E_MALFORMED, "dimension 1 is"},
    {"dimension of 2^42+1", dim_2_42, RDG_E_MALFORMED, "dimension 1 is 4398046511105"},
    {"elements wrap", elements_wrap, RDG_E_MALFORMED, "number of elements does not fit"},
    {"bytes wrap, elements do not (CVE-2026-33298)", bytes_wrap, RDG_E_MALFORMED,
     "size in bytes does not fit"},
    {"bytes wrap to 4 MiB", bytes_wrap_to_4_mib, RDG_E_MALFORMED, "size in bytes does not fit"},
    {"2^62 bytes", bytes_2_62, RDG_E_MALFORMED, "does not fit"},
    {"padded sizes sum past 2^64 (CVE-2025-53630)", sizes_sum_wraps, RDG_E_MALFORMED,
     "do not fit the data section"},
    {"offset + size wraps", padding_wraps, RDG_E_MALFORMED, "do not fit the data section"},
    {"row no multiple of the block", row_no_multiple, RDG_E_MALFORMED,
     "no multiple of the 256 elements of a Q4_K"},
    {"type 4, block of 0", type_removed_4, RDG_E_UNSUPPORTED, "type id 4 (Q4_2) was removed"},
    {"type 31, removed", type_removed_31, RDG_E_UNSUPPORTED, "type id 31 (Q4_0_4_4) was removed"},
    {"type 36, removed", type_removed_36, RDG_E_UNSUPPORTED, "type id 36"},
    {"type 43", type_43, RDG_E_UNSUPPORTED, "unknown type id 43"},
    {"type of a fork", type_fork, RDG_E_UNSUPPORTED, "unknown type id 139"},
    {"type 2^32-1", type_max, RDG_E_UNSUPPORTED, "unknown type id 4294967295"},
    {"offset unaligned", offset_unaligned, RDG_E_MALFORMED, "offset 16 is no multiple of the alignment 32"},
    {"data past the end (CVE-2026-7482)", data_past_end, RDG_E_MALFORMED, "its 4096 bytes at 32 do not fit"},
    {"data one byte short", data_one_byte_short, RDG_E_MALFORMED, "data section of 4095 bytes"},
    {"data section absent", data_absent, RDG_E_MALFORMED, "the file ends before"},
    {"data shared", data_shared, RDG_E_MALFORMED, "overlaps tensor 'a'"},
    {"data overlaps", data_overlaps, RDG_E_MALFORMED,
     "tensor 'high': its data (from 64 of the data section) overlaps "
     "tensor 'middle'"},
    {"a part of a split model in memory", split_in_memory, RDG_E_UNSUPPORTED, "open the file"},
};

/* The file in a block of its own length, so that a checker sees a read past its end. */
static rdg_err parse_exact(const rdg_buf *b, rdg_gguf **g, void **block, rdg_error *e)
{
    *block = malloc(b->len ? b->len : 1);
    assert_non_null(*block);
    if (b->len) memcpy(*block, b->data, b->len);
    return rdg_gguf_parse(*block, b->len, g, e);
}

static void test_rows(void **state)
{
    (void)state;
    for (int i = 0; i < RDG_COUNTOF(rows); i++) {
        rdg_error e = {0};
        rdg_gguf *g = (void *)&e;
        void *block;
        rdg_buf b;
        rdg_buf_init(&b);
        rows[i].build(&b);
        print_message("%s\n", rows[i].name);
        assert_error(parse_exact(&b, &g, &block, &e), rows[i].code, &e, rows[i].part);
        assert_null(g);
        assert_int_equal(rdg_gguf_parse(block, b.len, &g, NULL), rows[i].code); /* without an error to fill */
        free(block);
        rdg_buf_finish(&b);
    }
}

/* Legal, if odd
 * ----------------------------------------------------------------------------------------------- */

static void legal(rdg_buf *b, int64_t n_kv, int64_t n_tensors)
{
    rdg_error e = {0};
    rdg_gguf *g;
    void *block;
    assert_ok(parse_exact(b, &g, &block, &e), &e);
    assert_int_equal(rdg_gguf_n_kv(g), n_kv);
    assert_int_equal(rdg_gguf_n_tensors(g), n_tensors);
    for (int64_t i = 0; i < n_tensors; i++) {
        const rdg_gguf_tensor *t = rdg_gguf_tensor_at(g, i);
        const unsigned char *data = t->data, *file = block;
        assert_true(data >= file && data + t->bytes <= file + b->len);
    }
    rdg_gguf_close(g);
    free(block);
    rdg_buf_clear(b);
}

static void test_legal(void **state)
{
    (void)state;
    rdg_buf b;
    rdg_buf_init(&b);
    put_header(&b, 0, 0);
    legal(&b, 0, 0);
    version(&b, 2);
    legal(&b, 0, 0);
    /* out of order, with gaps, the last one unpadded */
    put_header(&b, 3, 0);
    put_tensor(&b, "c", 1, 3, 0, F32, 256);
    put_tensor(&b, "a", 1, 8, 0, F32, 32);
    put_tensor(&b, "b", 2, 4, 8, F32, 64);
    put_data(&b, 32, 256 + 12);
    legal(&b, 0, 3);
    alignment(&b, 8);
    legal(&b, 1, 1);
    put_header(&b, 1, 1);
    put_kv_u32(&b, "general.alignment", 1 << 20);
    put_tensor(&b, "t", 4, 4, 2, F32, 0);
    put_data(&b, 1 << 20, 32);
    legal(&b, 1, 1);
    /* a name of 63 bytes; keys with NUL are bytes like any other */
    tensor(&b, "012345678901234567890123456789012345678901234567890123456789012", 1, 4, 0, F32, 0);
    legal(&b, 0, 1);
    put_header(&b, 0, 2);
    put_strn(&b, "k\0a", 3);
    put_u32(&b, U8);
    put_u8(&b, 1);
    put_strn(&b, "k\0b", 3);
    put_u32(&b, U8);
    put_u8(&b, 1);
    legal(&b, 2, 0);
    rdg_buf_finish(&b);
}

/* Arrays of another element type than the reader of the key expects are never handed out. */
static void test_narrow_arrays(void **state)
{
    (void)state;
    rdg_error e = {0};
    rdg_gguf *g;
    const rdg_gguf_kv *kv;
    rdg_buf b;
    rdg_buf_init(&b);
    put_header(&b, 0, 2);
    put_array(&b, "tokenizer.ggml.scores", U8, 4);
    put_u32(&b, 0);
    put_kv_u32(&b, "tokenizer.ggml.token_type", 5);
    assert_ok(rdg_gguf_parse(b.data, b.len, &g, &e), &e);
    assert_error(rdg_gguf_get_array(g, "tokenizer.ggml.scores", RDG_GGUF_FLOAT32, &kv, &e), RDG_E_MALFORMED,
                 &e, "an array of UINT8 where an array of FLOAT32");
    assert_error(rdg_gguf_get_array(g, "tokenizer.ggml.token_type", RDG_GGUF_UINT32, &kv, &e),
                 RDG_E_MALFORMED, &e, "a UINT32 value where an array of UINT32");
    rdg_gguf_close(g);
    rdg_buf_finish(&b);
}

static void test_not_finite(void **state)
{
    (void)state;
    const uint64_t values[] = {0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000,
                               0x7fe0000000000000};
    for (int i = 0; i < RDG_COUNTOF(values); i++) {
        rdg_error e = {0};
        rdg_gguf *g;
        float v = 7;
        rdg_buf b;
        rdg_buf_init(&b);
        put_header(&b, 0, 1);
        put_key(&b, "eps", RDG_GGUF_FLOAT64);
        put_u64(&b, values[i]);
        assert_ok(rdg_gguf_parse(b.data, b.len, &g, &e), &e);
        assert_error(rdg_gguf_get_f32(g, "eps", &v, &e), RDG_E_MALFORMED, &e, "offset 39: key 'eps' is");
        assert_true(v == 7);
        assert_true(rdg_gguf_kv_int(rdg_gguf_kv_at(g, 0), 0) != 0); /* saturates */
        rdg_gguf_close(g);
        rdg_buf_finish(&b);
    }
}

/* Every prefix of a file with all value types is an error until the data is complete. */
static void test_truncation(void **state)
{
    (void)state;
    rdg_error e;
    rdg_gguf *g;
    rdg_buf b;
    rdg_buf_init(&b);
    put_header(&b, 2, 5);
    put_kv_str(&b, "general.architecture", "llama");
    put_kv_u32(&b, "general.alignment", 8);
    put_array(&b, "strings", STR, 2);
    put_str(&b, "one");
    put_str(&b, "");
    put_array(&b, "bools", BOOL, 3);
    put_zeros(&b, 3);
    put_key(&b, "f64", RDG_GGUF_FLOAT64);
    put_u64(&b, 0);
    put_tensor(&b, "a", 1, 2, 0, F32, 0);
    put_tensor(&b, "b", 2, 1, 2, F32, 8);
    put_data(&b, 8, 16);
    for (size_t n = 0; n < b.len; n++) {
        char *cut = malloc(n ? n : 1);
        memcpy(cut, b.data, n);
        rdg_err err = rdg_gguf_parse(cut, n, &g, &e);
        if (err != RDG_E_MALFORMED) fail_msg("cut to %zu bytes: %s", n, rdg_err_name(err));
        assert_non_null(strstr(e.message, "offset "));
        assert_null(g);
        free(cut);
    }
    assert_ok(rdg_gguf_parse(b.data, b.len, &g, &e), &e);
    rdg_gguf_close(g);
    rdg_buf_finish(&b);
}

/* The most keys and many tensors, in a time that only linear work can meet. */
static void test_many_names(void **state)
{
    (void)state;
    enum { N_KV = 65536, N_TENSORS = 200000 };
    rdg_error e;
    rdg_gguf *g;
    char name[16];
    rdg_buf b;
    rdg_buf_init(&b);
    put_header(&b, N_TENSORS, N_KV);
    for (int i = 0; i < N_KV; i++) {
        snprintf(name, sizeof name, "%x", i);
        put_key(&b, name, U8);
        put_u8(&b, 0);
    }
    for (int i = 0; i < N_TENSORS; i++) {
        snprintf(name, sizeof name, "%x", i);
        put_tensor(&b, name, 1, 1, 0, F32, (uint64_t)(N_TENSORS - 1 - i) * 32);
    }
    put_data(&b, 32, N_TENSORS * 32);
    double start = rdg_clock_seconds();
    assert_ok(rdg_gguf_parse(b.data, b.len, &g, &e), &e);
    assert_true(rdg_clock_seconds() - start < 5);
    assert_non_null(rdg_gguf_tensor_find(g, "30d3f"));
    rdg_gguf_close(g);
    rdg_buf_finish(&b);
}

/* Files
 * ------------------------------------------------------------------------------------------------------- */

static char dir[] = "/tmp/ridge-hostile-XXXXXX";

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    return rmdir(dir); /* fails when a test left a file behind */
}

static char *in_dir(const char *name)
{
    char *path = rdg_path_join(dir, name);
    assert_non_null(path);
    return path;
}

static void write_file(const char *path, const rdg_buf *b)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b->data, 1, b->len, f), b->len);
    assert_int_equal(fclose(f), 0);
}

/* A sparse file may be huge: limits must hold where the bytes do exist. */
static void test_sparse(void **state)
{
    (void)state;
    const uint64_t size = (uint64_t)1 << 36;
    char *path = in_dir("sparse.gguf");
    rdg_error e;
    rdg_gguf *g;
    rdg_buf b;
    rdg_buf_init(&b);
    put_header(&b, 0, 1);
    put_array(&b, "k", STR, (uint64_t)1 << 32);
    write_file(path, &b);
    assert_int_equal(truncate(path, (off_t)size), 0);
    assert_error(rdg_gguf_open(path, NULL, &g, &e), RDG_E_LIMIT, &e, "4294967296 strings");
    rdg_buf_clear(&b);
    put_header(&b, (uint64_t)1 << 30, 0);
    write_file(path, &b);
    assert_int_equal(truncate(path, (off_t)size), 0);
    assert_error(rdg_gguf_open(path, NULL, &g, &e), RDG_E_LIMIT, &e, "1073741824 tensors");
    rdg_buf_clear(&b);
    put_header(&b, 0, 1);
    put_key(&b, "k", STR);
    put_u64(&b, (uint64_t)1 << 30);
    write_file(path, &b);
    assert_int_equal(truncate(path, (off_t)size), 0);
    assert_error(rdg_gguf_open(path, NULL, &g, &e), RDG_E_LIMIT, &e, "the limit is 67108864");
    unlink(path);
    rdg_free(path);
    rdg_buf_finish(&b);
}

static void test_no_files(void **state)
{
    (void)state;
    rdg_error e;
    rdg_gguf *g;
    char *path = in_dir("fifo");
    assert_error(rdg_gguf_open(dir, NULL, &g, &e), RDG_E_IO, &e, "directory");
    assert_error(rdg_gguf_open(path, NULL, &g, &e), RDG_E_IO, &e, path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_error(rdg_gguf_open(path, NULL, &g, &e), RDG_E_IO, &e, "not a regular file");
    unlink(path);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    close(fd);
    assert_error(rdg_gguf_open(path, NULL, &g, &e), RDG_E_MALFORMED, &e, "empty");
    unlink(path);
    rdg_free(path);
}

static void count_warning(void *user, rdg_log_level level, const char *text)
{
    *(int *)user += level == RDG_LOG_WARN && strstr(text, "belong to nothing");
}

static void test_trailing_bytes(void **state)
{
    (void)state;
    int n_warnings = 0;
    const rdg_log log = {.message = count_warning, .user = &n_warnings};
    char *path = in_dir("trailing.gguf");
    rdg_error e;
    rdg_gguf *g;
    rdg_buf b;
    rdg_buf_init(&b);
    tensor(&b, "t", 1, 4, 0, F32, 0); /* 16 of 4096 bytes used */
    write_file(path, &b);
    assert_ok(rdg_gguf_open(path, &log, &g, &e), &e);
    assert_int_equal(n_warnings, 1);
    rdg_gguf_close(g);
    unlink(path);
    rdg_free(path);
    rdg_buf_finish(&b);
}

/* Split models
 * ------------------------------------------------------------------------------------------------ */

typedef struct split_case {
    uint32_t no[2], count[2], total;
    const char *name_1; /* of the tensor in the second part */
    bool second_lacks_keys, second_missing;
    rdg_err code;
    const char *part;
} split_case;

static void write_part(const char *file, const split_case *c, int i)
{
    char *path = in_dir(file);
    bool keys = i == 0 || !c->second_lacks_keys;
    rdg_buf b;
    rdg_buf_init(&b);
    put_header(&b, 1, keys ? 3 : 0);
    if (keys) {
        put_kv_u32(&b, "split.no", c->no[i]);
        put_kv_u32(&b, "split.count", c->count[i]);
        put_kv_u32(&b, "split.tensors.count", c->total);
    }
    put_tensor(&b, i == 0 ? "a" : c->name_1, 1, 8, 0, F32, 0);
    put_data(&b, 32, 32);
    write_file(path, &b);
    rdg_buf_finish(&b);
    rdg_free(path);
}

static void test_split(void **state)
{
    (void)state;
    const split_case cases[] = {
        {{0, 1}, {2, 2}, 2, "b", false, false, RDG_OK, NULL},
        {{0, 0}, {2, 2}, 2, "b", false, false, RDG_E_MALFORMED, "says it is part 1 of 2 where part 2 of 2"},
        {{0, 1}, {2, 3}, 2, "b", false, false, RDG_E_MALFORMED, "says it is part 2 of 3"},
        {{0, 1}, {2, 2}, 3, "b", false, false, RDG_E_MALFORMED, "the parts hold 2 tensors"},
        {{0, 1}, {2, 2}, 2, "a", false, false, RDG_E_MALFORMED, "'a': the tensor appears twice"},
        {{0, 1}, {2, 2}, 2, "b", true, false, RDG_E_MALFORMED, "'split.no' is missing"},
        {{0, 1}, {2, 2}, 2, "b", false, true, RDG_E_IO, "m-00002-of-00002.gguf"},
        {{1, 1}, {2, 2}, 2, "b", false, false, RDG_E_ARGUMENT, "open the first part"},
        {{0, 1}, {65535, 2}, 2, "b", false, false, RDG_E_UNSUPPORTED, "'-00001-of-65535.gguf'"},
        {{0, 1}, {65536, 2}, 2, "b", false, false, RDG_E_MALFORMED, "no integer from 0 to 65535"},
        {{0, 1},
         {2, 2},
         UINT32_MAX,
         "b",
         false,
         false,
         RDG_E_MALFORMED,
         "'split.tensors.count' is no integer"},
        {{0, 1}, {1, 2}, 1, "b", false, false, RDG_OK, NULL}, /* one part is a file like any other */
    };
    char *first = in_dir("m-00001-of-00002.gguf"), *second = in_dir("m-00002-of-00002.gguf");
    for (int i = 0; i < RDG_COUNTOF(cases); i++) {
        const split_case *c = &cases[i];
        rdg_error e = {0};
        rdg_gguf *g;
        write_part("m-00001-of-00002.gguf", c, 0);
        write_part("m-00002-of-00002.gguf", c, 1);
        if (c->second_missing) unlink(second);
        print_message("split case %d\n", i);
        if (c->code) {
            assert_error(rdg_gguf_open(first, NULL, &g, &e), c->code, &e, c->part);
            assert_null(g);
        } else {
            assert_ok(rdg_gguf_open(first, NULL, &g, &e), &e);
            assert_int_equal(rdg_gguf_n_parts(g), c->count[0]);
            rdg_gguf_close(g);
        }
    }
    unlink(first);
    unlink(second);
    rdg_free(first);
    rdg_free(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),           cmocka_unit_test(test_legal),
        cmocka_unit_test(test_narrow_arrays),  cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_truncation),     cmocka_unit_test(test_many_names),
        cmocka_unit_test(test_sparse),         cmocka_unit_test(test_no_files),
        cmocka_unit_test(test_trailing_bytes), cmocka_unit_test(test_split),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}

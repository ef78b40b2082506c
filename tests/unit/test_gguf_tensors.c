/* GGUF files whose tensors have broken readers, one row each: names, dimensions, types, sizes, places. */
#include "../support/gguf_hostile.h"

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

static const hostile_row rows[] = {
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

/* GGUF files whose tensors have broken readers, one row each: names, dimensions, types, sizes, places. */
#include "../support/gguf_hostile.h"

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

static void name_twice(rdg_buf *b)
{
    put_header(b, 2, 0);
    put_tensor(b, "dup", 1, 4, 0, F32, 0);
    put_tensor(b, "dup", 1, 4, 0, F32, 32);
    put_data(b, 32, 64);
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
    {"name empty", RDG_E_MALFORMED, "tensor 0: the name is empty", .tensor = {"", 1, 4, 0, F32, 0}},
    {"name of 64 bytes", RDG_E_LIMIT, "the name has 64 bytes, the limit is 63",
     .tensor = {"0123456789012345678901234567890123456789012345678901234567890123", 1, 4, 0, F32, 0}},
    {"name unreadable", RDG_E_MALFORMED, "tensor 0: the name has a length of", name_length_wraps},
    {"name with NUL", RDG_E_MALFORMED, "tensor 'a\\x00b': the name holds control", name_nul},
    {"name with an escape sequence", RDG_E_MALFORMED, "'a\\x1b[2Jb'",
     .tensor = {"a\033[2Jb", 1, 4, 0, F32, 0}},
    {"name not UTF-8", RDG_E_MALFORMED, "'a\\xc0\\x80'", .tensor = {"a\xc0\x80", 1, 4, 0, F32, 0}},
    {"name twice", RDG_E_MALFORMED, "tensor 'dup': the tensor appears twice", name_twice},
    {"0 dimensions", RDG_E_MALFORMED, "tensor 't': 0 dimensions", .tensor = {"t", 0, 0, 0, F32, 0}},
    {"5 dimensions (CVE-2024-21802)", RDG_E_MALFORMED, "5 dimensions", .tensor = {"t", 5, 4, 1, F32, 0}},
    {"10^6 dimensions", RDG_E_MALFORMED, "1000000 dimensions", .tensor = {"t", 1000000, 4, 1, F32, 0}},
    {"2^32-1 dimensions", RDG_E_MALFORMED, "4294967295 dimensions",
     .tensor = {"t", UINT32_MAX, 4, 1, F32, 0}},
    {"dimension 0 is 0", RDG_E_MALFORMED, "dimension 0 is 0", .tensor = {"t", 2, 0, 4, F32, 0}},
    {"dimension 1 is 0", RDG_E_MALFORMED, "dimension 1 is 0", .tensor = {"t", 2, 4, 0, F32, 0}},
    {"dimension negative", RDG_E_MALFORMED, "dimension 1 is", .tensor = {"t", 2, 4, UINT64_MAX, F32, 0}},
    {"dimension of 2^42+1", RDG_E_MALFORMED, "dimension 1 is 4398046511105",
     .tensor = {"t", 2, 4, ((uint64_t)1 << 42) + 1, F32, 0}},
    {"elements wrap", RDG_E_MALFORMED, "number of elements does not fit",
     .tensor = {"t", 2, (uint64_t)1 << 40, (uint64_t)1 << 24, F32, 0}},
    {"bytes wrap, elements do not (CVE-2026-33298)", RDG_E_MALFORMED, "size in bytes does not fit",
     .tensor = {"t", 2, (uint64_t)1 << 40, (uint64_t)1 << 22, RDG_TYPE_F64,
                0}}, /* 2^62 elements, 2^65 bytes */
    {"bytes wrap to 4 MiB", RDG_E_MALFORMED, "size in bytes does not fit",
     .tensor = {"t", 2, (uint64_t)1 << 40, ((uint64_t)1 << 22) + 1, F32, 0}},
    {"2^62 bytes", RDG_E_MALFORMED, "does not fit",
     .tensor = {"t", 2, (uint64_t)1 << 40, (uint64_t)1 << 20, F32, 0}},
    {"padded sizes sum past 2^64 (CVE-2025-53630)", RDG_E_MALFORMED, "do not fit the data section",
     sizes_sum_wraps},
    {"offset + size wraps", RDG_E_MALFORMED, "do not fit the data section",
     .tensor = {"t", 1, 4, 0, F32, UINT64_MAX - 31}}, /* aligned; + size wraps to the start */
    {"row no multiple of the block", RDG_E_MALFORMED, "no multiple of the 256 elements of a Q4_K",
     .tensor = {"t", 2, 255, 1, RDG_TYPE_Q4_K, 0}},
    {"type 4, block of 0", RDG_E_UNSUPPORTED, "type id 4 (Q4_2) was removed",
     .tensor = {"t", 1, 256, 0, 4, 0}},
    {"type 31, removed", RDG_E_UNSUPPORTED, "type id 31 (Q4_0_4_4) was removed",
     .tensor = {"t", 1, 256, 0, 31, 0}},
    {"type 36, removed", RDG_E_UNSUPPORTED, "type id 36", .tensor = {"t", 1, 256, 0, 36, 0}},
    {"type 43", RDG_E_UNSUPPORTED, "unknown type id 43", .tensor = {"t", 1, 256, 0, 43, 0}},
    {"type of a fork", RDG_E_UNSUPPORTED, "unknown type id 139", .tensor = {"t", 1, 256, 0, 139, 0}},
    {"type 2^32-1", RDG_E_UNSUPPORTED, "unknown type id 4294967295",
     .tensor = {"t", 1, 256, 0, UINT32_MAX, 0}},
    {"offset unaligned", RDG_E_MALFORMED, "offset 16 is no multiple of the alignment 32",
     .tensor = {"t", 1, 4, 0, F32, 16}},
    {"data past the end (CVE-2026-7482)", RDG_E_MALFORMED, "its 4096 bytes at 32 do not fit",
     .tensor = {"t", 1, 1024, 0, F32, 32}},
    {"data one byte short", RDG_E_MALFORMED, "data section of 4095 bytes", data_one_byte_short},
    {"data section absent", RDG_E_MALFORMED, "the file ends before", data_absent},
    {"data shared", RDG_E_MALFORMED, "overlaps tensor 'a'", data_shared},
    {"data overlaps", RDG_E_MALFORMED,
     "tensor 'high': its data (from 64 of the data section) overlaps "
     "tensor 'middle'",
     data_overlaps},
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

/* rdg_quantize_file end to end on small files: bytes, metadata, threads, experts, refusals, and nothing left
 * behind. */
#include <ridge/imatrix.h>
#include <ridge/quantize.h>
#include "quant/rows.h"
#include "base/compiler.h"
#include "base/file.h"
#include "base/half.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/rng.h"
#include "../support/gguf_build.h"
#include "../support/support.h"

#include <dirent.h>
#include <math.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char dir[64];
static rdg_rng rng;

static const char *at(const char *name)
{
    static char paths[8][384];
    static int n;
    char *p = paths[n++ % 8];
    snprintf(p, sizeof paths[0], "%s/%s", dir, name);
    return p;
}

static int setup(void **state)
{
    uint64_t seed = (uint64_t)time(NULL);
    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    rdg_rng_seed(&rng, seed);
    snprintf(dir, sizeof dir, "/tmp/ridge-quantize-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    DIR *d = opendir(dir);
    for (struct dirent *f; d && (f = readdir(d));)
        if (f->d_name[0] != '.') unlink(at(f->d_name));
    if (d) closedir(d);
    return rmdir(dir);
}

enum { N_COLUMNS = 512, N_ROWS = 96, N_EXPERTS = 4, EXPERT_ROWS = 16 };

static const struct tensor {
    const char *name;
    rdg_type type;
    int n_dims;
    int64_t dim[4];
    rdg_type q4_k_m; /* the result of the test's recipe */
} tensors[] = {
    {"token_embd.weight", RDG_TYPE_F16, 2, {N_COLUMNS, 200}, RDG_TYPE_Q4_K},
    {"blk.0.attn_norm.weight", RDG_TYPE_F32, 1, {N_COLUMNS}, RDG_TYPE_F32},
    {"blk.0.attn_q.weight", RDG_TYPE_F32, 2, {N_COLUMNS, N_ROWS}, RDG_TYPE_Q4_K},
    {"blk.0.attn_v.weight", RDG_TYPE_BF16, 2, {N_COLUMNS, N_ROWS}, RDG_TYPE_Q6_K},
    {"blk.0.ffn_gate_exps.weight", RDG_TYPE_F16, 3, {N_COLUMNS, EXPERT_ROWS, N_EXPERTS}, RDG_TYPE_Q4_K},
    {"blk.0.ffn_gate_inp.weight", RDG_TYPE_F32, 2, {N_COLUMNS, N_EXPERTS}, RDG_TYPE_F32},
    {"blk.0.odd.weight", RDG_TYPE_F32, 2, {96, 33}, RDG_TYPE_Q5_0},
    {"output.weight", RDG_TYPE_F32, 2, {N_COLUMNS, 200}, RDG_TYPE_Q6_K},
};

/* Values of every tensor as f32, in order. */
static float *values[RDG_COUNTOF(tensors)];

static void write_model(const char *path, uint64_t split)
{
    rdg_gguf_writer *w;
    rdg_error e = {0};
    assert_ok(rdg_gguf_writer_create(path, &w, &e), &e);
    rdg_gguf_set_str(w, "general.architecture", "llama");
    rdg_gguf_set_str(w, "general.name", "a small one");
    rdg_gguf_set_u32(w, "general.file_type", 1);
    rdg_gguf_set_u32(w, "general.alignment", 64);
    rdg_gguf_set_u32(w, "llama.block_count", 1);
    rdg_gguf_set_u32(w, "llama.attention.head_count", 8);
    rdg_gguf_set_u32(w, "llama.attention.head_count_kv", 8);
    rdg_gguf_set_u32(w, "llama.expert_count", N_EXPERTS);
    rdg_gguf_set_str(w, "quantize.imatrix.file", "an old one");
    rdg_gguf_set_str(w, "ridge.checksums", "0123");
    for (int t = 0; t < RDG_COUNTOF(tensors); t++)
        rdg_gguf_add_tensor(w, tensors[t].name, tensors[t].type, tensors[t].n_dims, tensors[t].dim);
    rdg_gguf_writer_split(w, split);
    assert_ok(rdg_gguf_writer_begin(w, &e), &e);
    for (int t = 0; t < RDG_COUNTOF(tensors); t++) {
        int64_t n = 1;
        for (int k = 0; k < tensors[t].n_dims; k++) n *= tensors[t].dim[k];
        size_t bytes = (size_t)rdg_type_row_bytes(tensors[t].type, n);
        unsigned char *data = rdg_alloc(bytes);
        rdg_free(values[t]);
        values[t] = rdg_alloc_array((size_t)n, sizeof(float));
        for (int64_t i = 0; i < n; i++) values[t][i] = rdg_rng_normal(&rng);
        assert_ok(rdg_quantise_rows(tensors[t].type, values[t], data, 1, n, NULL, &e), &e);
        assert_ok(rdg_dequantise_rows(tensors[t].type, data, values[t], 1, n, &e), &e);
        assert_ok(rdg_gguf_write_data(w, data, bytes, &e), &e);
        rdg_free(data);
    }
    assert_ok(rdg_gguf_writer_finish(w, &e), &e);
    rdg_gguf_writer_destroy(w);
}

static rdg_quantize_params params(rdg_recipe r)
{
    return (rdg_quantize_params){.recipe = r, .output_type = -1, .token_embedding_type = -1, .n_threads = 1};
}

static void assert_same_file(const char *a, const char *b)
{
    char *x, *y;
    size_t n, m;
    rdg_error e = {0};
    assert_ok(rdg_file_read(a, 64 << 20, false, &x, &n, &e), &e);
    assert_ok(rdg_file_read(b, 64 << 20, false, &y, &m, &e), &e);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    rdg_free(x);
    rdg_free(y);
}

/* Each tensor's bytes are those of rdg_quantise_rows, matrix by matrix, with `importance` of n_matrices x
 * n_columns. */
static void check_data(const rdg_gguf *g, int t, const float *importance, int64_t n_importance_matrices,
                       double rmse)
{
    const rdg_gguf_tensor *out = rdg_gguf_tensor_at(g, t);
    const struct tensor *in = &tensors[t];
    int64_t n_rows = (int64_t)(out->n_elements / (uint64_t)out->dim[0]);
    int64_t row_bytes = rdg_type_row_bytes(out->type, out->dim[0]);
    unsigned char *expected = rdg_alloc((size_t)(n_rows * row_bytes));
    float *back = rdg_alloc_array((size_t)out->n_elements, sizeof *back);
    rdg_error e = {0};
    assert_string_equal(out->name, in->name);
    assert_int_equal(out->n_dims, in->n_dims);
    for (int64_t r = 0; r < n_rows; r++) {
        const float *h = importance ? importance + r / in->dim[1] % n_importance_matrices * in->dim[0] : NULL;
        assert_ok(rdg_quantise_rows(out->type, values[t] + r * out->dim[0], expected + r * row_bytes, 1,
                                    out->dim[0], h, &e),
                  &e);
    }
    assert_memory_equal(out->data, expected, (size_t)(n_rows * row_bytes));
    assert_ok(rdg_dequantise_rows(out->type, expected, back, n_rows, out->dim[0], &e), &e);
    double sum = 0;
    for (uint64_t i = 0; i < out->n_elements; i++) sum += pow((double)back[i] - values[t][i], 2);
    assert_true(fabs(rmse - sqrt(sum / (double)out->n_elements)) < 1e-9);
    rdg_free(back);
    rdg_free(expected);
}

static void recipe_bytes_and_metadata(void **state)
{
    rdg_quantize_params p = params(RDG_RECIPE_Q4_K_M), dry = p;
    rdg_quantize_result r, d;
    rdg_gguf *g;
    rdg_error e = {0};
    uint32_t v;
    rdg_str s;
    bool bad[RDG_COUNTOF(tensors)];
    int64_t n_bad;
    (void)state;
    write_model(at("in.gguf"), 0);
    dry.dry_run = true;
    int n_files = files_in(dir);
    assert_ok(rdg_quantize_file(at("in.gguf"), NULL, &dry, &d, &e), &e);
    assert_int_equal(files_in(dir), n_files);
    assert_ok(rdg_quantize_file(at("in.gguf"), at("out.gguf"), &p, &r, &e), &e);
    assert_int_equal(r.n_tensors, RDG_COUNTOF(tensors));
    assert_int_equal(r.bytes_out, d.bytes_out);
    struct stat st;
    assert_int_equal(stat(at("out.gguf"), &st), 0);
    assert_int_equal(st.st_size, r.bytes_out);
    assert_int_equal(stat(at("in.gguf"), &st), 0);
    assert_int_equal(st.st_size, r.bytes_in);

    assert_ok(rdg_gguf_open(at("out.gguf"), NULL, &g, &e), &e);
    assert_ok(rdg_gguf_get_u32(g, "general.file_type", &v, &e), &e);
    assert_int_equal(v, 15);
    assert_ok(rdg_gguf_get_u32(g, "general.quantization_version", &v, &e), &e);
    assert_int_equal(v, 2);
    assert_ok(rdg_gguf_get_str(g, "general.name", &s, &e), &e);
    assert_int_equal(s.n, strlen("a small one"));
    assert_int_equal(rdg_gguf_alignment(g), 64);
    assert_null(rdg_gguf_find(g, "quantize.imatrix.file"));
    assert_null(rdg_gguf_find(g, "split.count"));
    for (int t = 0; t < RDG_COUNTOF(tensors); t++) {
        assert_int_equal(rdg_gguf_tensor_at(g, t)->type, tensors[t].q4_k_m);
        assert_int_equal(r.tensors[t].type_out, tensors[t].q4_k_m);
        assert_int_equal(r.tensors[t].type_in, tensors[t].type);
        assert_int_equal(r.tensors[t].bytes_out, rdg_gguf_tensor_at(g, t)->bytes);
        assert_int_equal(d.tensors[t].bytes_out, r.tensors[t].bytes_out);
        check_data(g, t, NULL, 1, r.tensors[t].rmse);
        assert_true(isnan(r.tensors[t].weighted_rmse));
        assert_true((r.tensors[t].warning != NULL) == (strcmp(tensors[t].name, "blk.0.odd.weight") == 0));
    }
    assert_ok(rdg_checksum_verify(g, NULL, bad, &n_bad, &e), &e);
    assert_int_equal(n_bad, 0);
    uint64_t offset = (uint64_t)((const char *)rdg_gguf_tensor_at(g, 2)->data -
                                 (const char *)rdg_gguf_tensor_at(g, 0)->data);
    uint64_t end = (uint64_t)((const char *)rdg_gguf_tensor_at(g, RDG_COUNTOF(tensors) - 1)->data -
                              (const char *)rdg_gguf_tensor_at(g, 0)->data) +
                   rdg_gguf_tensor_at(g, RDG_COUNTOF(tensors) - 1)->bytes;
    rdg_gguf_close(g);

    /* one bit of tensor 2 flips: found, and named */
    FILE *f = fopen(at("out.gguf"), "r+b");
    assert_non_null(f);
    uint64_t pad = (64 - end % 64) % 64;
    long position = (long)(r.bytes_out - pad - end + offset + 1000);
    assert_int_equal(fseek(f, position, SEEK_SET), 0);
    int c = fgetc(f);
    assert_int_equal(fseek(f, position, SEEK_SET), 0);
    fputc(c ^ 4, f);
    fclose(f);
    assert_ok(rdg_gguf_open(at("out.gguf"), NULL, &g, &e), &e);
    assert_ok(rdg_checksum_verify(g, NULL, bad, &n_bad, &e), &e);
    assert_int_equal(n_bad, 1);
    for (int t = 0; t < RDG_COUNTOF(tensors); t++) assert_int_equal(bad[t], t == 2);
    rdg_gguf_close(g);
    assert_ok(rdg_gguf_open(at("in.gguf"), NULL, &g, &e), &e);
    assert_error(rdg_checksum_verify(g, NULL, bad, &n_bad, &e), RDG_E_MALFORMED, &e, "4 digits");
    rdg_gguf_close(g);
    rdg_quantize_result_finish(&r);
    rdg_quantize_result_finish(&r);
    rdg_quantize_result_finish(&d);
}

static void any_number_of_threads_writes_the_same(void **state)
{
    rdg_quantize_params p = params(RDG_RECIPE_Q3_K_L);
    rdg_quantize_result one, many;
    rdg_error e = {0};
    (void)state;
    write_model(at("in.gguf"), 0);
    assert_ok(rdg_quantize_file(at("in.gguf"), at("one.gguf"), &p, &one, &e), &e);
    for (int n = 2; n < 9; n += 3) {
        p.n_threads = n;
        assert_ok(rdg_quantize_file(at("in.gguf"), at("many.gguf"), &p, &many, &e), &e);
        assert_same_file(at("one.gguf"), at("many.gguf"));
        for (int t = 0; t < RDG_COUNTOF(tensors); t++)
            assert_memory_equal(&one.tensors[t].rmse, &many.tensors[t].rmse, sizeof(double));
        rdg_quantize_result_finish(&many);
    }
    rdg_quantize_result_finish(&one);
}

static void importance_goes_to_its_expert(void **state)
{
    static float sums[N_EXPERTS * N_COLUMNS], h[N_EXPERTS * N_COLUMNS];
    float counts[N_EXPERTS] = {10, 0, 20, 5};
    rdg_quantize_params p = params(RDG_RECIPE_Q4_K_M);
    rdg_quantize_result r;
    rdg_imatrix *m;
    rdg_gguf *g;
    rdg_error e = {0};
    rdg_str s;
    int64_t v;
    (void)state;
    write_model(at("in.gguf"), 0);
    assert_ok(rdg_imatrix_create(&m, &e), &e);
    for (int i = 0; i < N_EXPERTS * N_COLUMNS; i++) {
        int k = i / N_COLUMNS;
        sums[i] = k == 1 ? 0.0f : expf(2 * rdg_rng_normal(&rng));
        h[i] = k == 1 ? 1.0f : sums[i] / counts[k]; /* an expert without samples: all columns count equally */
    }
    assert_ok(rdg_imatrix_add(m, "blk.0.ffn_gate_exps.weight", N_COLUMNS, N_EXPERTS, sums, counts, &e), &e);
    assert_ok(rdg_imatrix_add(m, "blk.0.attn_q.weight", N_COLUMNS, 1, sums, counts, &e), &e);
    assert_ok(rdg_imatrix_add_dataset(m, "calibration.txt", &e), &e);
    rdg_imatrix_set_chunks(m, 7, 512);
    p.imatrix = m;
    p.imatrix_path = "some.imatrix";
    p.n_threads = 3;
    assert_ok(rdg_quantize_file(at("in.gguf"), at("out.gguf"), &p, &r, &e), &e);
    assert_ok(rdg_gguf_open(at("out.gguf"), NULL, &g, &e), &e);
    check_data(g, 2, h, 1, r.tensors[2].rmse);
    check_data(g, 3, NULL, 1, r.tensors[3].rmse);
    check_data(g, 4, h, N_EXPERTS, r.tensors[4].rmse);
    assert_true(r.tensors[2].weighted_rmse > 0 && r.tensors[2].weighted_rmse < r.tensors[2].rmse);
    assert_true(isnan(r.tensors[3].weighted_rmse));
    assert_null(r.tensors[0].warning);
    assert_null(r.tensors[7].warning);
    assert_null(r.tensors[2].warning);
    assert_non_null(strstr(r.tensors[3].warning, "no entry"));
    assert_non_null(strstr(r.tensors[4].warning, "1 of 4"));
    assert_non_null(strstr(r.tensors[6].warning, "Q5_0 instead of Q4_K"));
    assert_non_null(strstr(r.tensors[6].warning, "no entry"));
    assert_ok(rdg_gguf_get_str(g, "quantize.imatrix.file", &s, &e), &e);
    assert_memory_equal(s.p, "some.imatrix", s.n);
    assert_ok(rdg_gguf_get_str(g, "quantize.imatrix.dataset", &s, &e), &e);
    assert_memory_equal(s.p, "calibration.txt", s.n);
    assert_ok(rdg_gguf_get_i64(g, "quantize.imatrix.entries_count", &v, &e), &e);
    assert_int_equal(v, 2);
    assert_ok(rdg_gguf_get_i64(g, "quantize.imatrix.chunks_count", &v, &e), &e);
    assert_int_equal(v, 7);
    rdg_gguf_close(g);
    rdg_quantize_result_finish(&r);
    rdg_imatrix_destroy(m);

    /* sizes that do not fit, and a matrix of another model */
    int n_files = files_in(dir);
    assert_ok(rdg_imatrix_create(&m, &e), &e);
    assert_ok(rdg_imatrix_add(m, "blk.0.attn_v.weight", 256, 1, sums, counts, &e), &e);
    p.imatrix = m;
    assert_error(rdg_quantize_file(at("in.gguf"), at("bad.gguf"), &p, NULL, &e), RDG_E_MALFORMED, &e,
                 "1 x 256");
    rdg_imatrix_destroy(m);
    assert_ok(rdg_imatrix_create(&m, &e), &e);
    assert_ok(rdg_imatrix_add(m, "blk.7.attn_v.weight", N_COLUMNS, 1, sums, counts, &e), &e);
    p.imatrix = m;
    assert_error(rdg_quantize_file(at("in.gguf"), at("bad.gguf"), &p, NULL, &e), RDG_E_ARGUMENT, &e,
                 "another model");
    rdg_imatrix_destroy(m);
    assert_int_equal(files_in(dir), n_files);
}

static void quantised_input(void **state)
{
    rdg_quantize_params p = params(RDG_RECIPE_Q8_0);
    rdg_quantize_result r;
    rdg_gguf *g;
    rdg_error e = {0};
    (void)state;
    write_model(at("in.gguf"), 0);
    assert_ok(rdg_quantize_file(at("in.gguf"), at("q8.gguf"), &p, NULL, &e), &e);
    /* the same again is a copy */
    assert_ok(rdg_quantize_file(at("q8.gguf"), at("q8-again.gguf"), &p, &r, &e), &e);
    assert_same_file(at("q8.gguf"), at("q8-again.gguf"));
    assert_true(r.tensors[2].rmse == 0);
    rdg_quantize_result_finish(&r);
    p.recipe = RDG_RECIPE_Q4_K_S;
    unlink(at("q4.gguf"));
    int n_files = files_in(dir);
    assert_error(rdg_quantize_file(at("q8.gguf"), at("q4.gguf"), &p, NULL, &e), RDG_E_UNSUPPORTED, &e,
                 "quantised already");
    assert_int_equal(files_in(dir), n_files);
    p.allow_requantise = true;
    assert_ok(rdg_quantize_file(at("q8.gguf"), at("q4.gguf"), &p, NULL, &e), &e);
    assert_ok(rdg_gguf_open(at("q4.gguf"), NULL, &g, &e), &e);
    assert_int_equal(rdg_gguf_tensor_at(g, 2)->type, RDG_TYPE_Q4_K);
    rdg_gguf_close(g);
}

static void parts_in_and_out(void **state)
{
    rdg_quantize_params p = params(RDG_RECIPE_Q6_K);
    rdg_quantize_result r, d;
    rdg_gguf *g;
    rdg_error e = {0};
    int64_t n_bad;
    (void)state;
    write_model(at("m.gguf"), 150000);
    assert_ok(rdg_gguf_open(at("m-00001-of-00006.gguf"), NULL, &g, &e), &e);
    rdg_gguf_close(g);
    assert_ok(rdg_quantize_file(at("m-00001-of-00006.gguf"), at("whole.gguf"), &p, NULL, &e), &e);
    assert_ok(rdg_gguf_open(at("whole.gguf"), NULL, &g, &e), &e);
    assert_int_equal(rdg_gguf_n_parts(g), 1);
    assert_int_equal(rdg_gguf_n_tensors(g), RDG_COUNTOF(tensors));
    assert_null(rdg_gguf_find(g, "split.no"));
    assert_ok(rdg_checksum_verify(g, NULL, NULL, &n_bad, &e), &e);
    assert_int_equal(n_bad, 0);
    rdg_gguf_close(g);
    p.split_bytes = 100000;
    p.dry_run = true;
    assert_ok(rdg_quantize_file(at("m-00001-of-00006.gguf"), at("parts.gguf"), &p, &d, &e), &e);
    p.dry_run = false;
    assert_ok(rdg_quantize_file(at("m-00001-of-00006.gguf"), at("parts.gguf"), &p, &r, &e), &e);
    assert_int_equal(d.bytes_out, r.bytes_out);
    assert_ok(rdg_gguf_open(at("parts-00001-of-00004.gguf"), NULL, &g, &e), &e);
    assert_int_equal(rdg_gguf_file_bytes(g), r.bytes_out);
    assert_ok(rdg_checksum_verify(g, NULL, NULL, &n_bad, &e), &e);
    assert_int_equal(n_bad, 0);
    rdg_gguf_close(g);
    rdg_quantize_result_finish(&d);
    rdg_quantize_result_finish(&r);
}

static int cancel_late(void *user, const char *what, double done, double total)
{
    (void)user;
    (void)what;
    return done > 0.7 * total;
}

static void failures_leave_nothing(void **state)
{
    const rdg_log log = {.progress = cancel_late};
    rdg_quantize_params p = params(RDG_RECIPE_Q4_0);
    rdg_error e = {0};
    (void)state;
    write_model(at("in.gguf"), 0);
    int n_files = files_in(dir);
    p.log = &log;
    assert_error(rdg_quantize_file(at("in.gguf"), at("never.gguf"), &p, NULL, &e), RDG_E_CANCELLED, &e,
                 "cancelled");
    assert_int_equal(files_in(dir), n_files);
    p.log = NULL;
    assert_error(rdg_quantize_file(at("in.gguf"), at("in.gguf"), &p, NULL, &e), RDG_E_ARGUMENT, &e,
                 "input and output");
    assert_error(rdg_quantize_file(at("absent.gguf"), at("never.gguf"), &p, NULL, &e), RDG_E_IO, &e,
                 "absent.gguf");
    assert_error(rdg_quantize_file(at("in.gguf"), at("no/such/folder.gguf"), &p, NULL, &e), RDG_E_IO, &e,
                 "folder");
    p.n_threads = 0;
    assert_error(rdg_quantize_file(at("in.gguf"), at("never.gguf"), &p, NULL, &e), RDG_E_ARGUMENT, &e,
                 "n_threads");
    p.n_threads = 4;
    p.recipe = (rdg_recipe)77;
    assert_error(rdg_quantize_file(at("in.gguf"), at("never.gguf"), &p, NULL, &e), RDG_E_ARGUMENT, &e,
                 "Q4_K_M");
    p.recipe = RDG_RECIPE_Q4_0;

    /* a NaN in row 90 of blk.0.attn_q.weight: the message says where, from any number of threads */
    rdg_gguf *g;
    assert_ok(rdg_gguf_open(at("in.gguf"), NULL, &g, &e), &e);
    const rdg_gguf_tensor *t = rdg_gguf_tensor_find(g, "blk.0.attn_q.weight");
    const rdg_gguf_tensor *last = rdg_gguf_tensor_find(g, "output.weight");
    uint64_t end = (uint64_t)((const char *)last->data - (const char *)t->data) + last->bytes;
    uint64_t file = rdg_gguf_file_bytes(g);
    rdg_gguf_close(g);
    const float nan = NAN;
    FILE *f = fopen(at("in.gguf"), "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)(file - end + (90 * N_COLUMNS + 17) * 4), SEEK_SET), 0);
    assert_int_equal(fwrite(&nan, 4, 1, f), 1);
    fclose(f);
    assert_error(rdg_quantize_file(at("in.gguf"), at("never.gguf"), &p, NULL, &e), RDG_E_MALFORMED, &e,
                 "tensor 'blk.0.attn_q.weight': row 90 column 17");
    assert_int_equal(files_in(dir), n_files);
}

/* Many groups, several bad rows: always the first one is named. */
static void the_first_bad_row_is_named(void **state)
{
    enum { ROWS = 4000, COLUMNS = 256 };
    float *x = rdg_alloc_array(ROWS * COLUMNS, sizeof *x);
    unsigned char *out = rdg_alloc(ROWS * 144);
    rdg_pool *pool;
    rdg_error e = {0};
    (void)state;
    assert_ok(rdg_pool_create(4, &pool, &e), &e);
    for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = rdg_rng_normal(&rng);
    x[1500 * COLUMNS + 3] = x[1200 * COLUMNS + 5] = x[3999 * COLUMNS] = INFINITY;
    const rdg_rows rows = {.type_in = RDG_TYPE_F32,
                           .type_out = RDG_TYPE_Q4_K,
                           .src = x,
                           .dst = out,
                           .n_rows = ROWS,
                           .n_columns = COLUMNS,
                           .first_row = 10000,
                           .rows_per_matrix = 1};
    for (int i = 0; i < 20; i++)
        assert_error(rdg_quantise_rows_parallel(pool, &rows, NULL, &e), RDG_E_MALFORMED, &e,
                     "row 11200 column 5");
    rdg_pool_destroy(pool);
    rdg_free(out);
    rdg_free(x);
}

/* A tensor of 128 MiB passes through a process that never holds more than a fraction of it. */
static void memory_is_bounded(void **state)
{
    const int64_t dim[2] = {4096, 16384};
    rdg_gguf_writer *w;
    rdg_error e = {0};
    (void)state;
#ifdef __SANITIZE_THREAD__
    print_message("skipped: the sanitizer's own memory is five times the program's\n");
    skip();
#endif
    pid_t child = fork(); /* its own peak is what wait4 reports */
    if (child == 0) {
        static unsigned char zeros[1 << 20];
        rdg_quantize_params p = params(RDG_RECIPE_Q8_0);
        int ok = !rdg_gguf_writer_create(at("big.gguf"), &w, &e);
        rdg_gguf_set_str(w, "general.architecture", "llama");
        rdg_gguf_add_tensor(w, "blk.0.attn_q.weight", RDG_TYPE_F16, 2, dim);
        ok = ok && !rdg_gguf_writer_begin(w, &e);
        for (int i = 0; i < 128 && ok; i++) ok = !rdg_gguf_write_data(w, zeros, sizeof zeros, &e);
        ok = ok && !rdg_gguf_writer_finish(w, &e);
        rdg_gguf_writer_destroy(w);
        ok = ok && !rdg_quantize_file(at("big.gguf"), at("small.gguf"), &p, NULL, &e);
        _exit(!ok);
    }
    int status;
    struct rusage use;
    assert_int_equal(wait4(child, &status, 0, &use), child);
    assert_int_equal(status, 0);
    print_message("peak %ld KiB\n", use.ru_maxrss);
    assert_true(use.ru_maxrss < 100 << 10); /* generous, for builds with sanitizers */
}

static void hash_values(void **state)
{
    static const struct {
        const char *text;
        uint64_t value;
    } known[] = {{"", 0xEF46DB3751D8E999u},
                 {"a", 0xD24EC4F1A98C6E5Bu},
                 {"abc", 0x44BC2CF5AD770999u},
                 {"message digest", 0x066ED728FCEEB3BEu},
                 {"abcdefghijklmnopqrstuvwxyz", 0xCFE1F278FA89835Cu},
                 {"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", 0xAAA46907D3047814u},
                 {"12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                  0xE04A477F19EE145Du}};
    unsigned char data[1000];
    rdg_hash64 whole, pieces;
    (void)state;
    for (int i = 0; i < RDG_COUNTOF(known); i++) {
        rdg_hash64_init(&whole);
        rdg_hash64_update(&whole, known[i].text, strlen(known[i].text));
        assert_true(rdg_hash64_value(&whole) == known[i].value);
    }
    for (int i = 0; i < 1000; i++) data[i] = (unsigned char)rdg_rng_next(&rng);
    for (size_t n = 0; n <= 1000; n += 1 + n / 7) {
        rdg_hash64_init(&whole);
        rdg_hash64_init(&pieces);
        rdg_hash64_update(&whole, data, n);
        for (size_t i = 0; i < n;) {
            size_t k = 1 + (size_t)rdg_rng_below(&rng, 70);
            k = RDG_MIN(k, n - i);
            rdg_hash64_update(&pieces, data + i, k);
            i += k;
        }
        assert_true(rdg_hash64_value(&whole) == rdg_hash64_value(&pieces));
    }
}

/* Llama 3 8B in F16: the header with all shapes, and a hole of 16 GB for the data. */
static uint64_t write_llama_8b(const char *path)
{
    enum { LAYERS = 32, EMBD = 4096, KV = 1024, FF = 14336, VOCAB = 128256 };
    static const struct {
        const char *name;
        uint64_t n_columns, n_rows; /* n_rows 0: F32 */
    } parts[] = {{"attn_norm", EMBD, 0},      {"attn_q", EMBD, EMBD},      {"attn_k", EMBD, KV},
                 {"attn_v", EMBD, KV},        {"attn_output", EMBD, EMBD}, {"ffn_norm", EMBD, 0},
                 {"ffn_gate", EMBD, FF},      {"ffn_up", EMBD, FF},        {"ffn_down", FF, EMBD},
                 {"token_embd", EMBD, VOCAB}, {"output", EMBD, VOCAB},     {"output_norm", EMBD, 0}};
    enum { PER_LAYER = 9, PARTS = RDG_COUNTOF(parts) };
    rdg_buf b;
    uint64_t offset = 0;
    rdg_buf_init(&b);
    put_header(&b, LAYERS * PER_LAYER + PARTS - PER_LAYER, 4);
    put_kv_str(&b, "general.architecture", "llama");
    put_kv_u32(&b, "llama.block_count", LAYERS);
    put_kv_u32(&b, "llama.attention.head_count", 32);
    put_kv_u32(&b, "llama.attention.head_count_kv", 8);
    for (int i = 0; i < LAYERS * PER_LAYER + PARTS - PER_LAYER; i++) {
        int part = i < LAYERS * PER_LAYER ? i % PER_LAYER : i - (LAYERS - 1) * PER_LAYER;
        char name[64], block[16] = "";
        bool matrix = parts[part].n_rows != 0;
        if (part < PER_LAYER) snprintf(block, sizeof block, "blk.%d.", i / PER_LAYER);
        snprintf(name, sizeof name, "%s%s.weight", block, parts[part].name);
        put_tensor(&b, name, matrix ? 2 : 1, parts[part].n_columns, parts[part].n_rows,
                   matrix ? RDG_TYPE_F16 : RDG_TYPE_F32, offset);
        offset += parts[part].n_columns * (matrix ? 2 * parts[part].n_rows : 4); /* all multiples of 32 */
    }
    put_data(&b, 32, 0);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b.data, 1, b.len, f), b.len);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(truncate(path, (off_t)(b.len + offset)), 0);
    rdg_buf_finish(&b);
    return offset;
}

/* What people know of this model: 16.1 GB become 4.9 GB. */
static void an_8b_model_becomes_4_9_gb(void **state)
{
    const int64_t per_layer = 4096LL * (2 * 4096 + 2 * 1024 + 3 * 14336); /* weights of a layer's matrices */
    const int64_t sixth = 4096LL * (1024 + 14336);                        /* of them attn_v and ffn_down */
    const int64_t table = 4096LL * 128256;
    rdg_quantize_params p = params(RDG_RECIPE_Q4_K_M);
    rdg_quantize_result r;
    rdg_error e = {0};
    int64_t bytes = 0, n_q6 = 0;
    (void)state;
    uint64_t data_bytes = write_llama_8b(at("8b.gguf"));
    p.dry_run = true;
    assert_ok(rdg_quantize_file(at("8b.gguf"), NULL, &p, &r, &e), &e);
    assert_int_equal(r.n_elements, 32 * per_layer + 2 * table + 65 * 4096);
    assert_true(r.bytes_in > data_bytes && r.bytes_in < data_bytes + 50000);
    for (int64_t i = 0; i < r.n_tensors; i++) {
        bytes += (int64_t)r.tensors[i].bytes_out;
        n_q6 += r.tensors[i].type_out == RDG_TYPE_Q6_K;
    }
    assert_int_equal(n_q6, 1 + 2 * 16); /* the output, and half of the layers' attn_v and ffn_down */
    assert_int_equal(bytes, (32 * per_layer - 16 * sixth + table) / 256 * 144 +
                                (16 * sixth + table) / 256 * 210 + 65 * 4096 * 4);
    assert_true(r.bytes_out > bytes && r.bytes_out < bytes + 50000);
    assert_int_equal((r.bytes_out + 50000000) / 100000000, 49);
    rdg_quantize_result_finish(&r);
    unlink(at("8b.gguf"));
}

static int forget_values(void **state)
{
    (void)state;
    for (int t = 0; t < RDG_COUNTOF(tensors); t++) {
        rdg_free(values[t]);
        values[t] = NULL;
    }
    return teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hash_values),
        cmocka_unit_test(recipe_bytes_and_metadata),
        cmocka_unit_test(any_number_of_threads_writes_the_same),
        cmocka_unit_test(importance_goes_to_its_expert),
        cmocka_unit_test(quantised_input),
        cmocka_unit_test(parts_in_and_out),
        cmocka_unit_test(failures_leave_nothing),
        cmocka_unit_test(the_first_bad_row_is_named),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(an_8b_model_becomes_4_9_gb),
    };
    return cmocka_run_group_tests(tests, setup, forget_values);
}

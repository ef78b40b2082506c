#include "quant/rows.h"
#include "quant/quant.h"
#include "quant/search.h"
#include "base/cpu.h"
#include "base/mem.h"

#include <stdatomic.h>

enum { GROUP_ELEMENTS = 1 << 15 }; /* about a millisecond of search, that is worth handing out */

int64_t rdg_rows_group(int64_t n_columns)
{
    return n_columns < GROUP_ELEMENTS ? GROUP_ELEMENTS / n_columns : 1;
}

typedef struct job {
    const rdg_rows *rows;
    const rdg_search *search;
    int64_t group, n_groups, bytes_in, bytes_out;
    float *scratch;       /* a row given and a row read back, for each thread */
    rdg_rows_error *sums; /* of each group, or NULL */
    atomic_llong next;
    struct failure {
        int64_t group; /* n_groups: none */
        rdg_error error;
    } * failures; /* of each thread */
} job;

/* Eight running sums, so that they vectorise; which element goes to which is fixed. */
enum { N_SUMS = 8 };

static double sum_up(const double *v)
{
    double sum = 0;
    for (int i = 0; i < N_SUMS; i++) sum += v[i];
    return sum;
}

/* Elements i … i + m - 1, one to each sum. */
RDG_INLINE void measure_some(const float *given, const float *stored, const float *h, int m, double *squares,
                             double *weighted, double *weight)
{
    for (int k = 0; k < m; k++) {
        double d = (double)stored[k] - given[k];
        squares[k] += d * d;
    }
    for (int k = 0; h && k < m; k++) {
        double d = (double)stored[k] - given[k];
        weighted[k] += h[k] * d * d;
        weight[k] += h[k];
    }
}

static void measure_row(const float *given, const float *stored, const float *h, int64_t n,
                        rdg_rows_error *sum)
{
    double squares[N_SUMS] = {0}, weighted[N_SUMS] = {0}, weight[N_SUMS] = {0};
    int64_t i = 0;
    for (; i + N_SUMS <= n; i += N_SUMS)
        measure_some(given + i, stored + i, h ? h + i : NULL, N_SUMS, squares, weighted, weight);
    measure_some(given + i, stored + i, h ? h + i : NULL, (int)(n - i), squares, weighted, weight);
    sum->squares += sum_up(squares);
    sum->weighted += sum_up(weighted);
    sum->weight += sum_up(weight);
}

static rdg_err do_group(const job *j, int64_t g, int thread, rdg_error *e)
{
    const rdg_rows *r = j->rows;
    int64_t first = g * j->group, n = RDG_MIN(j->group, r->n_rows - first);
    float *x = j->scratch + 2 * r->n_columns * thread, *stored = x + r->n_columns;
    const unsigned char *src = (const unsigned char *)r->src + first * j->bytes_in;
    unsigned char *dst = (unsigned char *)r->dst + first * j->bytes_out;
    for (int64_t k = 0; k < n; k++) {
        int64_t row = r->first_row + first + k;
        const float *h = r->importance ? r->importance + row / r->rows_per_matrix * r->n_columns : NULL;
        rdg_quant_ops[r->type_in].dequantise(src + k * j->bytes_in, x, r->n_columns);
        rdg_err err =
            rdg_quantise_row(j->search, r->type_out, x, dst + k * j->bytes_out, r->n_columns, h, row, e);
        if (err) return err;
        if (!j->sums) continue;
        rdg_quant_ops[r->type_out].dequantise(dst + k * j->bytes_out, stored, r->n_columns);
        measure_row(x, stored, h, r->n_columns, &j->sums[g]);
    }
    return RDG_OK;
}

static void work(void *ctx, int thread, int n_threads)
{
    job *j = ctx;
    struct failure *f = &j->failures[thread];
    (void)n_threads;
    for (;;) {
        /* Groups are handed out in order, so every group before the first bad one is looked at. */
        int64_t g = atomic_fetch_add(&j->next, 1);
        if (g >= j->n_groups) return;
        if (do_group(j, g, thread, &f->error)) {
            f->group = g;
            atomic_store(&j->next, j->n_groups);
            return;
        }
    }
}

rdg_err rdg_quantise_rows_parallel(rdg_pool *pool, const rdg_rows *r, rdg_rows_error *error, rdg_error *e)
{
    int n_threads = pool ? rdg_pool_threads(pool) : 1;
    job j = {.rows = r, .search = rdg_search_best(rdg_cpu_features()), .group = rdg_rows_group(r->n_columns)};
    size_t scratch_floats;
    rdg_err err = RDG_OK;
    if (!rdg_type_can_dequantise(r->type_in) || !rdg_type_can_quantise(r->type_out))
        return rdg_fail(e, RDG_E_UNSUPPORTED, "from %s to %s is not supported", rdg_type_name(r->type_in),
                        rdg_type_name(r->type_out));
    j.bytes_in = rdg_type_row_bytes(r->type_in, r->n_columns);
    j.bytes_out = rdg_type_row_bytes(r->type_out, r->n_columns);
    if (j.bytes_in < 0 || j.bytes_out < 0 || r->n_rows < 0 || (r->importance && r->rows_per_matrix < 1))
        return rdg_fail(e, RDG_E_ARGUMENT, "%lld rows of %lld columns do not divide into blocks of %s and %s",
                        (long long)r->n_rows, (long long)r->n_columns, rdg_type_name(r->type_in),
                        rdg_type_name(r->type_out));
    j.n_groups = rdg_div_up(r->n_rows, j.group);
    if (RDG_MUL_OVERFLOW((size_t)2, (size_t)r->n_columns, &scratch_floats) ||
        RDG_MUL_OVERFLOW(scratch_floats, (size_t)n_threads, &scratch_floats) ||
        !(j.scratch = rdg_alloc_array(scratch_floats, sizeof *j.scratch)) ||
        !(j.failures = rdg_alloc_array((size_t)n_threads, sizeof *j.failures)) ||
        (error && !(j.sums = rdg_alloc_array((size_t)j.n_groups, sizeof *j.sums)))) {
        err = rdg_fail(e, RDG_E_NOMEM, "no memory to quantise rows of %lld columns", (long long)r->n_columns);
        goto done;
    }
    for (int t = 0; t < n_threads; t++) j.failures[t].group = j.n_groups;
    if (pool)
        rdg_pool_run(pool, work, &j);
    else
        work(&j, 0, 1);
    const struct failure *first = &j.failures[0];
    for (int t = 1; t < n_threads; t++)
        if (j.failures[t].group < first->group) first = &j.failures[t];
    if (first->group < j.n_groups) {
        err = first->error.code;
        if (e) *e = first->error;
        goto done;
    }
    for (int64_t g = 0; error && g < j.n_groups; g++) {
        error->squares += j.sums[g].squares;
        error->weighted += j.sums[g].weighted;
        error->weight += j.sums[g].weight;
    }
done:
    rdg_free(j.sums);
    rdg_free(j.failures);
    rdg_free(j.scratch);
    return err;
}

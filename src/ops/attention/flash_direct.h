/* The direct form of an item: few queries, so that making keys ready for many costs more than multiplying
 * with them. A score is a dot product along the head, a value is added where it is read; cache elements
 * become f32 in registers. Included once, behind what it is made of: LANES, floats, and the functions on
 * them.
 *
 * LANES scores are made at once, of one, two or four queries and of LANES, LANES / 2 or LANES / 4 keys,
 * because the sums of LANES registers become one register with less work than each would take alone. */
enum { STRIP = LANES / 4 }; /* registers of each of four output rows: with STRIP rows they are LANES */

RDG_INLINE int64_t bytes_of(rdg_type type)
{
    return type == RDG_TYPE_F32 ? 4 : 2;
}

/* What will be read a block later. A few lines with every row: all of a block at once take longer than they
 * save. Past the end of the cache this does nothing. */
RDG_INLINE void ask(const char *p, int64_t n_bytes)
{
    for (int64_t b = 0; b < n_bytes; b += 64) _mm_prefetch(p + b, _MM_HINT_T0);
}

/* scores[t][key] for n_q rows of queries and n keys rounded up to LANES / n_q. Keys have `dim` elements, a
 * multiple of LANES. */
RDG_INLINE void dot_tile(int n_q, rdg_type type, const rdg_flash_rows *keys, int64_t dim,
                         const float *queries, int64_t row_k, float *scores)
{
    const int n_k = LANES / n_q;
    for (int64_t j = 0; j < keys->n; j += n_k) {
        const char *key[LANES];
        floats sum[LANES];
#pragma GCC unroll 16
        for (int i = 0; i < n_k; i++) key[i] = rdg_flash_row(keys, RDG_MIN(j + i, keys->n - 1));
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) sum[i] = floats_zero();
        for (int64_t d = 0; d < dim; d += LANES) {
            floats q[4];
#pragma GCC unroll 4
            for (int t = 0; t < n_q; t++) q[t] = floats_load(queries + t * row_k + d);
#pragma GCC unroll 16
            for (int i = 0; i < n_k; i++) {
                floats x = floats_cached(type, key[i], d);
#pragma GCC unroll 4
                for (int t = 0; t < n_q; t++) sum[t * n_k + i] = floats_fma(x, q[t], sum[t * n_k + i]);
            }
        }
        for (int i = 0; i < n_k; i++) ask(key[i] + KEYS * keys->stride, dim * bytes_of(type));
        RDG_ALIGNED(64) float done[LANES];
        floats_store(done, floats_sums(sum));
#pragma GCC unroll 4
        for (int t = 0; t < n_q; t++)
            memcpy(scores + t * KEYS + j, done + t * n_k, (size_t)n_k * sizeof *scores);
    }
}

/* out[t][0 … n_r registers] += sum over keys i < n of weights[t][i] * value i from element d on. */
RDG_INLINE void add_tile(int n_q, int n_r, rdg_type type, const rdg_flash_rows *values, int64_t d,
                         const float *weights, float *out, int64_t row_v)
{
    floats sum[4][STRIP];
#pragma GCC unroll 4
    for (int t = 0; t < n_q; t++)
#pragma GCC unroll 4
        for (int r = 0; r < n_r; r++) sum[t][r] = floats_load(out + t * row_v + d + r * LANES);
    for (int64_t i = 0; i < values->n; i++) {
        const char *value = rdg_flash_row(values, i);
        floats x[STRIP];
        ask(value + KEYS * values->stride + d * bytes_of(type), n_r * LANES * bytes_of(type));
#pragma GCC unroll 4
        for (int r = 0; r < n_r; r++) x[r] = floats_cached(type, value, d + r * LANES);
#pragma GCC unroll 4
        for (int t = 0; t < n_q; t++) {
            floats w = floats_set1(weights[t * KEYS + i]);
#pragma GCC unroll 4
            for (int r = 0; r < n_r; r++) sum[t][r] = floats_fma(x[r], w, sum[t][r]);
        }
    }
#pragma GCC unroll 4
    for (int t = 0; t < n_q; t++)
#pragma GCC unroll 4
        for (int r = 0; r < n_r; r++) floats_store(out + t * row_v + d + r * LANES, sum[t][r]);
}

/* A loop of its own for every type and number of queries: both are known in the innermost one. */
RDG_INLINE void dots_typed(rdg_type type, int n_q, const rdg_flash_rows *keys, int64_t dim,
                           const float *queries, int64_t row_k, float *scores)
{
    if (n_q == 1)
        dot_tile(1, type, keys, dim, queries, row_k, scores);
    else if (n_q == 2)
        dot_tile(2, type, keys, dim, queries, row_k, scores);
    else
        dot_tile(4, type, keys, dim, queries, row_k, scores);
}

static void dots(const rdg_flash_rows *keys, int n_q, int64_t dim, const float *queries, int64_t row_k,
                 float *scores)
{
    if (keys->type == RDG_TYPE_F16)
        dots_typed(RDG_TYPE_F16, n_q, keys, dim, queries, row_k, scores);
    else if (keys->type == RDG_TYPE_BF16)
        dots_typed(RDG_TYPE_BF16, n_q, keys, dim, queries, row_k, scores);
    else
        dots_typed(RDG_TYPE_F32, n_q, keys, dim, queries, row_k, scores);
}

RDG_INLINE void add_strips(int n_q, rdg_type type, const rdg_flash_rows *values, int64_t dim,
                           const float *weights, float *out, int64_t row_v)
{
    int64_t d = 0;
    for (; d + STRIP * LANES <= dim; d += STRIP * LANES)
        add_tile(n_q, STRIP, type, values, d, weights, out, row_v);
    for (; d < dim; d += LANES) add_tile(n_q, 1, type, values, d, weights, out, row_v);
}

RDG_INLINE void add_typed(rdg_type type, int n_q, const rdg_flash_rows *values, int64_t dim,
                          const float *weights, float *out, int64_t row_v)
{
    if (n_q == 1)
        add_strips(1, type, values, dim, weights, out, row_v);
    else if (n_q == 2)
        add_strips(2, type, values, dim, weights, out, row_v);
    else
        add_strips(4, type, values, dim, weights, out, row_v);
}

static void add_values(const rdg_flash_rows *values, int n_q, int64_t dim, const float *weights, float *out,
                       int64_t row_v)
{
    if (values->type == RDG_TYPE_F16)
        add_typed(RDG_TYPE_F16, n_q, values, dim, weights, out, row_v);
    else if (values->type == RDG_TYPE_BF16)
        add_typed(RDG_TYPE_BF16, n_q, values, dim, weights, out, row_v);
    else
        add_typed(RDG_TYPE_F32, n_q, values, dim, weights, out, row_v);
}

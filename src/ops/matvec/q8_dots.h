/* The dot products of the block formats, the same for every instruction set. Included once, behind the
 * dot_rows of the file; `dots` is rdg_q8_isa's. The type is a constant here, so that each gets its own loops.
 */
static void dot_q2_k(const rdg_q8_dot_args *a)
{
    dot_rows(a, RDG_TYPE_Q2_K);
}
static void dot_q3_k(const rdg_q8_dot_args *a)
{
    dot_rows(a, RDG_TYPE_Q3_K);
}
static void dot_q4_k(const rdg_q8_dot_args *a)
{
    dot_rows(a, RDG_TYPE_Q4_K);
}
static void dot_q5_k(const rdg_q8_dot_args *a)
{
    dot_rows(a, RDG_TYPE_Q5_K);
}
static void dot_q6_k(const rdg_q8_dot_args *a)
{
    dot_rows(a, RDG_TYPE_Q6_K);
}
static void dot_q8_0(const rdg_q8_dot_args *a)
{
    dot_rows(a, RDG_TYPE_Q8_0);
}
static void dot_q4_0(const rdg_q8_dot_args *a)
{
    dot_rows(a, RDG_TYPE_Q4_0);
}
static void dot_q4_1(const rdg_q8_dot_args *a)
{
    dot_rows(a, RDG_TYPE_Q4_1);
}
static void dot_q5_0(const rdg_q8_dot_args *a)
{
    dot_rows(a, RDG_TYPE_Q5_0);
}
static void dot_q5_1(const rdg_q8_dot_args *a)
{
    dot_rows(a, RDG_TYPE_Q5_1);
}
static void dot_iq4_nl(const rdg_q8_dot_args *a)
{
    dot_rows(a, RDG_TYPE_IQ4_NL);
}
static void dot_iq4_xs(const rdg_q8_dot_args *a)
{
    dot_rows(a, RDG_TYPE_IQ4_XS);
}
static void dot_mxfp4(const rdg_q8_dot_args *a)
{
    dot_rows(a, RDG_TYPE_MXFP4);
}

static rdg_q8_dot_fn *const dots[RDG_TYPE_COUNT] = {
    [RDG_TYPE_Q2_K] = dot_q2_k,   [RDG_TYPE_Q3_K] = dot_q3_k,     [RDG_TYPE_Q4_K] = dot_q4_k,
    [RDG_TYPE_Q5_K] = dot_q5_k,   [RDG_TYPE_Q6_K] = dot_q6_k,     [RDG_TYPE_Q8_0] = dot_q8_0,
    [RDG_TYPE_Q4_0] = dot_q4_0,   [RDG_TYPE_Q4_1] = dot_q4_1,     [RDG_TYPE_Q5_0] = dot_q5_0,
    [RDG_TYPE_Q5_1] = dot_q5_1,   [RDG_TYPE_IQ4_NL] = dot_iq4_nl, [RDG_TYPE_IQ4_XS] = dot_iq4_xs,
    [RDG_TYPE_MXFP4] = dot_mxfp4,
};

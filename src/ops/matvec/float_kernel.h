/* matvec of F32, F16 and BF16 weights, the same for every instruction set. Included once, behind the dot_rows
 * of the file; what it defines for the variant are `accepts` and `kernel`. The type is a constant here, so
 * that each gets its own loops. */
static void dot_f32(const rdg_float_dot_args *a)
{
    dot_rows(a, RDG_TYPE_F32);
}
static void dot_f16(const rdg_float_dot_args *a)
{
    dot_rows(a, RDG_TYPE_F16);
}
static void dot_bf16(const rdg_float_dot_args *a)
{
    dot_rows(a, RDG_TYPE_BF16);
}

static rdg_float_dot_fn *const dots[RDG_TYPE_COUNT] = {
    [RDG_TYPE_F32] = dot_f32, [RDG_TYPE_F16] = dot_f16, [RDG_TYPE_BF16] = dot_bf16};

static bool accepts(const rdg_op_call *call)
{
    return dots[call->operand[RDG_MATMUL_WEIGHT].type] != NULL;
}
static void run(const rdg_op_call *call, const rdg_cpu_task *task)
{
    rdg_float_matvec_run(call, task, dots);
}

static const rdg_cpu_kernel kernel = {1, rdg_float_matvec_n_items, NULL, run};

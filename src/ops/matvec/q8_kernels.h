/* The kernels on the dot products of one instruction set: a call does not say which version runs it, so each
 * version has functions of its own. Included once, behind `isa`, the file's rdg_q8_isa; what it defines for
 * the variants are accepts_* and *_kernel. */

/* matvec has a version for each form of the activations: calls of one kernel share them. */
static bool accepts_any(const rdg_op_call *call)
{
    return isa.dot[call->operand[0].type] != NULL; /* the weight, in matvec and experts */
}
static bool accepts_256(const rdg_op_call *call)
{
    return accepts_any(call) && rdg_type_block_elems(call->operand[0].type) == RDG_Q8_ELEMS;
}
static bool accepts_32(const rdg_op_call *call)
{
    return accepts_any(call) && rdg_type_block_elems(call->operand[0].type) == 32;
}
static void run_matvec(const rdg_op_call *call, const rdg_cpu_task *task)
{
    rdg_q8_matvec_run(call, task, &isa);
}
static rdg_cpu_streams matvec_streams(const rdg_op_call *call, int64_t begin, int64_t end)
{
    return rdg_q8_matvec_streams(call, begin, end, &isa);
}
static void run_experts(const rdg_op_call *call, const rdg_cpu_task *task)
{
    rdg_q8_experts_run(call, task, &isa);
}

static const rdg_cpu_kernel matvec_kernel = {2,          rdg_q8_matvec_n_items, rdg_q8_matvec_scratch_bytes,
                                             run_matvec, 1 + RDG_MATMUL_X,      matvec_streams};
static const rdg_cpu_kernel matvec_x32_kernel = {
    2, rdg_q8_matvec_n_items, rdg_q8_matvec_scratch_bytes, run_matvec, 1 + RDG_MATMUL_X, matvec_streams};
static const rdg_cpu_kernel experts_kernel = {2, rdg_q8_experts_n_items, rdg_q8_experts_scratch_bytes,
                                              run_experts};

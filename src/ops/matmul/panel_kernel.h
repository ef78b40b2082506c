/* A tiled product bound to its instruction set: a call does not say which version runs it, so each version
 * has functions of its own. Included once, behind `isa`, the file's rdg_panel_isa; what it defines for the
 * variant are `accepts` and `kernel`. */
static bool accepts(const rdg_op_call *call)
{
    return isa.multiply[call->operand[RDG_MATMUL_WEIGHT].type] != NULL;
}
static int64_t n_items(const rdg_op_call *call, int phase)
{
    return rdg_panel_n_items(call, phase, &isa);
}
static size_t scratch_bytes(const rdg_op_call *call, int n_threads)
{
    return rdg_panel_scratch_bytes(call, n_threads, &isa);
}
static void run(const rdg_op_call *call, const rdg_cpu_task *task)
{
    rdg_panel_run(call, task, &isa);
}

static const rdg_cpu_kernel kernel = {2, n_items, scratch_bytes, run};

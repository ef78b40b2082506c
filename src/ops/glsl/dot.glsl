// Sum of four products of signed bytes, as the instruction of SPIR-V: this GLSL compiler knows no name for it.
#extension GL_EXT_spirv_intrinsics : require
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int rdg_sdot(uint a, uint b, spirv_literal int packed_4x8);

int dot4(uint a, uint b)
{
    return rdg_sdot(a, b, 0);
}

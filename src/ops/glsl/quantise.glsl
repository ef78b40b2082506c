// A vector of activations as signed bytes in workgroup memory: blocks of 32 with a scale, and for each 16 the sum of what
// the bytes stand for (weights with an offset need it). Every thread takes four elements at a time, so eight
// neighbouring threads hold a block. N_COLUMNS is a multiple of 32.
#extension GL_KHR_shader_subgroup_shuffle : require
shared uvec4 act_bytes[N_COLUMNS / 16];
shared float act_scale[N_COLUMNS / 32];
shared float act_sum[N_COLUMNS / 16];

void act_put(uint quad, vec4 v) // elements 4 quad … 4 quad + 3; all eight threads of a block call together
{
    float top = max(max(abs(v.x), abs(v.y)), max(abs(v.z), abs(v.w)));
    if (isnan(v.x + v.y + v.z + v.w)) top = uintBitsToFloat(0x7f800000u); // max drops NaN; the scale must not
    top = max(top, subgroupShuffleXor(top, 1));
    top = max(top, subgroupShuffleXor(top, 2));
    top = max(top, subgroupShuffleXor(top, 4));
    float scale = top * (1.0 / 127.0), inverse = top > 0.0 ? 127.0 / top : 0.0;
    ivec4 q = ivec4(roundEven(v * inverse));
    int sum = q.x + q.y + q.z + q.w;
    sum += subgroupShuffleXor(sum, 1);
    sum += subgroupShuffleXor(sum, 2);
    uint word = uint(q.x & 255) | uint(q.y & 255) << 8 | uint(q.z & 255) << 16 | uint(q.w & 255) << 24;
    act_bytes[quad / 4][quad % 4] = word;
    if (quad % 8 == 0) act_scale[quad / 8] = scale;
    if (quad % 4 == 0) act_sum[quad / 4] = scale * float(sum);
}

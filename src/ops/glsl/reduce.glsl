// Sums and maxima over a workgroup of any size and any subgroup width. All threads must call; all get the result.
shared float reduce_part[1024 / 4];

float group_sum(float x)
{
    x = subgroupAdd(x);
    if (gl_NumSubgroups == 1) return x;
    barrier();
    if (gl_SubgroupInvocationID == 0) reduce_part[gl_SubgroupID] = x;
    barrier();
    float s = 0;
    for (uint i = 0; i < gl_NumSubgroups; i++) s += reduce_part[i];
    return s;
}

float group_max(float x)
{
    x = subgroupMax(x);
    if (gl_NumSubgroups == 1) return x;
    barrier();
    if (gl_SubgroupInvocationID == 0) reduce_part[gl_SubgroupID] = x;
    barrier();
    float s = reduce_part[0];
    for (uint i = 1; i < gl_NumSubgroups; i++) s = max(s, reduce_part[i]);
    return s;
}

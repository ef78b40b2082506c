// Launches that follow one another without a barrier. A workgroup waits only where it comes to read what the launches
// before it wrote, until every workgroup of those has said that it is done; what it can do before that, such as sending
// for weights, overlaps with their end, and so does its way onto the device.
//
// Two conditions. The device starts workgroups in the order of their launches (RDG_GPU_ORDERED_LAUNCHES), so that one
// that waits never holds the place of one it waits for. And all that launches of a chain tell each other goes past the
// caches that are not shared: Live32 and Live4, whose CHAIN = 0 forms are ordinary memory.
//
// The includer declares CHAIN, how often a workgroup looks before it gives up (0: no chain), and in its arguments `uint64_t chain`, the counter of the launches before (its own is
// CHAIN_STRIDE bytes behind), `uint chain_before`, how many workgroups those have (0: none to wait for), and `uint64_t
// clock`. Compiled with CLOCK, each workgroup writes there when it began, when it was done waiting and when it ended:
// timestamps between launches would make each wait for the one before it.
#ifdef CLOCK
#extension GL_EXT_shader_realtime_clock : require
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer ClockRecord { uint64_t begin, ready, end; };
uint64_t clock_begin, clock_ready;
#endif
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent volatile buffer ChainCounter { uint v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Live32 { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) coherent buffer Live4 { vec4 v[]; };

const uint CHAIN_STRIDE = 32;
shared bool chain_broken;

float live(uint64_t at, uint i)
{
    return CHAIN != 0 ? Live32(at).v[i] : F32(at).v[i];
}

vec4 live4(uint64_t at, uint i)
{
    return CHAIN != 0 ? Live4(at).v[i] : V4(at).v[i];
}

void put_live(uint64_t at, uint i, float y)
{
    if (CHAIN != 0) Live32(at).v[i] = y;
    else F32(at).v[i] = y;
}

// The first thing that a kernel does.
void chain_begin()
{
#ifdef CLOCK
    clock_begin = clock_ready = clockRealtimeEXT();
#endif
}

// All threads call. False if the launches before never ended: the caller's result must become NaN.
bool chain_wait()
{
    if (CHAIN == 0 || chain_before == 0) return true;
    if (gl_LocalInvocationIndex == 0) {
        uint n = 0;
        while (ChainCounter(chain).v[0] < chain_before && n < CHAIN) n++;
        chain_broken = n == CHAIN;
        memoryBarrierBuffer();
    }
    groupMemoryBarrier();
    barrier();
#ifdef CLOCK
    clock_ready = clockRealtimeEXT();
#endif
    return !chain_broken;
}

// All threads call, after their last store.
void chain_done()
{
    if (CHAIN == 0) return;
    groupMemoryBarrier();
    barrier();
    if (gl_LocalInvocationIndex != 0) return;
#ifdef CLOCK
    uint64_t clock_end = clockRealtimeEXT();
#endif
    memoryBarrierBuffer(); // for all of the workgroup: what it made visible here goes on to the device
    atomicAdd(ChainCounter(chain + CHAIN_STRIDE).v[0], 1u);
#ifdef CLOCK
    ClockRecord r = ClockRecord(clock + 24 * uint64_t(linear_group())); // in host memory: nothing waits for these
    r.begin = clock_begin;
    r.ready = clock_ready;
    r.end = clock_end;
#endif
}

// Activations of glu and act. KIND: the numbers of rdg_act_kind. What is not a number stays none, as on the CPU: min,
// max and clamp would make a limit of it.
const uint A_SILU = 0, A_GELU_TANH = 1, A_GELU_ERF = 2, A_RELU = 3, A_SIGMOID = 4, A_TANH = 5, A_SWIGLU_OAI = 6;

// exp with a relative error of a few units in the last place over the whole range: exp2 of the driver may be worse.
float exp_exact(float x)
{
    if (isnan(x)) return x;
    x = clamp(x, -104.0, 89.0);
    float n = floor(x * 1.44269504 + 0.5);
    float r = fma(n, -0.693359375, x);
    r = fma(n, 2.12194440e-4, r);
    float p = 1.9875691500e-4;
    p = p * r + 1.3981999507e-3;
    p = p * r + 8.3334519073e-3;
    p = p * r + 4.1665795894e-2;
    p = p * r + 1.6666665459e-1;
    p = p * r + 5.0000001201e-1;
    p = p * r * r + r + 1.0;
    int e = int(n), e1 = e / 2, e2 = e - e1; // two steps, so that results near the ends of the range survive
    return p * uintBitsToFloat(uint(e1 + 127) << 23) * uintBitsToFloat(uint(e2 + 127) << 23);
}

float sigmoid(float x)
{
    return 1.0 / (1.0 + exp_exact(-x));
}

float tanh_exact(float x)
{
    float a = abs(x);
    if (a < 0.625) {
        float z = x * x;
        float p = -5.70498872745e-3;
        p = p * z + 2.06390887954e-2;
        p = p * z - 5.37397155531e-2;
        p = p * z + 1.33314422036e-1;
        p = p * z - 3.33332819422e-1;
        return p * z * x + x;
    }
    if (isnan(x)) return x;
    float t = 1.0 - 2.0 / (exp_exact(2.0 * min(a, 20.0)) + 1.0);
    return x < 0.0 ? -t : t;
}

// 1 - erf(a) for a >= 0, with a small relative error in the tail too: e^(-a^2) t P(t), t = 1 / (1 + a / 2). P has the
// least relative error of its degree for a <= 14 (4.5e-8, from a fit in double); beyond, the result is 0.
float erfc_positive(float a)
{
    float t = 1.0 / (1.0 + 0.5 * a);
    float p = -5.938648285e-2;
    p = p * t + 2.861240616e-1;
    p = p * t - 4.904065490e-1;
    p = p * t + 2.817334604e-1;
    p = p * t - 2.914863546e-2;
    p = p * t + 2.037525625e-1;
    p = p * t + 2.428351082e-1;
    p = p * t + 2.824120991e-1;
    p = p * t + 2.820843314e-1;
    return exp_exact(-a * a) * (t * p);
}

float activate(uint kind, float z)
{
    if (kind == A_SILU) return z * sigmoid(z);
    // 0.5 z (1 + tanh(u)) = z sigmoid(2 u): no cancellation for negative z
    if (kind == A_GELU_TANH) return z * sigmoid(2.0 * 0.7978845608028654 * z * (1.0 + 0.044715 * z * z));
    if (kind == A_GELU_ERF) {
        float half_tail = 0.5 * z * erfc_positive(abs(z) * 0.70710678);
        return z < 0.0 ? half_tail : z - half_tail;
    }
    if (kind == A_RELU) return max(z, 0.0);
    if (kind == A_SIGMOID) return sigmoid(z);
    return tanh_exact(z);
}

float gated(uint kind, float gate, float up, float alpha, float limit)
{
    if (kind != A_SWIGLU_OAI) return activate(kind, gate) * up;
    if (isnan(gate + up)) return gate + up;
    float g = min(gate, limit), u = clamp(up, -limit, limit);
    return g * sigmoid(alpha * g) * (u + 1.0);
}

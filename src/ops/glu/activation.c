#include "ops/glu/activation.h"

#include <float.h>
#include <math.h>

static double gelu_argument(double z)
{
    return 2.0 * (0.7978845608028654 * z * (1.0 + 0.044715 * z * z));
}

double rdg_swish(double z, double alpha)
{
    return z / (1.0 + exp(-alpha * z));
}

double rdg_activation(rdg_act_kind kind, double z)
{
    switch (kind) {
    case RDG_ACT_SILU: return rdg_swish(z, 1.0);
    case RDG_ACT_GELU_TANH: return z / (1.0 + exp(-gelu_argument(z)));
    case RDG_ACT_GELU_ERF: return 0.5 * z * erfc(-z * 0.70710678118654752440);
    case RDG_ACT_RELU: return fmax(z, 0.0);
    case RDG_ACT_SIGMOID: return 1.0 / (1.0 + exp(-z));
    case RDG_ACT_TANH: return tanh(z);
    case RDG_ACT_SWIGLU_OAI: break;
    }
    return NAN;
}

/* x: the exponential's argument where it decides the value, else 0. */
static double size(double value, double x, double scale)
{
    return fmax(fabs(value) * (1.0 + fmax(x, 0.0)), fabs(scale) * (double)FLT_MIN / (double)FLT_EPSILON);
}

double rdg_swish_size(double z, double alpha)
{
    return size(rdg_swish(z, alpha), -alpha * z, z);
}

double rdg_activation_size(rdg_act_kind kind, double z)
{
    const double value = rdg_activation(kind, z);
    switch (kind) {
    case RDG_ACT_SILU: return size(value, -z, z);
    case RDG_ACT_GELU_TANH: return size(value, -gelu_argument(z), z);
    case RDG_ACT_GELU_ERF: return size(value, z < 0.0 ? 0.5 * z * z : 0.0, z);
    case RDG_ACT_SIGMOID: return size(value, -z, 1.0);
    case RDG_ACT_RELU:
    case RDG_ACT_TANH:
    case RDG_ACT_SWIGLU_OAI: break;
    }
    return fabs(value);
}

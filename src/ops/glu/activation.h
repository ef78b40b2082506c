/* The activations of glu and act in double precision, for their references. Formulas: glu.h. */
#ifndef RDG_OPS_GLU_ACTIVATION_H
#define RDG_OPS_GLU_ACTIVATION_H
#include "ops/glu/glu.h"

/* act(z); NaN for SWIGLU_OAI, which takes two numbers. */
double rdg_activation(rdg_act_kind kind, double z);
/* z / (1 + e^(-alpha z)): SWIGLU_OAI's gate, and SILU with alpha 1. */
double rdg_swish(double z, double alpha);

/* What the rounding of such a value in f32 is measured by, for `magnitude`: |value| (1 + |x|) where it rests
 * on e^x with x large, because the rounding of x is a relative error of e^x; and no less than `scale` (what
 * the exponential is multiplied by) where e^-x below the smallest normal number may be taken for 0. */
double rdg_activation_size(rdg_act_kind kind, double z);
double rdg_swish_size(double z, double alpha);
#endif

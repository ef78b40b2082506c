/* ridge: run language models at the speed of memory, and see how far each kernel is from it. All public
 * headers. */
#ifndef RIDGE_RIDGE_H
#define RIDGE_RIDGE_H

#include <ridge/error.h>
#include <ridge/log.h>
#include <ridge/type.h>
#include <ridge/gguf.h>
#include <ridge/tokenizer.h>
#include <ridge/quantize.h>
#include <ridge/imatrix.h>
#include <ridge/convert.h>
#include <ridge/model.h>
#include <ridge/sampler.h>
#include <ridge/generate.h>
#include <ridge/evaluate.h>
#include <ridge/synth.h>
#include <ridge/template.h>

#endif

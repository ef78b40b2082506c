/* Writing the checksums that rdg_checksum_verify checks; see checksum.c. */
#ifndef RDG_QUANT_CHECKSUM_H
#define RDG_QUANT_CHECKSUM_H

#include <ridge/quantize.h>
#include "base/mem.h"

#define RDG_CHECKSUM_KEY "ridge.checksums"

/* Sets the key to 16 zeros for each of n_tensors, before the header is written. */
rdg_err rdg_checksum_reserve(rdg_gguf_writer *w, int64_t n_tensors, rdg_error *e);
/* Appends the digits of one tensor's rdg_hash64. */
void rdg_checksum_append(rdg_buf *digits, uint64_t hash);
/* Puts the collected digits in the place of the zeros, when all data has been written. */
rdg_err rdg_checksum_store(rdg_gguf_writer *w, const rdg_buf *digits, rdg_error *e);

#endif

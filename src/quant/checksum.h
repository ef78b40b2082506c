/* Writing the checksums that rdg_checksum_verify checks; see checksum.c. */
#ifndef RDG_QUANT_CHECKSUM_H
#define RDG_QUANT_CHECKSUM_H

#include <ridge/quantize.h>
#include "base/mem.h"

#define RDG_CHECKSUM_KEY "ridge.checksums"

/* Appends the digits of one tensor's rdg_hash64. A writer sets the key to 16 zeros a tensor before the header
 * is written and patches it (rdg_gguf_writer_patch_str) with the collected digits at the end. */
void rdg_checksum_append(rdg_buf *digits, uint64_t hash);

#endif

/* Makes the Nth call of a kind fail. The test programs here are linked with --wrap for the C functions below,
 * so this catches every allocation and write of ridge and of nothing else (libraries are not relinked).
 *
 *     for (int n = 1;; n++) {
 *         fault_arm(FAULT_ALLOC, n);
 *         err = call();
 *         if (!fault_disarm()) break;      // fewer than n calls: it succeeded
 *         …                                // it failed: check the error, check fault_live()
 *     } */
#ifndef RDG_TESTS_FAULT_H
#define RDG_TESTS_FAULT_H

#include <stdbool.h>

typedef enum fault_kind { FAULT_NONE, FAULT_ALLOC, FAULT_WRITE, FAULT_SYNC } fault_kind;

void fault_arm(fault_kind kind, int n); /* the nth call from now fails, once */
bool fault_disarm(void);                /* true if it did fail */
long fault_live(void);                  /* allocations not freed yet */

#endif

/* verify_receipt.h - solo runs in a file, so that two machines, two builds or two processes can be
 * held against each other: ids and digests of the logits, no text. */
#ifndef LK_VERIFY_RECEIPT_H
#define LK_VERIFY_RECEIPT_H

#include "verify.h"

/* Runs prompts at the KV types of v->base (and, in the full suites, at all of them) and writes what
 * came of it. False with the reason printed. */
bool verify_receipt_write(verify *v, const char *path);
/* Computes again what a receipt says: one line for each KV type. */
void verify_receipt_compare(verify *v, const char *path, const char *label);

#endif

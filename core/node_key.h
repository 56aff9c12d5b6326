/* Busy keys; see node_key.c. */
#ifndef MS_NODE_KEY_H
#define MS_NODE_KEY_H

#include "node.h"

/* ms_begin without the check for callbacks. with_value: the transaction takes a copy of the current value. */
int ms_key_begin(struct ms_table *table, struct ms_bytes key, int wait_ms, bool with_value, struct ms_txn **txn);
void ms_key_end(struct ms_txn *txn);

/* [lock] This thread is inside a transaction of this node. */
bool ms_key_mine(struct ms_node *node);

/* [lock] The transaction that holds the key, or NULL. */
struct ms_txn *ms_key_holder(struct ms_node *node, const struct ms_table *table, struct ms_bytes key, uint64_t key_hash);

#endif

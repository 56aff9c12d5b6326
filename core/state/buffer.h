/* The double buffer of a hot table (promise 3).
 *
 * A buffered put changes the current value at once; its key enters the working set once, however often it changes. A flush
 * swaps working and flushing set, then takes keys from the flushing set, a bounded number per call, and logs their newest
 * values:
 *
 *        put ──> working ──swap──> flushing ──next/done──> clean
 *
 * A key is in at most one of the two sets: a put to a key that waits in the flushing set only changes the value that the
 * flush will take. So a flush whose append is refused has nothing to put back: its keys are still in the flushing set, the next
 * flush goes on with them, and no old value can ever overwrite a newer one. A deleted entry stays as a tombstone until its
 * delete is logged. Sets hold entries, entries hold values.
 *
 * Same rules as table.h: the caller's lock, nothing fails after it changed something. */
#ifndef MS_STATE_BUFFER_H
#define MS_STATE_BUFFER_H

#include "table.h"

/* Changes the current value (data == NULL deletes). MS_E_MEMORY changes nothing. Equal values do nothing. */
int ms_buffer_put(struct ms_table_state *table, const struct ms_spot *spot, struct ms_bytes key, struct ms_bytes value);

/* Entries and bytes of values that are not logged: what is at risk. */
uint64_t ms_buffer_entries(const struct ms_table_state *table);
uint64_t ms_buffer_bytes(const struct ms_table_state *table);

/* Makes the working set the flushing set, unless that still holds keys (then the flush goes on with those). O(1). */
void ms_buffer_swap(struct ms_table_state *table);

/* The oldest key of the flushing set, its hash and current value (data == NULL: log a delete). false when it is empty. If
 * current equals logged by now (changed there and back) it is silently clean and not handed out. Borrowed until the table
 * changes. */
bool ms_buffer_next(struct ms_table_state *table, struct ms_bytes *key, uint64_t *key_hash, struct ms_bytes *value);

/* The value that ms_buffer_next just handed out is in the log: logged = current, the key is clean. Cannot fail. */
void ms_buffer_done(struct ms_table_state *table);

/* Calls fn for every dirty key with its current value (data == NULL: deleted) and its logged one. */
typedef int (*ms_buffer_fn)(void *context, struct ms_bytes key, struct ms_bytes current, struct ms_bytes logged);
int ms_buffer_visit(const struct ms_table_state *table, ms_buffer_fn fn, void *context);

/* Makes the logged values current again (a leader that stepped down); the sets are empty afterwards. Cannot fail. */
void ms_buffer_discard(struct ms_table_state *table);

#endif

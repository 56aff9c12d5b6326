/* Entries that a leader's policy does not want ("outside of the view"), as far as they are remembered.
 *
 * An entry that exists is in the view, so only changes of entries that don't exist ask for a decision, and this set spares most of them
 * the question a second time. It forgets the oldest beyond its bounds; whoever is forgotten is asked about again. What was decided by an
 * earlier policy doesn't count: it is here only so that a reload can tell the host which entries are wanted now.
 *
 * The caller's lock. Tables are known by their address, which a store keeps for a name as long as it lives. */
#ifndef MS_SYNC_VIEW_H
#define MS_SYNC_VIEW_H

#include "../base/list.h"
#include "../state/table.h"

enum { MS_VIEW_TABLES = 512, MS_VIEW_BYTES_EACH = 256 /* of memory on average: the bound in bytes is this times the one in entries */ };

struct ms_outside; /* one remembered entry */

struct ms_view_table {
    const struct ms_table_state *table;
    uint64_t entries;
    bool forgot; /* there were more than are remembered */
};

struct ms_view {
    struct ms_outside ***pages; /* of buckets; made when the first entry comes, for all that may come: the set never stops to grow */
    uint32_t mask;
    uint32_t max;             /* entries; 0 = remember none */
    uint32_t version;         /* of the policy */
    uint64_t entries, bytes;
    struct ms_list order;     /* oldest first */
    struct ms_view_table *tables;
    uint32_t table_count;
};

void ms_view_init(struct ms_view *view, uint32_t max);
void ms_view_close(struct ms_view *view);

/* Another policy decides from now on: nothing that is remembered counts as known any more. */
void ms_view_renew(struct ms_view *view, uint32_t max);

/* Whether the present policy is known to leave this entry out. */
bool ms_view_knows(const struct ms_view *view, const struct ms_table_state *table, struct ms_bytes key, uint64_t key_hash);

/* The present policy leaves it out. Without memory it is not remembered. */
void ms_view_add(struct ms_view *view, const struct ms_table_state *table, struct ms_bytes key, uint64_t key_hash);
bool ms_view_remove(struct ms_view *view, const struct ms_table_state *table, struct ms_bytes key, uint64_t key_hash); /* false: was not in it */

void ms_view_forgot_none(struct ms_view *view, const struct ms_table_state *table); /* its host knows now that there were more */

/* Any thread, without the lock, as long as the set itself is not closed: has some buckets fetched into the cache, from one on, and what hangs in
 * them first. `bucket` may be a key's hash. */
void ms_view_look_ahead(const struct ms_view *view, uint32_t bucket, uint32_t count);

/* Forgets what is beyond the bounds, at most `most` entries; true if there is more to forget. */
bool ms_view_trim(struct ms_view *view, uint32_t most);

/* Calls fn for each entry of the buckets from *bucket on, `most` entries or a little more, and moves *bucket; false at the end. only_old: those
 * that the present policy has not decided. fn must not change the set. */
typedef void (*ms_view_fn)(void *context, const struct ms_table_state *table, struct ms_bytes key);
bool ms_view_walk(const struct ms_view *view, uint32_t *bucket, uint32_t most, bool only_old, ms_view_fn fn, void *context);

#endif

/* A table: key -> value, in MS_TABLE_SHARDS small hash tables ("shards"), with a count and a digest of all.
 *
 * Two views of an entry:
 *   current  what readers see;
 *   logged   what the log says, which is what count and digest, walks for snapshots and marks are about.
 * They differ only for dirty entries of buffered tables: put changes the current value at once, and the logged value
 * when the flush has appended it. An unbuffered table has no dirty entry, so there it is at every instant the fold of its log.
 *
 * Invariants (checked by ms_table_verify):
 *  1. digest of the table = sum over its logged entries of ms_entry_hash(key, logged value), count = their number;
 *  2. a shard's entries are those whose hash leads to it, and counted;
 *  3. an entry is dirty exactly if it is in one of the table's two dirty lists;
 *  4. an entry without a current value exists only while it is dirty (a tombstone whose delete is not logged yet).
 *
 * Not thread-safe: the caller's lock. Keys and values are copied in. Nothing here fails after it has changed something. */
#ifndef MS_STATE_TABLE_H
#define MS_STATE_TABLE_H

#include "../base/hash.h"
#include "../base/list.h"
#include "../base/pool.h"
#include "../base/bytes.h"

enum { MS_TABLE_SHARDS = 2048 };

struct ms_entry; /* table.c only */

struct ms_shard {
    uintptr_t buckets; /* address of the array of chains | log2 of its length; 0 = none. In one word, for ms_table_look_ahead */
    uint32_t entries;  /* in the buckets, tombstones included */
};

struct ms_content { /* what a bootstrap swaps */
    uint64_t count, digest; /* logged */
    uint64_t live;          /* current: what readers count */
    uint64_t bytes;         /* of keys and current values */
    uint32_t readers;       /* atomic: between ms_table_read_begin and ms_table_read_end */
    struct ms_entry *limbo; /* freed while somebody read */
    struct ms_shard shards[MS_TABLE_SHARDS];
    struct ms_pool pool;    /* of entries */
    struct ms_pool arrays;  /* of buckets, close together: the way to an entry misses the processor's address cache once less */
    void *kept;             /* see stock.h */
};

struct ms_dirty_set { /* buffer.c */
    struct ms_list list;
    uint64_t entries, bytes;
};

struct ms_table_state {
    uint32_t id;
    uint8_t type; /* enum ms_type */
    char name[MS_TABLE_NAME_MAX + 1];
    struct ms_content *content;
    struct ms_dirty_set sets[2]; /* buffered tables: sets[working] and the flushing one; see buffer.h */
    uint32_t working;
};

int ms_table_init(struct ms_table_state *table, uint32_t id, uint8_t type, struct ms_bytes name);
void ms_table_close(struct ms_table_state *table);

static inline uint64_t ms_key_hash(struct ms_bytes key)
{
    return ms_hash(key.data, key.size);
}

/* Hash of one entry as it goes into digests: XXH3 of the value, seeded with the key's hash and mixed, so that it depends
 * on both and a sum over entries does not cancel out. */
uint64_t ms_entry_hash(uint64_t key_hash, struct ms_bytes value);

/* The current value, data == NULL if there is none. Borrowed until the table changes. */
struct ms_bytes ms_table_get(const struct ms_table_state *table, struct ms_bytes key, uint64_t key_hash);

/* Where the entry of a key hangs, or that there is none: a look-up, which costs more than all else that a change does to a table, so
 * that it is done once and handed on. Good until the table changes (prepare does not change it in this sense). */
struct ms_spot {
    struct ms_shard *shard;
    struct ms_entry **at; /* NULL: there is no entry */
    uint64_t key_hash;
};
struct ms_spot ms_table_find(const struct ms_table_state *table, struct ms_bytes key, uint64_t key_hash);
bool ms_spot_live(const struct ms_spot *spot); /* there is an entry with a current value */
bool ms_spot_holds(const struct ms_spot *spot, struct ms_bytes value, uint64_t value_hash); /* whether that is the current value */

/* A change in two steps, so that everything that can fail comes before the log's append:
 *   prepare takes the memory that put will need (for a delete, value.data == NULL: none);
 *   apply makes the value current and logged; abandon gives the memory back.
 * value_hash is ms_entry_hash of key and value, of no meaning for a delete. Between the two the table may change (other keys, the same
 * key), if apply is given a place that was looked up since. */
struct ms_prepared {
    struct ms_entry *entry; /* NULL for a delete or a change that fits in place */
    struct ms_pool *pool;   /* where it is from */
};
int ms_table_prepare(struct ms_table_state *table, const struct ms_spot *spot, struct ms_bytes key, struct ms_bytes value,
                     struct ms_prepared *prepared);
void ms_table_apply(struct ms_table_state *table, const struct ms_spot *spot, struct ms_bytes key, struct ms_bytes value,
                    uint64_t value_hash, struct ms_prepared *prepared);
void ms_prepared_abandon(struct ms_prepared *prepared);

/* prepare + apply: folding a log record. MS_E_MEMORY changes nothing. */
int ms_table_fold(struct ms_table_state *table, struct ms_bytes key, uint64_t key_hash, struct ms_bytes value);

/* Where a key's entry hangs is seldom in the processor's cache. Who knows which keys come next asks for the bucket first, a few
 * keys later for the entry, and finds both there in the end. They change nothing. */
void ms_table_prefetch_bucket(const struct ms_table_state *table, uint64_t key_hash);
void ms_table_prefetch_entry(const struct ms_table_state *table, uint64_t key_hash);

/* The same for who is about to take the lock: any thread, without it, as long as the table itself is not closed. Then the look-up finds the entry
 * in the cache, and the lock is held for a fraction of the time. What it follows may change under it; nothing comes of that but a look at
 * the wrong place, since contents, buckets and entries stay readable (base/stock.h). */
void ms_table_look_ahead(const struct ms_table_state *table, uint64_t key_hash);

/* Calls fn for each entry of one shard with its current (logged = false) or logged (true) value; entries without one are
 * left out. Stops at the first non-zero result, which it returns. fn must not change the table. */
typedef int (*ms_entry_fn)(void *context, struct ms_bytes key, struct ms_bytes value);
int ms_table_visit(const struct ms_table_state *table, uint32_t shard, bool logged, ms_entry_fn fn, void *context);

/* A place in a walk over a table that goes on changing; all zeros is its beginning, shard == MS_TABLE_SHARDS its end. Within a shard the walk
 * goes by the bits of hashes from the lowest up, so that a place stays right when the shard doubles its buckets: an entry that is
 * there all the time is met once. */
struct ms_table_place {
    uint32_t shard;
    uint32_t done; /* hashes below this one, as numbers whose lowest bit counts most */
};

/* The same for the next few entries, a dozen or two, from the place on, which it moves. */
int ms_table_walk(const struct ms_table_state *table, struct ms_table_place *place, bool logged, ms_entry_fn fn, void *context);

/* The same for the keys alone, and with the lock at its beginning only: for who goes over everything and would have the lock again and again,
 * each time for as long as it takes to bring some hundred entries into the cache.
 *
 *      [lock] begin ──> [no lock] read, read, ... ──> [no lock] end
 *
 * Meanwhile entries come, change and go as ever, but what is freed stays as it is, and no shard gets other buckets. So it must not last: a
 * part of a table, then end, and begin again. An entry that is there all the time, with a current value, is met once. The content may even
 * be swapped for another one meanwhile; whoever closes it waits. */
typedef int (*ms_key_fn)(void *context, struct ms_bytes key);
struct ms_content *ms_table_read_begin(struct ms_table_state *table);
int ms_content_read(const struct ms_content *content, struct ms_table_place *place, ms_key_fn fn, void *context);
void ms_table_read_end(struct ms_content *content);

static inline uint32_t ms_shard_of(uint64_t key_hash)
{
    return (uint32_t)(key_hash >> 53); /* the top 11 bits; buckets use the low ones */
}

/* Recomputes every invariant; 0 or MS_E_DAMAGED with the table, shard and key. Slow, for specs, simulator and scrub. */
int ms_table_verify(const struct ms_table_state *table);

#endif

/* The inside of a table, shared by table.c and buffer.c only. */
#ifndef MS_STATE_ENTRY_H
#define MS_STATE_ENTRY_H

#include "table.h"

enum {
    MS_ENTRY_VALUE = 1, /* has a current value */
    MS_ENTRY_DIRTY = 2, /* current and logged differ, or did: u.dirty instead of u.logged_hash */
};

/* 28 bytes before key and value, and no byte between two entries of a pool: what a table of many small entries takes. */
struct ms_entry {
    struct ms_entry *next;
    union {
        uint64_t logged_hash;   /* clean: ms_entry_hash of key and value */
        struct ms_dirty *dirty; /* dirty: owned */
        struct ms_entry *freed; /* in limbo: the one before */
    } u;
    uint32_t hash; /* low half of the key's: the bucket. The shard comes from the high half, which is made anew where it is needed */
    uint32_t value_size;
    uint16_t key_size;
    uint8_t flags;
    uint8_t units; /* what the pool wants back */
    uint8_t bytes[]; /* key, value */
};

/* What a dirty entry was when it was last logged. Its entry has room for that value (ms_buffer_discard can't fail). */
struct ms_dirty {
    struct ms_list node; /* in the working or the flushing set */
    struct ms_dirty_set *set;
    struct ms_entry *entry;
    uint64_t logged_hash;
    bool logged;          /* it had a logged value */
    uint32_t logged_size;
    uint8_t logged_value[];
};

static inline struct ms_bytes ms_entry_key(const struct ms_entry *entry)
{
    return ms_bytes(entry->bytes, entry->key_size);
}

static inline struct ms_bytes ms_entry_value(const struct ms_entry *entry)
{
    return entry->flags & MS_ENTRY_VALUE ? ms_bytes(entry->bytes + entry->key_size, entry->value_size) : ms_bytes(NULL, 0);
}

static inline struct ms_bytes ms_entry_logged(const struct ms_entry *entry)
{
    if (!(entry->flags & MS_ENTRY_DIRTY)) return ms_entry_value(entry);
    const struct ms_dirty *dirty = entry->u.dirty;
    return dirty->logged ? ms_bytes(dirty->logged_value, dirty->logged_size) : ms_bytes(NULL, 0);
}

/* Whether a value of this size can be written in place. */
static inline bool ms_entry_holds(const struct ms_entry *entry, size_t size)
{
    return entry->flags & MS_ENTRY_VALUE && entry->value_size == size;
}

static inline void ms_entry_write(struct ms_entry *entry, struct ms_bytes value)
{
    if (value.size) memcpy(entry->bytes + entry->key_size, value.data, value.size);
}

/* room: bytes that a later value may take in place at least. */
struct ms_entry *ms_entry_new(struct ms_pool *pool, struct ms_bytes key, uint64_t key_hash, struct ms_bytes value, size_t room);
void ms_entry_free(struct ms_pool *pool, struct ms_entry *entry); /* of a content's pool. NULL is allowed */
struct ms_entry **ms_entry_find(struct ms_shard *shard, struct ms_bytes key, uint64_t key_hash); /* where it hangs, or NULL */
int ms_shard_reserve(struct ms_content *content, struct ms_shard *shard);
void ms_entry_link(struct ms_shard *shard, struct ms_entry *entry);
void ms_entry_replace(struct ms_pool *pool, struct ms_entry **at, struct ms_entry *entry); /* frees the old one */
void ms_entry_unlink(struct ms_pool *pool, struct ms_shard *shard, struct ms_entry **at);  /* and frees it */
void ms_content_logged(struct ms_content *content, uint64_t old_hash, bool had, uint64_t new_hash, bool has);

/* buffer.c: ends the dirty state, if it is in one, without touching values or sums (u is the caller's to fill in). Says whether
 * there was a logged value, and its hash. */
bool ms_entry_settle(struct ms_entry *entry, uint64_t *logged_hash);

#endif

/* Changes are kept in order and applied to `safe` one by one: all of them by a sync, a seeded choice of them by a power loss
 * (or a failed sync). Applying in order is what makes newer bytes win where two writes overlap; leaving some out is what
 * makes the order in which they reached the disk look arbitrary. */
#include "sim_disk.h"

#include "../base/error.h"
#include "../base/hash.h"
#include "../base/mem.h"

enum { SECTOR = 512 };

/* How a file or directory fares in a power loss. All but the last are extremes that chance alone would seldom give when
 * there are many changes: nothing, everything, exactly what came before some moment, and all but one change, which is what
 * finds the one missing sync. */
enum style { STYLE_LOST, STYLE_KEPT, STYLE_PREFIX, STYLE_BUT_ONE, STYLE_RANDOM, STYLES };

struct fate {
    int style;
    uint64_t odds; /* random: of 8 */
    size_t chosen; /* prefix: so many are kept; but one: which one is lost */
};

static struct fate draw_fate(struct ms_sim_dice *dice, size_t count)
{
    struct fate fate = {.style = (int)ms_sim_below(dice, STYLES)};
    fate.odds = 1 + ms_sim_below(dice, 7);
    fate.chosen = ms_sim_below(dice, fate.style == STYLE_PREFIX ? count + 1 : count);
    return fate;
}

static bool is_kept(const struct fate *fate, size_t index, struct ms_sim_dice *dice)
{
    switch (fate->style) {
    case STYLE_LOST: return false;
    case STYLE_PREFIX: return index < fate->chosen;
    case STYLE_BUT_ONE: return index != fate->chosen;
    case STYLE_RANDOM: return ms_sim_below(dice, 8) < fate->odds;
    default: return true;
    }
}

/* ---- chance ------------------------------------------------------------------------------------------------------ */

uint64_t ms_sim_below(struct ms_sim_dice *dice, uint64_t bound)
{
    dice->state += 0x9e3779b97f4a7c15u;
    return ms_mix(dice->state) % bound;
}

bool ms_sim_chance(struct ms_sim_dice *dice, uint32_t per_million)
{
    return per_million > 0 && ms_sim_below(dice, 1000000) < per_million;
}

/* Room for `more` elements of `size` bytes without a change: later extensions of that much can't fail. */
static int reserve(struct ms_buf *buf, size_t more, size_t size)
{
    size_t old = buf->size;
    (void)ms_buf_extend(buf, more * size);
    int rc = buf->failed ? MS_E_MEMORY : 0;
    buf->size = old;
    buf->failed = false;
    return rc;
}

static int reserve_bytes(struct ms_buf *buf, uint64_t total)
{
    return total > buf->size ? reserve(buf, (size_t)total - buf->size, 1) : 0;
}

/* ---- a file's bytes ------------------------------------------------------------------------------------------------ */

struct content_change {
    bool truncate;
    uint64_t offset; /* write: where */
    uint64_t size;   /* write: how much */
    uint64_t at;     /* write: its place in content->bytes */
    uint64_t after;  /* size of the file after the change */
};

void ms_sim_content_init(struct ms_sim_content *content)
{
    *content = (struct ms_sim_content){0};
}

void ms_sim_content_close(struct ms_sim_content *content)
{
    ms_buf_close(&content->now);
    ms_buf_close(&content->safe);
    ms_buf_close(&content->changes);
    ms_buf_close(&content->bytes);
}

static struct content_change *content_changes(const struct ms_sim_content *content, size_t *count)
{
    *count = content->changes.size / sizeof(struct content_change);
    return (struct content_change *)(void *)content->changes.data;
}

/* To `size` bytes, new ones being zeros; the memory is reserved. */
static void set_size(struct ms_buf *buf, uint64_t size)
{
    if (size > buf->size) memset(buf->data + buf->size, 0, (size_t)size - buf->size);
    buf->size = (size_t)size;
}

static int reserve_change(struct ms_sim_content *content, uint64_t end, size_t bytes)
{
    int rc = reserve_bytes(&content->now, end);
    if (!rc) rc = reserve_bytes(&content->safe, end);
    if (!rc) rc = reserve(&content->bytes, bytes, 1);
    return rc ? rc : reserve(&content->changes, 1, sizeof(struct content_change));
}

int ms_sim_content_write(struct ms_sim_content *content, uint64_t offset, const struct ms_bytes *parts, size_t size)
{
    if (size == 0) return 0;
    uint64_t end = offset + size;
    if (end < content->now.size) end = content->now.size;
    int rc = reserve_change(content, end, size);
    if (rc) return rc;
    struct content_change change = {false, offset, size, content->bytes.size, end};
    ms_buf_add(&content->changes, &change, sizeof change);
    for (size_t left = size; left > 0; parts++) {
        size_t part = parts->size < left ? parts->size : left;
        ms_buf_add(&content->bytes, parts->data, part);
        left -= part;
    }
    set_size(&content->now, end);
    memcpy(content->now.data + offset, content->bytes.data + change.at, size);
    return 0;
}

int ms_sim_content_truncate(struct ms_sim_content *content, uint64_t size)
{
    if (size == content->now.size) return 0;
    int rc = reserve_change(content, size, 0);
    if (rc) return rc;
    struct content_change change = {.truncate = true, .after = size};
    ms_buf_add(&content->changes, &change, sizeof change);
    set_size(&content->now, size);
    return 0;
}

static void put_bytes(struct ms_sim_content *content, const struct content_change *change, uint64_t from, uint64_t to)
{
    if (to > from)
        memcpy(content->safe.data + change->offset + from, content->bytes.data + change->at + from, (size_t)(to - from));
}

static void cut_safe(struct ms_sim_content *content, uint64_t size)
{
    uint64_t reach = content->safe.size;
    if (size < reach) memset(content->safe.data + size, 0, (size_t)(reach - size));
}

/* While changes are applied, safe is as large as the file ever was, so that they apply in any mixture. Returns its size
 * before. */
static uint64_t widen(struct ms_sim_content *content, const struct content_change *changes, size_t count)
{
    uint64_t old = content->safe.size, reach = old;
    for (size_t i = 0; i < count; i++)
        if (changes[i].after > reach) reach = changes[i].after;
    if (reach > old) set_size(&content->safe, reach);
    return old;
}

static void forget_changes(struct ms_sim_content *content)
{
    ms_buf_clear(&content->changes);
    ms_buf_clear(&content->bytes);
}

void ms_sim_content_sync(struct ms_sim_content *content)
{
    size_t count;
    const struct content_change *changes = content_changes(content, &count);
    (void)widen(content, changes, count);
    for (size_t i = 0; i < count; i++) {
        if (changes[i].truncate) cut_safe(content, changes[i].after);
        else put_bytes(content, &changes[i], 0, changes[i].size);
    }
    set_size(&content->safe, content->now.size);
    forget_changes(content);
}

/* Some sectors of a write, or its start up to some byte; returns the number of bytes put. */
static uint64_t put_torn(struct ms_sim_content *content, const struct content_change *change, struct ms_sim_dice *dice)
{
    if (ms_sim_below(dice, 2)) {
        uint64_t end = ms_sim_below(dice, change->size);
        put_bytes(content, change, 0, end);
        return end;
    }
    uint64_t put = 0;
    for (uint64_t from = 0, to; from < change->size; from = to) {
        to = from + SECTOR - (change->offset + from) % SECTOR;
        if (to > change->size) to = change->size;
        if (ms_sim_below(dice, 2) == 0) continue;
        put_bytes(content, change, from, to);
        put += to - from;
    }
    return put;
}

/* Applies one write as its file's fate says and returns the number of bytes put. */
static uint64_t settle_write(struct ms_sim_content *content, const struct content_change *change, const struct fate *fate,
                             size_t index, struct ms_sim_dice *dice)
{
    bool keep = is_kept(fate, index, dice), tear = false;
    if (fate->style == STYLE_PREFIX || fate->style == STYLE_BUT_ONE) tear = index == fate->chosen && ms_sim_below(dice, 2);
    if (fate->style == STYLE_RANDOM) tear = keep && ms_sim_below(dice, 4) == 0;
    if (tear) return put_torn(content, change, dice);
    if (keep) put_bytes(content, change, 0, change->size);
    return keep ? change->size : 0;
}

/* put = bytes of the write that were put; size = the file's size, which may hide some of them. */
static void count_write(struct ms_sim_fs_loss *loss, const struct content_change *change, uint64_t put, uint64_t size,
                        bool *hole)
{
    if (put == 0 || change->offset >= size) {
        loss->lost++;
        *hole = true;
        return;
    }
    if (put < change->size || change->offset + change->size > size) loss->torn++;
    else loss->kept++;
    if (*hole) loss->reordered++;
}

void ms_sim_content_settle(struct ms_sim_content *content, struct ms_sim_dice *dice, struct ms_sim_fs_loss *loss)
{
    size_t count;
    const struct content_change *changes = content_changes(content, &count);
    if (count == 0) return;
    struct fate fate = draw_fate(dice, count);
    /* 1. The size: one that the file had. In a prefix, that before or after the change that may be torn. */
    size_t sized = fate.style == STYLE_LOST ? 0 : count;
    if (fate.style == STYLE_PREFIX) sized = fate.chosen + (fate.chosen < count ? ms_sim_below(dice, 2) : 0);
    if (fate.style == STYLE_RANDOM) sized = ms_sim_below(dice, count + 1);
    uint64_t size = widen(content, changes, count);
    if (sized > 0) size = changes[sized - 1].after;
    /* 2. The bytes, in order, so that newer ones win. Truncations go with the size. */
    bool hole = false;
    for (size_t i = 0; i < count; i++) {
        if (changes[i].truncate) {
            if (i < sized) cut_safe(content, changes[i].after);
            continue;
        }
        uint64_t put = settle_write(content, &changes[i], &fate, i, dice);
        count_write(loss, &changes[i], put, size, &hole);
    }
    set_size(&content->safe, size);
    forget_changes(content);
}

void ms_sim_content_revert(struct ms_sim_content *content)
{
    content->now.size = content->safe.size;
    if (content->safe.size > 0) memcpy(content->now.data, content->safe.data, content->safe.size);
}

void ms_sim_content_flip(struct ms_sim_content *content, uint64_t offset, uint8_t flip)
{
    size_t count;
    const struct content_change *changes = content_changes(content, &count);
    if (offset < content->now.size) content->now.data[offset] ^= flip;
    if (offset < content->safe.size) content->safe.data[offset] ^= flip;
    for (size_t i = 0; i < count; i++) {
        if (!changes[i].truncate && offset >= changes[i].offset && offset - changes[i].offset < changes[i].size)
            content->bytes.data[changes[i].at + (offset - changes[i].offset)] ^= flip;
    }
}

/* ---- a directory's names ------------------------------------------------------------------------------------------- */

struct name_change {
    struct ms_sim_inode *inode;
    bool lost; /* while settling */
    char from[MS_SIM_NAME_MAX + 1], to[MS_SIM_NAME_MAX + 1]; /* "" = none */
};

static size_t name_count(const struct ms_buf *buf)
{
    return buf->size / sizeof(struct ms_sim_name);
}

static struct ms_sim_name *name_list(const struct ms_buf *buf)
{
    return (struct ms_sim_name *)(void *)buf->data;
}

static struct name_change *name_changes(const struct ms_sim_names *names, size_t *count)
{
    *count = names->changes.size / sizeof(struct name_change);
    return (struct name_change *)(void *)names->changes.data;
}

static size_t name_index(const struct ms_buf *buf, const char *text)
{
    size_t i = 0, count = name_count(buf);
    while (i < count && strcmp(name_list(buf)[i].text, text) != 0) i++;
    return i; /* count = none */
}

static void drop_names(struct ms_buf *buf)
{
    for (size_t i = 0; i < name_count(buf); i++) name_list(buf)[i].inode->references--;
    buf->size = 0;
}

static void forget_name_changes(struct ms_sim_names *names)
{
    size_t count;
    const struct name_change *changes = name_changes(names, &count);
    for (size_t i = 0; i < count; i++) changes[i].inode->references--;
    names->changes.size = 0;
}

void ms_sim_names_init(struct ms_sim_names *names)
{
    *names = (struct ms_sim_names){0};
}

void ms_sim_names_close(struct ms_sim_names *names)
{
    drop_names(&names->now);
    drop_names(&names->safe);
    forget_name_changes(names);
    ms_buf_close(&names->now);
    ms_buf_close(&names->safe);
    ms_buf_close(&names->changes);
}

size_t ms_sim_names_count(const struct ms_sim_names *names)
{
    return name_count(&names->now);
}

const struct ms_sim_name *ms_sim_names_at(const struct ms_sim_names *names, size_t index)
{
    return &name_list(&names->now)[index];
}

struct ms_sim_inode *ms_sim_names_find(const struct ms_sim_names *names, const char *text)
{
    size_t index = name_index(&names->now, text);
    return index < name_count(&names->now) ? name_list(&names->now)[index].inode : NULL;
}

/* Order does not matter in a directory, so the last name fills the gap. */
static void take_name(struct ms_buf *buf, size_t index)
{
    size_t count = name_count(buf);
    if (index >= count) return;
    struct ms_sim_name *list = name_list(buf);
    list[index].inode->references--;
    list[index] = list[count - 1];
    buf->size -= sizeof *list;
}

/* The memory is reserved. */
static void apply_change(struct ms_buf *buf, const struct name_change *change)
{
    if (change->from[0]) take_name(buf, name_index(buf, change->from));
    if (!change->to[0]) return;
    take_name(buf, name_index(buf, change->to));
    struct ms_sim_name name = {.inode = change->inode};
    memcpy(name.text, change->to, sizeof name.text);
    name.inode->references++;
    ms_buf_add(buf, &name, sizeof name);
}

int ms_sim_names_change(struct ms_sim_names *names, const char *from, const char *to, struct ms_sim_inode *inode)
{
    size_t pending;
    (void)name_changes(names, &pending);
    /* Whatever survives, there are never more names than safe has and changes add; after a revert now has them too. */
    size_t most = name_count(&names->safe) + pending + 1;
    int rc = reserve(&names->changes, 1, sizeof(struct name_change));
    if (!rc) rc = reserve_bytes(&names->safe, most * sizeof(struct ms_sim_name));
    if (!rc) rc = reserve_bytes(&names->now, most * sizeof(struct ms_sim_name));
    if (rc) return rc;
    struct name_change change = {.inode = inode};
    if (from) memcpy(change.from, from, strlen(from) + 1);
    if (to) memcpy(change.to, to, strlen(to) + 1);
    struct ms_sim_inode *replaced = to ? ms_sim_names_find(names, to) : NULL;
    if (replaced) replaced->users--;
    if (!from) inode->users++;
    if (!to) inode->users--;
    inode->references++;
    ms_buf_add(&names->changes, &change, sizeof change);
    apply_change(&names->now, &change);
    return 0;
}

void ms_sim_names_sync(struct ms_sim_names *names)
{
    size_t count;
    const struct name_change *changes = name_changes(names, &count);
    for (size_t i = 0; i < count; i++) apply_change(&names->safe, &changes[i]);
    forget_name_changes(names);
}

static bool touches(const struct name_change *change, const char *text)
{
    return text[0] && (strcmp(change->from, text) == 0 || strcmp(change->to, text) == 0);
}

/* A change can't be there without the earlier ones of its names. */
static bool is_blocked(const struct name_change *changes, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (changes[i].lost && (touches(&changes[i], changes[index].from) || touches(&changes[i], changes[index].to)))
            return true;
    }
    return false;
}

void ms_sim_names_settle(struct ms_sim_names *names, struct ms_sim_dice *dice, struct ms_sim_fs_loss *loss)
{
    size_t count;
    struct name_change *changes = name_changes(names, &count);
    if (count == 0) return;
    struct fate fate = draw_fate(dice, count);
    for (size_t i = 0; i < count; i++) {
        changes[i].lost = !is_kept(&fate, i, dice) || is_blocked(changes, i);
        if (!changes[i].lost) apply_change(&names->safe, &changes[i]);
        *(changes[i].lost ? &loss->names_lost : &loss->names_kept) += 1;
    }
    forget_name_changes(names);
}

void ms_sim_names_revert(struct ms_sim_names *names)
{
    drop_names(&names->now);
    ms_buf_add(&names->now, names->safe.data, names->safe.size);
    for (size_t i = 0; i < name_count(&names->now); i++) name_list(&names->now)[i].inode->references++;
}

int ms_sim_find(struct ms_sim_inode *root, const char *what, const char *path, struct ms_sim_spot *place)
{
    place->dir = NULL;
    place->inode = root;
    for (const char *at = path; *at;) {
        size_t length = strcspn(at, "/");
        const char *name = at;
        at += length + (at[length] == '/');
        if (length == 0 || (length == 1 && name[0] == '.')) continue;
        if (!place->inode) return ms_fail(MS_E_NOT_FOUND, "%s %.400s: no such directory", what, path);
        if (!place->inode->is_dir) return ms_fail(MS_E_IO, "%s %.400s: not a directory", what, path);
        if (length > MS_SIM_NAME_MAX) return ms_fail(MS_E_IO, "%s %.400s: file name too long", what, path);
        place->dir = place->inode;
        memcpy(place->name, name, length);
        place->name[length] = '\0';
        place->inode = ms_sim_names_find(&place->dir->names, place->name);
    }
    return 0;
}

/* ---- counting ------------------------------------------------------------------------------------------------------ */

void ms_sim_loss_add(struct ms_sim_fs_loss *to, const struct ms_sim_fs_loss *loss)
{
    to->kept += loss->kept;
    to->lost += loss->lost;
    to->torn += loss->torn;
    to->reordered += loss->reordered;
    to->names_kept += loss->names_kept;
    to->names_lost += loss->names_lost;
}

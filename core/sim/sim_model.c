/* The book: an independent and stupid record of every history that ever was.
 *
 * Histories form a tree. A leader's epoch hangs below the place (epoch, lsn) at which it began; a place names one exact
 * state of all tables, which ms_sim_fold_to computes by folding all records from the root, without any of the real
 * code. Only a leader adds to the book, when it hands a block of its own to the log, and only what the client was told
 * to be accepted, in that order. Everybody else's log must read like a path of the tree. */
#include "sim_world.h"

const char *ms_sim_table_name(const struct ms_sim *sim, uint32_t table)
{
    return table < sim->table_count ? sim->tables[table].name : "?";
}

uint32_t ms_sim_table_find(const struct ms_sim *sim, struct ms_bytes name)
{
    for (uint32_t i = 0; i < sim->table_count; i++)
        if (ms_bytes_equal(ms_str(sim->tables[i].name), name)) return i;
    return MS_SIM_TABLES_MAX;
}

/* ---- keys and ops ---------------------------------------------------------------------------------------------- */

static uint64_t slot_hash(uint32_t table, uint64_t key_hash)
{
    return ms_mix(key_hash + table);
}

static uint32_t *slot_of(const struct ms_sim_book *book, uint32_t table, struct ms_bytes key, uint64_t hash)
{
    uint32_t mask = book->slot_count - 1;
    for (uint32_t at = (uint32_t)slot_hash(table, hash) & mask;; at = (at + 1) & mask) {
        uint32_t *slot = &book->key_slots[at];
        if (!*slot) return slot;
        const struct ms_sim_key *known = &book->keys[*slot - 1];
        if (known->table == table && ms_bytes_equal(known->bytes, key)) return slot;
    }
}

static bool grow_slots(struct ms_sim *sim)
{
    struct ms_sim_book *book = &sim->book;
    if (book->key_count * 2 < book->slot_count) return true;
    uint32_t count = book->slot_count ? book->slot_count * 2 : 256;
    int64_t countdown = ms_sim_hush();
    uint32_t *slots = ms_alloc_zero(count * sizeof *slots);
    ms_sim_unhush(countdown);
    if (!slots) {
        ms_sim_out_of_memory(sim);
        return false;
    }
    ms_release(book->key_slots);
    book->key_slots = slots;
    book->slot_count = count;
    for (uint32_t i = 0; i < book->key_count; i++)
        *slot_of(book, book->keys[i].table, book->keys[i].bytes, book->keys[i].hash) = i + 1;
    return true;
}

static struct ms_bytes keep_bytes(struct ms_sim *sim, struct ms_bytes bytes)
{
    if (!bytes.data) return bytes;
    int64_t countdown = ms_sim_hush();
    void *copy = ms_alloc(bytes.size + 1);
    ms_sim_unhush(countdown);
    if (!copy)
        ms_sim_out_of_memory(sim);
    else if (bytes.size)
        memcpy(copy, bytes.data, bytes.size);
    return ms_bytes(copy, bytes.size);
}

uint32_t ms_sim_book_find_key(const struct ms_sim *sim, uint32_t table, struct ms_bytes key)
{
    if (!sim->book.slot_count) return UINT32_MAX;
    return *slot_of(&sim->book, table, key, ms_key_hash(key)) - 1; /* an empty slot gives UINT32_MAX */
}

uint32_t ms_sim_book_key(struct ms_sim *sim, uint32_t table, struct ms_bytes key)
{
    struct ms_sim_book *book = &sim->book;
    uint32_t known = ms_sim_book_find_key(sim, table, key);
    if (known != UINT32_MAX) return known;
    if (!grow_slots(sim) ||
        !ms_sim_room(sim, (void **)&book->keys, &book->key_capacity, book->key_count + 1, sizeof *book->keys))
        return UINT32_MAX;
    struct ms_bytes kept = keep_bytes(sim, key);
    if (!kept.data) return UINT32_MAX;
    uint64_t hash = ms_key_hash(key);
    uint32_t *slot = slot_of(book, table, key, hash);
    book->keys[book->key_count] = (struct ms_sim_key){.table = table, .bytes = kept, .hash = hash, .eternal_at = {-2, 0}};
    *slot = ++book->key_count;
    return book->key_count - 1;
}

uint32_t ms_sim_book_op(struct ms_sim *sim, uint32_t key, struct ms_bytes value)
{
    struct ms_sim_book *book = &sim->book;
    if (!book->op_count) book->op_count = 1;
    if (!ms_sim_room(sim, (void **)&book->ops, &book->op_capacity, book->op_count + 1, sizeof *book->ops)) return 0;
    struct ms_bytes kept = keep_bytes(sim, value);
    if (value.data && !kept.data) return 0;
    uint64_t entry_hash = value.data ? ms_entry_hash(book->keys[key].hash, value) : 0;
    book->ops[book->op_count] = (struct ms_sim_op){.key = key, .value = kept, .entry_hash = entry_hash};
    return book->op_count++;
}

void ms_sim_book_close(struct ms_sim_book *book)
{
    for (uint32_t i = 0; i < book->key_count; i++) ms_release((void *)(uintptr_t)book->keys[i].bytes.data);
    for (uint32_t i = 0; i < book->op_count; i++) ms_release((void *)(uintptr_t)book->ops[i].value.data);
    for (uint32_t i = 0; i < book->epoch_count; i++) {
        ms_release(book->epochs[i].records);
        ms_release(book->epochs[i].groups);
    }
    ms_release(book->keys);
    ms_release(book->key_slots);
    ms_release(book->ops);
    ms_release(book->epochs);
    ms_sim_fold_close(&book->scratch);
}

/* ---- places ---------------------------------------------------------------------------------------------------- */

int32_t ms_sim_book_epoch(const struct ms_sim *sim, uint64_t id)
{
    for (uint32_t i = sim->book.epoch_count; i-- > 0;)
        if (sim->book.epochs[i].epoch.id == id) return (int32_t)i;
    return -1;
}

struct ms_sim_point ms_sim_book_place(const struct ms_sim *sim, const struct ms_lineage *lineage, uint64_t lsn)
{
    if (lsn == 0) return (struct ms_sim_point){-1, 0};
    for (uint32_t i = lineage->count; i-- > 0;) {
        if (lineage->entries[i].first > lsn) continue;
        int32_t epoch = ms_sim_book_epoch(sim, lineage->entries[i].epoch.id);
        return (struct ms_sim_point){epoch >= 0 ? epoch : -2, lsn};
    }
    return (struct ms_sim_point){-2, lsn};
}

bool ms_sim_book_includes(const struct ms_sim *sim, struct ms_sim_point whole, struct ms_sim_point part)
{
    if (part.lsn == 0) return true;
    if (part.lsn > whole.lsn || part.epoch < 0) return false;
    int32_t epoch = whole.epoch;
    while (epoch >= 0 && sim->book.epochs[epoch].first > part.lsn) epoch = sim->book.epochs[epoch].parent;
    return epoch == part.epoch;
}

struct ms_sim_point ms_sim_book_before(const struct ms_sim *sim, struct ms_sim_point place, uint64_t lsn)
{
    if (lsn == 0) return (struct ms_sim_point){-1, 0};
    while (place.epoch >= 0 && sim->book.epochs[place.epoch].first > lsn) place.epoch = sim->book.epochs[place.epoch].parent;
    place.lsn = lsn;
    return place;
}

uint64_t ms_sim_book_common(const struct ms_sim *sim, struct ms_sim_point a, struct ms_sim_point b)
{
    uint64_t lsn = a.lsn < b.lsn ? a.lsn : b.lsn;
    while (lsn > 0) {
        a = ms_sim_book_before(sim, a, lsn);
        b = ms_sim_book_before(sim, b, lsn);
        if (a.epoch == b.epoch) return lsn;
        uint64_t first_a = sim->book.epochs[a.epoch].first, first_b = sim->book.epochs[b.epoch].first;
        lsn = (first_a > first_b ? first_a : first_b) - 1;
    }
    return 0;
}

const struct ms_sim_group *ms_sim_book_around(const struct ms_sim *sim, struct ms_sim_point place)
{
    if (place.epoch < 0) return NULL;
    const struct ms_sim_epoch *epoch = &sim->book.epochs[place.epoch];
    uint32_t low = 0, high = epoch->group_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (epoch->groups[middle].last < place.lsn)
            low = middle + 1;
        else
            high = middle;
    }
    return low < epoch->group_count ? &epoch->groups[low] : NULL;
}

const struct ms_sim_group *ms_sim_book_group(const struct ms_sim *sim, struct ms_sim_point place)
{
    const struct ms_sim_group *group = ms_sim_book_around(sim, place);
    return group && group->last == place.lsn ? group : NULL;
}

/* ---- folding --------------------------------------------------------------------------------------------------- */

void ms_sim_fold_close(struct ms_sim_fold *fold)
{
    ms_release(fold->ops);
    *fold = (struct ms_sim_fold){.place = {-1, 0}};
}

static void fold_reset(struct ms_sim_fold *fold)
{
    if (fold->capacity) memset(fold->ops, 0, fold->capacity * sizeof *fold->ops);
    memset(&fold->sums, 0, sizeof fold->sums);
    memset(fold->table_of, 0, sizeof fold->table_of);
    fold->place = (struct ms_sim_point){-1, 0};
}

uint32_t ms_sim_fold_get(const struct ms_sim_fold *fold, uint32_t key)
{
    return key < fold->capacity ? fold->ops[key] : 0;
}

static bool fold_record(struct ms_sim *sim, struct ms_sim_fold *fold, const struct ms_sim_record *record)
{
    const struct ms_sim_book *book = &sim->book;
    if (record->type == MS_RECORD_TABLE) fold->table_of[record->value] = (uint8_t)(record->table + 1);
    if (record->type != MS_RECORD_PUT && record->type != MS_RECORD_DELETE && record->type != MS_RECORD_LEAVE) return true;
    if (!ms_sim_room(sim, (void **)&fold->ops, &fold->capacity, record->key + 1, sizeof *fold->ops)) return false;
    uint32_t *current = &fold->ops[record->key];
    if (*current) {
        fold->sums.digest[record->table] -= book->ops[*current].entry_hash;
        fold->sums.count[record->table]--;
    }
    *current = record->type == MS_RECORD_PUT ? record->value : 0;
    if (*current) {
        fold->sums.digest[record->table] += book->ops[*current].entry_hash;
        fold->sums.count[record->table]++;
    }
    return true;
}

/* The epoch after `from` on the way to `to`. */
static int32_t step_towards(const struct ms_sim_book *book, int32_t from, int32_t to)
{
    while (book->epochs[to].parent != from) to = book->epochs[to].parent;
    return to;
}

bool ms_sim_fold_to(struct ms_sim *sim, struct ms_sim_fold *fold, struct ms_sim_point place)
{
    const struct ms_sim_book *book = &sim->book;
    if (!fold->capacity || !ms_sim_book_includes(sim, place, fold->place)) fold_reset(fold);
    while (fold->place.epoch != place.epoch || fold->place.lsn != place.lsn) {
        int32_t next = fold->place.epoch == place.epoch ? -1 : step_towards(book, fold->place.epoch, place.epoch);
        uint64_t end = next >= 0 ? book->epochs[next].first - 1 : place.lsn;
        while (fold->place.lsn < end) {
            const struct ms_sim_epoch *epoch = &book->epochs[fold->place.epoch];
            if (!fold_record(sim, fold, &epoch->records[fold->place.lsn + 1 - epoch->first])) return false;
            fold->place.lsn++;
        }
        if (next >= 0) fold->place.epoch = next;
    }
    return true;
}

/* ---- a leader's own block -------------------------------------------------------------------------------------- */

/* Whose turn it is to write: sets the node's place to the new epoch, whose first record this is. */
static void mint_epoch(struct ms_sim_node *node, const struct ms_record *record, uint64_t lsn)
{
    struct ms_sim *sim = node->sim;
    struct ms_sim_book *book = &sim->book;
    struct ms_epoch epoch = {record->reign, record->run, record->id}, before = {0};
    for (uint32_t i = 0; i < book->epoch_count; i++) {
        if (book->epochs[i].epoch.id == epoch.id)
            ms_sim_broken(sim, node->index, "epoch %llx was used before, by n%u", (unsigned long long)epoch.id,
                          book->epochs[i].owner);
    }
    if (node->handed.epoch >= 0) before = book->epochs[node->handed.epoch].epoch;
    if (ms_epoch_compare(epoch, before) <= 0)
        ms_sim_broken(sim, node->index, "a new epoch is not higher than the last one of its own log");
    if (lsn != node->handed.lsn + 1) ms_sim_broken(sim, node->index, "an epoch record stands at the wrong place");
    if (!ms_sim_room(sim, (void **)&book->epochs, &book->epoch_capacity, book->epoch_count + 1, sizeof *book->epochs))
        return;
    if (!ms_sim_fold_to(sim, &node->mint, node->handed)) return;
    book->epochs[book->epoch_count] = (struct ms_sim_epoch){.epoch = epoch,
                                                            .owner = node->index,
                                                            .owner_life = node->life,
                                                            .parent = node->handed.lsn ? node->handed.epoch : -1,
                                                            .first = lsn,
                                                            .last = lsn - 1};
    node->handed = (struct ms_sim_point){(int32_t)book->epoch_count++, lsn - 1};
    node->mint.place = node->handed;
    ms_sim_note(sim, node->index, "epoch %llu.%llu.%llx begins at %llu", (unsigned long long)epoch.reign,
                (unsigned long long)epoch.run, (unsigned long long)epoch.id, (unsigned long long)lsn);
}

/* A buffered table's flush may skip values, but never go back. Returns the op, 0 if there is none. Of equal ones it is the first after what was
 * logged before: the record may have waited in an open group since, and newer ones come. */
static uint32_t flushed_op(struct ms_sim_node *node, uint32_t key, struct ms_bytes value)
{
    const struct ms_sim_book *book = &node->sim->book;
    uint64_t epoch_id = book->epochs[node->handed.epoch].epoch.id;
    uint32_t op = 0;
    if (!ms_sim_room(node->sim, (void **)&node->logged, &node->logged_capacity, key + 1, sizeof *node->logged)) return 0;
    for (uint32_t at = book->keys[key].newest; at && (at > node->logged[key] || !op); at = book->ops[at].previous)
        if (book->ops[at].epoch_id == epoch_id && book->ops[at].buffered && ms_bytes_equal(book->ops[at].value, value)) op = at;
    if (op && op <= node->logged[key]) {
        ms_sim_broken(node->sim, node->index, "a flush logged an older value of a buffered key than before");
        return op;
    }
    node->logged[key] = op;
    return op;
}

/* The write that the client was told to have been accepted at this lsn; 0 if this is not it. */
static uint32_t accepted_op(struct ms_sim_node *node, uint32_t key, struct ms_bytes value, uint64_t lsn)
{
    const struct ms_sim_book *book = &node->sim->book;
    if (node->accepted_from == node->accepted_count) return 0;
    const struct ms_sim_accepted *next = &node->accepted[node->accepted_from];
    const struct ms_sim_op *op = &book->ops[next->op];
    if (next->lsn != lsn || op->key != key || !ms_bytes_equal(op->value, value)) return 0;
    node->accepted_from++;
    return next->op;
}

static void mint_change(struct ms_sim_node *node, const struct ms_record *record, uint64_t lsn, struct ms_sim_record *made)
{
    struct ms_sim *sim = node->sim;
    uint32_t table = node->mint.table_of[record->table];
    if (!table) {
        ms_sim_broken(sim, node->index, "lsn %llu changes a table that was not defined", (unsigned long long)lsn);
        return;
    }
    made->table = (uint8_t)(table - 1);
    made->key = ms_sim_book_find_key(sim, made->table, record->key);
    if (made->key == UINT32_MAX) {
        ms_sim_broken(sim, node->index, "lsn %llu has a key that nobody ever wrote", (unsigned long long)lsn);
        return;
    }
    if (record->type == MS_RECORD_LEAVE) {
        /* what its buffer held is dropped: nothing that was put before may be logged after this */
        if (ms_sim_room(sim, (void **)&node->logged, &node->logged_capacity, made->key + 1, sizeof *node->logged))
            node->logged[made->key] = sim->book.keys[made->key].newest;
        ms_sim_view_left(node, made->key);
        return;
    }
    made->value = accepted_op(node, made->key, record->value, lsn);
    if (!made->value) made->value = flushed_op(node, made->key, record->value);
    if (!made->value)
        ms_sim_broken(sim, node->index, "lsn %llu, table %s, is not what was accepted there", (unsigned long long)lsn,
                      ms_sim_table_name(sim, made->table));
}

static void mint_table(struct ms_sim_node *node, const struct ms_record *record, uint64_t lsn, struct ms_sim_record *made)
{
    made->value = record->table;
    made->table = (uint8_t)ms_sim_table_find(node->sim, record->key);
    if (made->table == MS_SIM_TABLES_MAX || node->mint.table_of[record->table])
        ms_sim_broken(node->sim, node->index, "lsn %llu defines a table wrongly", (unsigned long long)lsn);
}

static void mint_mark(struct ms_sim_node *node, const struct ms_record *record, uint64_t lsn)
{
    struct ms_reader reader;
    struct ms_mark mark;
    uint64_t count;
    if (ms_mark_begin(record->list, &reader, &count)) return;
    while (ms_mark_next(&reader, &mark) > 0) {
        uint32_t table = node->mint.table_of[mark.table];
        if (!table || node->mint.sums.count[table - 1] != mark.count || node->mint.sums.digest[table - 1] != mark.digest)
            ms_sim_broken(node->sim, node->index, "the mark at lsn %llu is wrong for table %u", (unsigned long long)lsn,
                          mark.table);
    }
}

static void mint_record(struct ms_sim_node *node, const struct ms_record *record, uint64_t lsn)
{
    struct ms_sim *sim = node->sim;
    struct ms_sim_record made = {.type = record->type};
    if (record->type == MS_RECORD_EPOCH) mint_epoch(node, record, lsn);
    if (node->handed.epoch < 0) {
        ms_sim_broken(sim, node->index, "lsn %llu is in no epoch", (unsigned long long)lsn);
        return;
    }
    struct ms_sim_epoch *epoch = &sim->book.epochs[node->handed.epoch];
    if (epoch->owner != node->index || epoch->owner_life != node->life || epoch->last + 1 != lsn ||
        node->handed.lsn + 1 != lsn) {
        ms_sim_broken(sim, node->index, "lsn %llu was made in an epoch that is not this node's", (unsigned long long)lsn);
        return;
    }
    if (record->type == MS_RECORD_PUT || record->type == MS_RECORD_DELETE || record->type == MS_RECORD_LEAVE)
        mint_change(node, record, lsn, &made);
    if (record->type == MS_RECORD_TABLE) mint_table(node, record, lsn, &made);
    if (record->type == MS_RECORD_MARK) mint_mark(node, record, lsn);
    if (sim->failed || !ms_sim_room(sim, (void **)&epoch->records, &epoch->record_capacity,
                                    (uint32_t)(lsn - epoch->first) + 1, sizeof made))
        return;
    epoch->records[lsn - epoch->first] = made;
    epoch->last = node->handed.lsn = lsn;
    bool change = made.type == MS_RECORD_PUT || made.type == MS_RECORD_DELETE;
    if (change && sim->book.keys[made.key].eternal == made.value) sim->book.keys[made.key].eternal_at = node->handed;
    if (fold_record(sim, &node->mint, &made)) node->mint.place = node->handed;
}

static void mint(struct ms_sim_node *node, const struct ms_block *block)
{
    struct ms_sim *sim = node->sim;
    struct ms_group_header header = {.first = block->first, .count = block->count, .body_size = block->body_size};
    struct ms_record_reader reader = ms_record_reader(ms_bytes(block->data, block->size), &header);
    struct ms_record record;
    uint64_t lsn = block->first;
    uint32_t from = node->accepted_from;
    for (; !sim->failed && ms_record_next(&reader, &record) > 0; lsn++) mint_record(node, &record, lsn);
    if (sim->failed) return;
    if (lsn != block->last + 1) ms_sim_broken(sim, node->index, "a block of %u records has other ones", block->count);
    bool split = node->accepted_from > from && node->accepted_from < node->accepted_count &&
                 node->accepted[node->accepted_from].batch &&
                 node->accepted[node->accepted_from].batch == node->accepted[node->accepted_from - 1].batch;
    if (split) ms_sim_broken(sim, node->index, "a batch was torn at lsn %llu", (unsigned long long)block->last);
    struct ms_sim_epoch *epoch = &sim->book.epochs[node->handed.epoch];
    if (!ms_sim_room(sim, (void **)&epoch->groups, &epoch->group_capacity, epoch->group_count + 1, sizeof *epoch->groups))
        return;
    epoch->groups[epoch->group_count++] =
        (struct ms_sim_group){.first = block->first, .last = block->last, .at = sim->now, .sums = node->mint.sums};
}

/* ---- a block that was received --------------------------------------------------------------------------------- */

/* The epoch that a received block continues or begins. */
static int32_t received_epoch(const struct ms_sim_node *node, const struct ms_block *block,
                              const struct ms_group_header *header)
{
    struct ms_record_reader reader = ms_record_reader(ms_bytes(block->data, block->size), header);
    struct ms_record record;
    if (ms_record_next(&reader, &record) <= 0 || record.type != MS_RECORD_EPOCH) return node->handed.epoch;
    int32_t epoch = ms_sim_book_epoch(node->sim, record.id);
    if (epoch < 0 || node->sim->book.epochs[epoch].first != block->first) return -1;
    return node->sim->book.epochs[epoch].parent == (node->handed.lsn ? node->handed.epoch : -1) ? epoch : -1;
}

static void compare_received(struct ms_sim_node *node, const struct ms_block *block)
{
    struct ms_sim *sim = node->sim;
    struct ms_group_header header;
    unsigned long long first = block->first;
    if (ms_group_check(ms_bytes(block->data, block->size), &header)) {
        ms_sim_broken(sim, node->index, "wrote an unsound group at lsn %llu", first);
        return;
    }
    int32_t epoch = received_epoch(node, block, &header);
    struct ms_sim_point end = {epoch, block->last};
    const struct ms_sim_group *group = ms_sim_book_group(sim, end);
    if (!group || block->first != node->handed.lsn + 1 || group->first != block->first) {
        ms_sim_broken(sim, node->index, "wrote a group at lsn %llu that no leader made there", first);
        return;
    }
    if (!group->written)
        ms_sim_broken(sim, node->index, "has lsn %llu, which its leader had not written", first);
    else if (group->body_hash && (group->body_hash != header.body_hash || group->time_us != header.time_us))
        ms_sim_broken(sim, node->index, "wrote a group at lsn %llu that is not the leader's", first);
    node->handed = end;
}

void ms_sim_book_handed(struct ms_sim_node *node, const struct ms_block *block)
{
    if (block->finished)
        compare_received(node, block);
    else
        mint(node, block);
}

void ms_sim_book_written(struct ms_sim_node *node, const struct ms_block *block)
{
    struct ms_sim *sim = node->sim;
    struct ms_group_header header;
    if (ms_group_check(ms_bytes(block->data, block->size), &header)) {
        ms_sim_broken(sim, node->index, "wrote an unsound group at lsn %llu: %s", (unsigned long long)block->first,
                      ms_error_message());
        return;
    }
    struct ms_sim_point end = node->handed;
    while (end.epoch >= 0 && sim->book.epochs[end.epoch].first > block->last) end.epoch = sim->book.epochs[end.epoch].parent;
    if (end.epoch < 0) return;
    struct ms_sim_epoch *epoch = &sim->book.epochs[end.epoch];
    if (epoch->owner_life != node->life) return;
    end.lsn = block->last;
    struct ms_sim_group *group = (struct ms_sim_group *)(uintptr_t)ms_sim_book_group(sim, end);
    if (!group) return;
    group->written = true;
    group->body_hash = header.body_hash;
    group->time_us = header.time_us;
}

/* Its maker died before it could say so, but these groups did get into the file. What they hash to is not known here. */
void ms_sim_book_recovered(struct ms_sim *sim, struct ms_sim_point place)
{
    const struct ms_sim_group *end = ms_sim_book_group(sim, place);
    if (!end) return;
    struct ms_sim_group *groups = sim->book.epochs[place.epoch].groups;
    for (size_t i = (size_t)(end - groups) + 1; i-- > 0 && !groups[i].written;) groups[i].written = true;
}

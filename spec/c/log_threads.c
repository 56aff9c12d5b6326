/* A log under its real threads: one writes and trims, one syncs, one fills segments with zeros, and readers go over it meanwhile. */
#include "cases.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "../../core/base/error.h"
#include "../../core/base/mem.h"
#include "../../core/drive/fs.h"
#include "../../core/state/log.h"

#define OK(call) do { int ok_rc = (call); CHECK(ok_rc == 0, "%d %s", ok_rc, ms_fail_message(ok_rc)); } while (0)

enum { GROUPS = 5000, READERS = 2, BATCH = 7, SEGMENT = 64 << 10, KEEP = 512 << 10 };

enum job_state { IDLE = 0, POSTED, DONE };

struct lab {
    char dir[64];
    struct ms_fs *fs;
    struct ms_log *log; /* the writer's */
    struct ms_sync_job sync;
    struct ms_prepare_job prepare;
    atomic_int sync_state, prepare_state;
    atomic_bool stop;
    _Atomic uint64_t written, first; /* what readers may rely on */
    _Atomic uint64_t groups_read, not_found;
};

/* ---- the slow jobs, each on its thread ---------------------------------------------------------------------------------------- */

static void *run_syncs(void *context)
{
    struct lab *lab = context;
    while (!atomic_load(&lab->stop)) {
        if (atomic_load(&lab->sync_state) == POSTED) {
            ms_sync_run(&lab->sync);
            atomic_store(&lab->sync_state, DONE);
        }
        sched_yield();
    }
    return NULL;
}

static void *run_prepares(void *context)
{
    struct lab *lab = context;
    while (!atomic_load(&lab->stop)) {
        if (atomic_load(&lab->prepare_state) == POSTED) {
            ms_prepare_run(&lab->prepare);
            atomic_store(&lab->prepare_state, DONE);
        }
        sched_yield();
    }
    return NULL;
}

static void finish_jobs(struct lab *lab)
{
    if (atomic_load(&lab->sync_state) == DONE) {
        OK(ms_log_sync_end(lab->log, &lab->sync));
        atomic_store(&lab->sync_state, IDLE);
    }
    if (atomic_load(&lab->prepare_state) == DONE) {
        OK(ms_log_prepare_end(lab->log, &lab->prepare));
        atomic_store(&lab->prepare_state, IDLE);
    }
}

static void begin_jobs(struct lab *lab, uint64_t largest)
{
    bool full;
    if (atomic_load(&lab->sync_state) == IDLE && ms_log_sync_begin(lab->log, &lab->sync)) atomic_store(&lab->sync_state, POSTED);
    if (atomic_load(&lab->prepare_state) == IDLE && ms_log_prepare_begin(lab->log, largest, &lab->prepare, &full))
        atomic_store(&lab->prepare_state, POSTED);
}

/* ---- groups that say which lsn they have ------------------------------------------------------------------------------------ */

static struct ms_block *make_group(uint64_t lsn, size_t filler)
{
    static const uint8_t zeros[4096];
    uint8_t key[8];
    ms_store64(key, lsn);
    struct ms_bytes value = ms_bytes(zeros, filler);
    size_t size = ms_record_change_size(1, ms_bytes(key, 8), value);
    struct ms_block *block = ms_block_new(MS_GROUP_HEADER + size + MS_GROUP_ALIGN);
    CHECK(block, "no memory");
    (void)ms_record_change_put(block->data + MS_GROUP_HEADER, MS_RECORD_PUT, 1, ms_bytes(key, 8), value);
    block->first = block->last = lsn;
    block->count = 1;
    block->body_size = (uint32_t)size;
    block->size = ms_group_size((uint32_t)size);
    return block;
}

static void check_group(const struct ms_block *block, uint64_t lsn)
{
    struct ms_group_header header;
    struct ms_record record;
    OK(ms_group_check(ms_bytes(block->data, block->size), &header));
    struct ms_record_reader reader = ms_record_reader(ms_bytes(block->data, block->size), &header);
    CHECK(ms_record_next(&reader, &record) == 1, "no record at lsn %llu", (unsigned long long)lsn);
    CHECK(header.first == lsn && ms_load64(record.key.data) == lsn, "lsn %llu where %llu is due", (unsigned long long)header.first,
          (unsigned long long)lsn);
    CHECK(header.synced < lsn, "lsn %llu says that %llu is synced", (unsigned long long)lsn, (unsigned long long)header.synced);
}

/* ---- readers ---------------------------------------------------------------------------------------------------------------------- */

/* Reads some groups from a random lsn on. Only what is trimmed meanwhile may be missing. */
static void read_some(struct lab *lab, uint64_t *dice)
{
    uint64_t first = atomic_load(&lab->first), limit = atomic_load(&lab->written);
    uint64_t lsn = first + spec_random(dice) % (limit - first + 1);
    struct ms_log_reader *reader;
    struct ms_block *block;
    int rc = ms_log_reader_open(lab->fs, lab->dir, lsn, &reader);
    for (int n = 0; rc == 0 && n < 200; n++, lsn++) {
        int more = ms_log_reader_next(reader, atomic_load(&lab->written), &block);
        if (more < 0) rc = more;
        if (more <= 0) break;
        check_group(block, lsn);
        ms_block_unref(block);
        atomic_fetch_add(&lab->groups_read, 1);
    }
    ms_log_reader_close(reader);
    if (rc == 0) return;
    CHECK(rc == MS_E_NOT_FOUND, "%d %s", rc, ms_fail_message(rc));
    CHECK(lsn < atomic_load(&lab->first), "lsn %llu is not found, the log starts at %llu", (unsigned long long)lsn,
          (unsigned long long)atomic_load(&lab->first));
    atomic_fetch_add(&lab->not_found, 1);
}

static void *run_reader(void *context)
{
    struct lab *lab = context;
    uint64_t dice = (uint64_t)(uintptr_t)&dice;
    while (!atomic_load(&lab->stop))
        if (atomic_load(&lab->written) > 0) read_some(lab, &dice);
    return NULL;
}

/* ---- the case ------------------------------------------------------------------------------------------------------------------- */

static void write_batch(struct lab *lab, uint64_t *dice)
{
    struct ms_block *blocks[BATCH];
    uint64_t lsn = ms_log_written(lab->log) + 1, size = 0;
    for (int i = 0; i < BATCH; i++) {
        blocks[i] = make_group(lsn + (uint64_t)i, spec_random(dice) % 2000);
        size += blocks[i]->size;
    }
    while (ms_log_room(lab->log, 4096) < size) {
        finish_jobs(lab);
        begin_jobs(lab, 4 * size);
        sched_yield();
    }
    OK(ms_log_write(lab->log, blocks, BATCH, 1));
    for (int i = 0; i < BATCH; i++) ms_block_unref(blocks[i]);
    atomic_store(&lab->written, ms_log_written(lab->log));
}

static void trim(struct lab *lab)
{
    /* Readers hear of it before it happens, as a leader's peers do. */
    atomic_store(&lab->first, ms_log_written(lab->log));
    OK(ms_log_trim(lab->log, ms_log_synced(lab->log), KEEP));
    atomic_store(&lab->first, ms_log_first(lab->log));
}

static void a_log_is_read_while_it_is_written_synced_and_trimmed(void)
{
    struct lab lab = {.fs = ms_fs_posix(), .dir = "/tmp/metasync-spec-XXXXXX"};
    struct ms_log_config config = {.segment_bytes = SEGMENT, .max_bytes = 1 << 30};
    struct ms_store store;
    pthread_t threads[READERS + 2];
    uint64_t dice = 4711, live = (uint64_t)ms_mem_live();
    CHECK(mkdtemp(lab.dir), "mkdtemp");
    OK(ms_store_init(&store));
    OK(ms_log_open(lab.fs, lab.dir, &config, &store, &lab.log, NULL));
    atomic_store(&lab.first, 1);
    CHECK(!pthread_create(&threads[0], NULL, run_syncs, &lab) && !pthread_create(&threads[1], NULL, run_prepares, &lab), "threads");
    for (int i = 0; i < READERS; i++) CHECK(!pthread_create(&threads[2 + i], NULL, run_reader, &lab), "threads");
    while (ms_log_written(lab.log) < GROUPS) {
        write_batch(&lab, &dice);
        finish_jobs(&lab);
        begin_jobs(&lab, 4096);
        if (spec_random(&dice) % 100 == 0) trim(&lab);
    }
    while (atomic_load(&lab.sync_state) != IDLE || atomic_load(&lab.prepare_state) != IDLE) {
        finish_jobs(&lab);
        sched_yield();
    }
    atomic_store(&lab.stop, true);
    for (int i = 0; i < READERS + 2; i++) CHECK(!pthread_join(threads[i], NULL), "join");
    CHECK(atomic_load(&lab.groups_read) > 1000, "%llu groups were read", (unsigned long long)atomic_load(&lab.groups_read));
    ms_log_close(lab.log);
    ms_store_close(&store);
    CHECK((uint64_t)ms_mem_live() == live, "%lld blocks are left", (long long)ms_mem_live());
    OK(ms_fs_remove_tree(lab.fs, lab.dir));
}

static const struct spec_case cases[] = {
    SPEC_CASE(a_log_is_read_while_it_is_written_synced_and_trimmed,
              "readers get every group whole and in order while the log is written, synced, prepared and trimmed by other threads"),
};

int main(int argc, char **argv)
{
    return spec_main(cases, sizeof cases / sizeof cases[0], argc, argv);
}

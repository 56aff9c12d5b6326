/* Fuzzer of everything that reads groups: header check, record reader, marks, lineages, folding and snapshot loading.
 *
 * Hashes would stop a fuzzer at the first byte, so the input is taken apart here and sealed into groups:
 *
 *      flags u8 | first u8 | count u8 | body size u16 | body        ... any number of them
 *
 * Each group stands in memory of exactly its size, so that AddressSanitizer sees a read past its end; every byte that a reader
 * hands out is touched. The same groups then go through a log's fold and through the snapshot loader, one after the other. The raw
 * input goes through the checks too. */
#include <stdlib.h>

#include "../../core/base/error.h"
#include "../../core/base/mem.h"
#include "../../core/state/snapshot.h"

static volatile uint64_t sink;

static void touch(struct ms_bytes bytes)
{
    const uint8_t *at = bytes.data;
    for (size_t i = 0; i < bytes.size; i++) sink += at[i];
}

static void read_list(const struct ms_record *record)
{
    struct ms_reader reader;
    struct ms_mark mark;
    uint64_t count;
    if (record->type == MS_RECORD_MARK && ms_mark_begin(record->list, &reader, &count) == 0)
        while (ms_mark_next(&reader, &mark) > 0) sink += mark.digest + mark.count + mark.table;
    if (record->type == MS_RECORD_LINEAGE) {
        struct ms_lineage lineage;
        ms_lineage_init(&lineage);
        if (ms_lineage_decode(record->list, &lineage) == 0) sink += lineage.count;
        ms_lineage_close(&lineage);
    }
}

static void read_records(struct ms_bytes group, const struct ms_group_header *header)
{
    struct ms_record_reader reader = ms_record_reader(group, header);
    struct ms_record record;
    while (ms_record_next(&reader, &record) > 0) {
        touch(record.key);
        touch(record.value);
        touch(record.list);
        read_list(&record);
    }
}

/* The next group of the input, in memory of its own; false at the end. */
static bool next_group(struct ms_reader *input, uint8_t **memory, size_t *size)
{
    struct ms_group_header header = {.flags = ms_read8(input), .first = ms_read8(input), .count = ms_read8(input)};
    size_t body = ms_read8(input);
    body |= (size_t)ms_read8(input) << 8;
    if (input->bad) return false;
    if (body > ms_reader_left(input)) body = ms_reader_left(input);
    struct ms_bytes bytes = ms_read_bytes(input, body);
    header.body_size = (uint32_t)body;
    *size = ms_group_size(header.body_size);
    *memory = malloc(*size);
    if (!*memory) return false;
    if (body) memcpy(*memory + MS_GROUP_HEADER, bytes.data, body);
    ms_group_seal(*memory, &header);
    return true;
}

static void check(bool holds)
{
    if (!holds) abort();
}

/* Whatever was accepted is consistent. */
static void verify(const struct ms_store *store)
{
    for (uint32_t id = 1; id < MS_TABLES_MAX; id++)
        if (store->tables[id]) check(ms_table_verify(store->tables[id]) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ms_reader input = ms_reader(ms_bytes(data, size));
    struct ms_group_header header;
    struct ms_store log, loaded;
    struct ms_snapshot_loader loader;
    uint8_t *memory;
    size_t group_size;
    int log_error = 0, load_error = 0;
    if (ms_group_check(ms_bytes(data, size), &header) == 0) read_records(ms_bytes(data, size), &header);
    check(ms_store_init(&log) == 0 && ms_store_init(&loaded) == 0);
    ms_snapshot_loader_init(&loader, &loaded);
    while (next_group(&input, &memory, &group_size)) {
        struct ms_bytes group = ms_bytes(memory, group_size);
        if (ms_group_check(group, &header) == 0) {
            read_records(group, &header);
            if (!log_error) log_error = ms_store_fold(&log, group, &header, NULL, NULL);
        }
        if (!load_error) load_error = ms_snapshot_loader_group(&loader, group, ms_bytes(NULL, 0));
        free(memory);
    }
    verify(&log);
    if (loader.complete) {
        verify(&loaded);
        check(loaded.applied == loader.end && !loaded.fuzzy);
    }
    ms_store_close(&log);
    ms_store_close(&loaded);
    check(ms_mem_live() == 0);
    return 0;
}

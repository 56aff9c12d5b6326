/* Native methods of tables: writing, reading, comparing. */
#include <stdlib.h>
#include <string.h>

#include "binding.h"

static struct ms_table *table_of(jlong handle)
{
    return (struct ms_table *)(uintptr_t)handle;
}

static struct ms_txn *txn_of(jlong handle)
{
    return (struct ms_txn *)(uintptr_t)handle;
}

/* A handle, or a negative code; the pointers of this platform are no negative numbers. */
static jlong handle_of(int rc, void *pointer)
{
    return rc ? rc : (jlong)(uintptr_t)pointer;
}

NATIVE(jlong, tableOpen)(JNIEnv *env, jclass class, jlong node, jbyteArray name, jint type)
{
    (void)class;
    struct bytes text;
    struct ms_table *table = NULL;
    if (!bytes_get(env, name, &text)) return MS_E_MEMORY;
    int rc = ms_table_open(((struct binding *)(uintptr_t)node)->node, text.bytes.data, type, &table);
    bytes_done(&text);
    return handle_of(rc, table);
}

NATIVE(jlong, tableCount)(JNIEnv *env, jclass class, jlong table)
{
    (void)env, (void)class;
    return (jlong)ms_table_count(table_of(table));
}

/* ---- one entry -------------------------------------------------------------------------------------------------------------------- */

NATIVE(jint, put)(JNIEnv *env, jclass class, jlong table, jbyteArray key, jbyteArray value, jint flags)
{
    (void)class;
    struct bytes k, v;
    if (!bytes_get(env, key, &k)) return MS_E_MEMORY;
    int rc = bytes_get(env, value, &v) ? 0 : MS_E_MEMORY;
    if (!rc) rc = ms_put(table_of(table), k.bytes, v.bytes, flags, NULL);
    bytes_done(&v);
    bytes_done(&k);
    return rc;
}

NATIVE(jint, putLong)(JNIEnv *env, jclass class, jlong table, jbyteArray key, jlong value, jint flags)
{
    (void)class;
    struct bytes k;
    uint8_t number[8];
    if (!bytes_get(env, key, &k)) return MS_E_MEMORY;
    int rc = ms_put(table_of(table), k.bytes, ms_int64_put(value, number), flags, NULL);
    bytes_done(&k);
    return rc;
}

NATIVE(jint, delete)(JNIEnv *env, jclass class, jlong table, jbyteArray key, jint flags)
{
    (void)class;
    struct bytes k;
    if (!bytes_get(env, key, &k)) return MS_E_MEMORY;
    int rc = ms_delete(table_of(table), k.bytes, flags, NULL);
    bytes_done(&k);
    return rc;
}

/* ---- transactions: begin, the new value, commit, the host's own map, end -------------------------------------------------------- */

NATIVE(jlong, begin)(JNIEnv *env, jclass class, jlong table, jbyteArray key, jint wait_ms)
{
    (void)class;
    struct bytes k;
    struct ms_txn *txn = NULL;
    if (!bytes_get(env, key, &k)) return MS_E_MEMORY;
    int rc = ms_begin(table_of(table), k.bytes, wait_ms, &txn);
    bytes_done(&k);
    return handle_of(rc, txn);
}

NATIVE(jint, commit)(JNIEnv *env, jclass class, jlong txn, jbyteArray value, jint flags)
{
    (void)class;
    struct bytes v;
    if (!bytes_get(env, value, &v)) return MS_E_MEMORY;
    int rc = ms_commit(txn_of(txn), v.bytes, flags, NULL);
    bytes_done(&v);
    return rc;
}

NATIVE(void, end)(JNIEnv *env, jclass class, jlong txn)
{
    (void)env, (void)class;
    ms_end(txn_of(txn));
}

/* ---- reading ------------------------------------------------------------------------------------------------------------------------ */

enum { FIRST_TRY = 4096 };

/* null: there is none (lastError is "" then), or it was refused */
NATIVE(jbyteArray, get)(JNIEnv *env, jclass class, jlong table, jbyteArray key)
{
    (void)class;
    struct bytes k;
    uint8_t room[FIRST_TRY];
    void *data = room, *owned = NULL;
    size_t size = 0, capacity = sizeof room;
    jbyteArray result = NULL;
    int rc = bytes_get(env, key, &k) ? ms_get(table_of(table), k.bytes, data, capacity, &size) : MS_E_MEMORY;
    while (rc == MS_E_LIMIT) { /* larger; and it may grow again before it is read */
        free(owned);
        capacity = size;
        data = owned = malloc(capacity);
        rc = data ? ms_get(table_of(table), k.bytes, data, capacity, &size) : MS_E_MEMORY;
    }
    if (rc == 0) result = bytes_new(env, (struct ms_bytes){data, size});
    if (rc == MS_E_MEMORY) bytes_no_memory(env, "a value of a table");
    free(owned);
    bytes_done(&k);
    return result;
}

struct keys {
    uint8_t *data;
    size_t size, room;
};

static int add_key(void *context, struct ms_bytes key, struct ms_bytes value)
{
    struct keys *keys = context;
    uint32_t size = (uint32_t)key.size;
    (void)value;
    if (keys->size + sizeof size + size > keys->room) {
        size_t room = keys->room * 2 + sizeof size + size;
        uint8_t *data = room <= INT32_MAX ? realloc(keys->data, room) : NULL;
        if (!data) return MS_E_MEMORY;
        keys->data = data;
        keys->room = room;
    }
    memcpy(keys->data + keys->size, &size, sizeof size);
    memcpy(keys->data + keys->size + sizeof size, key.data, size);
    keys->size += sizeof size + size;
    return 0;
}

/* The keys of all entries: size u32, bytes, one after the other; null if they are too many for memory, or the walk failed. */
NATIVE(jbyteArray, keys)(JNIEnv *env, jclass class, jlong table)
{
    (void)class;
    struct keys keys = {.data = malloc(FIRST_TRY), .room = FIRST_TRY};
    jbyteArray result = NULL;
    if (keys.data && ms_walk(table_of(table), add_key, &keys) == 0) result = bytes_new(env, (struct ms_bytes){keys.data, keys.size});
    free(keys.data);
    return result;
}

/* ---- comparing the host's copy with the log --------------------------------------------------------------------------------------- */

NATIVE(jlong, compareBegin)(JNIEnv *env, jclass class, jlong table, jint version, jlong written_us)
{
    (void)env, (void)class;
    struct ms_host_copy about = {.version = version, .written_us = (uint64_t)written_us};
    struct ms_compare *compare = NULL;
    int rc = ms_compare_begin(table_of(table), &about, &compare);
    return handle_of(rc, compare);
}

NATIVE(jint, compareEntry)(JNIEnv *env, jclass class, jlong compare, jbyteArray key, jbyteArray value)
{
    (void)class;
    struct bytes k, v;
    if (!bytes_get(env, key, &k)) return MS_E_MEMORY;
    int rc = bytes_get(env, value, &v) ? 0 : MS_E_MEMORY;
    if (!rc) rc = ms_compare_entry((struct ms_compare *)(uintptr_t)compare, k.bytes, v.bytes);
    bytes_done(&v);
    bytes_done(&k);
    return rc;
}

/* equal, different, kept host, kept log, other, outside, newer */
NATIVE(jint, compareEnd)(JNIEnv *env, jclass class, jlong compare, jlongArray array)
{
    (void)class;
    struct ms_compare_result r;
    memset(&r, 0, sizeof r);
    int rc = ms_compare_end((struct ms_compare *)(uintptr_t)compare, &r);
    const jlong numbers[] = {(jlong)r.equal,  (jlong)r.different, (jlong)r.kept_host, (jlong)r.kept_log,
                             (jlong)r.other, (jlong)r.outside,   r.newer};
    (*env)->SetLongArrayRegion(env, array, 0, sizeof numbers / sizeof *numbers, numbers);
    return rc;
}

NATIVE(void, compareAbandon)(JNIEnv *env, jclass class, jlong compare)
{
    (void)env, (void)class;
    ms_compare_abandon((struct ms_compare *)(uintptr_t)compare);
}

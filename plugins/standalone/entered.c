#include "entered.h"

#include "../../core/base/error.h"
#include "files.h"
#include "rocketmq/import.h"

enum { KEYS_BYTES_MAX = 64 << 20, FORGET_AT_ONCE = 512, FORGET_BYTES = 32 << 10 };

void entered_init(struct entered *entered)
{
    *entered = (struct entered){.mutex = PTHREAD_MUTEX_INITIALIZER, .waker = pthread_self()};
    ms_buf_init(&entered->keys);
}

void entered_close(struct entered *entered)
{
    ms_buf_close(&entered->keys);
    (void)pthread_mutex_destroy(&entered->mutex);
}

void entered_add(struct entered *entered, const char *table, struct ms_bytes key)
{
    size_t size = strlen(table) + 1;
    (void)pthread_mutex_lock(&entered->mutex);
    if (!key.data || entered->keys.failed || entered->keys.size > KEYS_BYTES_MAX) entered->all = true;
    if (!entered->all) {
        ms_buf_add32(&entered->keys, (uint32_t)(size + key.size));
        ms_buf_add(&entered->keys, table, size);
        ms_buf_add(&entered->keys, key.data, key.size);
    }
    bool first = !entered->pending;
    entered->pending = true;
    (void)pthread_mutex_unlock(&entered->mutex);
    if (first) (void)pthread_kill(entered->waker, ENTERED_SIGNAL);
}

bool entered_pending(struct entered *entered)
{
    (void)pthread_mutex_lock(&entered->mutex);
    bool pending = entered->pending;
    (void)pthread_mutex_unlock(&entered->mutex);
    return pending;
}

/* ---- forgetting: the main thread -------------------------------------------------------------------------------------------- */

struct forgetting {
    struct ms_node *node;
    struct ms_table *base;
    struct ms_write writes[FORGET_AT_ONCE];
    size_t count, bytes;
};

static int send(struct forgetting *f)
{
    int rc = f->count ? ms_put_batch(f->node, f->writes, f->count, MS_NOWAIT, NULL) : 0;
    f->count = f->bytes = 0;
    return rc < 0 && rc != MS_E_NOT_REPLICATED ? rc : 0;
}

static int forget(struct forgetting *f, struct ms_bytes key)
{
    f->writes[f->count++] = (struct ms_write){f->base, key, {NULL, 0}};
    f->bytes += key.size;
    return f->count == FORGET_AT_ONCE || f->bytes >= FORGET_BYTES ? send(f) : 0;
}

static int forget_keys(struct forgetting *f, const struct ms_buf *keys)
{
    struct ms_reader reader = ms_reader(ms_buf_bytes(keys));
    int rc = 0;
    while (!rc && ms_reader_left(&reader) > 0) {
        uint32_t size = ms_read32(&reader);
        rc = forget(f, ms_read_bytes(&reader, size));
    }
    return rc ? rc : send(f);
}

/* The walk's bytes are borrowed: one at a time. */
static int forget_entry(void *context, struct ms_bytes key, struct ms_bytes value)
{
    struct forgetting *f = context;
    (void)value;
    int rc = forget(f, key);
    return rc ? rc : send(f);
}

static int forget_base(struct files *files, const struct ms_buf *keys, bool all)
{
    struct forgetting f = {.node = files->node};
    int rc = ms_table_open(files->node, MS_ROCKETMQ_BASE, MS_TYPE_BYTES, &f.base);
    if (rc) return rc;
    return all || keys->failed ? ms_walk(f.base, forget_entry, &f) : forget_keys(&f, keys);
}

int entered_import(struct entered *entered, struct files *files)
{
    char *report = NULL;
    (void)pthread_mutex_lock(&entered->mutex);
    struct ms_buf keys = entered->keys;
    bool all = entered->all;
    ms_buf_init(&entered->keys);
    entered->pending = entered->all = false;
    (void)pthread_mutex_unlock(&entered->mutex);
    int rc = forget_base(files, &keys, all);
    ms_buf_close(&keys);
    if (!rc) rc = files_import(files, files->options->import, files->options->force, &report);
    ms_free(report);
    (void)pthread_mutex_lock(&entered->mutex);
    if (rc) entered->all = true; /* what was not done is everything, the next time */
    (void)pthread_mutex_unlock(&entered->mutex);
    return rc;
}

#include "group_topics.h"

#include <stdlib.h>

#include "../../../core/base/mem.h"
#include "json.h"

struct pair {
    struct ms_bytes group, topic;
};

static int compare_pairs(const void *left, const void *right)
{
    const struct pair *a = left, *b = right;
    int order = ms_rows_compare(a->group, b->group);
    return order ? order : ms_rows_compare(a->topic, b->topic);
}

/* As RocketMQ cuts (Java's split, which drops what is empty at the end): exactly two parts, otherwise the key isn't
 * listed. */
static bool cut_pair(struct ms_bytes key, struct pair *pair)
{
    const char *data = key.data;
    size_t size = key.size;
    while (size > 0 && data[size - 1] == '@') size--;
    const char *at = size ? memchr(data, '@', size) : NULL;
    if (!at || memchr(at + 1, '@', (size_t)(data + size - at) - 1)) return false;
    pair->topic = ms_bytes(data, (size_t)(at - data));
    pair->group = ms_bytes(at + 1, (size_t)(data + size - at) - 1);
    return true;
}

static size_t collect_pairs(const struct ms_rows *rows, size_t from, size_t to, struct pair *pairs)
{
    size_t count = 0;
    struct ms_bytes last = ms_bytes(NULL, 0);
    for (size_t i = from; i < to; i++) {
        struct ms_bytes key = ms_row_key(rows, &rows->list[i]);
        const char *nul = memchr(key.data, 0, key.size);
        if (nul) key.size = (size_t)(nul - (const char *)key.data);
        if (!ms_bytes_equal(key, last) && cut_pair(key, &pairs[count])) count++;
        last = key;
    }
    return count;
}

static int put_pairs(const struct pair *pairs, size_t count, struct ms_buf *out)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < count; i++) {
        bool same_group = i > 0 && ms_bytes_equal(pairs[i].group, pairs[i - 1].group);
        if (same_group && ms_bytes_equal(pairs[i].topic, pairs[i - 1].topic)) continue; /* from "t@g" and "t@g@" */
        if (same_group) {
            ms_buf_add8(out, ',');
        } else {
            if (i > 0) {
                ms_json_line(out, 2);
                ms_buf_add(out, "],", 2);
            }
            ms_json_line(out, 2);
            rc = ms_json_quote(pairs[i].group, out);
            ms_buf_add(out, ":[", 2);
        }
        ms_json_line(out, 3);
        if (!rc) rc = ms_json_quote(pairs[i].topic, out);
    }
    return rc;
}

int ms_rocketmq_group_topics(const struct ms_rows *rows, size_t from, size_t to, struct ms_buf *out)
{
    struct pair *pairs = ms_alloc((to - from) * sizeof *pairs);
    if (!pairs) return MS_E_MEMORY;
    size_t count = collect_pairs(rows, from, to, pairs);
    if (count > 1) qsort(pairs, count, sizeof *pairs, compare_pairs);
    ms_buf_add8(out, '{');
    int rc = put_pairs(pairs, count, out);
    if (count > 0) {
        ms_json_line(out, 2);
        ms_buf_add8(out, ']');
        ms_json_line(out, 1);
    }
    ms_buf_add8(out, '}');
    ms_release(pairs);
    return rc ? rc : out->failed ? MS_E_MEMORY : 0;
}

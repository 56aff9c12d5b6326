#include "version.h"

int ms_rocketmq_version_read(const struct ms_json *json, struct ms_bytes object, struct ms_rocketmq_version *version)
{
    *version = (struct ms_rocketmq_version){.known = true};
    struct {
        const char *name;
        int64_t *number;
    } fields[] = {{"stateVersion", &version->state}, {"counter", &version->counter}, {"timestamp", &version->timestamp}};
    for (struct ms_json_members m = ms_json_members(object); ms_json_next(&m);) {
        for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
            if (!ms_bytes_equal(m.key, ms_str(fields[i].name)) || ms_json_kind(m.value) == 'n') continue;
            if (!ms_json_integer(m.value, fields[i].number)) {
                return ms_json_refuse(json, m.value.data, "expected an integer as %s", fields[i].name);
            }
        }
    }
    return 0;
}

int ms_rocketmq_version_parse(struct ms_bytes value, struct ms_rocketmq_version *version)
{
    struct ms_json json;
    *version = (struct ms_rocketmq_version){0};
    int rc = ms_json_open(&json, "data version", value, 0);
    if (!rc) rc = ms_rocketmq_version_read(&json, ms_json_root(&json), version);
    if (rc) version->known = false;
    ms_json_close(&json);
    return rc == MS_E_MEMORY ? rc : 0;
}

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

int ms_rocketmq_version_compare(const struct ms_rocketmq_version *a, const struct ms_rocketmq_version *b)
{
    int order = compare(a->state, b->state);
    if (!order) order = compare(a->counter, b->counter);
    return order ? order : compare(a->timestamp, b->timestamp);
}

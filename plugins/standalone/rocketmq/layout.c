#include "layout.h"

/* Kinds of maps, by what a member is. */
#define TO_OBJECTS .nested = false
#define TO_INTEGERS .integer = true
#define NAMES_TO_OBJECTS .nested = true
#define NUMBERS_TO_OBJECTS .nested = true, .numbered = true
#define NAMES_TO_INTEGERS .nested = true, .integer = true
#define NUMBERS_TO_INTEGERS .nested = true, .numbered = true, .integer = true

const struct ms_rocketmq_container ms_rocketmq_containers[MS_ROCKETMQ_CONTAINERS] = {
    {MS_ROCKETMQ_TOPICS, MS_ROCKETMQ_TOPIC, "topicConfigTable", TO_OBJECTS},
    {MS_ROCKETMQ_GROUPS, MS_ROCKETMQ_GROUP, "subscriptionGroupTable", TO_OBJECTS},
    {MS_ROCKETMQ_GROUPS, MS_ROCKETMQ_FORBIDDEN, "forbiddenTable", NAMES_TO_INTEGERS, .optional = true},
    {MS_ROCKETMQ_OFFSETS, MS_ROCKETMQ_OFFSET, "offsetTable", NUMBERS_TO_INTEGERS, .bare = true},
    {MS_ROCKETMQ_OFFSETS, MS_ROCKETMQ_PULL_OFFSET, "pullOffsetTable", NUMBERS_TO_INTEGERS, .optional = true},
    {MS_ROCKETMQ_OFFSETS, MS_ROCKETMQ_RESET_OFFSET, "resetOffsetTable", NUMBERS_TO_INTEGERS, .optional = true},
    {MS_ROCKETMQ_OFFSETS, MS_ROCKETMQ_LMQ_OFFSET, "lmqOffsetTable", TO_INTEGERS, .optional = true},
    {MS_ROCKETMQ_DELAYS, MS_ROCKETMQ_DELAY_OFFSET, "offsetTable", .numbered = true, TO_INTEGERS, .bare = true},
    {MS_ROCKETMQ_MODES, MS_ROCKETMQ_REQUEST_MODE, "messageRequestModeMap", NAMES_TO_OBJECTS},
    {MS_ROCKETMQ_MAPPINGS, MS_ROCKETMQ_TOPIC_MAPPING, "topicQueueMappingInfoMap", TO_OBJECTS},
    {MS_ROCKETMQ_ORDERS, MS_ROCKETMQ_ORDER_INFO, "table", NUMBERS_TO_OBJECTS, .bare = true},
    {MS_ROCKETMQ_TIMERS, MS_ROCKETMQ_TIMER_METRICS, "timingCount", TO_OBJECTS},
};

const char *const ms_rocketmq_file_names[MS_ROCKETMQ_FILES] = {
    [MS_ROCKETMQ_TOPICS] = "topics.json",
    [MS_ROCKETMQ_GROUPS] = "subscriptionGroup.json",
    [MS_ROCKETMQ_OFFSETS] = "consumerOffset.json",
    [MS_ROCKETMQ_DELAYS] = "delayOffset.json",
    [MS_ROCKETMQ_MODES] = "messageRequestMode.json",
    [MS_ROCKETMQ_MAPPINGS] = "topicQueueMapping.json",
    [MS_ROCKETMQ_ORDERS] = "consumerOrderInfo.json",
    [MS_ROCKETMQ_TIMERS] = "timermetrics",
};

const char *const ms_rocketmq_table_names[MS_ROCKETMQ_TABLES] = {
    [MS_ROCKETMQ_TOPIC] = "topic",
    [MS_ROCKETMQ_GROUP] = "group",
    [MS_ROCKETMQ_FORBIDDEN] = "forbidden",
    [MS_ROCKETMQ_OFFSET] = "offset",
    [MS_ROCKETMQ_PULL_OFFSET] = "pull_offset",
    [MS_ROCKETMQ_RESET_OFFSET] = "reset_offset",
    [MS_ROCKETMQ_LMQ_OFFSET] = "lmq_offset",
    [MS_ROCKETMQ_DELAY_OFFSET] = "delay_offset",
    [MS_ROCKETMQ_DATA_VERSION] = "data_version",
    [MS_ROCKETMQ_FILE_EXTRA] = "file_extra",
    [MS_ROCKETMQ_REQUEST_MODE] = "request_mode",
    [MS_ROCKETMQ_TOPIC_MAPPING] = "topic_mapping",
    [MS_ROCKETMQ_ORDER_INFO] = "order_info",
    [MS_ROCKETMQ_TIMER_METRICS] = "timer_metrics",
};

const struct ms_rocketmq_container *ms_rocketmq_container_of(int table)
{
    for (int i = 0; i < MS_ROCKETMQ_CONTAINERS; i++) {
        if (ms_rocketmq_containers[i].table == table) return &ms_rocketmq_containers[i];
    }
    return NULL;
}

int ms_rocketmq_table_type(int table)
{
    const struct ms_rocketmq_container *container = ms_rocketmq_container_of(table);
    return container && container->integer ? MS_TYPE_INT64 : MS_TYPE_BYTES;
}

int ms_rocketmq_file_table(int file)
{
    for (int i = 0; i < MS_ROCKETMQ_CONTAINERS; i++) {
        if (ms_rocketmq_containers[i].file == file) return ms_rocketmq_containers[i].table;
    }
    return -1;
}

int ms_rocketmq_table_named(struct ms_bytes name)
{
    for (int table = 0; table < MS_ROCKETMQ_TABLES; table++) {
        if (ms_bytes_equal(ms_str(ms_rocketmq_table_names[table]), name)) return table;
    }
    return -1;
}

static int file_named(struct ms_bytes name)
{
    for (int file = 0; file < MS_ROCKETMQ_FILES; file++) {
        if (ms_bytes_equal(ms_str(ms_rocketmq_file_names[file]), name)) return file;
    }
    return -1;
}

int ms_rocketmq_file_of(int table, struct ms_bytes key)
{
    const struct ms_rocketmq_container *container = ms_rocketmq_container_of(table);
    if (container) return container->file;
    if (table == MS_ROCKETMQ_FILE_EXTRA) {
        const char *nul = key.size ? memchr(key.data, 0, key.size) : NULL;
        return nul ? file_named(ms_bytes(key.data, (size_t)(nul - (const char *)key.data))) : -1;
    }
    for (int file = 0; file < MS_ROCKETMQ_FILES; file++) {
        if (ms_bytes_equal(ms_str(ms_rocketmq_table_names[ms_rocketmq_file_table(file)]), key)) return file;
    }
    return -1;
}

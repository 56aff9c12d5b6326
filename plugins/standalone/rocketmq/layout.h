/* Which part of which file is which table: the one list that import and export follow.
 *
 *      topics.json              dataVersion  topicConfigTable        topic        {topic: {...}}
 *      subscriptionGroup.json   dataVersion  subscriptionGroupTable  group        {group: {...}}
 *                                            forbiddenTable          forbidden    {group: {topic: n}}
 *      consumerOffset.json      dataVersion  offsetTable             offset       {topic@group: {queue: n}}
 *                                            pullOffsetTable         pull_offset  the same
 *                                            resetOffsetTable        reset_offset the same
 *                                            lmqOffsetTable          lmq_offset   {lmq@group: n}
 *                                            groupTopicMap           -            see below
 *      delayOffset.json         dataVersion  offsetTable             delay_offset {level: n}
 *      messageRequestMode.json               messageRequestModeMap   request_mode {topic: {group: {...}}}
 *      topicQueueMapping.json   dataVersion  topicQueueMappingInfoMap topic_mapping {topic: {...}}
 *      consumerOrderInfo.json                table                   order_info   {topic@group: {queue: {...}}}
 *      timermetrics             dataVersion  timingCount             timer_metrics {topic: {...}}
 *
 * A leaf's key is the key, or both keys joined by one NUL. Integers are MS_TYPE_INT64, everything else is the file's own
 * JSON without its blanks. Two tables have rows of every file:
 *      data_version   key: the file's first table;             value: the dataVersion object, whatever fields it has
 *      file_extra     key: file name, NUL, top-level field;    value: the JSON of a field that is in no table: unknown ones
 *                     are kept and written back. A field of the list above that need not be there, and was, has the
 *                     value {}: so export writes it even when its table is empty.
 *
 * groupTopicMap is derived from offsetTable by RocketMQ's writer and never read. It isn't kept: where it was there
 * (file_extra says so), export makes it anew.
 *
 * topic@group is opaque: it may hold more than one @. A table that is null or absent is empty; an inner map that is
 * empty ({}) has no rows and is not written back. */
#ifndef MS_ROCKETMQ_LAYOUT_H
#define MS_ROCKETMQ_LAYOUT_H

#include "../../../core/base/bytes.h"

enum ms_rocketmq_file {
    MS_ROCKETMQ_TOPICS = 0,
    MS_ROCKETMQ_GROUPS = 1,
    MS_ROCKETMQ_OFFSETS = 2,
    MS_ROCKETMQ_DELAYS = 3,
    MS_ROCKETMQ_ALWAYS = 4, /* the files before are always written; those from here on if they have rows, or are there already */
    MS_ROCKETMQ_MODES = 4,
    MS_ROCKETMQ_MAPPINGS = 5,
    MS_ROCKETMQ_ORDERS = 6,
    MS_ROCKETMQ_TIMERS = 7,
    MS_ROCKETMQ_FILES = 8,
};

enum ms_rocketmq_table {
    MS_ROCKETMQ_TOPIC = 0,
    MS_ROCKETMQ_GROUP = 1,
    MS_ROCKETMQ_FORBIDDEN = 2,
    MS_ROCKETMQ_OFFSET = 3,
    MS_ROCKETMQ_PULL_OFFSET = 4,
    MS_ROCKETMQ_RESET_OFFSET = 5,
    MS_ROCKETMQ_LMQ_OFFSET = 6,
    MS_ROCKETMQ_DELAY_OFFSET = 7,
    MS_ROCKETMQ_DATA_VERSION = 8,
    MS_ROCKETMQ_FILE_EXTRA = 9,
    MS_ROCKETMQ_REQUEST_MODE = 10,
    MS_ROCKETMQ_TOPIC_MAPPING = 11,
    MS_ROCKETMQ_ORDER_INFO = 12,
    MS_ROCKETMQ_TIMER_METRICS = 13,
    MS_ROCKETMQ_TABLES = 14,
};

/* One field of a file that is one table. */
struct ms_rocketmq_container {
    int file, table;
    const char *field;
    /* Two levels of keys, otherwise one. */
    bool nested;
    /* The last key is an int32. */
    bool numbered;
    /* Values are integers, otherwise objects. */
    bool integer;
    /* Need not be there: written only if it has rows, or was there. */
    bool optional;
    /* Numbered keys are written without quotes, as RocketMQ does. 5.4.0 can't skip bare keys in fields that it does not
     * know (its broker does not start), so the fields that not every version knows get quotes: all versions read them. */
    bool bare;
};

enum { MS_ROCKETMQ_CONTAINERS = 12 };
extern const struct ms_rocketmq_container ms_rocketmq_containers[MS_ROCKETMQ_CONTAINERS];

extern const char *const ms_rocketmq_file_names[MS_ROCKETMQ_FILES];
extern const char *const ms_rocketmq_table_names[MS_ROCKETMQ_TABLES];

#define MS_ROCKETMQ_VERSION_FIELD "dataVersion"
#define MS_ROCKETMQ_DERIVED_FIELD "groupTopicMap"

/* MS_TYPE_*. */
int ms_rocketmq_table_type(int table);

/* The table that gives the file's data version its name. */
int ms_rocketmq_file_table(int file);

/* Which table has this name; -1 if none. */
int ms_rocketmq_table_named(struct ms_bytes name);

/* Which file an entry belongs to; -1 if none. */
int ms_rocketmq_file_of(int table, struct ms_bytes key);

/* The container of a table; NULL for data_version and file_extra. */
const struct ms_rocketmq_container *ms_rocketmq_container_of(int table);

#endif

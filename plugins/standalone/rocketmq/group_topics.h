/* The groupTopicMap of consumerOffset.json: {group: [topics]}, which RocketMQ's writer derives from the keys of
 * offsetTable. */
#ifndef MS_ROCKETMQ_GROUP_TOPICS_H
#define MS_ROCKETMQ_GROUP_TOPICS_H

#include "rows.h"

/* Appends the map, at depth 1. rows [from, to): those of the table offset, sorted. A key that is not "topic@group" is
 * left out, as RocketMQ does. MEMORY; FORMAT if a key is no UTF-8. */
int ms_rocketmq_group_topics(const struct ms_rows *rows, size_t from, size_t to, struct ms_buf *out);

#endif

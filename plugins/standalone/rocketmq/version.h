/* RocketMQ's DataVersion: {"counter":7,"stateVersion":0,"timestamp":1756650000123}. Fields that are missing count as 0
 * (3.x files spell the last one "timestatmp", 4.x ones have no stateVersion). Pure, any thread. */
#ifndef MS_ROCKETMQ_VERSION_H
#define MS_ROCKETMQ_VERSION_H

#include "json.h"

struct ms_rocketmq_version {
    bool known;       /* there is one */
    int64_t state;    /* of the controller's election; 0 elsewhere */
    int64_t counter;
    int64_t timestamp; /* ms since 1970 */
};

/* From an object in a text that ms_json_open has checked. MS_E_FORMAT with its place if a field is no 64-bit integer. */
int ms_rocketmq_version_read(const struct ms_json *json, struct ms_bytes object, struct ms_rocketmq_version *version);

/* From a row of data_version; what can't be read there is "not known". MS_E_MEMORY. */
int ms_rocketmq_version_parse(struct ms_bytes value, struct ms_rocketmq_version *version);

/* < 0, 0, > 0 in RocketMQ's own order: state, counter, timestamp. Both must be known. */
int ms_rocketmq_version_compare(const struct ms_rocketmq_version *a, const struct ms_rocketmq_version *b);

#endif

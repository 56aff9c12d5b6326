/* What is said of policies, as JSON: the report of a reload, the policy in the status, all of its fields. Internal to core/node_policy*.c. */
#ifndef MS_NODE_REPORT_H
#define MS_NODE_REPORT_H

#include <jansson.h>

#include "node.h"

/* ---- fields: node_policy_fields.c --------------------------------------------------------------------------------------------- */

/* {"snapshot.every":"30s", ...}, named and written as a policy file would; tables below "tables.NAME.". NULL = no memory. */
json_t *ms_report_fields(const struct ms_policy *policy);

/* [{"field":"log.keep","was":"256MiB","is":"1GiB"}, ...] */
json_t *ms_report_changes(const struct ms_policy *was, const struct ms_policy *is);

/* ["log.segment"]: fields of the file whose value the node does not have yet: only a start takes it. */
json_t *ms_report_waiting(const struct ms_policy *file, const struct ms_policy *running);

/* ---- trouble: node_policy_show.c ------------------------------------------------------------------------------------------------ */

struct ms_trouble {
    uint64_t count;   /* incidents since the policy was loaded */
    bool quarantined; /* one function at least */
    char last[400];   /* what a function of those that had the most did last: "filter: message (file:line)" */
};

/* `known` incidents were looked at before: if there are no more, the text is left empty. Without the node's lock. */
void ms_policy_trouble(struct ms_rules *rules, uint64_t known, struct ms_trouble *trouble);

/* The object "policy" of the status. Without the lock. NULL = no memory. */
json_t *ms_policy_status(struct ms_node *node);

/* ---- a change: node_policy_report.c ------------------------------------------------------------------------------------------------ */

struct ms_report {
    struct ms_policy_counts counts;
    bool forced;
    /* what is filled in under the lock: */
    struct ms_report_side {
        bool known;
        char name[MS_POLICY_NAME_MAX];
        uint64_t hash;
        struct ms_policy policy;
    } was, is;
    struct ms_policy wanted; /* what the file says; `is` may lack what only a start takes */
    char file[MS_PATH_MAX];
    uint32_t probation_ms;
};

int ms_report_new(struct ms_report **report);
void ms_report_was(struct ms_report *report, const struct ms_node *node); /* [lock] before the swap */
void ms_report_is(struct ms_report *report, const struct ms_node *node);  /* [lock] after it */

/* Makes the text of a change that ended with rc (*text NULL if there is no memory for it, which fails nothing), frees the report and
 * returns rc with its message as it was. text may be NULL. */
int ms_report_end(struct ms_report *report, int rc, char **text);

#endif

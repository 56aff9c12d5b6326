/* Export of a node's tables as files, for every host of a broker's tables: metasyncd, and the broker plugin. */
#ifndef MS_ROCKETMQ_CONTROL_H
#define MS_ROCKETMQ_CONTROL_H

#include "../../../core/metasync.h"

/* Writes the node's tables to dir (export.h), in any role. The report (free with ms_free; NULL after a failure) is JSON:
 *
 *      {"from":1200,"to":1203,"files":[{"file":"topics.json","rows":17,"bytes":3120,"written":true,"kept_as_bak":true}, ...]}
 *
 * Tables may change while they are read: what was applied up to `from` is in the files, what was applied after `to` is not. On a leader,
 * values that are buffered count as applied. One export at a time in a process: others wait. */
int ms_rocketmq_export_node(struct ms_node *node, const char *dir, char **report);

/* The same as a command of the control socket, {"command":"export","dir":"/backup/config"}: what an ms_control_fn does with a request.
 * Other commands are MS_E_INVALID. The reply is {"ok":true,...the report...}. */
int ms_rocketmq_export_command(struct ms_node *node, const char *request, char **reply);

/* A report as a reply: with "ok" in it. */
int ms_rocketmq_reply(const char *report, char **reply);

#endif

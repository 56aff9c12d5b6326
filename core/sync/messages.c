/* Sending control frames. */
#include "inside.h"

#include <stdio.h>

void ms_engine_send(struct ms_engine *e, uint64_t link, uint8_t type, const struct ms_message *message)
{
    struct ms_buf payload;
    ms_buf_init(&payload);
    ms_message_encode(type, message, &payload);
    if (payload.failed) {
        ms_engine_event(e, MS_LOG_WARN, "a %s frame was not sent: out of memory", ms_frame_name(type));
        e->frame_lost = true;
        ms_engine_wake(e, ms_now(e));
    } else {
        e->io->ops->send(e->io, link, type, 0, ms_buf_bytes(&payload), NULL);
    }
    ms_buf_close(&payload);
}

void ms_engine_drop_lost(struct ms_engine *e)
{
    if (!e->frame_lost) return;
    e->frame_lost = false;
    ms_extras_disrupted(e);
    ms_engine_drop_peers(e, MS_E_MEMORY, "out of memory");
    if (e->follow.link) ms_follow_drop(e, MS_E_MEMORY, "out of memory");
}

void ms_engine_send_hello(struct ms_engine *e, uint64_t link, int purpose)
{
    struct ms_history history = ms_engine_history(e);
    struct ms_message hello;
    ms_message_init(&hello);
    hello.node_id = e->node_id;
    hello.boot_id = e->boot_id;
    hello.policy_hash = e->policy_hash;
    hello.purpose = (uint64_t)purpose;
    hello.role = (uint64_t)e->role;
    hello.features = MS_FEATURE_EXTRAS;
    hello.comparing = e->role == MS_ROLE_LEADER && e->comparing;
    hello.extra_max = ms_policy_largest_group(&e->policy);
    if (hello.extra_max < MS_FRAME_CONTROL_MAX) hello.extra_max = MS_FRAME_CONTROL_MAX;
    (void)snprintf(hello.cluster, sizeof hello.cluster, "%s", e->cluster);
    (void)snprintf(hello.name, sizeof hello.name, "%s", e->name);
    hello.first = history.first;
    hello.position = history.position;
    /* An epoch that is being opened is not shown before it is synced: nobody may take it for real and then see it vanish. */
    struct ms_lineage shown = *history.lineage;
    if (e->role == MS_ROLE_OPENING && e->opening_lsn && shown.count) shown.count--;
    hello.lineage = shown; /* borrowed: not closed here */
    ms_engine_send(e, link, MS_FRAME_HELLO, &hello);
}

void ms_engine_bye(struct ms_engine *e, uint64_t link, int code, const char *text)
{
    struct ms_message bye;
    ms_message_init(&bye);
    bye.code = (uint64_t)-code;
    bye.text = ms_str(text);
    ms_engine_send(e, link, MS_FRAME_BYE, &bye);
    e->io->ops->close(e->io, link);
}

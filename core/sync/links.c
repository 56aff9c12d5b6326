/* Frames come in here and go to the side that the link belongs to: the one leader that we follow, or a peer. */
#include "inside.h"


static bool known(uint8_t type)
{
    return (type >= MS_FRAME_HELLO && type <= MS_FRAME_STATUS_REPLY) || type == MS_FRAME_EXTRA || type == MS_FRAME_EXTRA_DONE;
}

static bool bulk(uint8_t type)
{
    return type == MS_FRAME_GROUP || type == MS_FRAME_SNAPSHOT_DATA;
}

static void refuse(struct ms_engine *e, uint64_t link, int code)
{
    const char *text = ms_fail_message(code);
    e->counters.links_refused++;
    if (link == e->follow.link) {
        ms_follow_drop(e, code, text);
        return;
    }
    struct ms_peer *peer = ms_engine_peer(e, link);
    if (!peer) return;
    ms_engine_event(e, MS_LOG_WARN, "link %s: %s", peer->address, text);
    ms_engine_bye(e, link, code, text);
    ms_engine_link_down(e, link, code, text);
}

static void reply_status(struct ms_engine *e, uint64_t link)
{
    char *json = NULL;
    struct ms_message reply;
    ms_message_init(&reply);
    int rc = ms_engine_status(e, &json);
    reply.code = (uint64_t)-rc;
    reply.text = ms_str(json ? json : ms_fail_message(rc));
    ms_engine_send(e, link, MS_FRAME_STATUS_REPLY, &reply);
    ms_free(json);
}

static void control_frame(struct ms_engine *e, uint64_t link, uint8_t type, uint8_t flags, struct ms_bytes payload)
{
    struct ms_message message;
    ms_message_init(&message);
    int rc = ms_message_decode(type, payload, &message);
    e->counters.unknown_fields += message.unknown;
    struct ms_peer *peer = ms_engine_peer(e, link);
    if (rc)
        refuse(e, link, rc);
    else if (type == MS_FRAME_STATUS_REQUEST && peer)
        reply_status(e, link);
    else if (link == e->follow.link)
        ms_follow_frame(e, type, flags, payload, &message);
    else if (peer)
        ms_peer_frame(e, peer, type, &message);
    ms_message_close(&message);
}

void ms_engine_frame(struct ms_engine *e, uint64_t link, uint8_t type, uint8_t flags, struct ms_bytes payload)
{
    if (e->closing) return;
    if (!known(type)) {
        e->counters.unknown_frames++;
        if (!(type & MS_FRAME_OPTIONAL)) refuse(e, link, ms_fail(MS_E_VERSION, "a frame of type %d is not known here", type));
        return;
    }
    if (!bulk(type)) {
        control_frame(e, link, type, flags, payload);
        return;
    }
    if (link == e->follow.link)
        ms_follow_frame(e, type, flags, payload, NULL);
    else
        refuse(e, link, ms_fail(MS_E_FORMAT, "a %s frame came to a node that does not follow this one", ms_frame_name(type)));
}

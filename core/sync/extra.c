/* One extra without an engine: as bytes, what becomes of it, and its line in the loss report. See extras.h. */
#include <stdio.h>

#include "../base/error.h"
#include "../base/mem.h"
#include "frame.h"
#include "extras.h"
#include "policy.h"
#include "render.h"

const char *ms_extra_outcome_name(int outcome)
{
    switch (outcome) {
    case MS_EXTRA_EQUAL: return "equal";
    case MS_EXTRA_KEPT: return "kept";
    case MS_EXTRA_UNRESOLVED: return "unresolved";
    default: return ms_outcome_name(outcome);
    }
}

/* ---- codec ---------------------------------------------------------------------------------------------------------------------- */

void ms_extra_message(const struct ms_extra *extra, struct ms_message *message)
{
    ms_message_init(message);
    (void)snprintf(message->table, sizeof message->table, "%s", extra->table);
    message->type = (uint64_t)extra->type;
    message->reason = (uint64_t)extra->reason;
    message->key = extra->key;
    message->mine = extra->mine;
    message->base = extra->base;
    message->base_known = extra->base_known;
    message->lsn = extra->lsn;
    message->epoch = extra->epoch;
}

void ms_extra_encode(const struct ms_extra *extra, struct ms_buf *bytes)
{
    struct ms_message message;
    ms_extra_message(extra, &message);
    ms_message_encode(MS_FRAME_EXTRA, &message, bytes);
}

void ms_extras_put_epoch(struct ms_buf *bytes, struct ms_epoch epoch)
{
    ms_buf_add64(bytes, epoch.reign);
    ms_buf_add64(bytes, epoch.run);
    ms_buf_add64(bytes, epoch.id);
}

static int check_extra(const struct ms_extra *extra, const struct ms_message *message)
{
    if (message->type != MS_TYPE_BYTES && message->type != MS_TYPE_INT64) return ms_fail(MS_E_FORMAT, "an extra of no known value type");
    if (message->reason != MS_CONFLICT_DEPOSED && message->reason != MS_CONFLICT_BUFFERED)
        return ms_fail(MS_E_FORMAT, "an extra for no known reason");
    if (extra->base.data && !extra->base_known) return ms_fail(MS_E_FORMAT, "an extra with a base that is not known");
    if (!extra->table[0]) return 0;
    if (extra->key.size == 0) return ms_fail(MS_E_FORMAT, "an extra without a key");
    if (extra->key.size > MS_KEY_MAX) return ms_fail(MS_E_LIMIT, "an extra's key of %zu bytes", extra->key.size);
    bool sizes = (!extra->mine.data || extra->mine.size == 8) && (!extra->base.data || extra->base.size == 8);
    if (extra->type == MS_TYPE_INT64 && !sizes) return ms_fail(MS_E_TYPE, "an extra of an int64 table that is no int64");
    return 0;
}

int ms_extra_of(const struct ms_message *message, struct ms_extra *extra)
{
    *extra = (struct ms_extra){
        .type = message->type == MS_TYPE_INT64 ? MS_TYPE_INT64 : MS_TYPE_BYTES,
        .reason = message->reason == MS_CONFLICT_BUFFERED ? MS_CONFLICT_BUFFERED : MS_CONFLICT_DEPOSED,
        .key = message->key,
        .mine = message->mine,
        .base = message->base,
        .base_known = message->base_known != 0,
        .resent = message->resent != 0,
        .lsn = message->lsn,
        .epoch = message->epoch,
        .seq = message->seq,
    };
    memcpy(extra->table, message->table, sizeof extra->table);
    return check_extra(extra, message);
}

int ms_extra_decode(struct ms_bytes bytes, struct ms_extra *extra)
{
    struct ms_message message;
    ms_message_init(&message);
    int rc = ms_message_decode(MS_FRAME_EXTRA, bytes, &message);
    if (!rc) rc = ms_extra_of(&message, extra);
    ms_message_close(&message);
    return rc;
}

/* ---- waiting ---------------------------------------------------------------------------------------------------------------------- */

static struct ms_bytes keep(uint8_t **at, struct ms_bytes bytes)
{
    struct ms_bytes kept = {bytes.data ? *at : NULL, bytes.size};
    if (bytes.size) memcpy(*at, bytes.data, bytes.size);
    *at += bytes.size;
    return kept;
}

struct ms_extra_waiting *ms_extra_keep(uint64_t link, const struct ms_extra *extra)
{
    struct ms_extra_waiting *waiting = ms_alloc(sizeof *waiting + extra->key.size + extra->mine.size + extra->base.size + 1);
    if (!waiting) return NULL;
    uint8_t *at = waiting->bytes;
    waiting->link = link;
    waiting->extra = *extra;
    waiting->extra.key = keep(&at, extra->key);
    waiting->extra.mine = keep(&at, extra->mine);
    waiting->extra.base = keep(&at, extra->base);
    return waiting;
}

/* ---- deciding --------------------------------------------------------------------------------------------------------------------- */

struct ms_bytes ms_extra_chosen(const struct ms_extra *extra, struct ms_bytes theirs, const struct ms_resolution *resolution)
{
    switch (resolution->outcome) {
    case MS_OUTCOME_MINE: return extra->mine;
    case MS_OUTCOME_VALUE: return ms_buf_bytes(&resolution->value);
    case MS_OUTCOME_DELETE: return ms_bytes(NULL, 0);
    default: return theirs;
    }
}

/* What is certain without asking the policy; NULL = nothing is. */
static const char *certain(const struct ms_extra *extra, struct ms_bytes theirs)
{
    bool untouched = extra->base_known && ms_bytes_equal(theirs, extra->base);
    if (untouched) return NULL;
    if (extra->resent) return "resent";
    return extra->older ? "newest" : NULL;
}

void ms_extra_decide(const struct ms_extra *extra, struct ms_bytes theirs, struct ms_rules *rules, const struct ms_policy *policy,
                     struct ms_resolution *resolution)
{
    resolution->outcome = MS_EXTRA_EQUAL;
    resolution->by = "equal";
    if (ms_bytes_equal(extra->mine, theirs)) return;
    resolution->outcome = MS_OUTCOME_THEIRS;
    resolution->by = certain(extra, theirs);
    if (resolution->by) return;
    struct ms_conflict conflict = {
        .table = extra->table,
        .type = extra->type,
        .reason = extra->reason,
        .key = extra->key,
        .mine = extra->mine,
        .theirs = theirs,
        .base = extra->base,
        .base_known = extra->base_known,
        .newer = extra->newer,
    };
    if (extra->base_known && ms_bytes_equal(theirs, extra->base)) conflict.newer = 1;
    else if (extra->base_known && ms_bytes_equal(extra->mine, extra->base)) conflict.newer = -1;
    ms_rules_resolve(rules, policy, &conflict, resolution);
    if (ms_bytes_equal(ms_extra_chosen(extra, theirs, resolution), theirs)) resolution->outcome = MS_OUTCOME_THEIRS;
}

/* ---- lines ------------------------------------------------------------------------------------------------------------------------------ */

static void set(json_t *object, const char *key, json_t *value)
{
    if (object) (void)json_object_set_new(object, key, value);
}

void ms_extra_line(struct ms_buf *text, uint64_t time_us, const struct ms_extra *extra, const struct ms_extra_answer *answer)
{
    uint8_t type = (uint8_t)extra->type;
    json_t *object = json_object();
    set(object, "time_us", json_integer((json_int_t)time_us));
    if (extra->table[0]) {
        set(object, "table", json_string(extra->table));
        ms_render_set_key(object, extra->key);
        set(object, "reason", json_string(ms_conflict_reason_name(extra->reason)));
        if (extra->base_known) set(object, "base", ms_render_value(type, extra->base));
        set(object, "mine", ms_render_value(type, extra->mine));
    } else {
        set(object, "reason", json_string(ms_conflict_reason_name(extra->reason)));
        set(object, "up_to_lsn", json_integer((json_int_t)extra->lsn));
    }
    if (extra->newer) set(object, "newer", json_string(extra->newer > 0 ? "mine" : "theirs"));
    set(object, "outcome", json_string(ms_extra_outcome_name(answer->outcome)));
    bool known = answer->outcome <= MS_OUTCOME_DELETE && !answer->theirs_size;
    if (known) set(object, "theirs", ms_render_value(type, answer->theirs));
    if (answer->theirs_size) set(object, "theirs_bytes", json_integer((json_int_t)answer->theirs_size));
    if (answer->outcome == MS_OUTCOME_VALUE) set(object, "value", ms_render_value(type, answer->value));
    set(object, "by", json_string(answer->by));
    if (answer->lsn) set(object, "lsn", json_integer((json_int_t)answer->lsn));
    if (answer->err) set(object, "why", json_string(ms_error_text(answer->err)));
    if (ms_render_line(text, object)) text->failed = true;
}

/* What the engine's own files share. Not for callers: they include engine.h. */
#ifndef MS_SYNC_INSIDE_H
#define MS_SYNC_INSIDE_H

#include "../base/error.h"
#include "../base/mem.h"
#include "engine.h"

enum { MS_ROOM_MARGIN = 8192 }; /* log room that only the engine's own records (marks, epochs) may use */

static inline uint64_t ms_now(struct ms_engine *e)
{
    return e->io->ops->now(e->io);
}

/* min of two due times, where 0 means "not due" */
static inline uint64_t ms_sooner(uint64_t a, uint64_t b)
{
    if (!a || !b) return a ? a : b;
    return a < b ? a : b;
}

/* ---- engine.c */
void ms_engine_event(struct ms_engine *e, int severity, const char *format, ...) __attribute__((format(printf, 3, 4)));
void ms_engine_alarm(struct ms_engine *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ms_engine_tell_policy(struct ms_engine *e, const char *kind, int severity, const char *text); /* its event function */
void ms_engine_changed(struct ms_engine *e);
void ms_engine_wake(struct ms_engine *e, uint64_t at); /* 0 = no wish */
void ms_engine_log_failed(struct ms_engine *e, int err, const char *what);
void ms_engine_refresh_tables(struct ms_engine *e); /* table_policy of every defined table */
void ms_engine_ask_room(struct ms_engine *e);
void ms_engine_trim(struct ms_engine *e); /* the log, as far as policy, snapshots and followers allow; further if it is full */
struct ms_history ms_engine_history(const struct ms_engine *e);
void ms_engine_note_applied(struct ms_engine *e, uint64_t lsn);

/* ---- commit.c: the engine's own records. MS_E_AGAIN, MS_E_NO_SPACE, MS_E_MEMORY */
int ms_engine_append(struct ms_engine *e, struct ms_bytes record);
int ms_engine_append_mark(struct ms_engine *e);
int ms_engine_room_for(struct ms_engine *e, size_t size, size_t margin);
int ms_commit_check_logging(const struct ms_engine *e); /* whether anything can be logged here now */
int ms_commit_check_tail(struct ms_engine *e, size_t size); /* room in memory and log for one more record */
void ms_commit_count(struct ms_engine *e, uint64_t changes); /* after they are appended: a mark may be due */

/* ---- flush.c */
int ms_flush_put(struct ms_engine *e, const struct ms_engine_write *write, const struct ms_spot *spot);
void ms_flush_keep_bounds(struct ms_engine *e, struct ms_table_state *table); /* after a put: logs what is beyond at_risk_* */
void ms_flush_keep_bounds_soon(struct ms_engine *e, struct ms_table_state *table); /* the same, on the next tick; counted */
void ms_engine_flush_due(struct ms_engine *e, uint64_t now);
void ms_flush_written(struct ms_engine *e);
void ms_flush_reset(struct ms_engine *e); /* the buffers are empty, or other tables have these ids now */
void ms_flush_table_policy(struct ms_engine *e, uint32_t id); /* from the policy's numbers, as soon as its buffer allows */
void ms_flush_rearm(struct ms_engine *e, uint32_t id, uint64_t now);
uint64_t ms_flush_oldest(const struct ms_engine *e, const struct ms_table_state *table); /* when the oldest unlogged value came; 0 = none */

/* ---- leave.c: the view's answer to a change of an entry that does not exist: 0 = go on, MS_LOCAL, MS_ASK */
int ms_engine_view(struct ms_engine *e, struct ms_table_state *table, struct ms_bytes key, uint64_t key_hash, struct ms_bytes value, int decision);

/* ---- role.c */
void ms_engine_set_role(struct ms_engine *e, int role, int result, const char *format, ...) __attribute__((format(printf, 4, 5)));
void ms_engine_step_down(struct ms_engine *e, int code, const char *why); /* -> IDLE */
void ms_engine_switch_off(struct ms_engine *e); /* policy.enabled became 0: -> IDLE, with what was buffered in the log */
void ms_engine_meet(struct ms_engine *e, struct ms_epoch epoch, const char *who);
void ms_engine_try_open(struct ms_engine *e); /* goes on with OPENING when what it waits for has come */
void ms_engine_asked(struct ms_engine *e);     /* one of the asked peers has answered or can't */
void ms_engine_role_tick(struct ms_engine *e, uint64_t now);

/* ---- messages.c */
void ms_engine_send(struct ms_engine *e, uint64_t link, uint8_t type, const struct ms_message *message);
void ms_engine_drop_lost(struct ms_engine *e); /* a frame was lost for want of memory: conversations begin anew, or they would wait for ever */
void ms_engine_send_hello(struct ms_engine *e, uint64_t link, int purpose);
void ms_engine_bye(struct ms_engine *e, uint64_t link, int code, const char *text); /* and closes */

/* ---- leader.c */
struct ms_peer *ms_engine_peer(struct ms_engine *e, uint64_t link);
void ms_engine_drop_peer(struct ms_engine *e, struct ms_peer *peer);
void ms_engine_free_peer(struct ms_peer *peer); /* taken out of the list */
void ms_engine_admit(struct ms_engine *e); /* the host has compared: verdicts for those that wait */
void ms_engine_drop_peers(struct ms_engine *e, int code, const char *text);
void ms_engine_stream(struct ms_engine *e); /* to every peer, what it may have now */
void ms_engine_update_replicated(struct ms_engine *e);
bool ms_engine_any_in_sync(const struct ms_engine *e);
void ms_engine_peers_tick(struct ms_engine *e, uint64_t now);
uint64_t ms_engine_pin(const struct ms_engine *e); /* log records after it are needed by a bootstrapping peer; UINT64_MAX: none */
void ms_peer_frame(struct ms_engine *e, struct ms_peer *peer, uint8_t type, const struct ms_message *message);

/* ---- follower.c, stage.c */
void ms_follow_stop(struct ms_engine *e);
void ms_follow_link_up(struct ms_engine *e);
void ms_follow_link_down(struct ms_engine *e, int err, const char *why);
void ms_follow_frame(struct ms_engine *e, uint8_t type, uint8_t flags, struct ms_bytes payload, const struct ms_message *message);
void ms_follow_drop(struct ms_engine *e, int code, const char *text); /* closes the link, tries again later */
void ms_follow_apply(struct ms_engine *e); /* folds written groups, a bounded number at a time */
void ms_follow_ack(struct ms_engine *e);
void ms_follow_flow(struct ms_engine *e); /* pauses or resumes reading */
void ms_follow_tick(struct ms_engine *e, uint64_t now);
void ms_follow_stream(struct ms_engine *e);

void ms_stage_begin(struct ms_engine *e);
void ms_stage_drop(struct ms_engine *e);
void ms_stage_message(struct ms_engine *e, uint8_t type, const struct ms_message *message);
void ms_stage_data(struct ms_engine *e, struct ms_bytes payload);

#endif

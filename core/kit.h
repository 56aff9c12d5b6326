/* The test kit's C side: what lua/metasync/kit.lua calls in libmetasync-kit.so.
 *
 * Users test their policies on the simulator (sim/sim.h) with it: the same engine, tables and log as in a node, over a virtual clock. The
 * Lua side must not repeat declarations that a change here would make wrong, so everything it calls is declared once, below, in a form
 * that also becomes text: ms_kit_declarations() is the only function that kit.lua knows by itself, and it gives LuaJIT's ffi.cdef the
 * rest. Functions named ms_sim_* are the simulator's own; the compiler compares them with sim.h.
 *
 * One thread. Times are microseconds of virtual time. Nodes are numbered from 0. Errors as in metasync.h, text by ms_error_message. */
#ifndef MS_KIT_H
#define MS_KIT_H

#include <stdbool.h>

#include "base/mem.h"
#include "sim/sim.h"

/* clang-format off */

/* One change in a node's log. Everything is borrowed from the simulation and stays until it is freed. */
#define MS_KIT_TYPES \
    struct ms_kit_entry { \
        uint64_t lsn, at; /* at: when its leader handed it to the log */ \
        const char *op;   /* "put" "delete" "leave" */ \
        const char *table; \
        int type;         /* enum ms_type */ \
        const char *key, *value; \
        size_t key_size, value_size; \
    }

#define MS_KIT_FUNCTIONS(X) \
    /* life: no node is started yet; NULL = see ms_error_message */ \
    X(struct ms_sim *, ms_kit_new, (uint64_t seed, uint32_t nodes)) \
    X(void, ms_sim_free, (struct ms_sim *sim)) \
    X(const char *, ms_error_message, (void)) \
    X(const char *, ms_error_text, (int code)) \
    X(void, ms_free, (void *memory)) \
    X(int64_t, ms_mem_live, (void)) \
    X(uint64_t, ms_sim_now, (const struct ms_sim *sim)) \
    X(uint64_t, ms_sim_hash, (const struct ms_sim *sim)) \
    X(const char *, ms_sim_trace, (struct ms_sim *sim)) \
    X(int, ms_sim_step, (struct ms_sim *sim, uint32_t steps)) \
    X(int, ms_sim_run, (struct ms_sim *sim, uint64_t us)) \
    X(int, ms_sim_settle, (struct ms_sim *sim, uint32_t leader, uint64_t us)) \
    /* nodes */ \
    X(int, ms_sim_start, (struct ms_sim *sim, uint32_t node)) \
    X(int, ms_sim_stop, (struct ms_sim *sim, uint32_t node)) \
    X(int, ms_sim_kill, (struct ms_sim *sim, uint32_t node)) \
    X(int, ms_sim_power_loss, (struct ms_sim *sim, uint32_t node)) \
    X(int, ms_sim_wipe, (struct ms_sim *sim, uint32_t node)) \
    X(int, ms_sim_lead, (struct ms_sim *sim, uint32_t node, bool ask)) \
    X(int, ms_sim_follow, (struct ms_sim *sim, uint32_t node, uint32_t leader)) \
    X(int, ms_sim_promote, (struct ms_sim *sim, uint32_t node)) \
    X(int, ms_sim_adopt, (struct ms_sim *sim, uint32_t node)) \
    X(bool, ms_sim_up, (const struct ms_sim *sim, uint32_t node)) \
    X(bool, ms_sim_equal, (struct ms_sim *sim, uint32_t a, uint32_t b)) \
    X(int, ms_sim_cut, (struct ms_sim *sim, uint32_t a, uint32_t b, int how)) \
    X(int, ms_sim_heal, (struct ms_sim *sim, uint32_t a, uint32_t b)) \
    /* "down" "idle" "asking" "opening" "leader" "follower"; whether its leader counts it as in sync */ \
    X(const char *, ms_kit_role, (struct ms_sim *sim, uint32_t node)) \
    X(bool, ms_kit_in_sync, (struct ms_sim *sim, uint32_t node)) \
    /* policies: a file in Lua (NULL: the built-in policy) for a node from now on, as its start or as a reload. incidents: calls of its \
     * functions that failed. describe: JSON text, ms_free; NULL = the built-in policy. reviewing: entries are still about to leave */ \
    X(int, ms_kit_policy, (struct ms_sim *sim, uint32_t node, const char *path)) \
    X(uint64_t, ms_kit_incidents, (struct ms_sim *sim, uint32_t node)) \
    X(char *, ms_kit_describe, (struct ms_sim *sim, uint32_t node)) \
    X(bool, ms_sim_reviewing, (const struct ms_sim *sim, uint32_t node)) \
    /* tables: the number (or error) of the one with this name. type 0: what the node's policy says, else bytes */ \
    X(int, ms_kit_table, (struct ms_sim *sim, uint32_t node, const char *name, int type)) \
    X(int, ms_kit_type, (struct ms_sim *sim, uint32_t table)) \
    /* writing: value NULL deletes. 0, 1 (local: not logged, by policy) or an error; *lsn: what to wait for. ms_kit_reached: 1, 0, error */ \
    X(int, ms_kit_put, (struct ms_sim *sim, uint32_t node, uint32_t table, const char *key, size_t key_size, \
                        const char *value, size_t value_size, uint64_t *lsn, int *level)) \
    X(int, ms_sim_flush, (struct ms_sim *sim, uint32_t node)) \
    X(int, ms_kit_reached, (struct ms_sim *sim, uint32_t node, uint64_t lsn, int level)) \
    /* reading: the value that readers of a node see, NULL if there is none */ \
    X(const char *, ms_kit_get, (struct ms_sim *sim, uint32_t node, uint32_t table, const char *key, size_t key_size, size_t *value_size)) \
    /* the last lsn of a node's log; 1 and the change at an lsn of it, 0: another kind of record, NOT_FOUND */ \
    X(uint64_t, ms_kit_head, (struct ms_sim *sim, uint32_t node)) \
    X(int, ms_kit_logged, (struct ms_sim *sim, uint32_t node, uint64_t lsn, struct ms_kit_entry *entry)) \
    /* the loss reports in a node's archive, a line of JSON each; ms_free. NULL = no memory, or it can't be read */ \
    X(char *, ms_kit_losses, (struct ms_sim *sim, uint32_t node)) \
    /* what a leader has not logged yet of a buffered table */ \
    X(int, ms_kit_at_risk, (struct ms_sim *sim, uint32_t node, uint32_t table, uint64_t *entries, uint64_t *bytes))

MS_KIT_TYPES;

#define MS_KIT_DECLARE(type, name, arguments) type name arguments;
MS_KIT_FUNCTIONS(MS_KIT_DECLARE)
#undef MS_KIT_DECLARE

/* clang-format on */

const char *ms_kit_declarations(void); /* the above, for ffi.cdef */

#endif

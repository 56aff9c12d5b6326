/* What survives: the durable and the present side of one simulated file or directory. sim_fs.c builds handles, faults and
 * space around it; this part knows only bytes, names and chance.
 *
 * A file has `now` (what is read), `safe` (what is certainly on the disk) and, in order, the writes and truncations that
 * lead from safe to now. A directory has the same three for its names. Three steps:
 *   settle  picks by chance which of the changes reached the disk, and makes the result the new safe;
 *   sync    is the same without chance: all of them;
 *   revert  makes safe the present, which is what a power loss does after settle.
 * Each change reserves the memory that these steps will need, so only making a change can fail. */
#ifndef MS_SIM_DISK_H
#define MS_SIM_DISK_H

#include "../base/list.h"
#include "sim_fs.h"

/* ---- chance, for all of sim/ ---------------------------------------------------------------------------------------- */

struct ms_sim_dice {
    uint64_t state;
};

uint64_t ms_sim_below(struct ms_sim_dice *dice, uint64_t bound);    /* 0..bound-1; bound >= 1 */
bool ms_sim_chance(struct ms_sim_dice *dice, uint32_t per_million); /* draws only if per_million > 0 */

/* ---- a file's bytes ------------------------------------------------------------------------------------------------ */

struct ms_sim_content {
    struct ms_buf now, safe;
    struct ms_buf changes; /* struct content_change[], sim_disk.c */
    struct ms_buf bytes;   /* of the changes */
};

void ms_sim_content_init(struct ms_sim_content *content);
void ms_sim_content_close(struct ms_sim_content *content);

/* The first `size` bytes of the parts, which have at least as many. A hole before offset is zeros. MS_E_MEMORY changes
 * nothing. */
int ms_sim_content_write(struct ms_sim_content *content, uint64_t offset, const struct ms_bytes *parts, size_t size);
int ms_sim_content_truncate(struct ms_sim_content *content, uint64_t size);
void ms_sim_content_sync(struct ms_sim_content *content);
void ms_sim_content_settle(struct ms_sim_content *content, struct ms_sim_dice *dice, struct ms_sim_fs_loss *loss);
void ms_sim_content_revert(struct ms_sim_content *content);
/* Flips bits of one byte in now, in safe and in the changes between. */
void ms_sim_content_flip(struct ms_sim_content *content, uint64_t offset, uint8_t flip);

/* ---- files and directories ------------------------------------------------------------------------------------------- */

enum { MS_SIM_NAME_MAX = 255 };

/* A directory's names: struct ms_sim_name[] and struct name_change[] (sim_disk.c). */
struct ms_sim_names {
    struct ms_buf now, safe, changes;
};

struct ms_sim_inode {
    struct ms_list node;  /* of all, parents before what they contain */
    bool is_dir;
    uint32_t references;  /* handles, names in now, safe and changes of any directory; 0 = sim_fs.c may free it */
    uint32_t users;       /* valid handles + names in `now`; 0 = its space is free */
    struct ms_file *lock; /* the handle that has locked it */
    struct ms_sim_content content; /* of a file */
    struct ms_sim_names names;     /* of a directory */
};

struct ms_sim_name {
    struct ms_sim_inode *inode;
    char text[MS_SIM_NAME_MAX + 1];
};

void ms_sim_names_init(struct ms_sim_names *names);
void ms_sim_names_close(struct ms_sim_names *names); /* gives up its references */

size_t ms_sim_names_count(const struct ms_sim_names *names);
const struct ms_sim_name *ms_sim_names_at(const struct ms_sim_names *names, size_t index); /* valid until a change */
struct ms_sim_inode *ms_sim_names_find(const struct ms_sim_names *names, const char *text); /* NULL = none */

/* One change of `now`: from == NULL links inode as `to`; to == NULL unlinks `from`; else `from` is renamed to `to`, which it
 * replaces. inode is that of `from`, or the new one. MS_E_MEMORY changes nothing. */
int ms_sim_names_change(struct ms_sim_names *names, const char *from, const char *to, struct ms_sim_inode *inode);
void ms_sim_names_sync(struct ms_sim_names *names);
void ms_sim_names_settle(struct ms_sim_names *names, struct ms_sim_dice *dice, struct ms_sim_fs_loss *loss);
void ms_sim_names_revert(struct ms_sim_names *names); /* leaves `users` to the caller */

struct ms_sim_spot {
    struct ms_sim_inode *dir; /* NULL for "/" */
    char name[MS_SIM_NAME_MAX + 1];
    struct ms_sim_inode *inode; /* NULL if the directory has no such name */
};

/* Walks a path from root. 0, inode being NULL if only the last name is missing; MS_E_NOT_FOUND if a directory on the way
 * is. */
int ms_sim_find(struct ms_sim_inode *root, const char *what, const char *path, struct ms_sim_spot *place);

void ms_sim_loss_add(struct ms_sim_fs_loss *to, const struct ms_sim_fs_loss *loss);

#endif

/* The bulk thread: slow disk work that nobody waits for to the microsecond. One job at a time, the most urgent kind first;
 * within a kind in the order of queueing. A long job (a snapshot) is done in steps and gives way between them. */
#ifndef MS_DRIVE_BULK_H
#define MS_DRIVE_BULK_H

#include "../base/list.h"
#include "threads.h"

enum ms_bulk_kind {
    MS_BULK_PREPARE = 0, /* zero-filling: writers may be waiting for the room */
    MS_BULK_READ = 1,    /* pieces of log and snapshots for followers */
    MS_BULK_ORDERED = 2, /* archive, staging, removal of old files */
    MS_BULK_SNAPSHOT = 3,
    MS_BULK_KINDS = 4,
};

enum ms_bulk_result {
    MS_BULK_DONE = 0,  /* the job is over; it has freed itself */
    MS_BULK_AGAIN = 1, /* run it again, after what is more urgent */
    MS_BULK_PARK = 2,  /* whoever it waits for queues it again, and may have done so already */
};

struct ms_bulk_job {
    struct ms_list node;
    int kind;
    int (*run)(struct ms_bulk_job *job);   /* bulk thread, no lock held; enum ms_bulk_result */
    void (*drop)(struct ms_bulk_job *job); /* frees it instead; at the end of the node */
};

struct ms_bulk {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    struct ms_list jobs[MS_BULK_KINDS];
    bool ready, stop;
    struct ms_thread thread;
};

int ms_bulk_init(struct ms_bulk *bulk);
int ms_bulk_start(struct ms_bulk *bulk);

/* Any thread. Takes the job. */
void ms_bulk_queue(struct ms_bulk *bulk, struct ms_bulk_job *job);

/* Ends and joins the thread after the job it is at; drops the others. Jobs that are parked are their owners'. */
void ms_bulk_stop(struct ms_bulk *bulk);
void ms_bulk_close(struct ms_bulk *bulk); /* also after a failed init, on zeroed memory */

#endif

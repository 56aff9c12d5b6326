#include "bulk.h"

#include <string.h>

#include "../base/error.h"

int ms_bulk_init(struct ms_bulk *bulk)
{
    memset(bulk, 0, sizeof *bulk);
    for (int kind = 0; kind < MS_BULK_KINDS; kind++) ms_list_init(&bulk->jobs[kind]);
    int rc = ms_mutex_init(&bulk->mutex);
    if (rc) return rc;
    rc = ms_cond_init(&bulk->cond);
    if (rc) (void)pthread_mutex_destroy(&bulk->mutex);
    bulk->ready = rc == 0;
    return rc;
}

/* Takes the most urgent job out; NULL if there is none. With the mutex held. */
static struct ms_bulk_job *take(struct ms_bulk *bulk)
{
    for (int kind = 0; kind < MS_BULK_KINDS; kind++) {
        if (ms_list_empty(&bulk->jobs[kind])) continue;
        struct ms_bulk_job *job = ms_list_entry(bulk->jobs[kind].next, struct ms_bulk_job, node);
        ms_list_remove(&job->node);
        return job;
    }
    return NULL;
}

static void *bulk_main(void *context)
{
    struct ms_bulk *bulk = context;
    ms_thread_be_prompt(); /* it is back soon if it loses the processor while it holds the node's lock */
    (void)pthread_mutex_lock(&bulk->mutex);
    while (!bulk->stop) {
        struct ms_bulk_job *job = take(bulk);
        if (!job) {
            (void)ms_cond_wait(&bulk->cond, &bulk->mutex, MS_FOREVER);
            continue;
        }
        (void)pthread_mutex_unlock(&bulk->mutex);
        int result = job->run(job);
        (void)pthread_mutex_lock(&bulk->mutex);
        if (result == MS_BULK_AGAIN) ms_list_add_tail(&bulk->jobs[job->kind], &job->node);
    }
    (void)pthread_mutex_unlock(&bulk->mutex);
    return NULL;
}

int ms_bulk_start(struct ms_bulk *bulk)
{
    return ms_thread_start(&bulk->thread, "ms-bulk", bulk_main, bulk);
}

void ms_bulk_queue(struct ms_bulk *bulk, struct ms_bulk_job *job)
{
    (void)pthread_mutex_lock(&bulk->mutex);
    ms_list_add_tail(&bulk->jobs[job->kind], &job->node);
    (void)pthread_cond_signal(&bulk->cond);
    (void)pthread_mutex_unlock(&bulk->mutex);
}

void ms_bulk_stop(struct ms_bulk *bulk)
{
    if (!bulk->ready) return;
    (void)pthread_mutex_lock(&bulk->mutex);
    bulk->stop = true;
    (void)pthread_cond_signal(&bulk->cond);
    (void)pthread_mutex_unlock(&bulk->mutex);
    ms_thread_join(&bulk->thread);
    for (struct ms_bulk_job *job; (job = take(bulk));) job->drop(job);
}

void ms_bulk_close(struct ms_bulk *bulk)
{
    if (!bulk->ready) return;
    (void)pthread_mutex_destroy(&bulk->mutex);
    (void)pthread_cond_destroy(&bulk->cond);
    bulk->ready = false;
}

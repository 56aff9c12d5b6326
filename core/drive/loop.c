#include "loop.h"

#include <errno.h>
#include <event2/event.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "../base/error.h"

/* Both descriptors are counters that are read empty; what they announce is found by the turn that follows. */
static void drain(evutil_socket_t fd, short what, void *context)
{
    (void)what;
    (void)context;
    uint64_t count;
    while (read(fd, &count, sizeof count) < 0 && errno == EINTR) continue;
}

static void timer_fired(evutil_socket_t fd, short what, void *context)
{
    struct ms_loop *loop = context;
    drain(fd, what, context);
    loop->armed = MS_FOREVER;
}

static int add_event(struct ms_loop *loop, int fd, event_callback_fn fn, struct event **event)
{
    *event = event_new(loop->base, fd, EV_READ | EV_PERSIST, fn, loop);
    if (!*event || event_add(*event, NULL)) return ms_fail(MS_E_MEMORY, "no event for the loop");
    return 0;
}

int ms_loop_init(struct ms_loop *loop, ms_turn_fn turn, void *context)
{
    memset(loop, 0, sizeof *loop);
    loop->turn = turn;
    loop->context = context;
    loop->armed = MS_FOREVER;
    atomic_init(&loop->stop, false);
    loop->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    loop->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (loop->wake_fd < 0 || loop->timer_fd < 0) return ms_fail(MS_E_LIMIT, "no descriptor for the loop: %s", strerror(errno));
    struct event_config *config = event_config_new();
    /* All calls are made by the loop thread, so that libevent needs no locks. */
    if (config) (void)event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    loop->base = config ? event_base_new_with_config(config) : NULL;
    if (config) event_config_free(config);
    if (!loop->base) return ms_fail(MS_E_MEMORY, "no event base");
    int rc = add_event(loop, loop->wake_fd, drain, &loop->wake_event);
    if (!rc) rc = add_event(loop, loop->timer_fd, timer_fired, &loop->timer_event);
    return rc;
}

static void *loop_main(void *context)
{
    struct ms_loop *loop = context;
    ms_thread_be_prompt();
    for (;;) {
        bool more = loop->turn(loop->context);
        if (atomic_load(&loop->stop)) break;
        (void)event_base_loop(loop->base, more ? EVLOOP_ONCE | EVLOOP_NONBLOCK : EVLOOP_ONCE);
    }
    return NULL;
}

int ms_loop_start(struct ms_loop *loop)
{
    return ms_thread_start(&loop->thread, "ms-loop", loop_main, loop);
}

void ms_loop_wake(struct ms_loop *loop)
{
    uint64_t one = 1;
    while (write(loop->wake_fd, &one, sizeof one) < 0 && errno == EINTR) continue;
}

void ms_loop_arm(struct ms_loop *loop, uint64_t when)
{
    if (when == loop->armed) return;
    if (when == 0) when = 1; /* a timerfd takes 0 for "never" */
    loop->armed = when;
    struct itimerspec spec = {0};
    if (when != MS_FOREVER) {
        spec.it_value.tv_sec = (time_t)(when / 1000000);
        spec.it_value.tv_nsec = (long)(when % 1000000) * 1000;
    }
    (void)timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

void ms_loop_stop(struct ms_loop *loop)
{
    if (!loop->thread.started) return;
    atomic_store(&loop->stop, true);
    ms_loop_wake(loop);
    ms_thread_join(&loop->thread);
}

void ms_loop_close(struct ms_loop *loop)
{
    if (loop->wake_event) event_free(loop->wake_event);
    if (loop->timer_event) event_free(loop->timer_event);
    if (loop->base) event_base_free(loop->base);
    if (loop->wake_fd >= 0) (void)close(loop->wake_fd);
    if (loop->timer_fd >= 0) (void)close(loop->timer_fd);
    loop->base = NULL;
    loop->wake_event = loop->timer_event = NULL;
    loop->wake_fd = loop->timer_fd = -1;
}

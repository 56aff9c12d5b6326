/* Who is inside: the loop's thread, which may wait for the mutex, or a visitor, who may not.
 *
 * A visitor sends what a socket takes at once, and nothing else: it adds no event, reports no failure, ends no link. A link that needs
 * more than that stays on the todo list, behind whatever was to be sent to it before, and the loop goes on from there. So the order of
 * frames is that of ms_tcp_send, whoever calls it. */
#include "tcp_link.h"

#include <event2/buffer.h>

void ms_tcp_enter(struct ms_tcp *tcp)
{
    if (pthread_mutex_trylock(&tcp->mutex) == 0) return;
    atomic_store(&tcp->wanted, true); /* else visitors who come and go could keep it out for long */
    (void)pthread_mutex_lock(&tcp->mutex);
    atomic_store(&tcp->wanted, false);
}

void ms_tcp_leave(struct ms_tcp *tcp)
{
    if (!ms_list_empty(&tcp->todo)) event_active(&tcp->work, EV_TIMEOUT, 0); /* a visitor may have left it */
    (void)pthread_mutex_unlock(&tcp->mutex);
}

bool ms_tcp_visit(struct ms_tcp *tcp)
{
    if (atomic_load(&tcp->wanted) || pthread_mutex_trylock(&tcp->mutex)) return false;
    tcp->visited = true;
    return true;
}

static bool is_plain(const struct ms_tcp_link *link)
{
    return link->state == MS_TCP_UP && !link->err && !link->resumed && !link->write_failed;
}

bool ms_tcp_end_visit(struct ms_tcp *tcp, void (*sent)(void *context, uint64_t link, size_t unsent), void *context)
{
    struct ms_list now;
    ms_list_init(&now);
    ms_list_splice(&now, &tcp->todo);
    while (!ms_list_empty(&now)) {
        struct ms_tcp_link *link = ms_list_entry(now.next, struct ms_tcp_link, todo);
        size_t took = 0;
        ms_list_remove(&link->todo);
        if (is_plain(link) && link->blocked) continue; /* the loop comes for all of it anyway */
        if (is_plain(link)) (void)ms_tcp_link_send(link, &took); /* the loop will meet the same error */
        size_t unsent = evbuffer_get_length(link->out);
        if (!is_plain(link) || unsent) ms_list_add_tail(&tcp->todo, &link->todo);
        if (took && unsent <= tcp->low_water) sent(context, link->id, unsent);
    }
    bool left = !ms_list_empty(&tcp->todo);
    tcp->visited = false;
    (void)pthread_mutex_unlock(&tcp->mutex);
    return left;
}

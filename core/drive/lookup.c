/* See lookup.h. libevent may call back from inside evdns_getaddrinfo, and its resolver may not be freed from its own
 * callback; so the answer is kept, and a timer of zero length ends the look-up in the next turn of the loop. */
#include "lookup.h"

#include <event2/dns.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <event2/util.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "../base/error.h"
#include "../base/mem.h"

struct ms_lookup {
    struct ms_list node; /* pending */
    struct evdns_base *dns;
    struct evdns_getaddrinfo_request *request; /* NULL once it is answered */
    struct event finish;
    ms_lookup_fn done; /* NULL: canceled */
    void *context;
    bool answered;
    int err; /* EVUTIL_EAI_* */
    struct ms_address_list list;
    char host[MS_HOST_SIZE];
};

static void finish(evutil_socket_t fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct ms_lookup *lookup = context;
    evdns_base_free(lookup->dns, 0);
    ms_list_remove(&lookup->node);
    int rc = 0;
    if (lookup->err == EVUTIL_EAI_MEMORY)
        rc = ms_fail(MS_E_MEMORY, "look up \"%s\": out of memory", lookup->host);
    else if (lookup->err == EVUTIL_EAI_AGAIN)
        rc = ms_fail(MS_E_TIMEOUT, "look up \"%s\": no name server answers", lookup->host);
    else if (lookup->err)
        rc = ms_fail(MS_E_ADDRESS, "look up \"%s\": %s", lookup->host, evutil_gai_strerror(lookup->err));
    else if (!lookup->list.count)
        rc = ms_fail(MS_E_ADDRESS, "look up \"%s\": the name has no address", lookup->host);
    if (lookup->done) lookup->done(lookup->context, rc, &lookup->list);
    ms_release(lookup);
}

static void answer(int err, struct evutil_addrinfo *found, void *context)
{
    struct ms_lookup *lookup = context;
    lookup->answered = true;
    lookup->request = NULL;
    lookup->err = err;
    for (const struct evutil_addrinfo *info = found; info; info = info->ai_next)
        ms_address_add(&lookup->list, info->ai_addr, (socklen_t)info->ai_addrlen);
    if (found) evutil_freeaddrinfo(found);
    static const struct timeval at_once = {0, 0};
    (void)evtimer_add(&lookup->finish, &at_once);
}

static int prepare(struct ms_lookup *lookup, const struct ms_lookup_question *question)
{
    lookup->dns = evdns_base_new(question->base, EVDNS_BASE_DISABLE_WHEN_INACTIVE);
    if (!lookup->dns || evtimer_assign(&lookup->finish, question->base, finish, lookup)) return MS_E_MEMORY;
    const char *path = question->resolv_conf ? question->resolv_conf : "/etc/resolv.conf";
    (void)evdns_base_resolv_conf_parse(lookup->dns, DNS_OPTIONS_ALL, path); /* without it: /etc/hosts only */
    /* Some name servers don't give a name's case back. Who may talk is not decided by names but by the handshake. */
    (void)evdns_base_set_option(lookup->dns, "randomize-case:", "0");
    return 0;
}

int ms_lookup_start(const struct ms_lookup_question *question, struct ms_lookup **lookup)
{
    struct ms_lookup *made = ms_alloc_zero(sizeof *made);
    if (!made) return MS_E_MEMORY;
    made->done = question->done;
    made->context = question->context;
    (void)snprintf(made->host, sizeof made->host, "%s", question->host);
    if (prepare(made, question) < 0) {
        if (made->dns) evdns_base_free(made->dns, 0);
        ms_release(made);
        return ms_fail(MS_E_MEMORY, "look up \"%s\": out of memory", question->host);
    }
    ms_list_add_tail(question->pending, &made->node);
    *lookup = made;
    char service[8];
    (void)snprintf(service, sizeof service, "%u", question->port);
    struct evutil_addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = EVUTIL_AI_NUMERICSERV};
    struct evdns_getaddrinfo_request *request = evdns_getaddrinfo(made->dns, made->host, service, &hints, answer, made);
    if (!made->answered) made->request = request;
    return 0;
}

void ms_lookup_cancel(struct ms_lookup *lookup)
{
    if (!lookup) return;
    lookup->done = NULL;
    if (lookup->request) evdns_getaddrinfo_cancel(lookup->request);
}

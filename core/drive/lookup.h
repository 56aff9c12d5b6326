/* Looking up a host name without blocking the loop: libevent's resolver, which reads /etc/hosts and asks the name servers of
 * /etc/resolv.conf (search domains included). Both files are read anew for each look-up, so that a change of them needs no
 * restart. Other sources of the system's resolver (mDNS, LDAP, ...) are not asked.
 *
 * Loop thread only. */
#ifndef MS_DRIVE_LOOKUP_H
#define MS_DRIVE_LOOKUP_H

#include "../base/list.h"
#include "address.h"

struct event_base;
struct ms_lookup;

/* rc: 0 and a list that is not empty, or MS_E_ADDRESS, MS_E_TIMEOUT, MS_E_MEMORY with a message. */
typedef void (*ms_lookup_fn)(void *context, int rc, const struct ms_address_list *list);

struct ms_lookup_question {
    struct event_base *base;
    const char *host;        /* copied */
    uint16_t port;           /* of the addresses in the answer */
    const char *resolv_conf; /* NULL = "/etc/resolv.conf"; copied */
    struct ms_list
        *pending; /* the look-up is an element of this list until everything of it is cleaned up; whoever frees the
                                list's head takes the elements out before */
    ms_lookup_fn done;
    void *context;
};

/* Starts a look-up; done is called once, later, from the loop. MS_E_MEMORY. */
int ms_lookup_start(const struct ms_lookup_question *question, struct ms_lookup **lookup);

/* done will not be called. The rest is cleaned up by the loop, within a turn or two. NULL is allowed. */
void ms_lookup_cancel(struct ms_lookup *lookup);

#endif

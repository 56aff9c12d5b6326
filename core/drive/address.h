/* Network addresses as people write them: "127.0.0.1:7000", "[::1]:7000", "broker-0.example:7000".
 *
 * The rule (promise of the public header): without a shared secret only loopback addresses are listened on or connected to.
 * It is checked on the numbers that a name stands for, not on the name. Pure functions, any thread; only ms_address_resolve
 * may wait. */
#ifndef MS_DRIVE_ADDRESS_H
#define MS_DRIVE_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "../metasync.h"

enum {
    MS_HOST_SIZE = 254,   /* a host name of 253 bytes and its end */
    MS_ADDRESS_TEXT = 80, /* "[IPv6%scope]:65535" and its end */
    MS_ADDRESSES_MAX = 8, /* of one name; more are not tried */
};

struct ms_address {
    struct sockaddr_storage sockaddr; /* IPv4 or IPv6, with the port */
    socklen_t size;
};

struct ms_address_list {
    struct ms_address at[MS_ADDRESSES_MAX];
    size_t count;
};

/* Takes "HOST:PORT" or "[IPv6]:PORT" apart; host gets no brackets. MS_E_ADDRESS says what is wrong. */
int ms_address_split(const char *text, char host[MS_HOST_SIZE], uint16_t *port);

/* Fills the list if no look-up is needed, that is for numbers and for "localhost" (always 127.0.0.1 and ::1, as RFC 6761
 * wants it). An empty list: the host is a name that has to be looked up. */
void ms_address_numeric(const char *host, uint16_t port, struct ms_address_list *list);

/* The same with a look-up by the system's resolver, which may wait for a name server for many seconds: for listen addresses
 * at open only. MS_E_ADDRESS if the text is malformed or the name unknown. */
int ms_address_resolve(const char *text, struct ms_address_list *list);

/* Appends a socket address if it is IPv4 or IPv6 and there is room. */
void ms_address_add(struct ms_address_list *list, const struct sockaddr *sockaddr, socklen_t size);

bool ms_address_is_loopback(const struct ms_address *address); /* 127.0.0.0/8, ::1, and the IPv4 ones written as IPv6 */

/* "1.2.3.4:5" or "[::1]:5". */
void ms_address_text(const struct ms_address *address, char text[MS_ADDRESS_TEXT]);

/* The rule for one address. MS_E_ADDRESS names it. */
int ms_address_allow(const struct ms_address *address, bool has_secret);

/* What can be said about an address before it is used: its syntax, and the rule where no look-up is needed. For ms_open and
 * ms_follow, so that a mistake is reported at once. */
int ms_address_check(const char *text, bool has_secret);

#endif

/* Parsing, printing and judging network addresses. getaddrinfo does the work, told not to look anything up (AI_NUMERICHOST)
 * except in ms_address_resolve. */
#include "address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "../base/error.h"

static int bad(const char *text, const char *why)
{
    return ms_fail(MS_E_ADDRESS, "address \"%.100s\": %s", text, why);
}

static bool is_name(const char *host)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    return host[0] && strspn(host, allowed) == strlen(host);
}

static int parse_port(const char *text, const char *digits, uint16_t *port)
{
    size_t length = strspn(digits, "0123456789");
    if (length == 0 || length > 5 || digits[length]) return bad(text, "the port is not a number from 0 to 65535");
    unsigned number = 0;
    for (size_t i = 0; i < length; i++) number = number * 10 + (unsigned)(digits[i] - '0');
    if (number > 65535) return bad(text, "the port is not a number from 0 to 65535");
    *port = (uint16_t)number;
    return 0;
}

void ms_address_add(struct ms_address_list *list, const struct sockaddr *sockaddr, socklen_t size)
{
    bool known = sockaddr->sa_family == AF_INET || sockaddr->sa_family == AF_INET6;
    if (!known || list->count == MS_ADDRESSES_MAX || size > sizeof list->at[0].sockaddr) return;
    struct ms_address *address = &list->at[list->count++];
    *address = (struct ms_address){.size = size};
    memcpy(&address->sockaddr, sockaddr, size);
}

static int look_up(const char *host, uint16_t port, int flags, struct ms_address_list *list)
{
    char service[8];
    (void)snprintf(service, sizeof service, "%u", port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags}, *found;
    int rc = getaddrinfo(host, service, &hints, &found);
    if (rc != 0) return rc;
    for (const struct addrinfo *info = found; info; info = info->ai_next)
        ms_address_add(list, info->ai_addr, info->ai_addrlen);
    freeaddrinfo(found);
    return 0;
}

static bool is_ipv6(const char *host)
{
    struct ms_address_list list = {.count = 0};
    return strchr(host, ':') && look_up(host, 0, AI_NUMERICHOST, &list) == 0;
}

int ms_address_split(const char *text, char host[MS_HOST_SIZE], uint16_t *port)
{
    const char *from = text, *end, *colon;
    bool bracket = text[0] == '[';
    if (bracket) {
        from++;
        end = strchr(from, ']');
        if (!end || end[1] != ':') return bad(text, "expected [IPv6]:PORT");
        colon = end + 1;
    } else {
        colon = end = strrchr(text, ':');
        if (!colon) return bad(text, "expected HOST:PORT");
        if (strchr(text, ':') != colon) return bad(text, "an IPv6 address needs brackets: [IPv6]:PORT");
    }
    size_t size = (size_t)(end - from);
    if (size == 0) return bad(text, "the host is missing");
    if (size >= MS_HOST_SIZE) return bad(text, "the host is longer than 253 bytes");
    memcpy(host, from, size);
    host[size] = '\0';
    if (bracket ? !is_ipv6(host) : !is_name(host))
        return bad(text, bracket ? "not an IPv6 address" : "the host is neither an address nor a name");
    return parse_port(text, colon + 1, port);
}

void ms_address_numeric(const char *host, uint16_t port, struct ms_address_list *list)
{
    list->count = 0;
    if (strcasecmp(host, "localhost") == 0) {
        (void)look_up("127.0.0.1", port, AI_NUMERICHOST, list);
        (void)look_up("::1", port, AI_NUMERICHOST, list);
    } else {
        (void)look_up(host, port, AI_NUMERICHOST, list);
    }
}

int ms_address_resolve(const char *text, struct ms_address_list *list)
{
    char host[MS_HOST_SIZE];
    uint16_t port;
    list->count = 0;
    int rc = ms_address_split(text, host, &port);
    if (rc < 0) return rc;
    ms_address_numeric(host, port, list);
    if (list->count) return 0;
    rc = look_up(host, port, 0, list);
    if (rc != 0) return bad(text, gai_strerror(rc));
    return list->count ? 0 : bad(text, "the name has no address");
}

bool ms_address_is_loopback(const struct ms_address *address)
{
    if (address->sockaddr.ss_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, &address->sockaddr, sizeof in);
        return ntohl(in.sin_addr.s_addr) >> 24 == 127;
    }
    if (address->sockaddr.ss_family != AF_INET6) return false;
    struct sockaddr_in6 in6;
    memcpy(&in6, &address->sockaddr, sizeof in6);
    if (IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr)) return in6.sin6_addr.s6_addr[12] == 127;
    return IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr);
}

void ms_address_text(const struct ms_address *address, char text[MS_ADDRESS_TEXT])
{
    char host[64], port[8];
    int rc = getnameinfo((const struct sockaddr *)&address->sockaddr, address->size, host, sizeof host, port, sizeof port,
                         NI_NUMERICHOST | NI_NUMERICSERV);
    if (rc != 0)
        (void)snprintf(text, MS_ADDRESS_TEXT, "unknown address");
    else
        (void)snprintf(text, MS_ADDRESS_TEXT, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

int ms_address_allow(const struct ms_address *address, bool has_secret)
{
    if (has_secret || ms_address_is_loopback(address)) return 0;
    char text[MS_ADDRESS_TEXT];
    ms_address_text(address, text);
    return bad(text, "not a loopback address; without a shared secret only loopback is allowed");
}

int ms_address_check(const char *text, bool has_secret)
{
    char host[MS_HOST_SIZE];
    uint16_t port;
    int rc = ms_address_split(text, host, &port);
    if (rc < 0) return rc;
    struct ms_address_list list;
    ms_address_numeric(host, port, &list);
    for (size_t i = 0; i < list.count; i++) {
        rc = ms_address_allow(&list.at[i], has_secret);
        if (rc < 0) return rc;
    }
    return 0;
}

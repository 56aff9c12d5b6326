/* An intrusive doubly linked ring: the head is a node that is no element, so nothing is ever NULL. */
#ifndef MS_BASE_LIST_H
#define MS_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct ms_list {
    struct ms_list *prev, *next;
};

static inline void ms_list_init(struct ms_list *head)
{
    head->prev = head->next = head;
}

static inline bool ms_list_empty(const struct ms_list *head)
{
    return head->next == head;
}

static inline void ms_list_add_tail(struct ms_list *head, struct ms_list *node)
{
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

/* Takes the node out and makes it a ring of its own, so that a second removal is harmless. */
static inline void ms_list_remove(struct ms_list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    ms_list_init(node);
}

/* Moves all elements of `from` to the end of `to`. */
static inline void ms_list_splice(struct ms_list *to, struct ms_list *from)
{
    if (ms_list_empty(from)) return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    ms_list_init(from);
}

#define ms_list_entry(node, type, member) ((type *)(void *)((char *)(node) - offsetof(type, member)))

#endif

/* A node's status for people. docs/status.md explains the fields. */
#ifndef METASYNCCTL_STATUS_H
#define METASYNCCTL_STATUS_H

#include "ctl_options.h"

/* status of the node behind the control socket, or of the nodes that are named HOST:PORT. */
int ctl_status(const struct ctl_options *options);

#endif

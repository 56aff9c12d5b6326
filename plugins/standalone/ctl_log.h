/* log PATH: records of a log or snapshot, offline. */
#ifndef METASYNCCTL_LOG_H
#define METASYNCCTL_LOG_H

#include "ctl_options.h"

int ctl_log(const struct ctl_options *options);

#endif

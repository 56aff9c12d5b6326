/* policy replay: what a policy makes of a recorded log, and how two of them differ. */
#ifndef METASYNCCTL_REPLAY_H
#define METASYNCCTL_REPLAY_H

#include "ctl_options.h"

int ctl_replay(const struct ctl_options *options);

#endif

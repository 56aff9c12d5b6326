/* policy show | check | reload | rollback | replay. */
#ifndef METASYNCCTL_POLICY_H
#define METASYNCCTL_POLICY_H

#include "ctl_options.h"

int ctl_policy(const struct ctl_options *options);

#endif

/* What --help says. */
#ifndef METASYNCCTL_HELP_H
#define METASYNCCTL_HELP_H

extern const char ctl_help_general[];

/* Of one command; NULL = there is no such command. */
const char *ctl_help_of(const char *command);

#endif

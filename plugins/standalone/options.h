/* The daemon's command line. */
#ifndef METASYNCD_OPTIONS_H
#define METASYNCD_OPTIONS_H

#include <stdbool.h>

#include "../../core/metasync.h"

enum { OPTIONS_PEERS_MAX = 16, OPTIONS_PATH_MAX = 1024 };

enum options_mode { OPTIONS_IDLE = 0, OPTIONS_LEAD = 1, OPTIONS_FOLLOW = 2 };

struct options {
    const char *data, *cluster, *name, *listen, *follow, *secret_file, *import, *export, *policy_file;
    char control[OPTIONS_PATH_MAX];
    int mode;             /* enum options_mode */
    const char *peers[OPTIONS_PEERS_MAX];
    size_t peer_count;
    int severity;         /* lines below it are not printed */
    int export_every_ms;
    bool force;           /* --import of something older */
    struct ms_policy policy;
    int tuned_by;         /* the first option that tunes, 0 = none was given */
};

/* 0; 1 = done (--help, --version was printed); 2 = wrong, and the reason was printed. */
int options_parse(int argc, char **argv, struct options *options);

#endif

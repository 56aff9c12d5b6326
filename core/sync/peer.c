#include "peer.h"

const char *ms_peer_state_name(int state)
{
    static const char *const names[] = {"none", "probe", "stream", "snapshot"};
    return state >= 0 && state <= MS_PEER_SNAPSHOT ? names[state] : "unknown";
}

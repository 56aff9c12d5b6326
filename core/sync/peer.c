#include "peer.h"

const char *ms_peer_state_name(int state)
{
    static const char *const names[] = {"none", "probe", "stream", "snapshot", "held"};
    return state >= 0 && state <= MS_PEER_HELD ? names[state] : "unknown";
}

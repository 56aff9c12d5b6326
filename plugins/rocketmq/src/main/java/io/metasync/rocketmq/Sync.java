package io.metasync.rocketmq;

import java.util.Map;

/**
 * Whether a follower has all of its leader's changes, looked at once a second, and sooner while it is about to: it is in the stream, and
 * its broker has by now what the leader had the last time.
 */
final class Sync {
    private static final long EVERY_NS = 1_000_000_000L;
    private static final long SOON_NS = 50_000_000L;

    private long lookAt = System.nanoTime();
    private long wanted = Long.MAX_VALUE;
    private boolean inSync;
    private boolean refusing;

    /** The node has another role, or another leader. */
    void forget() {
        wanted = Long.MAX_VALUE;
        inSync = false;
        refusing = false;
        lookAt = System.nanoTime();
    }

    /** As of the last look: it keeps its tables, since the leader's are of another history. */
    boolean isRefusing() {
        return refusing;
    }

    boolean look(MetaNode node) {
        long now = System.nanoTime();
        if (now - lookAt < 0) {
            return inSync;
        }
        Map<String, Object> following = Report.part(Report.parse(node.status()), "following");
        MetaNode.Position position = node.position();
        boolean stream = position.role == MetaNode.ROLE_FOLLOWER && "stream".equals(following.get("state"));
        refusing = position.role == MetaNode.ROLE_FOLLOWER && "leader_has_less_history".equals(following.get("state"));
        inSync = stream && position.hostApplied >= wanted;
        wanted = stream ? position.leaderHead : Long.MAX_VALUE;
        lookAt = now + (stream && !inSync ? SOON_NS : EVERY_NS);
        return inSync;
    }
}

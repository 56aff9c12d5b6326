package io.metasync.rocketmq;

import java.lang.reflect.Field;
import org.apache.rocketmq.broker.BrokerController;

/**
 * The broker's own copying of whole tables. It looks at the time of its last round before it begins one, and that field is what is set
 * here: far ahead to pause it, long ago to let it go on at its next tick.
 */
final class OwnSync {
    private static final long FAR_AHEAD = Long.MAX_VALUE / 2;

    private final BrokerController broker;
    private boolean paused;

    OwnSync(BrokerController broker) {
        this.broker = broker;
    }

    boolean isPaused() {
        return paused;
    }

    /** A pause is said again each time, since objects of a new role come with a clock of their own. */
    void pause(boolean pause) {
        if (pause != paused) {
            Log.info(pause ? "the broker's own metadata sync is paused, metasync does it"
                : "the broker's own metadata sync goes on");
        }
        if (pause || paused) {
            set(broker, pause);
            if (broker.getReplicasManager() != null) {
                set(broker.getReplicasManager(), pause);
            }
        }
        paused = pause;
    }

    private static void set(Object owner, boolean pause) {
        Field field = Reflect.field(owner, "lastSyncTimeMs");
        if (field != null) {
            Reflect.set(owner, "lastSyncTimeMs", pause ? FAR_AHEAD : 0L);
        }
    }
}

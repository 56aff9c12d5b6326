package io.metasync.rocketmq;

import java.util.Arrays;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.store.timer.TimerCheckpoint;

/**
 * How far the master's timer has come: plain numbers, polled. A follower takes the two that the broker's own sync takes; the others are
 * of each broker's own files.
 */
final class TimerCheckpointTable extends PolledTable {
    private static final String READ_TIME = "lastReadTimeMs";
    private static final String MASTER_OFFSET = "masterTimerQueueOffset";

    private static final int PAUSE_MS = 3000;
    private static final long IDLE_NS = 60_000_000_000L;

    private final BrokerController broker;
    private long sum;
    private long movedAt = System.nanoTime() - IDLE_NS;

    TimerCheckpointTable(BrokerController broker) {
        super("timer_checkpoint", MetaNode.TYPE_INT64);
        this.broker = broker;
    }

    private TimerCheckpoint checkpoint() {
        return broker.getTimerCheckpoint();
    }

    @Override
    void each(Visitor visitor) {
        TimerCheckpoint checkpoint = checkpoint();
        visitor.entry(Bytes.key(READ_TIME), Bytes.number(checkpoint.getLastReadTimeMs()));
        visitor.entry(Bytes.key("lastTimerLogFlushPos"), Bytes.number(checkpoint.getLastTimerLogFlushPos()));
        visitor.entry(Bytes.key("lastTimerQueueOffset"), Bytes.number(checkpoint.getLastTimerQueueOffset()));
        visitor.entry(Bytes.key(MASTER_OFFSET), Bytes.number(checkpoint.getMasterTimerQueueOffset()));
    }

    @Override
    void put(byte[] key, byte[] value) {
        if (Boolean.TRUE.equals(Reflect.get(broker.getTimerMessageStore(), "shouldRunningDequeue"))) {
            return; /* its own timer runs, as a master's does; not all versions say so in public */
        }
        String name = Bytes.text(key);
        if (name.equals(READ_TIME)) {
            checkpoint().setLastReadTimeMs(Bytes.number(value));
        } else if (name.equals(MASTER_OFFSET)) {
            checkpoint().setMasterTimerQueueOffset(Bytes.number(value));
        }
    }

    @Override
    byte[] get(byte[] key) {
        byte[][] found = new byte[1][];
        each((name, value) -> {
            if (Arrays.equals(name, key)) {
                found[0] = value;
            }
        });
        return found[0];
    }

    @Override
    void remove(byte[] key) {
        /* it always has its four numbers */
    }

    /** As often as the broker's own sync looks, which goes on for this table. */
    @Override
    int pauseMs() {
        return PAUSE_MS;
    }

    /** Its time always moves; without timer messages that is nothing to wake anybody for. */
    @Override
    boolean moved() {
        TimerCheckpoint checkpoint = checkpoint();
        long now = checkpoint.getLastTimerLogFlushPos() + checkpoint.getLastTimerQueueOffset() + checkpoint.getMasterTimerQueueOffset();
        if (now == sum && System.nanoTime() - movedAt < IDLE_NS) {
            return false;
        }
        sum = now;
        movedAt = System.nanoTime();
        return true;
    }

    /** It says how far this broker's own files are read. */
    @Override
    boolean isOwnAffair() {
        return true;
    }
}

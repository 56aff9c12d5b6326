package io.metasync.rocketmq;

import java.io.File;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.remoting.protocol.DataVersion;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.store.timer.TimerMetrics;

/** How many timed messages of each topic are under way: counters inside of objects, so it is polled when its version has moved. */
final class TimerMetricsTable extends PolledTable {
    private final BrokerController broker;
    /* What the leader has said: a slave that prepares its timer counts too, what its master has counted already. */
    private final Map<String, byte[]> told = new HashMap<>();
    private long counter = -1;
    private int size;
    private volatile boolean dirty;

    TimerMetricsTable(BrokerController broker) {
        super("timer_metrics", MetaNode.TYPE_BYTES);
        this.broker = broker;
    }

    private TimerMetrics metrics() {
        return broker.getTimerMessageStore().getTimerMetrics();
    }

    @SuppressWarnings("unchecked")
    private ConcurrentMap<String, TimerMetrics.Metric> counts() {
        return (ConcurrentMap<String, TimerMetrics.Metric>) Reflect.get(metrics(), "timingCount");
    }

    @Override
    boolean moved() {
        synchronized (told) {
            told.clear(); /* it leads */
        }
        long counterBefore = counter;
        int sizeBefore = size;
        counter = version().getCounter().get();
        size = counts().size(); /* a deleted topic's count goes without a word */
        return counter != counterBefore || size != sizeBefore;
    }

    @Override
    void each(Visitor visitor) {
        for (Map.Entry<String, TimerMetrics.Metric> entry : counts().entrySet()) {
            if (Bytes.isKey(entry.getKey())) {
                visitor.entry(Bytes.key(entry.getKey()), Bytes.utf8(RemotingSerializable.toJson(entry.getValue(), false)));
            }
        }
    }

    @Override
    byte[] get(byte[] key) {
        TimerMetrics.Metric metric = counts().get(Bytes.text(key));
        return metric == null ? null : Bytes.utf8(RemotingSerializable.toJson(metric, false));
    }

    @Override
    void touched() {
        dirty = true;
    }

    @Override
    void put(byte[] key, byte[] value) {
        synchronized (told) {
            told.put(Bytes.text(key), value);
            if (Arrays.equals(value, get(key))) {
                return;
            }
            counts().put(Bytes.text(key), RemotingSerializable.fromJson(Bytes.text(value), TimerMetrics.Metric.class));
        }
        dirty = true;
    }

    @Override
    void remove(byte[] key) {
        synchronized (told) {
            told.remove(Bytes.text(key));
            dirty |= counts().remove(Bytes.text(key)) != null;
        }
    }

    @Override
    void mend() {
        synchronized (told) {
            each((key, value) -> {
                byte[] leaders = told.get(Bytes.text(key));
                if (leaders == null) {
                    remove(key);
                } else if (!Arrays.equals(leaders, value)) {
                    put(key, leaders);
                }
            });
        }
    }

    @Override
    void persist() {
        if (dirty) {
            dirty = false;
            metrics().persist();
        }
    }

    @Override
    File file() {
        return new File(metrics().configFilePath());
    }

    @Override
    DataVersion version() {
        return metrics().getDataVersion();
    }
}

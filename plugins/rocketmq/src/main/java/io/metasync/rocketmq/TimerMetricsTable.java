package io.metasync.rocketmq;

import java.io.File;
import java.util.Map;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.remoting.protocol.DataVersion;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.store.timer.TimerMetrics;

/** How many timed messages of each topic are under way: counters inside of objects, so it is polled when its version has moved. */
final class TimerMetricsTable extends PolledTable {
    private final BrokerController broker;
    private long counter = -1;
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
        long before = counter;
        counter = version().getCounter().get();
        return counter != before;
    }

    @Override
    void each(Visitor visitor) {
        for (Map.Entry<String, TimerMetrics.Metric> entry : counts().entrySet()) {
            visitor.entry(Bytes.key(entry.getKey()), Bytes.utf8(RemotingSerializable.toJson(entry.getValue(), false)));
        }
    }

    @Override
    void put(byte[] key, byte[] value) {
        counts().put(Bytes.text(key), RemotingSerializable.fromJson(Bytes.text(value), TimerMetrics.Metric.class));
        dirty = true;
    }

    @Override
    void remove(byte[] key) {
        counts().remove(Bytes.text(key));
        dirty = true;
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

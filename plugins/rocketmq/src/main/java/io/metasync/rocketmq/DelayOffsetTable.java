package io.metasync.rocketmq;

import java.io.File;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.schedule.ScheduleMessageService;
import org.apache.rocketmq.remoting.protocol.DataVersion;

/** Delivered offsets of the delay levels. A busy level is put ten times a second, mostly with the value that it has. */
final class DelayOffsetTable extends NumberTable {
    private final BrokerController broker;
    private NumberMap<Integer> map;
    private volatile boolean dirty;

    DelayOffsetTable(BrokerController broker) {
        super("delay_offset");
        this.broker = broker;
    }

    private ScheduleMessageService service() {
        return broker.getScheduleMessageService();
    }

    @SuppressWarnings("unchecked")
    private ConcurrentMap<Integer, Long> own() {
        return map != null ? map.own() : (ConcurrentMap<Integer, Long>) Reflect.get(service(), "offsetTable");
    }

    @Override
    void observe() {
        map = new NumberMap<>(own(), level -> offer(Bytes.key(level.toString()), () -> own().get(level)));
        Reflect.set(service(), "offsetTable", map);
    }

    @Override
    Long number(byte[] key) {
        return own().get(Integer.valueOf(Bytes.text(key)));
    }

    @Override
    void touched() {
        dirty = true;
    }

    @Override
    void each(Visitor visitor) {
        own().forEach((level, offset) -> visitor.entry(Bytes.key(level.toString()), Bytes.number(offset)));
    }

    @Override
    void put(byte[] key, byte[] value) {
        Long offset = Bytes.number(value);
        dirty |= !offset.equals(own().put(Integer.valueOf(Bytes.text(key)), offset));
    }

    @Override
    void remove(byte[] key) {
        own().remove(Integer.valueOf(Bytes.text(key)));
        dirty = true;
    }

    @Override
    void persist() {
        if (dirty) {
            dirty = false;
            service().persist();
        }
    }

    @Override
    File file() {
        return new File(service().configFilePath());
    }

    @Override
    DataVersion version() {
        return (DataVersion) Reflect.get(service(), "dataVersion");
    }
}

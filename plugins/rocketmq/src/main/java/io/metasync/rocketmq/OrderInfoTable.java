package io.metasync.rocketmq;

import java.io.File;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.ConfigManager;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/**
 * State of ordered pop consumption, by topic@group and queue: objects that change inside, so it is polled. Manager and value class have
 * other names in other versions of the broker, so both are taken from what this one has.
 */
final class OrderInfoTable extends PolledTable {
    private final ConfigManager manager;
    private final Class<?> valueClass;
    private volatile boolean dirty;

    private OrderInfoTable(ConfigManager manager, Class<?> valueClass) {
        super("order_info", MetaNode.TYPE_BYTES);
        this.manager = manager;
        this.valueClass = valueClass;
    }

    /** null: this broker keeps it in a way that we don't know. */
    static OrderInfoTable of(BrokerController broker) {
        Object manager = Reflect.callIfThere(broker, "getConsumerOrderInfoManager");
        if (!(manager instanceof ConfigManager)) {
            return null;
        }
        try {
            Method getter = manager.getClass().getMethod("getTable");
            Type inner = ((ParameterizedType) getter.getGenericReturnType()).getActualTypeArguments()[1];
            Type value = ((ParameterizedType) inner).getActualTypeArguments()[1];
            return new OrderInfoTable((ConfigManager) manager, (Class<?>) value);
        } catch (ReflectiveOperationException | ClassCastException e) {
            return null;
        }
    }

    @SuppressWarnings("unchecked")
    private ConcurrentHashMap<String, ConcurrentHashMap<Integer, Object>> table() {
        return (ConcurrentHashMap<String, ConcurrentHashMap<Integer, Object>>) Reflect.callIfThere(manager, "getTable");
    }

    @Override
    void each(Visitor visitor) {
        table().forEach((name, queues) -> queues.forEach((queue, info) -> {
            if (Bytes.isKey(name)) {
                visitor.entry(Bytes.join(Bytes.key(name), queue.toString().getBytes(StandardCharsets.US_ASCII)),
                    Bytes.utf8(RemotingSerializable.toJson(info, false)));
            }
        }));
    }

    @Override
    byte[] get(byte[] key) {
        ConcurrentHashMap<Integer, Object> queues = table().get(Bytes.name(key));
        Object info = queues == null ? null : queues.get(Integer.valueOf(Bytes.field(key)));
        return info == null ? null : Bytes.utf8(RemotingSerializable.toJson(info, false));
    }

    @Override
    void put(byte[] key, byte[] value) {
        if (Arrays.equals(value, get(key))) {
            return;
        }
        Object info = RemotingSerializable.fromJson(Bytes.text(value), valueClass);
        table().computeIfAbsent(Bytes.name(key), name -> new ConcurrentHashMap<>(4)).put(Integer.valueOf(Bytes.field(key)), info);
        dirty = true;
    }

    @Override
    void remove(byte[] key) {
        table().computeIfPresent(Bytes.name(key), (name, queues) -> {
            dirty |= queues.remove(Integer.valueOf(Bytes.field(key))) != null;
            return queues.isEmpty() ? null : queues;
        });
    }

    @Override
    void persist() {
        if (dirty) {
            dirty = false;
            manager.persist();
        }
    }

    @Override
    File file() {
        return new File(manager.configFilePath());
    }
}

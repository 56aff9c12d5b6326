package io.metasync.rocketmq;

import java.io.File;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.loadbalance.MessageRequestModeManager;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.body.SetMessageRequestModeRequestBody;

/**
 * Pull or pop, by topic and group. The broker goes on writing into the inner map that it has just put, so that an observing one in its
 * place would miss the first mode: it is polled.
 */
final class RequestModeTable extends PolledTable {
    private final BrokerController broker;
    private volatile boolean dirty;

    RequestModeTable(BrokerController broker) {
        super("request_mode", MetaNode.TYPE_BYTES);
        this.broker = broker;
    }

    private MessageRequestModeManager manager() {
        return broker.getQueryAssignmentProcessor().getMessageRequestModeManager();
    }

    @Override
    void each(Visitor visitor) {
        manager().getMessageRequestModeMap().forEach((topic, groups) -> groups.forEach((group, mode) ->
            visitor.entry(Bytes.key(topic, group), Bytes.utf8(RemotingSerializable.toJson(mode, false)))));
    }

    @Override
    void put(byte[] key, byte[] value) {
        SetMessageRequestModeRequestBody mode = RemotingSerializable.fromJson(Bytes.text(value), SetMessageRequestModeRequestBody.class);
        manager().getMessageRequestModeMap().computeIfAbsent(Bytes.name(key), topic -> new ConcurrentHashMap<>()).put(Bytes.field(key), mode);
        dirty = true;
    }

    @Override
    void remove(byte[] key) {
        manager().getMessageRequestModeMap().computeIfPresent(Bytes.name(key), (topic, groups) -> {
            groups.remove(Bytes.field(key));
            return groups.isEmpty() ? null : groups;
        });
        dirty = true;
    }

    @Override
    void persist() {
        if (dirty) {
            dirty = false;
            manager().persist();
        }
    }

    @Override
    File file() {
        return new File(manager().configFilePath());
    }
}

package io.metasync.rocketmq;

import java.io.File;
import java.util.Arrays;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.loadbalance.MessageRequestModeManager;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.body.SetMessageRequestModeRequestBody;

/**
 * Pull or pop, by topic and group. The broker goes on writing into the inner map that it has just put, so that an observing one in its
 * place would miss the first mode; but it sets modes by one method only, so that the manager is replaced by one that logs there.
 */
final class RequestModeTable extends BrokerTable {
    private static final String FIELD = "messageRequestModeManager";
    private static final int PATIENCE_MS = 10_000;

    private final BrokerController broker;
    private volatile boolean dirty;

    RequestModeTable(BrokerController broker) {
        super("request_mode", MetaNode.TYPE_BYTES);
        this.broker = broker;
    }

    private MessageRequestModeManager manager() {
        return broker.getQueryAssignmentProcessor().getMessageRequestModeManager();
    }

    private static byte[] json(SetMessageRequestModeRequestBody mode) {
        return Bytes.utf8(RemotingSerializable.toJson(mode, false));
    }

    /** No getters of its own: the file is made by those that there are. */
    private final class Logging extends MessageRequestModeManager {
        Logging(MessageRequestModeManager old) {
            super(broker);
            setMessageRequestModeMap(old.getMessageRequestModeMap());
        }

        @Override
        public void setMessageRequestMode(String topic, String group, SetMessageRequestModeRequestBody mode) {
            MetaTable table = meta();
            if (table == null) {
                mayChange();
                super.setMessageRequestMode(topic, group, mode);
                return;
            }
            int code;
            try (MetaTable.Transaction transaction = table.begin(Bytes.key(topic, group), PATIENCE_MS)) {
                code = transaction.commit(json(mode));
                super.setMessageRequestMode(topic, group, mode);
            } catch (MetasyncException e) {
                if (!goesOn(table, e)) {
                    throw e;
                }
                super.setMessageRequestMode(topic, group, mode);
                passed();
                return;
            }
            if (code == MetasyncException.NOT_REPLICATED) {
                dirty = true;
                throw new MetasyncException(code, "set here, but no follower has confirmed it");
            }
        }
    }

    @Override
    void observe() {
        Reflect.set(broker.getQueryAssignmentProcessor(), FIELD, new Logging(manager()));
    }

    @Override
    void each(Visitor visitor) {
        manager().getMessageRequestModeMap().forEach((topic, groups) -> groups.forEach((group, mode) -> {
            if (Bytes.isKey(topic) && Bytes.isKey(group)) {
                visitor.entry(Bytes.key(topic, group), json(mode));
            }
        }));
    }

    @Override
    byte[] get(byte[] key) {
        SetMessageRequestModeRequestBody mode = manager().getMessageRequestMode(Bytes.name(key), Bytes.field(key));
        return mode == null ? null : json(mode);
    }

    @Override
    void put(byte[] key, byte[] value) {
        if (Arrays.equals(value, get(key))) {
            return;
        }
        SetMessageRequestModeRequestBody mode = RemotingSerializable.fromJson(Bytes.text(value), SetMessageRequestModeRequestBody.class);
        manager().getMessageRequestModeMap().computeIfAbsent(Bytes.name(key), topic -> new ConcurrentHashMap<>()).put(Bytes.field(key), mode);
        dirty = true;
    }

    @Override
    void remove(byte[] key) {
        manager().getMessageRequestModeMap().computeIfPresent(Bytes.name(key), (topic, groups) -> {
            dirty |= groups.remove(Bytes.field(key)) != null;
            return groups.isEmpty() ? null : groups;
        });
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

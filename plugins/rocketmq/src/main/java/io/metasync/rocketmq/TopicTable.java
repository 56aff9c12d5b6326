package io.metasync.rocketmq;

import java.io.File;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.remoting.protocol.DataVersion;

/** Topics. */
final class TopicTable extends ConfigTable<TopicConfig> {
    private final BrokerController broker;
    private final Counted counted;
    private final List<TopicConfig> fresh = new ArrayList<>();

    TopicTable(BrokerController broker, Counted counted) {
        super("topic", TopicConfig.class);
        this.broker = broker;
        this.counted = counted;
    }

    @Override
    ConcurrentMap<String, TopicConfig> table() {
        return broker.getTopicConfigManager().getTopicConfigTable();
    }

    /** The message store has kept the map that it was made with. */
    @Override
    void install(ConcurrentMap<String, TopicConfig> map) {
        broker.getTopicConfigManager().setTopicConfigTable(map);
        if (Reflect.field(broker.getMessageStore(), "topicConfigTable") != null) {
            Reflect.set(broker.getMessageStore(), "topicConfigTable", map);
        }
    }

    @Override
    void put(byte[] key, byte[] value) {
        super.put(key, value);
        fresh.add(table().get(Bytes.text(key)));
    }

    @Override
    void store() {
        broker.getTopicConfigManager().persist();
    }

    @Override
    void applied() {
        if (!fresh.isEmpty()) {
            Names.register(broker, new ArrayList<>(fresh));
            fresh.clear();
        }
    }

    @Override
    public void changed() {
        counted.changed(this);
    }

    @Override
    File file() {
        return new File(broker.getTopicConfigManager().configFilePath());
    }

    @Override
    DataVersion version() {
        return broker.getTopicConfigManager().getDataVersion();
    }

    /** The order flag is set inside of the objects, with one count of the version for all of them. */
    @Override
    void poll() {
        if (counted.surprised(this)) {
            offerAll();
        }
    }
}

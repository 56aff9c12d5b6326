package io.metasync.rocketmq;

import java.io.File;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.topic.TopicConfigManager;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.remoting.protocol.DataVersion;

/** Topics. */
final class TopicTable extends ConfigTable<TopicConfig> {
    private final BrokerController broker;
    private final List<TopicConfig> fresh = new ArrayList<>();

    TopicTable(BrokerController broker, Counted counted) {
        super("topic", TopicConfig.class, counted);
        this.broker = broker;
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
    void changedBy(String name, TopicConfig topic) {
        fresh.add(topic);
    }

    /** A manager that has loaded no file has just these. */
    @Override
    Map<String, TopicConfig> builtIn() {
        return new TopicConfigManager(broker).getTopicConfigTable();
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
    File file() {
        return new File(broker.getTopicConfigManager().configFilePath());
    }

    @Override
    DataVersion version() {
        return broker.getTopicConfigManager().getDataVersion();
    }
}

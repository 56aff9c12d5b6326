package io.metasync.rocketmq;

import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.topic.TopicConfigManager;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.remoting.protocol.DataVersion;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/** Topics. */
final class TopicTable extends ConfigTable<TopicConfig> {
    private final BrokerController broker;
    private final Map<String, TopicConfig> fresh = new LinkedHashMap<>(); /* the broker refuses a list that names a topic twice */

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
        fresh.put(name, topic);
    }

    @Override
    void remove(byte[] key) {
        fresh.remove(Bytes.text(key));
        super.remove(key);
    }

    /** A manager that has loaded no file has just these. */
    @Override
    Map<String, TopicConfig> builtIn() {
        return new TopicConfigManager(broker).getTopicConfigTable();
    }

    @Override
    void store() {
        TopicConfigManager manager = broker.getTopicConfigManager();
        synchronized (manager) { /* as the broker's own writing */
            if (!storeCopy()) {
                manager.persist();
            }
        }
    }

    /** False: the broker has something that the leader has not, or the node is about to end. */
    private boolean storeCopy() {
        try {
            MetaTable copy = copy();
            return copy != null && TableFile.replace(file(), head(), copy, own().size(), Bytes.utf8("}}"));
        } catch (MetasyncException | IOException e) {
            return false;
        }
    }

    private byte[] head() {
        return Bytes.utf8("{\"dataVersion\":" + RemotingSerializable.toJson(version(), false) + ",\"topicConfigTable\":{");
    }

    /** Not before: a name server is told topics along with their version, and goes by it. */
    @Override
    void versioned() {
        if (!fresh.isEmpty()) {
            Names.register(broker, new ArrayList<>(fresh.values()));
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

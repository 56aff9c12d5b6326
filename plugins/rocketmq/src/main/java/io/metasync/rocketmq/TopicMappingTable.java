package io.metasync.rocketmq;

import java.io.File;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.topic.TopicQueueMappingManager;
import org.apache.rocketmq.remoting.protocol.DataVersion;
import org.apache.rocketmq.remoting.protocol.statictopic.TopicQueueMappingDetail;

/** Static topics: which logical queue is where. */
final class TopicMappingTable extends ConfigTable<TopicQueueMappingDetail> {
    private static final String FIELD = "topicQueueMappingTable";

    private final BrokerController broker;

    TopicMappingTable(BrokerController broker, Counted counted) {
        super("topic_mapping", TopicQueueMappingDetail.class, counted);
        this.broker = broker;
    }

    private TopicQueueMappingManager manager() {
        return broker.getTopicQueueMappingManager();
    }

    @Override
    ConcurrentMap<String, TopicQueueMappingDetail> table() {
        return manager().getTopicQueueMappingTable();
    }

    @Override
    void install(ConcurrentMap<String, TopicQueueMappingDetail> map) {
        Reflect.set(manager(), FIELD, map);
    }

    @Override
    void store() {
        manager().persist();
    }

    @Override
    File file() {
        return new File(manager().configFilePath());
    }

    @Override
    DataVersion version() {
        return manager().getDataVersion();
    }
}

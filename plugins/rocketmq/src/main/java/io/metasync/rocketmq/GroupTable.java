package io.metasync.rocketmq;

import java.io.File;
import java.util.Map;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.subscription.SubscriptionGroupManager;
import org.apache.rocketmq.remoting.protocol.DataVersion;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;

/** Subscription groups. */
final class GroupTable extends ConfigTable<SubscriptionGroupConfig> {
    private final BrokerController broker;

    GroupTable(BrokerController broker, Counted counted) {
        super("group", SubscriptionGroupConfig.class, counted);
        this.broker = broker;
    }

    @Override
    ConcurrentMap<String, SubscriptionGroupConfig> table() {
        return broker.getSubscriptionGroupManager().getSubscriptionGroupTable();
    }

    @Override
    void install(ConcurrentMap<String, SubscriptionGroupConfig> map) {
        broker.getSubscriptionGroupManager().setSubscriptionGroupTable(map);
    }

    /** A manager that has loaded no file has just these. */
    @Override
    Map<String, SubscriptionGroupConfig> builtIn() {
        return new SubscriptionGroupManager(broker).getSubscriptionGroupTable();
    }

    @Override
    void store() {
        broker.getSubscriptionGroupManager().persist();
    }

    @Override
    File file() {
        return new File(broker.getSubscriptionGroupManager().configFilePath());
    }

    @Override
    DataVersion version() {
        return broker.getSubscriptionGroupManager().getDataVersion();
    }
}

package io.metasync.rocketmq;

import java.io.File;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.remoting.protocol.DataVersion;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;

/** Subscription groups. */
final class GroupTable extends ConfigTable<SubscriptionGroupConfig> {
    private final BrokerController broker;
    private final Counted counted;

    GroupTable(BrokerController broker, Counted counted) {
        super("group", SubscriptionGroupConfig.class);
        this.broker = broker;
        this.counted = counted;
    }

    @Override
    ConcurrentMap<String, SubscriptionGroupConfig> table() {
        return broker.getSubscriptionGroupManager().getSubscriptionGroupTable();
    }

    @Override
    void install(ConcurrentMap<String, SubscriptionGroupConfig> map) {
        broker.getSubscriptionGroupManager().setSubscriptionGroupTable(map);
    }

    @Override
    void store() {
        broker.getSubscriptionGroupManager().persist();
    }

    @Override
    public void changed() {
        counted.changed(this);
    }

    @Override
    File file() {
        return new File(broker.getSubscriptionGroupManager().configFilePath());
    }

    @Override
    DataVersion version() {
        return broker.getSubscriptionGroupManager().getDataVersion();
    }

    /** disableConsume changes the object, not the map. */
    @Override
    void poll() {
        if (counted.surprised(this)) {
            offerAll();
        }
    }
}

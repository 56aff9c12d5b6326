package io.metasync.rocketmq;

import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.offset.ConsumerOffsetManager;
import org.apache.rocketmq.broker.subscription.SubscriptionGroupManager;
import org.apache.rocketmq.broker.topic.TopicConfigManager;

/** What a broker may be set up with that this plugin can't replicate. Nothing of it is dropped in silence: the plugin stays out. */
final class Support {
    private Support() {
    }

    /** null if this broker's metadata can be replicated. */
    static String reasonAgainst(BrokerController broker) {
        if (broker.getBrokerConfig().isInBrokerContainer()) {
            return "brokers of a BrokerContainer are not supported";
        }
        if (broker.getMessageStoreConfig().isEnableDLegerCommitLog()) {
            return "brokers with a DLedger commit log (enableDLegerCommitLog) are not supported, those of controller mode are";
        }
        if (broker.getMessageStoreConfig().isDuplicationEnable()) {
            return "brokers with duplicationEnable are not supported";
        }
        if (broker.getBrokerConfig().isEnableSlaveActingMaster()) {
            return "slaves that act as master (enableSlaveActingMaster) are not supported";
        }
        if (broker.getMessageStoreConfig().isEnableLmq()) {
            return "light message queues (enableLmq) are not supported: their offsets would not be replicated";
        }
        return reasonAgainst(broker.getTopicConfigManager(), TopicConfigManager.class,
            reasonAgainst(broker.getSubscriptionGroupManager(), SubscriptionGroupManager.class,
                reasonAgainst(broker.getConsumerOffsetManager(), ConsumerOffsetManager.class, null)));
    }

    /** Metadata that is kept in RocksDB, or by a site's own classes, does not go through the maps alone. */
    private static String reasonAgainst(Object manager, Class<?> known, String otherwise) {
        return manager.getClass() == known ? otherwise : "metadata is kept by " + manager.getClass().getName()
            + " (storeType, configManagerVersion), only that of " + known.getSimpleName() + " is supported";
    }
}

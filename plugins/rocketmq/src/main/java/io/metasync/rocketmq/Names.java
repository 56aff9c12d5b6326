package io.metasync.rocketmq;

import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.TopicConfig;

/** Tells the name servers of topics that a follower has got, as the broker does for those that it makes itself; off the host thread. */
final class Names {
    private static final ExecutorService EXECUTOR = Executors.newSingleThreadExecutor(task -> {
        Thread thread = new Thread(task, "metasync-names");
        thread.setDaemon(true);
        return thread;
    });

    private static volatile boolean open;

    private Names() {
    }

    /** The broker has started. Before, it can't register; when it starts, it registers all. */
    static void open() {
        open = true;
    }

    static void register(BrokerController broker, List<TopicConfig> topics) {
        if (!open) {
            return;
        }
        EXECUTOR.execute(() -> {
            try {
                broker.registerIncrementBrokerData(topics, broker.getTopicConfigManager().getDataVersion());
            } catch (RuntimeException e) {
                Log.warn("topics could not be registered at the name servers, the broker's next registration does it", e);
            }
        });
    }
}

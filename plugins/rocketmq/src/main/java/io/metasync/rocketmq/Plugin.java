package io.metasync.rocketmq;

import java.util.Map;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.plugin.BrokerAttachedPlugin;

/** The broker's side of the plugin. Whatever fails in here leaves the broker as it is without it, with one line in its log. */
public final class Plugin implements BrokerAttachedPlugin {
    private final BrokerController broker;
    private Replication replication;

    Plugin(BrokerController broker) {
        this.broker = broker;
    }

    /** Makes the plugin one of the broker's, and loads it: the broker's own round of loading is over when it gets here. */
    static void attach(BrokerController broker) {
        if (!Settings.enabled()) {
            Log.info("switched off; the broker syncs its metadata as without it");
            return;
        }
        Plugin plugin = new Plugin(broker);
        broker.getBrokerAttachedPlugins().add(plugin);
        plugin.load();
    }

    @Override
    public String pluginName() {
        return "metasync";
    }

    @Override
    public boolean load() {
        Replication made = null;
        try {
            Native.load();
            made = new Replication(broker, Settings.of(broker));
            made.load();
            replication = made;
        } catch (Exception | LinkageError e) {
            Log.error("not started, the broker syncs its metadata as without it: " + e.getMessage(), e);
            if (made != null) {
                made.stop();
            }
        }
        return true;
    }

    @Override
    public void start() {
        if (replication != null) {
            replication.start();
        }
    }

    @Override
    public void shutdown() {
        if (replication != null) {
            replication.stop();
        }
    }

    @Override
    public void syncMetadata() {
        /* no broker calls it; changes come by themselves */
    }

    @Override
    public void syncMetadataReverse(String brokerAddr) {
        /* an acting master's changes come by its node's log, when this one follows it */
    }

    @Override
    public void buildRuntimeInfo(Map<String, String> info) {
        if (replication != null) {
            replication.describe(info);
        }
    }

    @Override
    public void statusChanged(boolean shouldStart) {
        if (replication != null) {
            replication.wake();
        }
    }
}

package io.metasync.rocketmq;

import java.util.Map;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.plugin.BrokerAttachedPlugin;

/** The broker's side of the plugin. Whatever fails in here leaves the broker as it is without it, with one line in its log. */
public final class Plugin implements BrokerAttachedPlugin {
    private final BrokerController broker;
    private Replication replication;
    private String absent = "not loaded";

    Plugin(BrokerController broker) {
        this.broker = broker;
    }

    /** Makes the plugin one of the broker's, and loads it: the broker's own round of loading is over when it gets here. */
    static void attach(BrokerController broker) {
        if (broker.getBrokerAttachedPlugins().stream().anyMatch(Plugin.class::isInstance)) {
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
        if (replication != null) {
            return true;
        }
        try {
            String against = Support.reasonAgainst(broker);
            if (against != null) {
                absent = against;
                Log.warn("not started, the broker syncs its metadata as without it: " + against);
                return true;
            }
            Native.load();
            Replication made = new Replication(broker, Settings.of(broker), Switch.of(broker));
            made.load();
            replication = made;
        } catch (Exception | LinkageError e) {
            absent = e.toString();
            Log.error("not started, the broker syncs its metadata as without it: " + e.getMessage(), e);
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
        /* only brokers with acting masters call it, and Support turns those away */
    }

    @Override
    public void buildRuntimeInfo(Map<String, String> info) {
        if (replication != null) {
            replication.describe(info);
        } else {
            info.put("metasync_state", "absent: " + absent);
        }
    }

    @Override
    public void statusChanged(boolean shouldStart) {
        if (replication != null) {
            replication.statusChanged(shouldStart);
        }
    }
}

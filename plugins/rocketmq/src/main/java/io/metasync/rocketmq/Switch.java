package io.metasync.rocketmq;

import java.util.Properties;
import org.apache.rocketmq.broker.BrokerController;

/**
 * Whether metadata is replicated, as one more property of the broker: in broker.conf, by -D, and at run time by
 * {@code mqadmin updateBrokerConfig -k allowMetadataIncrementalSync -v false}. Public, with a getter and a setter, because that is how
 * the broker finds its properties.
 */
public final class Switch {
    private static final String NAME = "allowMetadataIncrementalSync";

    private volatile boolean allowMetadataIncrementalSync = true;

    /** Registers it with the broker. */
    static Switch of(BrokerController broker) {
        Switch made = new Switch();
        Properties configured = broker.getConfiguration().getAllConfigs();
        made.allowMetadataIncrementalSync = !"false".equals(System.getProperty(NAME, configured.getProperty(NAME, "true")).trim())
            && !"false".equals(System.getProperty("metasync.enabled"));
        broker.getConfiguration().registerConfig(made);
        return made;
    }

    public boolean isAllowMetadataIncrementalSync() {
        return allowMetadataIncrementalSync;
    }

    public void setAllowMetadataIncrementalSync(boolean allow) {
        allowMetadataIncrementalSync = allow;
    }
}

package io.metasync.rocketmq;

import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.junit.Test;

/** Each way to set a broker up that is not replicated, by a real broker's own configuration: what the plugin says of it. */
public class SupportTest {
    private interface Setup {
        void of(BrokerConfig broker, MessageStoreConfig store);
    }

    private static String reasonAgainst(Setup setup) throws IOException {
        File dir = Files.createTempDirectory("metasync-java").toFile();
        dir.deleteOnExit();
        BrokerConfig config = new BrokerConfig();
        MessageStoreConfig store = new MessageStoreConfig();
        store.setStorePathRootDir(dir.getPath());
        setup.of(config, store);
        return Support.reasonAgainst(new BrokerController(config, new NettyServerConfig(), new NettyClientConfig(), store));
    }

    private static void assertRefused(String why, Setup setup) throws IOException {
        String reason = reasonAgainst(setup);
        assertNotNull(why, reason);
        assertTrue(reason, reason.contains(why));
    }

    @Test
    public void aPlainBrokerAndOneOfControllerModeAreReplicated() throws IOException {
        assertNull(reasonAgainst((broker, store) -> { }));
        assertNull(reasonAgainst((broker, store) -> broker.setEnableControllerMode(true)));
    }

    @Test
    public void whatIsNotReplicatedIsRefusedByItsName() throws IOException {
        assertRefused("enableSlaveActingMaster", (broker, store) -> broker.setEnableSlaveActingMaster(true));
        assertRefused("enableDLegerCommitLog", (broker, store) -> {
            store.setEnableDLegerCommitLog(true);
            store.setdLegerSelfId("n0");
        });
        assertRefused("enableLmq", (broker, store) -> store.setEnableLmq(true));
        assertRefused("duplicationEnable", (broker, store) -> store.setDuplicationEnable(true));
        assertRefused("BrokerContainer", (broker, store) -> broker.setInBrokerContainer(true));
    }

    @Test
    public void metadataInRocksDbIsRefusedByItsManager() throws IOException {
        assertRefused("RocksDBTopicConfigManager", (broker, store) -> store.setStoreType("defaultRocksDB"));
        assertRefused("configManagerVersion", (broker, store) -> broker.setConfigManagerVersion("v2"));
    }
}

package io.metasync.rocketmq;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertSame;
import static org.junit.Assert.assertTrue;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.util.Collections;
import java.util.Comparator;
import java.util.stream.Stream;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.subscription.SubscriptionGroupManager;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.constant.PermName;
import org.apache.rocketmq.common.topic.TopicValidator;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.junit.After;
import org.junit.Before;
import org.junit.Test;

/**
 * What the broker's own managers change inside of their objects, where no map shows it: by the managers of a real broker that is not
 * started, since it does these by itself after minutes only, or in rare configurations.
 */
public class InPlaceTest {
    private File dir;
    private MetaNode node;
    private BrokerController broker;
    private Counted counted;
    private long now;

    @Before
    public void open() throws IOException {
        Native.load();
        dir = Files.createTempDirectory("metasync-java").toFile();
        MetaNode.Config config = new MetaNode.Config();
        config.dir = new File(dir, "node").getPath();
        config.cluster = "test";
        config.name = "test";
        node = MetaNode.open(config, new Host(Collections.emptyMap(), () -> { }, () -> { }));
        node.lead(new String[0], 10_000);
        MessageStoreConfig store = new MessageStoreConfig();
        store.setStorePathRootDir(dir.getPath());
        broker = new BrokerController(new BrokerConfig(), new NettyServerConfig(), new NettyClientConfig(), store);
        broker.setMessageStore(new DefaultMessageStore(store, broker.getBrokerStatsManager(), null, broker.getBrokerConfig(),
            broker.getTopicConfigManager().getTopicConfigTable()));
        counted = new Counted(() -> { }, () -> now);
    }

    @After
    public void close() throws IOException {
        node.close();
        try (Stream<java.nio.file.Path> paths = Files.walk(dir.toPath())) {
            paths.sorted(Comparator.reverseOrder()).map(java.nio.file.Path::toFile).forEach(File::delete);
        }
    }

    private <T extends BrokerTable> T leading(T table) {
        table.observe();
        table.lead(node.table(table.name(), table.type()));
        table.audit();
        table.poll();
        return table;
    }

    private <V> V logged(BrokerTable table, String key, Class<V> valueClass) {
        return RemotingSerializable.fromJson(Bytes.text(table.meta().get(Bytes.key(key))), valueClass);
    }

    @Test
    public void aGroupThatTheBrokerDisablesIsFoundWhenItsVersionMoves() {
        GroupTable groups = leading(new GroupTable(broker, counted));
        SubscriptionGroupConfig group = new SubscriptionGroupConfig();
        group.setGroupName("slow");
        broker.getSubscriptionGroupManager().updateSubscriptionGroupConfig(group);
        groups.poll();
        assertTrue(logged(groups, "slow", SubscriptionGroupConfig.class).isConsumeEnable());
        broker.getSubscriptionGroupManager().disableConsume("slow");
        assertTrue(logged(groups, "slow", SubscriptionGroupConfig.class).isConsumeEnable());
        groups.poll();
        assertFalse(logged(groups, "slow", SubscriptionGroupConfig.class).isConsumeEnable());
    }

    private boolean isEnabled(GroupTable groups, String name) {
        return logged(groups, name, SubscriptionGroupConfig.class).isConsumeEnable();
    }

    /** The broker counts a permission that it sets, but none that it removes: those must not pass for the count of what it changes in place. */
    @Test
    public void aGroupThatTheBrokerDisablesIsFoundAfterChangesThatItHasNotCounted() {
        GroupTable groups = leading(new GroupTable(broker, counted));
        ForbiddenTable forbidden = leading(new ForbiddenTable(broker, counted, groups));
        SubscriptionGroupManager manager = broker.getSubscriptionGroupManager();
        SubscriptionGroupConfig group = new SubscriptionGroupConfig();
        group.setGroupName("slow");
        manager.updateSubscriptionGroupConfig(group);
        manager.updateForbidden("slow", "t", 1, true);
        groups.poll();
        manager.getForbiddenTable().remove("slow");
        groups.poll();
        assertEquals(0, forbidden.audit());
        manager.disableConsume("slow");
        groups.poll();
        assertFalse(isEnabled(groups, "slow"));
    }

    @Test
    public void aChangeThatIsNotCountedIsForgottenSoon() {
        GroupTable groups = leading(new GroupTable(broker, counted));
        SubscriptionGroupConfig group = new SubscriptionGroupConfig();
        group.setGroupName("slow");
        broker.getSubscriptionGroupManager().updateSubscriptionGroupConfig(group);
        counted.changed(groups);
        groups.poll();
        now += Counted.PATIENCE_NS;
        groups.poll();
        now += Counted.PATIENCE_NS;
        groups.poll();
        broker.getSubscriptionGroupManager().disableConsume("slow");
        groups.poll();
        assertFalse(isEnabled(groups, "slow"));
    }

    @Test
    public void theMessageStoreGoesByTheMapThatTheBrokerGoesBy() {
        leading(new TopicTable(broker, counted));
        assertSame(broker.getTopicConfigManager().getTopicConfigTable(), ((DefaultMessageStore) broker.getMessageStore()).getTopicConfigs());
    }

    @Test
    public void aPermissionThatIsChangedWithoutAVersionIsFoundByTheAudit() {
        TopicTable topics = leading(new TopicTable(broker, counted));
        TopicConfig byDefault = broker.getTopicConfigManager().getTopicConfigTable().get(TopicValidator.AUTO_CREATE_TOPIC_KEY_TOPIC);
        byDefault.setPerm(PermName.PERM_READ | PermName.PERM_WRITE); /* as the broker does while it makes a topic */
        topics.poll();
        assertTrue(PermName.isInherited(logged(topics, byDefault.getTopicName(), TopicConfig.class).getPerm()));
        assertEquals(1, topics.audit());
        assertFalse(PermName.isInherited(logged(topics, byDefault.getTopicName(), TopicConfig.class).getPerm()));
        assertEquals(0, topics.audit());
    }
}

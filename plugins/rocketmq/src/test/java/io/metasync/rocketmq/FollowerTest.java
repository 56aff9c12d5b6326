package io.metasync.rocketmq;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNotNull;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.remoting.protocol.DataVersion;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.body.TopicConfigSerializeWrapper;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.junit.Before;
import org.junit.Test;

/** Batches of a leader as they come over the border, and what a broker's own code makes of them. The broker is real, but not started. */
public class FollowerTest {
    private static final int PATIENCE_S = 20;

    /* What the broker would send to the name servers. */
    private final BlockingQueue<Map<String, TopicConfig>> registered = new LinkedBlockingQueue<>();
    private final ByteArrayOutputStream changes = new ByteArrayOutputStream();
    private int count;
    private BrokerController broker;
    private Host host;

    @Before
    public void open() {
        broker = new BrokerController(new BrokerConfig(), new NettyServerConfig(), new NettyClientConfig(), new MessageStoreConfig()) {
            @Override
            protected void doRegisterBrokerAll(boolean checkOrderConfig, boolean oneway, TopicConfigSerializeWrapper topics) {
                registered.add(topics.getTopicConfigTable());
            }
        };
        Map<String, BrokerTable> tables = new LinkedHashMap<>();
        tables.put("topic", new TopicTable(broker, new Counted(() -> { }, System::nanoTime)));
        tables.put("data_version", new VersionTable(new LinkedHashMap<>(tables)));
        host = new Host(tables, () -> { }, () -> { });
        Names.open();
    }

    private void change(int op, String key, String value) {
        byte[] name = Bytes.utf8(key);
        byte[] text = value == null ? new byte[0] : Bytes.utf8(value);
        ByteBuffer head = ByteBuffer.allocate(9).order(ByteOrder.LITTLE_ENDIAN);
        head.put((byte) op).putInt(name.length).putInt(value == null ? -1 : text.length);
        for (byte[] part : new byte[][] {head.array(), name, text}) {
            changes.write(part, 0, part.length);
        }
        count++;
    }

    private void topic(String name, int perm) {
        change(Changes.PUT, name, RemotingSerializable.toJson(new TopicConfig(name, 1, 1, perm), false));
    }

    /** The changes so far are one batch. */
    private void apply(String table) {
        assertEquals(0, host.apply(Bytes.utf8(table), 0, 1, changes.toByteArray(), count));
        changes.reset();
        count = 0;
    }

    private void version(long counter) {
        DataVersion version = new DataVersion();
        version.getCounter().set(counter);
        change(Changes.PUT, "topic", RemotingSerializable.toJson(version, false));
        apply("data_version");
    }

    private Map<String, TopicConfig> told() throws InterruptedException {
        Map<String, TopicConfig> topics = registered.poll(PATIENCE_S, TimeUnit.SECONDS);
        assertNotNull("the name servers are told", topics);
        return topics;
    }

    /** The broker's own registration refuses a list that has one twice: then they would hear of none. */
    @Test
    public void aTopicThatChangesTwiceBeforeItsVersionIsToldToTheNameServersOnceAsItIs() throws InterruptedException {
        topic("twice", 2);
        topic("other", 4);
        topic("twice", 6);
        apply("topic");
        topic("twice", 4);
        apply("topic");
        version(4);
        Map<String, TopicConfig> topics = told();
        assertEquals(2, topics.size());
        assertEquals(4, topics.get("twice").getPerm());
        assertEquals(4, topics.get("other").getPerm());
        assertEquals(4, broker.getTopicConfigManager().getDataVersion().getCounter().get());
    }

    @Test
    public void aTopicThatIsGoneBeforeItsVersionIsNotTold() throws InterruptedException {
        topic("gone", 6);
        topic("stays", 6);
        change(Changes.DELETE, "gone", null);
        apply("topic");
        version(3);
        assertEquals(Collections.singleton("stays"), told().keySet());
    }
}

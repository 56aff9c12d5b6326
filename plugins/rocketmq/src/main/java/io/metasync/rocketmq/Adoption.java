package io.metasync.rocketmq;

import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.remoting.exception.RemotingException;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.ResponseCode;
import org.apache.rocketmq.remoting.protocol.body.SubscriptionGroupWrapper;
import org.apache.rocketmq.remoting.protocol.body.TopicConfigSerializeWrapper;

/**
 * A follower refuses a leader that has another history than its own (its data directory was lost, say): it can't know whether that leader's
 * tables are whole. The broker can: it asks the master for its topics and groups. If the master has all that was replicated to this broker,
 * nothing can be lost by following, and it is adopted; otherwise an operator has to decide (metasyncctl adopt). What this broker has made by
 * itself (a group, when a consumer's heartbeat came) does not count: a slave does not keep it anyway.
 */
final class Adoption {
    private static final long EVERY_NS = 10_000_000_000L;
    private static final int PATIENCE_MS = 30_000;
    private static final int NAMED = 5;

    private final BrokerController broker;
    private final BrokerTable topics;
    private final BrokerTable groups;
    private long askAt = System.nanoTime();
    private String told = "";

    Adoption(BrokerController broker, BrokerTable topics, BrokerTable groups) {
        this.broker = broker;
        this.topics = topics;
        this.groups = groups;
    }

    /** On a follower that refuses the leader, beside the master at that broker address, null while there is none. Asks it, now and then. */
    void consider(MetaNode node, String master) {
        long now = System.nanoTime();
        if (master == null || now - askAt < 0) {
            return;
        }
        askAt = now + EVERY_NS;
        try {
            Set<String> missing = replicated(node, topics);
            missing.removeAll(ask(master, RequestCode.GET_ALL_TOPIC_CONFIG, TopicConfigSerializeWrapper.class).getTopicConfigTable().keySet());
            Set<String> missingGroups = replicated(node, groups);
            missingGroups.removeAll(ask(master, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, SubscriptionGroupWrapper.class)
                .getSubscriptionGroupTable().keySet());
            missing.addAll(missingGroups);
            if (missing.isEmpty()) {
                Log.warn("the master has another history, but all topics and groups that this broker got: it is followed from now on");
                node.adopt();
                return;
            }
            String words = missing.size() + " topics and groups of this broker are not on the master, whose history is another one. Nothing is taken "
                + "from it until an operator says `metasyncctl adopt` here. Some of them: "
                + String.join(", ", missing.stream().limit(NAMED).toArray(String[]::new));
            if (!words.equals(told)) {
                told = words;
                Log.error(words);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (Exception e) { /* many kinds, of the broker's client */
            Log.info("the master was not asked for its topics and groups: " + e);
        }
    }
    private static Set<String> replicated(MetaNode node, BrokerTable table) {
        Set<String> names = new TreeSet<>();
        MetaTable entries = node.table(table.name(), table.type());
        if (entries != null) {
            entries.keys().forEach(key -> names.add(Bytes.text(key)));
        }
        return names;
    }

    /** All at once: the broker's own call asks for pages, and loses the last entry where the number of entries is one more than whole pages. */
    private <T> T ask(String master, int code, Class<T> kind) throws RemotingException, InterruptedException, MQBrokerException {
        RemotingCommand answer = broker.getBrokerOuterAPI().getRemotingClient().invokeSync(master, RemotingCommand.createRequestCommand(code, null),
            PATIENCE_MS);
        if (answer.getCode() != ResponseCode.SUCCESS) {
            throw new MQBrokerException(answer.getCode(), answer.getRemark(), master);
        }
        return RemotingSerializable.decode(answer.getBody(), kind);
    }
}

package io.metasync.rocketmq;

import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.broker.BrokerController;

/**
 * A follower refuses a leader that has another history than its own (its data directory was lost, say): it can't know whether that leader's
 * tables are whole. The broker can: it asks the master for its topics and groups. If the master has all that this broker has, nothing can
 * be lost by following, and it is adopted; otherwise an operator has to decide (metasyncctl adopt).
 */
final class Adoption {
    private static final long EVERY_NS = 10_000_000_000L;
    private static final int NAMED = 5;

    private final BrokerController broker;
    private long askAt = System.nanoTime();
    private String told = "";

    Adoption(BrokerController broker) {
        this.broker = broker;
    }

    /** On a follower that refuses the leader, beside the master at that broker address. Asks it, now and then. */
    void consider(MetaNode node, String master) {
        long now = System.nanoTime();
        if (now - askAt < 0) {
            return;
        }
        askAt = now + EVERY_NS;
        try {
            Set<String> missing = new TreeSet<>(broker.getTopicConfigManager().getTopicConfigTable().keySet());
            missing.removeAll(broker.getBrokerOuterAPI().getAllTopicConfig(master).getTopicConfigTable().keySet());
            Set<String> groups = new TreeSet<>(broker.getSubscriptionGroupManager().getSubscriptionGroupTable().keySet());
            groups.removeAll(broker.getBrokerOuterAPI().getAllSubscriptionGroupConfig(master).getSubscriptionGroupTable().keySet());
            missing.addAll(groups);
            if (missing.isEmpty()) {
                Log.warn("the master has another history, but all topics and groups that this broker has: it is followed from now on");
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
}

package io.metasync.rocketmq;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.broker.BrokerController;

/**
 * Consumer offsets beyond the end of their queues, on a broker that has begun to lead: its messages are fewer than those that were consumed
 * from the master before. Consumers would wait there, and miss what comes until the queue has grown over them. They are reported, or, if the
 * policy says {@code host.beyond_end = "clamp"}, set to the queue's end, which is logged like any commit.
 */
final class Overrun {
    private static final int NAMED = 10;

    private final BrokerController broker;
    private volatile long found;

    Overrun(BrokerController broker) {
        this.broker = broker;
    }

    /** Of the last look. */
    long found() {
        return found;
    }

    /** Whether the ends of the queues can be trusted yet: the store builds them from what it has got. */
    boolean isReady() {
        return broker.getMessageStore() != null && broker.getMessageStore().dispatchBehindBytes() <= 0;
    }

    void look(boolean clamp) {
        List<String> named = new ArrayList<>();
        long[] count = new long[1];
        broker.getConsumerOffsetManager().getOffsetTable().forEach((topicAtGroup, offsets) -> {
            String topic = topicAtGroup.split("@", 2)[0];
            if (broker.getTopicConfigManager().selectTopicConfig(topic) == null
                || broker.getTopicQueueMappingManager().getTopicQueueMapping(topic) != null) {
                return; /* no queues, or those of other brokers */
            }
            offsets.forEach((queue, offset) -> {
                long end = end(topic, queue);
                if (end >= 0 && offset > end) {
                    count[0]++;
                    if (named.size() < NAMED) {
                        named.add(topicAtGroup + " queue " + queue + ": " + offset + ", end " + end);
                    }
                    if (clamp) {
                        clamp(offsets, queue, offset, end);
                    }
                }
            });
        });
        found = count[0];
        if (found > 0) {
            Log.warn(found + " consumer offsets are beyond the ends of their queues, " + (clamp ? "they were set to the ends: "
                : "they stay (the policy's host.beyond_end = \"report\"): ") + String.join("; ", named) + (found > NAMED ? "; ..." : ""));
        }
    }

    private static void clamp(ConcurrentMap<Integer, Long> offsets, Integer queue, Long offset, long end) {
        offsets.replace(queue, offset, end); /* not if somebody has committed meanwhile */
    }

    /** -1: not known. */
    private long end(String topic, int queue) {
        try {
            return queue < 0 ? -1 : broker.getMessageStore().getMaxOffsetInQueue(topic, queue);
        } catch (Exception e) { /* declared by some versions only */
            return -1;
        }
    }
}

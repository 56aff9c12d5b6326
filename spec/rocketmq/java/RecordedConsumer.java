import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.store.RemoteBrokerOffsetStore;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.MQClientManager;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.exception.RemotingException;

/**
 * A push consumer that remembers what it got and what a broker has acknowledged of its offsets, and when; so that a spec can say which
 * messages may come again after a failover. Times are System.nanoTime(), the machine's monotonic clock.
 */
final class RecordedConsumer {
    private static final int COMMIT_MS = 100;
    private static final long HELD = -1;

    private final DefaultMQPushConsumer consumer;
    private final List<String> delivered = new ArrayList<>(); /* "KEY QUEUE OFFSET NANOS" */
    private final List<String> committed = new ArrayList<>(); /* "QUEUE OFFSET NANOS" */
    private boolean crashed;
    private volatile long paceMs;

    RecordedConsumer(String namesrv, String group, String topic, long paceMs) throws MQClientException {
        this.paceMs = paceMs;
        consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName(group + System.nanoTime());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPersistConsumerOffsetInterval(COMMIT_MS);
        consumer.setPollNameServerInterval(200); /* a new master is found soon */
        consumer.setHeartbeatBrokerInterval(500);
        consumer.setPullTimeDelayMillsWhenException(200);
        consumer.setConsumeThreadMin(1);
        consumer.setConsumeThreadMax(1);
        consumer.setOffsetStore(new Store(MQClientManager.getInstance().getOrCreateMQClientInstance(consumer), group));
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(this::take);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.subscribe(topic, "*");
        consumer.start();
    }

    private void take(MessageExt message) {
        while (paceMs == HELD && !hasCrashed()) {
            pause(COMMIT_MS / 10);
        }
        synchronized (this) {
            if (!crashed) {
                delivered.add(message.getKeys() + " " + message.getQueueId() + " " + message.getQueueOffset() + " " + System.nanoTime());
            }
        }
        if (hasCrashed()) {
            stopHere();
        }
        pause(Math.max(0, paceMs));
    }

    private static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            stopHere();
        }
    }

    private synchronized boolean hasCrashed() {
        return crashed;
    }

    /** Neither success nor failure is said of the message at hand, as by a process that is gone. The thread ends with this program. */
    private static void stopHere() {
        CountDownLatch never = new CountDownLatch(1);
        while (true) {
            try {
                never.await();
            } catch (InterruptedException e) {
                Thread.interrupted();
            }
        }
    }

    /** So long for each message; -1: no more of them for now. */
    void pace(long ms) {
        paceMs = ms;
    }

    /** From here on nothing is consumed and no offset is committed. */
    void crash() {
        synchronized (this) {
            crashed = true;
        }
        consumer.shutdown();
    }

    /** What it got, from that number on; records with commas between them. */
    synchronized String delivered(int from) {
        return String.join(",", delivered.subList(Math.min(from, delivered.size()), delivered.size()));
    }

    synchronized String committed(int from) {
        return String.join(",", committed.subList(Math.min(from, committed.size()), committed.size()));
    }

    /** Offsets as usual, but each is said with a request that is answered. */
    private final class Store extends RemoteBrokerOffsetStore {
        Store(MQClientInstance client, String group) {
            super(client, group);
        }

        @Override
        public void updateConsumeOffsetToBroker(MessageQueue queue, long offset, boolean oneway)
            throws RemotingException, MQBrokerException, InterruptedException, MQClientException {
            if (hasCrashed()) {
                return;
            }
            super.updateConsumeOffsetToBroker(queue, offset, false);
            synchronized (RecordedConsumer.this) {
                committed.add(queue.getQueueId() + " " + offset + " " + System.nanoTime());
            }
        }
    }
}

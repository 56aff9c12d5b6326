import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Real clients of a broker, told by a spec or a demo what to do: `java Client NAMESRV PORT` listens on that port of 127.0.0.1. A request
 * is a line of words with tabs between them, its reply one line: "ok ..." or "error ...".
 */
public final class Client {
    private final String namesrv;
    private final Map<String, RecordedConsumer> running = new HashMap<>();
    private DefaultMQAdminExt admin;

    private Client(String namesrv) {
        this.namesrv = namesrv;
    }

    public static void main(String[] args) throws Exception {
        Client client = new Client(args[0]);
        try (ServerSocket server = new ServerSocket(Integer.parseInt(args[1]), 8, InetAddress.getByName("127.0.0.1"))) {
            while (true) {
                try (Socket socket = server.accept()) {
                    client.serve(socket);
                }
            }
        }
    }

    private void serve(Socket socket) throws Exception {
        socket.setTcpNoDelay(true);
        BufferedReader in = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
        PrintWriter out = new PrintWriter(new OutputStreamWriter(socket.getOutputStream(), StandardCharsets.UTF_8), false);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String reply;
            try {
                reply = "ok " + run(line.split("\t"));
            } catch (Exception e) {
                reply = "error " + e.toString().replace('\n', ' ');
            }
            out.print(reply + "\n");
            out.flush();
        }
    }

    private String run(String[] words) throws Exception {
        switch (words[0]) {
            case "topic":
                return topic(words[1], words[2], Integer.parseInt(words[3]), words.length > 4 ? words[4] : "");
            case "group":
                return group(words[1], words[2]);
            case "mode":
                admin().setMessageRequestMode(words[1], words[2], words[3], MessageRequestMode.valueOf(words[4]), 4, 3000);
                return "";
            case "send":
                return send(words[1], Integer.parseInt(words[2]), words.length > 3 ? words[3] : "none", words.length > 4 ? words[4] : "0",
                    words.length > 5 ? Integer.parseInt(words[5]) : 0);
            case "consume":
                return consume(words[1], words[2], Integer.parseInt(words[3]), Integer.parseInt(words[4]), words.length > 5 ? words[5] : "push");
            case "consumer":
                return consumer(words);
            case "admin":
                return mqadmin(words);
            default:
                throw new IllegalArgumentException("unknown command " + words[0]);
        }
    }

    private DefaultMQAdminExt admin() throws Exception {
        if (admin == null) {
            admin = new DefaultMQAdminExt();
            admin.setNamesrvAddr(namesrv);
            admin.setInstanceName("client-admin");
            admin.start();
        }
        return admin;
    }

    /** attributes: "name=value", comma between several */
    private String topic(String broker, String name, int queues, String attributes) throws Exception {
        TopicConfig config = new TopicConfig(name);
        config.setReadQueueNums(queues);
        config.setWriteQueueNums(queues);
        Map<String, String> added = new HashMap<>();
        for (String attribute : attributes.split(",")) {
            int equals = attribute.indexOf('=');
            if (equals > 0) {
                added.put("+" + attribute.substring(0, equals), attribute.substring(equals + 1));
            }
        }
        config.setAttributes(added);
        admin().createAndUpdateTopicConfig(broker, config);
        return "";
    }

    private String group(String broker, String name) throws Exception {
        SubscriptionGroupConfig config = new SubscriptionGroupConfig();
        config.setGroupName(name);
        admin().createAndUpdateSubscriptionGroupConfig(broker, config);
        return "";
    }

    /** kind: none, level (a delay level), timer (seconds). Keys are numbers, from `first` on. */
    private String send(String topic, int count, String kind, String number, int first) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("client-producer");
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName("producer" + System.nanoTime()); /* asks the name server anew: the master may be another one by now */
        producer.setRetryTimesWhenSendFailed(5);
        producer.start();
        for (int i = 0; i < count; i++) {
            Message message = new Message(topic, "tag", "key" + (first + i), ("message " + i).getBytes(StandardCharsets.UTF_8));
            if (kind.equals("level")) {
                message.setDelayTimeLevel(Integer.parseInt(number));
            } else if (kind.equals("timer")) {
                message.setDelayTimeSec(Long.parseLong(number));
            }
            try {
                producer.send(message, 10_000);
            } catch (Exception e) {
                producer.shutdown();
                throw e;
            }
        }
        producer.shutdown();
        return String.valueOf(count);
    }

    /** how: push, orderly, pop, pop-orderly; returns how many came */
    private String consume(String group, String topic, int count, int seconds, String how) throws Exception {
        AtomicInteger seen = new AtomicInteger();
        CountDownLatch done = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName(group + System.nanoTime());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPersistConsumerOffsetInterval(500);
        consumer.setAwaitTerminationMillisWhenShutdown(5000); /* else the last message is consumed and its offset not committed */
        consumer.setConsumeThreadMin(1);
        consumer.setConsumeThreadMax(1);
        consumer.setClientRebalance(!how.startsWith("pop"));
        consumer.subscribe(topic, "*");
        if (how.endsWith("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                count(seen, messages.size(), count, done);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                count(seen, messages.size(), count, done);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        done.await(seconds, TimeUnit.SECONDS);
        consumer.shutdown();
        return String.valueOf(seen.get());
    }

    private static void count(AtomicInteger seen, int more, int wanted, CountDownLatch done) {
        if (seen.addAndGet(more) >= wanted) {
            done.countDown();
        }
    }

    /** A consumer with a name that runs on between requests: start GROUP TOPIC PACE_MS, pace MS, crash, delivered FROM, committed FROM */
    private String consumer(String[] words) throws Exception {
        String name = words[2];
        if (words[1].equals("start")) {
            running.put(name, new RecordedConsumer(namesrv, words[3], words[4], Long.parseLong(words[5])));
            return "";
        }
        RecordedConsumer consumer = running.get(name);
        switch (words[1]) {
            case "pace":
                consumer.pace(Long.parseLong(words[3]));
                return "";
            case "crash":
                consumer.crash();
                return "";
            case "delivered":
                return consumer.delivered(Integer.parseInt(words[3]));
            case "committed":
                return consumer.committed(Integer.parseInt(words[3]));
            default:
                throw new IllegalArgumentException("unknown: consumer " + words[1]);
        }
    }

    /** mqadmin with the other words */
    private String mqadmin(String[] words) {
        String[] arguments = new String[words.length + 1];
        System.arraycopy(words, 1, arguments, 0, words.length - 1);
        arguments[words.length - 1] = "-n";
        arguments[words.length] = namesrv;
        MQAdminStartup.main0(arguments, null);
        return "";
    }
}

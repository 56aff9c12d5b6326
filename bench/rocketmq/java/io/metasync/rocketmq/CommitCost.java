package io.metasync.rocketmq;

import java.io.File;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Files;
import java.util.Arrays;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.offset.ConsumerOffsetManager;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * What the observing map adds to a commit of an offset: two consumer offset managers of the broker in one JVM, one as it is, one with the
 * plugin's map over a node that leads with the shipped policy; slices of commits in turn. Prints the medians of the slices.
 *
 * <p>java CommitCost DIR POLICY SLICES COMMITS
 */
public final class CommitCost {
    private static final int GROUPS = 250;
    private static final int QUEUES = 4;
    private static final int WARM_SLICES = 6;

    private final ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    private final String[] groups = new String[GROUPS];
    private long offset;

    private CommitCost() {
        for (int i = 0; i < GROUPS; i++) {
            groups[i] = "group_" + i;
        }
    }

    private static final class Quiet implements Native.Callbacks {
        @Override
        public int apply(byte[] table, int flags, long lsn, byte[] changes, int count) {
            return 0;
        }

        @Override
        public void role(int role, byte[] reason) {
        }

        @Override
        public void log(int severity, byte[] line) {
        }

        @Override
        public void entered(byte[] table, byte[] key) {
        }

        @Override
        public int resolved(byte[] table, byte[] key, byte[] value) {
            return 0;
        }
    }

    private static BrokerController broker(File dir) {
        MessageStoreConfig store = new MessageStoreConfig();
        store.setStorePathRootDir(dir.getPath());
        return new BrokerController(new BrokerConfig(), new NettyServerConfig(), new NettyClientConfig(), store);
    }

    /** Nanoseconds a commit: by the clock, and of a processor. */
    private double[] slice(ConsumerOffsetManager manager, int commits) {
        long from = System.nanoTime();
        long used = threads.getCurrentThreadCpuTime();
        for (int i = 0; i < commits; i++) {
            manager.commitOffset("bench", groups[i % GROUPS], "topic", i / GROUPS % QUEUES, ++offset);
        }
        used = threads.getCurrentThreadCpuTime() - used;
        return new double[] {(double) (System.nanoTime() - from) / commits, (double) used / commits};
    }

    private static double median(double[] values) {
        double[] sorted = values.clone();
        Arrays.sort(sorted);
        return sorted[sorted.length / 2];
    }

    public static void main(String[] args) throws Exception {
        File dir = new File(args[0]);
        int slices = Integer.parseInt(args[2]);
        int commits = Integer.parseInt(args[3]);
        Files.createDirectories(dir.toPath());
        Native.load();
        MetaNode.Config config = new MetaNode.Config();
        config.dir = new File(dir, "node").getPath();
        config.cluster = "bench";
        config.name = "bench";
        config.policyFile = args[1];
        MetaNode node = MetaNode.open(config, new Quiet());
        node.lead(new String[0], 10_000);
        BrokerController observed = broker(new File(dir, "observed"));
        BrokerController plain = broker(new File(dir, "plain"));
        QueueOffsetTable table = new QueueOffsetTable("offset", observed, "offsetTable", true);
        table.observe();
        table.lead(node.table(table.name(), table.type()));
        measure(observed.getConsumerOffsetManager(), plain.getConsumerOffsetManager(), slices, commits);
        if (table.refused() > 0 || table.meta().count() != GROUPS * QUEUES) {
            throw new IllegalStateException("the node has " + table.meta().count() + " entries, and refused " + table.refused() + " commits");
        }
        node.close();
        System.exit(0); /* managers have threads of their own */
    }

    private static void measure(ConsumerOffsetManager observed, ConsumerOffsetManager plain, int slices, int commits) {
        CommitCost cost = new CommitCost();
        for (int i = 0; i < WARM_SLICES; i++) {
            cost.slice(plain, commits);
            cost.slice(observed, commits);
        }
        double[][] with = new double[4][slices];
        for (int i = 0; i < slices; i++) {
            double[] without = cost.slice(plain, commits);
            double[] observing = cost.slice(observed, commits);
            with[0][i] = observing[0];
            with[1][i] = without[0];
            with[2][i] = observing[0] - without[0];
            with[3][i] = observing[1] - without[1];
        }
        String[] names = {"commit_us", "plain_us", "added_us", "added_cpu_us"};
        for (int i = 0; i < names.length; i++) {
            System.out.println(names[i] + " " + median(with[i]) / 1000);
        }
    }
}

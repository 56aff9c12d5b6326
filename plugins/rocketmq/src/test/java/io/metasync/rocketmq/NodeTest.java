package io.metasync.rocketmq;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.After;
import org.junit.Before;
import org.junit.Test;

/** The native side, with a real node that leads: values cross as they are, maps and table agree, and a closed node refuses. */
public class NodeTest {
    private static final int THREADS = 3;
    private static final int ROUNDS = 3000;

    private File dir;
    private MetaNode node;

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

    @Before
    public void open() throws IOException {
        Native.load();
        dir = Files.createTempDirectory("metasync-java").toFile();
        MetaNode.Config config = new MetaNode.Config();
        config.dir = new File(dir, "node").getPath();
        config.cluster = "test";
        config.name = "test";
        node = MetaNode.open(config, new Quiet());
        node.lead(new String[0], 10_000);
    }

    @After
    public void close() throws IOException {
        node.close();
        try (Stream<java.nio.file.Path> paths = Files.walk(dir.toPath())) {
            paths.sorted(Comparator.reverseOrder()).map(java.nio.file.Path::toFile).forEach(File::delete);
        }
    }

    @Test
    public void valuesOfAllSizesCrossBitForBit() {
        MetaTable table = node.table("topic", MetaNode.TYPE_BYTES);
        Random random = new Random(1);
        for (int size : new int[] {0, 1, 255, 4095, 4096, 4097, 100_000, 4 << 20}) {
            byte[] value = new byte[size];
            random.nextBytes(value);
            byte[] key = Bytes.key("≈ " + size);
            assertEquals(0, table.put(key, value));
            assertArrayEquals(value, table.get(key));
            assertEquals(0, table.put(key, null));
            assertNull(table.get(key));
        }
    }

    @Test
    public void aMapWhoseChangesAreLoggedFirstHasWhatTheTableHas() throws InterruptedException {
        MetaTable table = node.table("topic", MetaNode.TYPE_BYTES);
        ConcurrentMap<String, String> own = new ConcurrentHashMap<>();
        LoggedMap<String, String> map = new LoggedMap<>(own, new LoggedMap.Leaf<String, String>() {
            @Override
            public byte[] key(String key) {
                return Bytes.key(key);
            }

            @Override
            public MetaTable meta() {
                return table;
            }

            @Override
            public byte[] value(String value) {
                return Bytes.utf8(value);
            }

            @Override
            public boolean goesOn(MetaTable table, MetasyncException e) {
                return e.code() == MetasyncException.NOT_LEADER || e.code() == MetasyncException.CLOSED;
            }

            @Override
            public void passed() {
            }

            @Override
            public void changed(String value) {
            }
        });
        run(thread -> {
            Random random = new Random(thread);
            for (int i = 0; i < ROUNDS / 10; i++) {
                String key = "k" + random.nextInt(4);
                int number = random.nextInt(3);
                if (number == 0) {
                    map.remove(key);
                } else {
                    map.compute(key, (same, old) -> old == null ? "1" : old.length() > 20 ? null : old + number);
                }
            }
        });
        assertEquals(own.size(), table.count());
        own.forEach((key, value) -> assertEquals(value, Bytes.text(table.get(Bytes.key(key)))));
    }

    /** A map of texts that is logged as this table. */
    private static LoggedMap<String, String> logged(MetaTable table, ConcurrentMap<String, String> own, boolean[] missed) {
        return new LoggedMap<>(own, new LoggedMap.Leaf<String, String>() {
            @Override
            public byte[] key(String key) {
                return Bytes.key(key);
            }

            @Override
            public MetaTable meta() {
                return table;
            }

            @Override
            public byte[] value(String value) {
                return Bytes.utf8(value);
            }

            @Override
            public boolean goesOn(MetaTable table, MetasyncException e) {
                return e.code() == MetasyncException.NOT_LEADER || e.code() == MetasyncException.CLOSED;
            }

            @Override
            public void passed() {
            }

            @Override
            public void changed(String value) {
            }

            @Override
            public void missed() {
                missed[0] = true;
            }
        });
    }

    @Test
    public void aChangeInsideOfAnotherStandsAndIsSaidToBeMissed() {
        boolean[] missed = new boolean[1];
        ConcurrentMap<String, String> own = new ConcurrentHashMap<>();
        LoggedMap<String, String> outer = logged(node.table("topic", MetaNode.TYPE_BYTES), new ConcurrentHashMap<>(), missed);
        LoggedMap<String, String> inner = logged(node.table("group", MetaNode.TYPE_BYTES), own, missed);
        assertEquals("made", outer.computeIfAbsent("t", key -> {
            inner.put("g", "inside");
            return "made";
        }));
        assertEquals("inside", own.get("g"));
        assertTrue(missed[0]);
    }

    /** What a broker has changed where no map saw it. */
    @Test
    public void anAuditLogsWhatDiffersAndNothingElse() {
        ConcurrentMap<String, Long> own = new ConcurrentHashMap<>();
        NumberTable broker = new NumberTable("delay_offset") {
            @Override
            Long number(byte[] key) {
                return own.get(Bytes.text(key));
            }

            @Override
            void each(Visitor visitor) {
                own.forEach((key, value) -> visitor.entry(Bytes.key(key), Bytes.number(value)));
            }

            @Override
            void put(byte[] key, byte[] value) {
            }

            @Override
            void remove(byte[] key) {
            }

            @Override
            void observe() {
            }
        };
        MetaTable table = node.table("delay_offset", MetaNode.TYPE_INT64);
        for (long i = 0; i < 3000; i++) {
            own.put("level " + i, i);
        }
        assertEquals(0, broker.audit());
        broker.lead(table);
        assertEquals(3000, broker.audit());
        own.put("level 7", Long.MIN_VALUE);
        own.remove("level 8");
        assertEquals(2, broker.audit());
        assertEquals(0, broker.audit());
        assertEquals(Long.MIN_VALUE, Bytes.number(table.get(Bytes.key("level 7"))));
        assertNull(table.get(Bytes.key("level 8")));
        assertEquals(2999, table.keys().size());
    }

    /** A thread that waits in the library is no reason not to close. */
    @Test
    public void aCloseEndsTheCallsThatWait() throws InterruptedException {
        MetaTable table = node.table("topic", MetaNode.TYPE_BYTES);
        MetaTable.Transaction held = table.begin(Bytes.key("held"), 0);
        int[] code = new int[1];
        Thread waiting = new Thread(() -> {
            try {
                table.begin(Bytes.key("held"), -1).close();
            } catch (MetasyncException e) {
                code[0] = e.code();
            }
        });
        waiting.start();
        while (Report.parse(node.status()).get("transactions").equals(1)) {
            Thread.sleep(1);
        }
        node.endCalls();
        waiting.join(TimeUnit.SECONDS.toMillis(30));
        assertEquals(MetasyncException.CLOSED, code[0]);
        held.close();
        node.close();
        assertThrows(MetasyncException.class, () -> table.get(Bytes.key("held")));
    }

    /** Threads put and remove the same keys, all at once, again and again; each time the table has then what the maps have. */
    @Test
    public void theLastOfferIsOfTheLastValue() throws InterruptedException {
        MetaTable table = node.table("offset", MetaNode.TYPE_INT64);
        ConcurrentMap<String, ConcurrentMap<Integer, Long>> own = new ConcurrentHashMap<>();
        NumberTable offers = new NumberTable("offset") {
            @Override
            Long number(byte[] key) {
                ConcurrentMap<Integer, Long> inner = own.get(Bytes.name(key));
                return inner == null ? null : inner.get(Integer.valueOf(Bytes.field(key)));
            }

            @Override
            void each(Visitor visitor) {
            }

            @Override
            void put(byte[] key, byte[] value) {
            }

            @Override
            void remove(byte[] key) {
            }

            @Override
            void observe() {
            }
        };
        offers.lead(table);
        NestedMap map = new NestedMap(own, key -> leaf -> offers.offer(Bytes.key(key, leaf.toString()), () -> {
            ConcurrentMap<Integer, Long> inner = own.get(key);
            return inner == null ? null : inner.get(leaf);
        }));
        CyclicBarrier barrier = new CyclicBarrier(THREADS);
        run(thread -> {
            Random random = new Random(thread);
            for (int round = 0; round < ROUNDS; round++) {
                await(barrier);
                change(map, random, round * THREADS + thread);
                await(barrier);
                if (thread == 0) {
                    assertSame(own, table);
                }
            }
        });
        assertEquals(0, offers.refused());
    }

    /** One of the ways in which a broker changes offsets; all threads have the same two keys. */
    private static void change(NestedMap map, Random random, long number) {
        String key = "t@g";
        int what = random.nextInt(20);
        if (what == 0) {
            map.remove(key);
        } else if (what == 1) {
            map.entrySet().removeIf(entry -> entry.getKey().equals(key));
        } else if (what == 2) {
            ConcurrentMap<Integer, Long> inner = map.get(key);
            if (inner != null) {
                inner.remove(random.nextInt(2));
            }
        } else {
            map.computeIfAbsent(key, same -> new ConcurrentHashMap<>()).put(random.nextInt(2), number);
        }
    }

    private static void assertSame(ConcurrentMap<String, ConcurrentMap<Integer, Long>> own, MetaTable table) {
        for (int leaf = 0; leaf < 2; leaf++) {
            ConcurrentMap<Integer, Long> inner = own.get("t@g");
            byte[] value = table.get(Bytes.key("t@g", String.valueOf(leaf)));
            assertEquals(inner == null ? null : inner.get(leaf), value == null ? null : (Long) Bytes.number(value));
        }
    }

    private static void await(CyclicBarrier barrier) {
        try {
            barrier.await(20, TimeUnit.SECONDS);
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    private interface Work {
        void run(int thread);
    }

    private static void run(Work work) throws InterruptedException {
        List<Thread> threads = new ArrayList<>();
        List<Throwable> failures = new ArrayList<>();
        for (int i = 0; i < THREADS; i++) {
            int number = i;
            Thread thread = new Thread(() -> work.run(number));
            thread.setUncaughtExceptionHandler((same, failure) -> failures.add(failure));
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        assertTrue(failures.toString(), failures.isEmpty());
    }

    @Test
    public void aRefusedChangeLeavesTheMapAsItWas() {
        MetaTable table = node.table("topic", MetaNode.TYPE_BYTES);
        ConcurrentMap<String, String> own = new ConcurrentHashMap<>();
        LoggedMap<String, String> map = new LoggedMap<>(own, new LoggedMap.Leaf<String, String>() {
            @Override
            public byte[] key(String key) {
                return new byte[100_000]; /* longer than any key may be */
            }

            @Override
            public MetaTable meta() {
                return table;
            }

            @Override
            public byte[] value(String value) {
                return Bytes.utf8(value);
            }

            @Override
            public boolean goesOn(MetaTable table, MetasyncException e) {
                return e.code() == MetasyncException.NOT_LEADER || e.code() == MetasyncException.CLOSED;
            }

            @Override
            public void passed() {
            }

            @Override
            public void changed(String value) {
            }
        });
        MetasyncException refused = assertThrows(MetasyncException.class, () -> map.put("k", "v"));
        assertTrue(refused.getMessage(), refused.getMessage().length() > 10);
        assertTrue(own.isEmpty());
    }

    private boolean written(File file, MetaTable table, int count) throws IOException {
        return TableFile.replace(file, Bytes.utf8("{\"dataVersion\":{},\"table\":{"), table, count, Bytes.utf8("}}"));
    }

    private static String text(File file) throws IOException {
        return Bytes.text(Files.readAllBytes(file.toPath()));
    }

    @Test
    public void aFileOfTheBrokerIsMadeOfATablesValues() throws IOException {
        MetaTable table = node.table("topic", MetaNode.TYPE_BYTES);
        File file = new File(dir, "topics.json");
        assertTrue(written(file, table, 0));
        assertEquals("{\"dataVersion\":{},\"table\":{}}", text(file));
        for (int i = 0; i < ROUNDS; i++) {
            table.put(Bytes.key("%RETRY%≈" + i), Bytes.utf8("{\"perm\":" + i + "}"));
        }
        assertTrue(written(file, table, ROUNDS));
        Map<String, Object> read = Report.part(Report.parse(text(file)), "table");
        assertEquals(ROUNDS, read.size());
        for (int i = 0; i < ROUNDS; i++) {
            assertEquals(i, Report.part(read, "%RETRY%≈" + i).get("perm"));
        }
        assertEquals("{\"dataVersion\":{},\"table\":{}}", text(new File(dir, "topics.json.bak")));
        assertArrayEquals(new String[] {"node", "topics.json", "topics.json.bak"}, Stream.of(dir.list()).sorted().toArray());
    }

    @Test
    public void aFileIsLeftToTheBrokerIfItHasOtherEntriesOrAKeyThatIsNotPlain() throws IOException {
        MetaTable table = node.table("topic", MetaNode.TYPE_BYTES);
        File file = new File(dir, "topics.json");
        table.put(Bytes.key("a"), Bytes.utf8("{}"));
        assertTrue(written(file, table, 1));
        String before = text(file);
        assertFalse(written(file, table, 0));
        assertFalse(written(file, table, 2));
        for (String key : new String[] {"a\"b", "a\\b", "a\nb"}) {
            table.put(Bytes.key(key), Bytes.utf8("{}"));
            assertFalse(written(file, table, 2));
            table.put(Bytes.key(key), null);
        }
        assertFalse(written(new File(dir, "nowhere/topics.json"), table, 1));
        assertEquals(before, text(file));
        assertArrayEquals(new String[] {"node", "topics.json"}, Stream.of(dir.list()).sorted().toArray());
    }

    @Test
    public void aClosedNodeRefuses() {
        MetaTable table = node.table("topic", MetaNode.TYPE_BYTES);
        node.close();
        assertThrows(MetasyncException.class, () -> table.put(Bytes.key("k"), Bytes.utf8("v")));
        assertEquals(MetasyncException.CLOSED, table.offer(Bytes.key("k"), 1));
        node.close();
    }
}

package io.metasync.rocketmq;

import java.io.File;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.function.UnaryOperator;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.subscription.SubscriptionGroupManager;

/** What a group may not read, by group and topic. The broker puts an empty inner map first and fills it then, and clears whole groups. */
final class ForbiddenTable extends BrokerTable {
    private final BrokerController broker;
    private final Counted counted;
    private final BrokerTable counts;
    private Groups map;
    private volatile boolean dirty;
    private volatile boolean missed;

    /** counts: the table whose version is counted up for this one too. */
    ForbiddenTable(BrokerController broker, Counted counted, BrokerTable counts) {
        super("forbidden", MetaNode.TYPE_INT64);
        this.broker = broker;
        this.counted = counted;
        this.counts = counts;
    }

    private SubscriptionGroupManager manager() {
        return broker.getSubscriptionGroupManager();
    }

    private ConcurrentMap<String, ConcurrentMap<String, Integer>> own() {
        return map != null ? map.own() : manager().getForbiddenTable();
    }

    /** One group's topics: each change is logged before the broker sees it. */
    private LoggedMap<String, Integer> topics(String group, ConcurrentMap<String, Integer> inner) {
        if (inner instanceof LoggedMap) {
            return (LoggedMap<String, Integer>) inner;
        }
        return new LoggedMap<>(inner, new LoggedMap.Leaf<String, Integer>() {
            @Override
            public byte[] key(String topic) {
                return Bytes.key(group, topic);
            }

            @Override
            public MetaTable meta() {
                return ForbiddenTable.this.meta();
            }

            @Override
            public void mayChange() {
                ForbiddenTable.this.mayChange();
            }

            @Override
            public byte[] value(Integer bits) {
                return Bytes.number(bits);
            }

            @Override
            public void changed(Integer bits) {
                if (bits != null) { /* is counted with the groups; the broker counts none that it removes */
                    counted.changed(counts);
                }
            }

            @Override
            public boolean goesOn(MetaTable table, MetasyncException e) {
                return ForbiddenTable.this.goesOn(table, e);
            }

            @Override
            public void passed() {
                ForbiddenTable.this.passed();
            }

            @Override
            public void missed() {
                missed = true;
            }

            @Override
            public void unconfirmed() {
                manager().getDataVersion().nextVersion();
                dirty = true;
            }
        });
    }

    /** The outer map. A group that comes or goes as a whole does so topic by topic. */
    private final class Groups extends ObservedMap<String, ConcurrentMap<String, Integer>> {
        Groups(ConcurrentMap<String, ConcurrentMap<String, Integer>> own) {
            super(own);
            own.replaceAll(ForbiddenTable.this::topics);
        }

        @Override
        protected synchronized ConcurrentMap<String, Integer> update(String group, UnaryOperator<ConcurrentMap<String, Integer>> change) {
            ConcurrentMap<String, Integer> old = own().get(group);
            Object value = change.apply(old);
            if (isKeep(value)) {
                return old;
            }
            if (old != null && old != value) {
                old.clear(); /* logged; if it is refused in the middle, what is left stays in both */
            }
            if (value == null) {
                own().remove(group);
                return old;
            }
            @SuppressWarnings("unchecked")
            ConcurrentMap<String, Integer> given = (ConcurrentMap<String, Integer>) value;
            LoggedMap<String, Integer> now = topics(group, given instanceof LoggedMap ? given : new ConcurrentHashMap<>());
            own().put(group, now);
            if (now != given) {
                now.putAll(given);
            }
            return old;
        }

        @Override
        protected ConcurrentMap<String, Integer> stored(String group, ConcurrentMap<String, Integer> computed) {
            ConcurrentMap<String, Integer> now = own().get(group);
            return now != null ? now : computed;
        }
    }

    @Override
    void observe() {
        map = new Groups(manager().getForbiddenTable());
        manager().setForbiddenTable(map);
    }

    @Override
    void each(Visitor visitor) {
        own().forEach((group, topics) -> topics.forEach((topic, bits) -> {
            if (Bytes.isKey(group) && Bytes.isKey(topic)) {
                visitor.entry(Bytes.key(group, topic), Bytes.number(bits));
            }
        }));
    }

    @Override
    byte[] get(byte[] key) {
        ConcurrentMap<String, Integer> topics = own().get(Bytes.name(key));
        Integer bits = topics == null ? null : topics.get(Bytes.field(key));
        return bits == null ? null : Bytes.number(bits);
    }

    @Override
    void poll() {
        if (missed) {
            missed = false;
            audit();
        }
    }

    @Override
    void put(byte[] key, byte[] value) {
        String group = Bytes.name(key);
        ConcurrentMap<String, Integer> inner = own().computeIfAbsent(group, same -> topics(group, new ConcurrentHashMap<>(4)));
        Integer bits = (int) Bytes.number(value);
        dirty |= !bits.equals(raw(inner).put(Bytes.field(key), bits));
    }

    @Override
    void remove(byte[] key) {
        own().computeIfPresent(Bytes.name(key), (group, inner) -> {
            raw(inner).remove(Bytes.field(key));
            return inner.isEmpty() ? null : inner;
        });
        dirty = true;
    }

    private static ConcurrentMap<String, Integer> raw(ConcurrentMap<String, Integer> inner) {
        return inner instanceof LoggedMap ? ((LoggedMap<String, Integer>) inner).own() : inner;
    }

    @Override
    void persist() {
        if (dirty) {
            dirty = false;
            manager().persist();
        }
    }

    @Override
    File file() {
        return new File(manager().configFilePath());
    }
}

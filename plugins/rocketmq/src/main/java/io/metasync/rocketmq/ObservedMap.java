package io.metasync.rocketmq;

import java.util.AbstractCollection;
import java.util.AbstractMap;
import java.util.AbstractSet;
import java.util.Collection;
import java.util.Iterator;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentMap;
import java.util.function.BiConsumer;
import java.util.function.BiFunction;
import java.util.function.Function;
import java.util.function.UnaryOperator;

/**
 * A map that the broker uses in the place of one of its own and that sees every change of an entry, whichever way it is made: also
 * by an iterator of a view, by an entry's setValue, by removeIf. All of them come down to {@link #update}; reads go to the broker's
 * own map, which stays behind.
 */
abstract class ObservedMap<K, V> extends AbstractMap<K, V> implements ConcurrentMap<K, V> {
    /** What an update returns to leave the entry as it is, so that nothing is logged or even compared. */
    private static final Object KEEP = new Object();

    private final ConcurrentMap<K, V> own;

    ObservedMap(ConcurrentMap<K, V> own) {
        this.own = own;
    }

    /** The broker's own map: for reading, and for what the leader has decided already (a follower's applies). */
    final ConcurrentMap<K, V> own() {
        return own;
    }

    /**
     * Changes one entry: computes the new value from the old one (null: none; the result null removes it) exactly once, and returns
     * the old one. Atomic against other updates of the key.
     */
    protected abstract V update(K key, UnaryOperator<V> change);

    @SuppressWarnings("unchecked")
    static <T> T keep() {
        return (T) KEEP;
    }

    static boolean isKeep(Object value) {
        return value == KEEP;
    }

    /** Runs an update and hands out what it computed, which may be the kept old value. */
    private V updated(K key, UnaryOperator<V> change) {
        Object[] result = new Object[1];
        update(key, old -> {
            V value = change.apply(old);
            result[0] = isKeep(value) ? old : value;
            return value;
        });
        @SuppressWarnings("unchecked")
        V value = (V) result[0];
        return value == null ? null : stored(key, value);
    }

    /** What the caller of a compute gets: a map that puts something else in the place of the computed value hands that out. */
    protected V stored(K key, V computed) {
        return computed;
    }

    // ---- writing ------------------------------------------------------------------------------------------------------------------

    @Override
    public V put(K key, V value) {
        Objects.requireNonNull(value);
        return update(key, old -> value);
    }

    @Override
    public void putAll(Map<? extends K, ? extends V> map) {
        for (Map.Entry<? extends K, ? extends V> entry : map.entrySet()) {
            put(entry.getKey(), entry.getValue());
        }
    }

    @Override
    public V putIfAbsent(K key, V value) {
        Objects.requireNonNull(value);
        V present = own.get(key);
        return present != null ? present : update(key, old -> old != null ? keep() : value);
    }

    @Override
    public V remove(Object key) {
        @SuppressWarnings("unchecked")
        K typed = (K) key;
        return own.containsKey(key) ? update(typed, old -> old == null ? keep() : null) : null;
    }

    @Override
    public boolean remove(Object key, Object value) {
        @SuppressWarnings("unchecked")
        K typed = (K) key;
        boolean[] removed = new boolean[1];
        update(typed, old -> {
            removed[0] = old != null && old.equals(value);
            return removed[0] ? null : keep();
        });
        return removed[0];
    }

    @Override
    public V replace(K key, V value) {
        Objects.requireNonNull(value);
        return update(key, old -> old == null ? keep() : value);
    }

    @Override
    public boolean replace(K key, V oldValue, V newValue) {
        Objects.requireNonNull(newValue);
        boolean[] replaced = new boolean[1];
        update(key, old -> {
            replaced[0] = old != null && old.equals(oldValue);
            return replaced[0] ? newValue : keep();
        });
        return replaced[0];
    }

    @Override
    public void replaceAll(BiFunction<? super K, ? super V, ? extends V> function) {
        for (K key : own.keySet()) {
            update(key, old -> old == null ? keep() : Objects.requireNonNull(function.apply(key, old)));
        }
    }

    @Override
    public V compute(K key, BiFunction<? super K, ? super V, ? extends V> function) {
        return updated(key, old -> function.apply(key, old));
    }

    @Override
    public V computeIfAbsent(K key, Function<? super K, ? extends V> function) {
        V present = own.get(key);
        if (present != null) {
            return present;
        }
        return updated(key, old -> {
            V made = old != null ? null : function.apply(key);
            return made != null ? made : keep();
        });
    }

    @Override
    public V computeIfPresent(K key, BiFunction<? super K, ? super V, ? extends V> function) {
        return own.containsKey(key) ? updated(key, old -> old == null ? keep() : function.apply(key, old)) : null;
    }

    @Override
    public V merge(K key, V value, BiFunction<? super V, ? super V, ? extends V> function) {
        Objects.requireNonNull(value);
        return updated(key, old -> old == null ? value : function.apply(old, value));
    }

    @Override
    public void clear() {
        for (K key : own.keySet()) {
            remove(key);
        }
    }

    // ---- reading ------------------------------------------------------------------------------------------------------------------

    @Override
    public V get(Object key) {
        return own.get(key);
    }

    @Override
    public V getOrDefault(Object key, V fallback) {
        return own.getOrDefault(key, fallback);
    }

    @Override
    public boolean containsKey(Object key) {
        return own.containsKey(key);
    }

    @Override
    public boolean containsValue(Object value) {
        return own.containsValue(value);
    }

    @Override
    public int size() {
        return own.size();
    }

    @Override
    public boolean isEmpty() {
        return own.isEmpty();
    }

    @Override
    public void forEach(BiConsumer<? super K, ? super V> action) {
        own.forEach(action);
    }

    @Override
    public boolean equals(Object other) {
        return other == this || own.equals(other);
    }

    @Override
    public int hashCode() {
        return own.hashCode();
    }

    @Override
    public String toString() {
        return own.toString();
    }

    // ---- views: they read the broker's own map, and write through this one -----------------------------------------------------------

    @Override
    public Set<Map.Entry<K, V>> entrySet() {
        return new AbstractSet<Map.Entry<K, V>>() {
            @Override
            public Iterator<Map.Entry<K, V>> iterator() {
                return new EntryIterator();
            }

            @Override
            public int size() {
                return own.size();
            }

            @Override
            public boolean contains(Object entry) {
                return own.entrySet().contains(entry);
            }

            @Override
            public boolean remove(Object entry) {
                return entry instanceof Map.Entry
                    && ObservedMap.this.remove(((Map.Entry<?, ?>) entry).getKey(), ((Map.Entry<?, ?>) entry).getValue());
            }

            @Override
            public void clear() {
                ObservedMap.this.clear();
            }
        };
    }

    @Override
    public Set<K> keySet() {
        return new AbstractSet<K>() {
            @Override
            public Iterator<K> iterator() {
                return parts(Map.Entry::getKey);
            }

            @Override
            public int size() {
                return own.size();
            }

            @Override
            public boolean contains(Object key) {
                return own.containsKey(key);
            }

            @Override
            public boolean remove(Object key) {
                return ObservedMap.this.remove(key) != null;
            }

            @Override
            public void clear() {
                ObservedMap.this.clear();
            }
        };
    }

    @Override
    public Collection<V> values() {
        return new AbstractCollection<V>() {
            @Override
            public Iterator<V> iterator() {
                return parts(Map.Entry::getValue);
            }

            @Override
            public int size() {
                return own.size();
            }

            @Override
            public void clear() {
                ObservedMap.this.clear();
            }
        };
    }

    /** One part of each entry. */
    private <T> Iterator<T> parts(Function<Map.Entry<K, V>, T> part) {
        EntryIterator entries = new EntryIterator();
        return new Iterator<T>() {
            @Override
            public boolean hasNext() {
                return entries.hasNext();
            }

            @Override
            public T next() {
                return part.apply(entries.next());
            }

            @Override
            public void remove() {
                entries.remove();
            }
        };
    }

    private final class EntryIterator implements Iterator<Map.Entry<K, V>> {
        private final Iterator<Map.Entry<K, V>> entries = own.entrySet().iterator();
        private K last;

        @Override
        public boolean hasNext() {
            return entries.hasNext();
        }

        @Override
        public Map.Entry<K, V> next() {
            Map.Entry<K, V> entry = entries.next();
            last = entry.getKey();
            return new SimpleEntry<K, V>(entry) {
                private static final long serialVersionUID = 1L;

                @Override
                public V setValue(V value) {
                    ObservedMap.this.put(getKey(), value);
                    return super.setValue(value);
                }
            };
        }

        @Override
        public void remove() {
            if (last == null) {
                throw new IllegalStateException();
            }
            ObservedMap.this.remove(last);
            last = null;
        }
    }
}

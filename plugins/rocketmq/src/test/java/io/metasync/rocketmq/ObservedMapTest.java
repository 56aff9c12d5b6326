package io.metasync.rocketmq;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import org.junit.Test;

/** An observed map behaves like a ConcurrentHashMap, and sees every change: what it saw, folded, is what it has. */
public class ObservedMapTest {
    private static final class Seen extends ObservedMap<String, Integer> {
        final Map<String, Integer> folded = new HashMap<>();
        int changes;

        Seen() {
            super(new ConcurrentHashMap<>());
        }

        @Override
        protected synchronized Integer update(String key, UnaryOperator<Integer> change) {
            Integer old = own().get(key);
            Object value = change.apply(old);
            if (isKeep(value)) {
                return old;
            }
            changes++;
            if (value == null) {
                own().remove(key);
                folded.remove(key);
            } else {
                own().put(key, (Integer) value);
                folded.put(key, (Integer) value);
            }
            return old;
        }
    }

    /** Every way to change a map, with a result to compare; some by hand over what an iterator shows. */
    private static List<Function<ConcurrentMap<String, Integer>, Object>> operations(String key, Integer number) {
        List<Function<ConcurrentMap<String, Integer>, Object>> all = new ArrayList<>();
        all.add(map -> map.put(key, number));
        all.add(map -> map.putIfAbsent(key, number));
        all.add(map -> map.remove(key));
        all.add(map -> map.remove(key, number));
        all.add(map -> map.replace(key, number));
        all.add(map -> map.replace(key, number, number + 1));
        all.add(map -> map.compute(key, (same, old) -> old == null ? number : old % 3 == 0 ? null : (Integer) (old + 1)));
        all.add(map -> map.computeIfAbsent(key, same -> number % 2 == 0 ? number : null));
        all.add(map -> map.computeIfPresent(key, (same, old) -> old % 2 == 0 ? null : (Integer) (old * 2)));
        all.add(map -> map.merge(key, number, (old, more) -> (old + more) % 5 == 0 ? null : (Integer) (old + more)));
        all.add(map -> map.keySet().remove(key));
        all.add(map -> map.values().removeAll(java.util.Arrays.asList(number, number + 1)));
        all.add(map -> map.entrySet().remove(new java.util.AbstractMap.SimpleEntry<>(key, number)));
        all.add(map -> map.keySet().removeIf(name -> name.compareTo(key) < 0));
        all.add(map -> map.values().removeIf(value -> value > number));
        all.add(map -> map.entrySet().removeIf(entry -> entry.getValue().equals(number)));
        all.add(map -> map.keySet().retainAll(java.util.Arrays.asList("k0", "k1", "k2", "k3", key)));
        all.add(map -> {
            map.replaceAll((name, value) -> value + 1);
            return null;
        });
        all.add(map -> {
            map.putAll(java.util.Collections.singletonMap(key, number));
            return null;
        });
        all.add(map -> {
            for (Map.Entry<String, Integer> entry : map.entrySet()) {
                assertEquals(entry.getValue(), entry.setValue(number));
                assertEquals(number, entry.getValue());
            }
            return null;
        });
        all.add(map -> {
            Iterator<Map.Entry<String, Integer>> entries = map.entrySet().iterator();
            while (entries.hasNext()) {
                if (entries.next().getValue() % 4 == 0) {
                    entries.remove();
                }
            }
            return null;
        });
        all.add(map -> number % 7 != 0 ? null : clear(map));
        return all;
    }

    private static Object clear(Map<String, Integer> map) {
        map.clear();
        return null;
    }

    @Test
    public void doesWhatAConcurrentHashMapDoesAndSeesIt() {
        for (int seed = 0; seed < 200; seed++) {
            Random random = new Random(seed);
            ConcurrentMap<String, Integer> model = new ConcurrentHashMap<>();
            Seen map = new Seen();
            for (int step = 0; step < 200; step++) {
                String key = "k" + random.nextInt(8);
                int number = random.nextInt(20);
                int choice = random.nextInt(operations(key, number).size());
                String what = "seed " + seed + ", step " + step + ", operation " + choice;
                Object expected = operations(key, number).get(choice).apply(model);
                assertEquals(what, expected, operations(key, number).get(choice).apply(map));
                assertEquals(what, model, map);
                assertEquals(what, model, map.folded);
                assertReads(model, map, key, number);
            }
        }
    }

    /** Two hash maps need not agree in the order of what collides. */
    private static List<Integer> sorted(java.util.Collection<Integer> values) {
        List<Integer> list = new ArrayList<>(values);
        java.util.Collections.sort(list);
        return list;
    }

    private static void assertReads(Map<String, Integer> model, Map<String, Integer> map, String key, int number) {
        assertEquals(model.get(key), map.get(key));
        assertEquals(model.getOrDefault(key, -1), map.getOrDefault(key, -1));
        assertEquals(model.containsKey(key), map.containsKey(key));
        assertEquals(model.containsValue(number), map.containsValue(number));
        assertEquals(model.size(), map.size());
        assertEquals(model.isEmpty(), map.isEmpty());
        assertEquals(model.keySet(), map.keySet());
        assertEquals(model.entrySet(), map.entrySet());
        assertEquals(sorted(model.values()), sorted(map.values()));
        assertEquals(model.hashCode(), map.hashCode());
        assertEquals(model.toString().length(), map.toString().length());
        Map<String, Integer> visited = new HashMap<>();
        map.forEach(visited::put);
        assertEquals(model, visited);
    }

    @Test
    public void refusesNullAndAnIteratorWithoutNext() {
        Seen map = new Seen();
        assertThrows(NullPointerException.class, () -> map.put("a", null));
        assertThrows(NullPointerException.class, () -> map.putIfAbsent("a", null));
        map.put("a", 1);
        Iterator<String> keys = map.keySet().iterator();
        assertThrows(IllegalStateException.class, keys::remove);
        keys.next();
        keys.remove();
        assertThrows(IllegalStateException.class, keys::remove);
        assertTrue(map.isEmpty());
    }

    @Test
    public void seesNothingWhereNothingChanges() {
        Seen map = new Seen();
        map.put("a", 1);
        int before = map.changes;
        map.putIfAbsent("a", 2);
        map.computeIfAbsent("a", key -> 3);
        map.computeIfPresent("b", (key, old) -> 4);
        map.remove("b");
        map.remove("a", 5);
        map.replace("a", 5, 6);
        assertFalse(map.keySet().removeIf(key -> false));
        assertEquals(before, map.changes);
    }
}

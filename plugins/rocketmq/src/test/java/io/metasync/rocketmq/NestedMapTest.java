package io.metasync.rocketmq;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertSame;
import static org.junit.Assert.assertTrue;

import java.util.HashSet;
import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.junit.Test;

/** A map of maps hears of each inner key, however the broker comes by the inner map. */
public class NestedMapTest {
    private final Set<String> heard = new HashSet<>();
    private final NestedMap map = new NestedMap(new ConcurrentHashMap<>(), key -> leaf -> heard.add(key + " " + leaf));

    private static ConcurrentMap<Integer, Long> inner(int queue, long offset) {
        ConcurrentMap<Integer, Long> inner = new ConcurrentHashMap<>();
        inner.put(queue, offset);
        return inner;
    }

    private void assertHeard(String... expected) {
        assertEquals(new HashSet<>(java.util.Arrays.asList(expected)), heard);
        heard.clear();
    }

    @Test
    public void hearsOfWhatIsPutWithAMapAndLaterIntoIt() {
        map.put("t@g", inner(0, 5));
        assertHeard("t@g 0");
        map.get("t@g").put(1, 7L);
        assertHeard("t@g 1");
        map.get("t@g").put(1, 7L);
        assertHeard();
        map.get("t@g").remove(1);
        assertHeard("t@g 1");
    }

    /** computeIfAbsent(...).put(...): the way of pull and reset offsets. */
    @Test
    public void whoComputesAnInnerMapWritesIntoTheOneThatIsObserved() {
        map.computeIfAbsent("t@g", key -> new ConcurrentHashMap<>()).put(3, 9L);
        assertHeard("t@g 3");
        assertSame(map.get("t@g"), map.computeIfAbsent("t@g", key -> new ConcurrentHashMap<>()));
        map.compute("t@h", (key, old) -> new ConcurrentHashMap<>()).put(1, 1L);
        assertHeard("t@h 1");
        map.merge("t@i", new ConcurrentHashMap<>(), (old, more) -> old).put(2, 1L);
        assertHeard("t@i 2");
    }

    @Test
    public void hearsOfEachInnerKeyThatGoesWithItsMap() {
        map.put("a@g", inner(0, 1));
        map.put("b@g", inner(1, 1));
        map.put("c@g", inner(2, 1));
        heard.clear();
        for (Iterator<Map.Entry<String, ConcurrentMap<Integer, Long>>> it = map.entrySet().iterator(); it.hasNext();) {
            if (it.next().getKey().equals("a@g")) {
                it.remove();
            }
        }
        assertHeard("a@g 0");
        map.keySet().removeIf(key -> key.equals("b@g"));
        assertHeard("b@g 1");
        map.remove("c@g");
        assertHeard("c@g 2");
        assertTrue(map.isEmpty());
    }

    @Test
    public void hearsOfBothWhenOneMapReplacesAnother() {
        map.put("t@g", inner(0, 1));
        heard.clear();
        map.put("t@g", inner(1, 1));
        assertHeard("t@g 0", "t@g 1");
        assertNull(map.get("t@g").get(0));
        assertNotNull(map.get("t@g").get(1));
    }
}

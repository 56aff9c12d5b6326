package io.metasync.rocketmq;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.junit.Test;

/** Keys and numbers as bytes; batches of changes. */
public class PartsTest {
    @Test
    public void keysHaveOneOrTwoParts() {
        byte[] key = Bytes.key("t@g", "3");
        assertArrayEquals(new byte[] {'t', '@', 'g', 0, '3'}, key);
        assertEquals("t@g", Bytes.name(key));
        assertEquals("3", Bytes.field(key));
        assertEquals("t", Bytes.name(Bytes.key("t")));
        assertNull(Bytes.field(Bytes.key("t")));
        assertEquals("", Bytes.field(Bytes.key("t", "")));
        assertThrows(IllegalArgumentException.class, () -> Bytes.key("a\0b"));
    }

    /** JNI's own strings would be modified UTF-8: other bytes for this one. */
    @Test
    public void textIsUtf8() {
        String text = "≈∂ç√ß \uD83D\uDE00";
        assertEquals(text, Bytes.text(Bytes.utf8(text)));
        assertEquals(4, Bytes.utf8("\uD83D\uDE00").length);
        assertNull(Bytes.utf8(null));
        assertNull(Bytes.text(null));
    }

    @Test
    public void numbersAreExact() {
        for (long number : new long[] {0, -1, 1, Long.MAX_VALUE, Long.MIN_VALUE, 9007199254740993L}) {
            assertEquals(number, Bytes.number(Bytes.number(number)));
        }
        assertArrayEquals(new byte[] {1, 2, 0, 0, 0, 0, 0, 0}, Bytes.number(0x0201));
    }

    @Test
    public void batchesAreReadInOrder() {
        ByteBuffer bytes = ByteBuffer.allocate(64).order(ByteOrder.LITTLE_ENDIAN);
        bytes.put((byte) Changes.PUT).putInt(1).putInt(2).put((byte) 'k').put((byte) 'v').put((byte) 'w');
        bytes.put((byte) Changes.DELETE).putInt(2).putInt(-1).put((byte) 'a').put((byte) 'b');
        bytes.put((byte) Changes.PUT).putInt(1).putInt(0).put((byte) 'e');
        Changes changes = new Changes(java.util.Arrays.copyOf(bytes.array(), bytes.position()));
        assertTrue(changes.next());
        assertEquals(Changes.PUT, changes.op());
        assertEquals("k", Bytes.text(changes.key()));
        assertEquals("vw", Bytes.text(changes.value()));
        assertTrue(changes.next());
        assertEquals(Changes.DELETE, changes.op());
        assertEquals("ab", Bytes.text(changes.key()));
        assertNull(changes.value());
        assertTrue(changes.next());
        assertArrayEquals(new byte[0], changes.value());
        assertFalse(changes.next());
    }
}

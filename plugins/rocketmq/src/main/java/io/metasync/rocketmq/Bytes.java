package io.metasync.rocketmq;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;

/** Texts, keys and numbers as bytes (DESIGN of leaf keys: docs/rocketmq.md). */
final class Bytes {
    private Bytes() {
    }

    static byte[] utf8(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] utf8) {
        return utf8 == null ? null : new String(utf8, StandardCharsets.UTF_8);
    }

    /** Whether it can be a key, or a part of one. */
    static boolean isKey(String name) {
        return !name.isEmpty() && name.indexOf('\0') < 0;
    }

    /** A leaf key of one part. Names with a NUL byte can't be keys. */
    static byte[] key(String name) {
        if (name.indexOf('\0') >= 0) {
            throw new IllegalArgumentException("a name with a NUL character: " + name.replace('\0', '?'));
        }
        return utf8(name);
    }

    /** A leaf key of two parts: key, NUL, field. */
    static byte[] key(String name, String field) {
        return join(key(name), key(field));
    }

    /** A key for people. */
    static String readable(byte[] key) {
        return text(key).replace('\0', ' ');
    }

    static byte[] join(byte[] name, byte[] field) {
        byte[] key = new byte[name.length + 1 + field.length];
        System.arraycopy(name, 0, key, 0, name.length);
        System.arraycopy(field, 0, key, name.length + 1, field.length);
        return key;
    }

    /** Where the key's first part ends: at its NUL, or its end. */
    static int nameEnd(byte[] key) {
        for (int i = 0; i < key.length; i++) {
            if (key[i] == 0) {
                return i;
            }
        }
        return key.length;
    }

    static String name(byte[] key) {
        return new String(key, 0, nameEnd(key), StandardCharsets.UTF_8);
    }

    /** null for a key of one part. */
    static String field(byte[] key) {
        int end = nameEnd(key);
        return end == key.length ? null : new String(key, end + 1, key.length - end - 1, StandardCharsets.UTF_8);
    }

    /** A value of an int64 table. */
    static byte[] number(long value) {
        return ByteBuffer.allocate(Long.BYTES).order(ByteOrder.LITTLE_ENDIAN).putLong(value).array();
    }

    static long number(byte[] value) {
        return ByteBuffer.wrap(value).order(ByteOrder.LITTLE_ENDIAN).getLong();
    }
}

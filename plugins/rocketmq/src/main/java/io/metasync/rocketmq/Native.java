package io.metasync.rocketmq;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;

/**
 * The library's functions as they cross the border: bytes and numbers (plugins/rocketmq/native/binding.h says how). Only
 * {@link MetaNode} and its parts call them; they keep handles from being used after the node is closed.
 */
final class Native {
    /** What the node tells its host; on one thread of the node, one call at a time, in the order of the log. */
    interface Callbacks {
        /** A batch of changes as {@link Changes} reads it; 0 confirms it. */
        int apply(byte[] table, int flags, long lsn, byte[] changes, int count);

        void role(int role, byte[] reason);

        void log(int severity, byte[] line);

        /** A reloaded policy wants this entry; key null: more of the table than were remembered. */
        void entered(byte[] table, byte[] key);

        /** A conflict was decided: the entry has this value now (null: removed). */
        int resolved(byte[] table, byte[] key, byte[] value);
    }

    private static final String RESOURCE = "/native/linux-x86_64/libmetasync-jni.so";

    private Native() {
    }

    /** Where another library than the one in the jar is to be taken from. */
    static final String LIBRARY_PROPERTY = "metasync.library";

    private static boolean loaded;

    /** Loads the library once. Throws {@link UnsatisfiedLinkError} or {@link IOException} with the reason. */
    static synchronized void load() throws IOException {
        if (loaded) {
            return;
        }
        String path = System.getProperty(LIBRARY_PROPERTY);
        if (path != null) {
            System.load(new File(path).getAbsolutePath());
        } else {
            loadUnpacked();
        }
        loaded = true;
    }

    /** The library has to be a file to be loaded. The file goes at once: one that waits for the JVM's end stays when that is killed. */
    private static void loadUnpacked() throws IOException {
        String machine = System.getProperty("os.name") + " " + System.getProperty("os.arch");
        if (!machine.equals("Linux amd64")) {
            throw new IOException("no native library for " + machine + " in the jar; -D" + LIBRARY_PROPERTY + " names another one");
        }
        File file = File.createTempFile("libmetasync-jni-", ".so");
        try {
            try (InputStream in = Native.class.getResourceAsStream(RESOURCE)) {
                if (in == null) {
                    throw new IOException(RESOURCE + " is not in the jar");
                }
                Files.copy(in, file.toPath(), StandardCopyOption.REPLACE_EXISTING);
            }
            System.load(file.getAbsolutePath());
        } finally {
            Files.deleteIfExists(file.toPath()); /* whoever tidies /tmp may have been quicker: no reason to run without us */
        }
    }

    static native byte[] lastError();

    static native byte[] errorText(int code);

    /** texts: dir, cluster, name, listen, secret, control, policy file; null where there is none. A handle, or a negative code. */
    static native long open(byte[][] texts, Callbacks callbacks);

    /** Calls that wait return, later ones are refused. */
    static native void endCalls(long node);

    static native void close(long node);

    static native int port(long node);

    static native int lead(long node, byte[][] peers, boolean compares, int timeoutMs);

    static native int compared(long node);

    static native int follow(long node, byte[] address);

    static native int promote(long node, long leastReign, int flags, int timeoutMs);

    static native int adopt(long node);

    static native void position(long node, long[] numbers);

    static native byte[] status(long node);

    static native int snapshot(long node, int timeoutMs);

    static native int flush(long node);

    static native long tableOpen(long node, byte[] name, int type);

    static native long tableCount(long table);

    static native int put(long table, byte[] key, byte[] value, int flags);

    static native int putLong(long table, byte[] key, long value, int flags);

    static native int delete(long table, byte[] key, int flags);

    static native long begin(long table, byte[] key, int waitMs);

    static native int commit(long txn, byte[] value, int flags);

    static native void end(long txn);

    static native byte[] get(long table, byte[] key);

    /** Of all entries: size (4 bytes, little endian), bytes, one after the other. */
    static native byte[] keys(long table);

    /** A new file: head, the entries as the members of an object of JSON, tail. How many they are, or a negative code. */
    static native int writeMembers(long table, byte[] path, byte[] head, byte[] tail);

    static native long compareBegin(long table, int version, long writtenUs);

    static native int compareEntry(long compare, byte[] key, byte[] value);

    static native int compareEnd(long compare, long[] numbers);

    static native void compareAbandon(long compare);
}

package io.metasync.rocketmq;

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.lang.instrument.Instrumentation;
import java.nio.charset.StandardCharsets;
import java.util.jar.JarFile;
import java.util.jar.JarOutputStream;
import java.util.zip.ZipEntry;

/**
 * {@code -javaagent:metasync-rocketmq.jar}: for a site that has a check listener of its own on the class path. The broker takes the first
 * one that it finds, so the name of ours is put where it looks first; {@link CheckListener} then finds the site's behind it. Nothing
 * is instrumented.
 */
public final class Agent {
    private Agent() {
    }

    public static void premain(String arguments, Instrumentation instrumentation) {
        try {
            instrumentation.appendToBootstrapClassLoaderSearch(new JarFile(service()));
        } catch (IOException | RuntimeException e) {
            System.err.println("metasync: not loaded, the broker runs as without it: " + e); /* the broker's log is not there yet */
        }
    }

    /** A jar with nothing but the name of our listener. */
    private static File service() throws IOException {
        File file = File.createTempFile("metasync-service-", ".jar");
        file.deleteOnExit();
        try (JarOutputStream jar = new JarOutputStream(new FileOutputStream(file))) {
            jar.putNextEntry(new ZipEntry(CheckListener.SERVICE));
            jar.write((CheckListener.CLASS + "\n").getBytes(StandardCharsets.UTF_8));
            jar.closeEntry();
        }
        return file;
    }
}

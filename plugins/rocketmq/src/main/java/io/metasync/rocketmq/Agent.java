package io.metasync.rocketmq;

import java.net.URL;

/**
 * {@code -javaagent:metasync-rocketmq.jar}: for a site that has a check listener of its own on the class path. The broker takes the first
 * one that its thread's class loader finds. So that thread gets a loader which finds ours first, and is otherwise the one that it was;
 * {@link CheckListener} then finds the site's. Nothing is instrumented.
 */
public final class Agent {
    private Agent() {
    }

    /** On the thread that will run the broker's main. */
    public static void premain(String arguments) {
        Thread thread = Thread.currentThread();
        ClassLoader loader = thread.getContextClassLoader();
        thread.setContextClassLoader(new OursFirst(loader == null ? ClassLoader.getSystemClassLoader() : loader));
    }

    private static final class OursFirst extends ClassLoader {
        OursFirst(ClassLoader parent) {
            super(parent);
        }

        @Override
        public URL getResource(String name) {
            return name.equals(CheckListener.SERVICE) ? Agent.class.getResource("/" + CheckListener.OURS) : super.getResource(name);
        }
    }
}

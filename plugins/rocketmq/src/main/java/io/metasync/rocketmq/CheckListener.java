package io.metasync.rocketmq;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.transaction.AbstractTransactionalMessageCheckListener;
import org.apache.rocketmq.broker.transaction.queue.DefaultTransactionalMessageCheckListener;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * How the plugin comes into a broker without a line of configuration: the broker looks for a listener of this kind on its class path,
 * makes it, and gives it the controller, after the metadata was loaded and before any port is open. What the broker then asks of a
 * listener is done by the site's own one, if there is another on the class path, or by the broker's.
 */
public final class CheckListener extends AbstractTransactionalMessageCheckListener {
    static final String SERVICE = "META-INF/service/org.apache.rocketmq.broker.transaction.AbstractTransactionalMessageCheckListener";
    /** The same text, in this jar alone. */
    static final String OURS = "META-INF/metasync/listener";
    static final String CLASS = "io.metasync.rocketmq.CheckListener";

    private final AbstractTransactionalMessageCheckListener next = next();

    private static AbstractTransactionalMessageCheckListener next() {
        ClassLoader loader = Thread.currentThread().getContextClassLoader();
        try {
            for (URL url : Collections.list((loader == null ? ClassLoader.getSystemClassLoader() : loader).getResources(SERVICE))) {
                String name = firstLine(url);
                if (name != null && !name.isEmpty() && !name.equals(CLASS)) {
                    Log.info("transactions are checked by " + name);
                    return (AbstractTransactionalMessageCheckListener) Class.forName(name, true, loader).getDeclaredConstructor().newInstance();
                }
            }
        } catch (IOException | ReflectiveOperationException | ClassCastException | LinkageError e) {
            Log.error("the check listener of this site could not be made, the broker's default is used", e);
        }
        return new DefaultTransactionalMessageCheckListener();
    }

    private static String firstLine(URL url) throws IOException {
        try (BufferedReader reader = new BufferedReader(new InputStreamReader(url.openStream(), StandardCharsets.UTF_8))) {
            String line = reader.readLine();
            return line == null ? null : line.trim();
        }
    }

    @Override
    public void setBrokerController(BrokerController broker) {
        super.setBrokerController(broker);
        next.setBrokerController(broker);
        Plugin.attach(broker);
    }

    @Override
    public void resolveHalfMsg(MessageExt message) {
        next.resolveHalfMsg(message);
    }

    @Override
    public void resolveDiscardMsg(MessageExt message) {
        next.resolveDiscardMsg(message);
    }

    @Override
    public void sendCheckMessage(MessageExt message) throws Exception {
        next.sendCheckMessage(message);
    }

    /** Older brokers spell it shutDown, and have one pool for all listeners. */
    @Override
    public void shutdown() {
        super.shutdown();
        next.shutdown();
    }
}

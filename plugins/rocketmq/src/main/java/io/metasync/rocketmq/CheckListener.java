package io.metasync.rocketmq;

import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.transaction.AbstractTransactionalMessageCheckListener;
import org.apache.rocketmq.broker.transaction.queue.DefaultTransactionalMessageCheckListener;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * How the plugin comes into a broker without a line of configuration: the broker looks for a listener of this kind on its class path,
 * makes it, and gives it the controller, after the metadata was loaded and before any port is open. What the broker then asks of a
 * listener is done by the site's own one, or by the broker's.
 */
public final class CheckListener extends AbstractTransactionalMessageCheckListener {
    private final AbstractTransactionalMessageCheckListener next = new DefaultTransactionalMessageCheckListener();

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
}

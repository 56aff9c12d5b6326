import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.transaction.queue.DefaultTransactionalMessageCheckListener;

/**
 * A site's own transaction check listener, which a broker makes and gives its controller. This one has the broker look for consumers that are
 * slow twice a second: by itself it does so every three minutes.
 */
public final class SiteListener extends DefaultTransactionalMessageCheckListener {
    private final ScheduledExecutorService often = Executors.newSingleThreadScheduledExecutor(run -> {
        Thread thread = new Thread(run, "site-looks-often");
        thread.setDaemon(true);
        return thread;
    });

    @Override
    public void setBrokerController(BrokerController broker) {
        super.setBrokerController(broker);
        often.scheduleWithFixedDelay(broker::protectBroker, 500, 500, TimeUnit.MILLISECONDS);
    }
}

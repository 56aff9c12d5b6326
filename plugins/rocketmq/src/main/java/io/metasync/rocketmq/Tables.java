package io.metasync.rocketmq;

import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.broker.BrokerController;

/** The tables that this broker has. */
final class Tables {
    private Tables() {
    }

    static List<BrokerTable> of(BrokerController broker, Counted counted) {
        List<BrokerTable> tables = new ArrayList<>();
        tables.add(new TopicTable(broker, counted));
        BrokerTable groups = new GroupTable(broker, counted);
        tables.add(groups);
        tables.add(new ForbiddenTable(broker, counted, groups));
        tables.add(new TopicMappingTable(broker, counted));
        tables.add(new RequestModeTable(broker));
        tables.add(new QueueOffsetTable("offset", broker, "offsetTable", true));
        tables.add(new QueueOffsetTable("pull_offset", broker, "pullOffsetTable", false));
        tables.add(new QueueOffsetTable("reset_offset", broker, "resetOffsetTable", false));
        tables.add(new DelayOffsetTable(broker));
        if (broker.getTimerMessageStore() != null) {
            tables.add(new TimerMetricsTable(broker));
            tables.add(new TimerCheckpointTable(broker));
        }
        OrderInfoTable orderInfo = OrderInfoTable.of(broker);
        if (orderInfo != null) {
            tables.add(orderInfo);
        }
        return tables;
    }
}

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
        tables.add(new GroupTable(broker, counted));
        tables.add(new QueueOffsetTable("offset", broker, "offsetTable", true));
        tables.add(new QueueOffsetTable("pull_offset", broker, "pullOffsetTable", false));
        tables.add(new QueueOffsetTable("reset_offset", broker, "resetOffsetTable", false));
        return tables;
    }
}

package io.metasync.rocketmq;

import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyRemotingClient;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.ResponseCode;
import org.apache.rocketmq.remoting.protocol.body.BrokerMemberGroup;
import org.apache.rocketmq.remoting.protocol.body.GetBrokerMemberGroupResponseBody;
import org.apache.rocketmq.remoting.protocol.header.GetBrokerMemberGroupRequestHeader;

/**
 * The nodes of the other brokers of this group, as the name servers know them: a starting leader asks them whether somebody was promoted
 * meanwhile. By a client of its own, since the broker's is not started yet when this is wanted.
 */
final class Peers {
    private static final int PATIENCE_MS = 1000;
    private static final int MOST = 16;

    private Peers() {
    }

    static String[] of(BrokerController broker, Settings settings) {
        List<String> addresses = new ArrayList<>(settings.peers);
        String servers = broker.getBrokerConfig().getNamesrvAddr();
        if (servers != null && !servers.trim().isEmpty()) {
            NettyClientConfig config = new NettyClientConfig();
            config.setUseTLS(broker.getNettyClientConfig() != null && broker.getNettyClientConfig().isUseTLS());
            NettyRemotingClient client = new NettyRemotingClient(config);
            client.start();
            try {
                for (String server : servers.trim().split(";")) {
                    if (ask(client, server, broker, settings, addresses)) {
                        break; /* each of them knows all */
                    }
                }
            } finally {
                client.shutdown();
            }
        }
        return addresses.stream().distinct().limit(MOST).toArray(String[]::new);
    }

    private static boolean ask(NettyRemotingClient client, String server, BrokerController broker, Settings settings, List<String> addresses) {
        GetBrokerMemberGroupRequestHeader header = new GetBrokerMemberGroupRequestHeader();
        header.setClusterName(broker.getBrokerConfig().getBrokerClusterName());
        header.setBrokerName(broker.getBrokerConfig().getBrokerName());
        try {
            RemotingCommand answer = client.invokeSync(server.trim(),
                RemotingCommand.createRequestCommand(RequestCode.GET_BROKER_MEMBER_GROUP, header), PATIENCE_MS);
            if (answer.getCode() != ResponseCode.SUCCESS || answer.getBody() == null) {
                return false;
            }
            BrokerMemberGroup group = RemotingSerializable.decode(answer.getBody(), GetBrokerMemberGroupResponseBody.class).getBrokerMemberGroup();
            if (group != null && group.getBrokerAddrs() != null) {
                group.getBrokerAddrs().forEach((id, address) -> {
                    if (!address.equals(broker.getBrokerAddr())) {
                        addresses.add(settings.peer(address));
                    }
                });
            }
            return true;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return true;
        } catch (Exception e) {
            Log.info("name server " + server.trim() + " does not say who else is in this broker group: " + e.getMessage());
            return false;
        }
    }
}

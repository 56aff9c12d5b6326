package io.metasync.rocketmq;

import java.io.DataInputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.ResponseCode;
import org.apache.rocketmq.remoting.protocol.body.BrokerMemberGroup;
import org.apache.rocketmq.remoting.protocol.body.GetBrokerMemberGroupResponseBody;
import org.apache.rocketmq.remoting.protocol.header.GetBrokerMemberGroupRequestHeader;

/**
 * The nodes of the other brokers of this group, as the name servers know them: a starting leader asks them whether somebody was promoted
 * meanwhile. One request over a plain socket, since the broker's own client is not started yet when this is wanted.
 */
final class Peers {
    private static final int PATIENCE_MS = 1000;
    private static final int ANSWER_MAX = 1 << 20;
    private static final int MOST = 16;

    private Peers() {
    }

    static String[] of(BrokerController broker, Settings settings) {
        List<String> addresses = new ArrayList<>(settings.peers);
        String servers = broker.getBrokerConfig().getNamesrvAddr();
        for (String server : servers == null || servers.trim().isEmpty() ? new String[0] : servers.trim().split(" *; *")) {
            try {
                ask(server, broker, settings, addresses);
                break; /* each of them knows all */
            } catch (Exception e) { /* the decoder has faults of its own */
                Log.info("name server " + server + " does not say who else is in this broker group: " + e);
            }
        }
        return addresses.stream().distinct().limit(MOST).toArray(String[]::new);
    }

    private static void ask(String server, BrokerController broker, Settings settings, List<String> addresses) throws Exception {
        GetBrokerMemberGroupRequestHeader header = new GetBrokerMemberGroupRequestHeader();
        header.setClusterName(broker.getBrokerConfig().getBrokerClusterName());
        header.setBrokerName(broker.getBrokerConfig().getBrokerName());
        RemotingCommand answer = call(server, RemotingCommand.createRequestCommand(RequestCode.GET_BROKER_MEMBER_GROUP, header));
        if (answer.getCode() != ResponseCode.SUCCESS || answer.getBody() == null) {
            throw new IOException("code " + answer.getCode() + " " + answer.getRemark());
        }
        BrokerMemberGroup group = RemotingSerializable.decode(answer.getBody(), GetBrokerMemberGroupResponseBody.class).getBrokerMemberGroup();
        if (group != null && group.getBrokerAddrs() != null) {
            group.getBrokerAddrs().forEach((id, address) -> {
                if (!address.equals(broker.getBrokerAddr())) {
                    addresses.add(settings.peer(address));
                }
            });
        }
    }

    private static RemotingCommand call(String server, RemotingCommand request) throws Exception {
        int colon = server.lastIndexOf(':');
        try (Socket socket = new Socket()) {
            socket.setSoTimeout(PATIENCE_MS);
            socket.connect(new InetSocketAddress(server.substring(0, colon), Integer.parseInt(server.substring(colon + 1))), PATIENCE_MS);
            ByteBuffer frame = request.encode();
            byte[] bytes = new byte[frame.remaining()];
            frame.get(bytes);
            socket.getOutputStream().write(bytes);
            DataInputStream in = new DataInputStream(socket.getInputStream());
            int size = in.readInt();
            if (size < 0 || size > ANSWER_MAX) {
                throw new IOException("an answer of " + size + " bytes");
            }
            byte[] answer = new byte[size];
            in.readFully(answer);
            return RemotingCommand.decode(answer);
        }
    }
}

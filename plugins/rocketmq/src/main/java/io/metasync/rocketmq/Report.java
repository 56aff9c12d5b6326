package io.metasync.rocketmq;

import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.StringJoiner;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/** What {@code mqadmin brokerStatus} says of the node (docs/rocketmq.md has the list). The node's own status has more: metasyncctl. */
final class Report {
    private final Settings settings;
    private final Map<String, BrokerTable> tables;
    private final Overrun overrun;
    private volatile String state = "loading";

    Report(Settings settings, Map<String, BrokerTable> tables, Overrun overrun) {
        this.settings = settings;
        this.tables = tables;
        this.overrun = overrun;
    }

    /** In words: what the plugin does, or why it does nothing. */
    void state(String words) {
        state = words;
    }

    String state() {
        return state;
    }

    // ---- JSON, by the broker's own library ---------------------------------------------------------------------------------------------

    @SuppressWarnings("unchecked")
    static Map<String, Object> parse(String json) {
        return RemotingSerializable.fromJson(json, HashMap.class);
    }

    /** An object inside; empty if it is null or not there. */
    @SuppressWarnings("unchecked")
    static Map<String, Object> part(Map<String, Object> status, String name) {
        Object part = status.get(name);
        return part instanceof Map ? (Map<String, Object>) part : Collections.emptyMap();
    }

    @SuppressWarnings("unchecked")
    private static List<Map<String, Object>> list(Map<String, Object> status, String name) {
        Object list = status.get(name);
        return list instanceof List ? (List<Map<String, Object>>) list : Collections.emptyList();
    }

    private static long sum(List<Map<String, Object>> list, String field) {
        long sum = 0;
        for (Map<String, Object> entry : list) {
            Object number = entry.get(field);
            sum += number instanceof Number ? ((Number) number).longValue() : 0;
        }
        return sum;
    }

    // ---- the lines -----------------------------------------------------------------------------------------------------------------------

    void describe(Map<String, String> info, MetaNode node, String followed, boolean ownSyncPaused, Map<String, String> blocked) {
        info.put("metasync_state", state);
        info.put("metasync_own_sync", ownSyncPaused ? "paused" : "on");
        info.put("metasync_data_dir", settings.dir);
        info.put("metasync_refused_offers", String.valueOf(refusedOffers()));
        info.put("metasync_offsets_beyond_end", String.valueOf(overrun.found()));
        if (!blocked.isEmpty()) {
            info.put("metasync_tables_not_replicated", String.valueOf(blocked));
        }
        if (node == null) {
            info.put("metasync_role", "none");
            info.put("metasync_safe_to_failover", "false");
            return;
        }
        Map<String, Object> status = parse(node.status());
        MetaNode.Position position = node.position();
        info.put("metasync_role", MetaNode.roleName(position.role));
        info.put("metasync_reason", text(status, "reason"));
        info.put("metasync_epoch", position.reign + "." + position.run);
        info.put("metasync_position", String.valueOf(position.role == MetaNode.ROLE_LEADER ? position.head : position.applied));
        info.put("metasync_host_applied", String.valueOf(position.hostApplied));
        info.put("metasync_safe_to_failover", text(status, "safe_to_failover"));
        info.put("metasync_log", log(part(status, "log")));
        info.put("metasync_digests", digests(status));
        info.put("metasync_policy", text(status, "policy_name") + " " + text(status, "policy_hash"));
        info.put("metasync_policy_incidents", String.valueOf(sum(list(part(status, "policy"), "functions"), "incidents")));
        info.put("metasync_alarms", text(status, "alarms") + (text(status, "alarm").isEmpty() ? "" : ": " + text(status, "alarm")));
        if (position.role == MetaNode.ROLE_FOLLOWER) {
            Map<String, Object> following = part(status, "following");
            info.put("metasync_leader", followed == null ? text(following, "leader") : followed);
            info.put("metasync_link", text(following, "state"));
            info.put("metasync_lag", lag(position, text(following, "state")));
        } else {
            info.put("metasync_followers", followers(status));
            info.put("metasync_at_risk", String.valueOf(sum(list(status, "tables"), "at_risk_entries")));
        }
    }

    /** How far the leader is, only records that stream say: the positions of a leader that is refused, for one, are of another history. */
    private static String lag(MetaNode.Position position, String link) {
        return link.equals("stream") ? String.valueOf(Math.max(0, position.leaderHead - position.hostApplied)) : "unknown";
    }

    private long refusedOffers() {
        long refused = 0;
        for (BrokerTable table : tables.values()) {
            refused += table instanceof NumberTable ? ((NumberTable) table).refused() : 0;
        }
        return refused;
    }

    private static String text(Map<String, Object> object, String name) {
        Object value = object.get(name);
        return value == null ? "" : value.toString();
    }

    private static String log(Map<String, Object> log) {
        if (Boolean.TRUE.equals(log.get("failed"))) {
            return "failed";
        }
        return Boolean.TRUE.equals(log.get("no_space")) ? "no space" : "sound";
    }

    private static String digests(Map<String, Object> status) {
        return (Boolean.TRUE.equals(status.get("damaged")) ? "damaged" : "ok") + ", " + text(status, "marks_checked") + " checked, "
            + text(part(status, "counters"), "marks_failed") + " failed";
    }

    private static String followers(Map<String, Object> status) {
        StringJoiner followers = new StringJoiner("; ");
        for (Map<String, Object> peer : list(status, "peers")) {
            followers.add(text(peer, "name") + " " + text(peer, "state") + (Boolean.TRUE.equals(peer.get("in_sync")) ? " in sync" : "")
                + ", lag " + text(peer, "lag"));
        }
        return followers.toString();
    }
}

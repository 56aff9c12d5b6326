package io.metasync.rocketmq;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.BrokerConfig;

/**
 * What the plugin runs with: all of it follows from the broker's own configuration, unless a system property says otherwise
 * (docs/rocketmq.md lists them).
 */
final class Settings {
    /** A node's port is its broker's port and this. */
    static final int PORT_OFFSET = 5;
    static final int GRACE_MS = 90_000;

    final String dir;
    final String cluster;
    final String name;
    final String listen;
    final String secret;
    final String policyFile;
    final int portOffset;
    final int graceMs;

    private Settings(BrokerController broker) throws IOException {
        BrokerConfig config = broker.getBrokerConfig();
        dir = text("metasync.dir", broker.getMessageStoreConfig().getStorePathRootDir() + File.separator + "metasync");
        cluster = text("metasync.cluster", config.getBrokerClusterName() + "." + config.getBrokerName());
        name = config.getBrokerName() + "-" + config.getBrokerId();
        portOffset = number("metasync.portOffset", PORT_OFFSET);
        graceMs = number("metasync.graceMs", GRACE_MS);
        Files.createDirectories(new File(dir).toPath());
        secret = secret(text("metasync.secretFile", home("metasync.secret")));
        policyFile = policy(text("metasync.policy", home("metasync.lua")));
        listen = listen(config, broker.getNettyServerConfig().getListenPort());
    }

    static Settings of(BrokerController broker) throws IOException {
        return new Settings(broker);
    }

    /** RIP-81's switch, and ours. */
    static boolean enabled() {
        return !"false".equals(System.getProperty("allowMetadataIncrementalSync")) && !"false".equals(System.getProperty("metasync.enabled"));
    }

    private static String text(String property, String fallback) {
        String value = System.getProperty(property);
        return value == null || value.isEmpty() ? fallback : value;
    }

    private static int number(String property, int fallback) {
        String value = System.getProperty(property);
        try {
            return value == null ? fallback : Integer.parseInt(value);
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException("-D" + property + "=" + value + " is no number");
        }
    }

    /** A file of the broker's conf folder; null if the broker has no home. */
    private static String home(String file) {
        String home = System.getProperty("rocketmq.home.dir", System.getenv("ROCKETMQ_HOME"));
        return home == null ? null : home + File.separator + "conf" + File.separator + file;
    }

    private static String secret(String path) throws IOException {
        if (path == null || !new File(path).exists()) {
            return null;
        }
        return new String(Files.readAllBytes(new File(path).toPath()), StandardCharsets.UTF_8).trim();
    }

    /** The site's policy, or the one that is shipped; a file, since that is what can be reloaded. */
    private String policy(String path) throws IOException {
        if (path != null && new File(path).exists()) {
            return path;
        }
        File shipped = new File(dir, "rocketmq.lua");
        try (InputStream in = Settings.class.getResourceAsStream("/policies/rocketmq.lua")) {
            if (in == null) {
                throw new IOException("/policies/rocketmq.lua is not in the jar");
            }
            Files.copy(in, shipped.toPath(), StandardCopyOption.REPLACE_EXISTING);
        }
        return shipped.getPath();
    }

    /** The broker's own address; without a secret only if that is loopback. */
    private String listen(BrokerConfig config, int brokerPort) throws IOException {
        String address = text("metasync.address", config.getBrokerIP1());
        int port = number("metasync.port", brokerPort + portOffset);
        if (secret == null && !InetAddress.getByName(address).isLoopbackAddress()) {
            Log.warn("no secret file, so this node listens on 127.0.0.1 only and brokers of other hosts can't follow it (conf/metasync.secret)");
            address = "127.0.0.1";
        }
        return address + ":" + port;
    }

    String control() {
        return dir + File.separator + "control.sock";
    }

    /** The node of the broker at this address. */
    String peer(String brokerAddress) {
        int colon = brokerAddress.lastIndexOf(':');
        return brokerAddress.substring(0, colon + 1) + (Integer.parseInt(brokerAddress.substring(colon + 1)) + portOffset);
    }
}

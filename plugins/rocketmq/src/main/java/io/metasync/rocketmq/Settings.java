package io.metasync.rocketmq;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.BrokerConfig;

/**
 * What the plugin runs with: all of it follows from the broker's own configuration, unless a line of broker.conf or
 * a system property says otherwise (docs/rocketmq.md lists them).
 */
final class Settings {
    /** A node's port is its broker's port and this. */
    static final int PORT_OFFSET = 5;
    private static final int GRACE_MS = 90_000;
    private static final int AUDIT_MS = 600_000;
    private static final int RETRY_MS = 30_000;
    private static final String LOOPBACK = "127.0.0.1";

    final String dir;
    final String cluster;
    final String name;
    final String listen;
    final String secret;
    final String policyFile;
    final int portOffset;
    final int graceMs;
    final int auditMs;
    final int retryMs;
    final List<String> peers;
    private final Properties configured;
    private final boolean shippedPolicy;

    private Settings(BrokerController broker) throws IOException {
        BrokerConfig config = broker.getBrokerConfig();
        configured = broker.getConfiguration().getAllConfigs();
        dir = text("metasync.dir", broker.getMessageStoreConfig().getStorePathRootDir() + File.separator + "metasync");
        cluster = text("metasync.cluster", config.getBrokerClusterName() + "." + config.getBrokerName());
        boolean elected = config.isEnableControllerMode(); /* then the id is the role, and comes later */
        name = config.getBrokerName() + "-" + (elected ? broker.getNettyServerConfig().getListenPort() : config.getBrokerId());
        portOffset = number("metasync.portOffset", PORT_OFFSET);
        graceMs = number("metasync.graceMs", GRACE_MS);
        auditMs = number("metasync.auditMs", AUDIT_MS);
        retryMs = number("metasync.retryMs", RETRY_MS);
        peers = Arrays.asList(text("metasync.peers", "").isEmpty() ? new String[0] : text("metasync.peers", "").split("[,;] *"));
        secret = secret(text("metasync.secretFile", home("metasync.secret")));
        String policy = text("metasync.policy", home("metasync.lua"));
        shippedPolicy = policy == null || !new File(policy).exists();
        if (shippedPolicy && property("metasync.policy") != null) {
            throw new IOException("metasync.policy: there is no file " + policy);
        }
        policyFile = shippedPolicy ? dir + File.separator + "rocketmq.lua" : policy;
        listen = listen(config, broker.getNettyServerConfig().getListenPort());
    }

    static Settings of(BrokerController broker) throws IOException {
        return new Settings(broker);
    }

    /** As -D, or a line of broker.conf; null if it is nowhere. */
    private String property(String name) {
        String value = System.getProperty(name, configured.getProperty(name));
        return value == null || value.trim().isEmpty() ? null : value.trim();
    }

    private String text(String name, String fallback) {
        String value = property(name);
        return value == null ? fallback : value;
    }

    private int number(String name, int fallback) {
        String value = property(name);
        try {
            return value == null ? fallback : Integer.parseInt(value);
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException(name + "=" + value + " is no number");
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

    /** Makes the data directory. The policy that is shipped is put into it, as a file, since that is what can be reloaded. */
    void prepare() throws IOException {
        Files.createDirectories(new File(dir).toPath());
        if (!shippedPolicy) {
            return;
        }
        try (InputStream in = Settings.class.getResourceAsStream("/policies/rocketmq.lua")) {
            if (in == null) {
                throw new IOException("/policies/rocketmq.lua is not in the jar");
            }
            Files.copy(in, new File(policyFile).toPath(), StandardCopyOption.REPLACE_EXISTING);
        }
    }

    /** The broker's own address; without a secret only if that is loopback. */
    private String listen(BrokerConfig config, int brokerPort) throws IOException {
        String address = text("metasync.address", config.getBrokerIP1());
        int port = number("metasync.port", brokerPort + portOffset);
        if (secret == null && !InetAddress.getByName(address).isLoopbackAddress()) {
            Log.warn("no secret file, so this node listens on " + LOOPBACK + " only, and brokers of other hosts can't follow it "
                + "(conf/metasync.secret)");
            address = LOOPBACK;
        }
        return address + ":" + port;
    }

    String control() {
        return dir + File.separator + "control.sock";
    }

    /** The node of the broker at this address. Without a secret, that of a broker on this machine is reached by its loopback address. */
    String peer(String brokerAddress) {
        int colon = brokerAddress.lastIndexOf(':');
        String host = brokerAddress.substring(0, colon);
        if (secret == null && isOfThisMachine(host)) {
            host = LOOPBACK;
        }
        return host + ":" + (Integer.parseInt(brokerAddress.substring(colon + 1)) + portOffset);
    }

    private static boolean isOfThisMachine(String host) {
        try {
            InetAddress address = InetAddress.getByName(host);
            return !address.isLoopbackAddress() && NetworkInterface.getByInetAddress(address) != null;
        } catch (IOException e) {
            return false;
        }
    }
}

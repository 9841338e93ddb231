package org.apache.kafka.common.test;

import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import kafka.server.BrokerServer;
import kafka.server.ControllerServer;
import org.apache.kafka.clients.admin.Admin;
import org.opentest4j.TestAbortedException;
import ottla.kafkatests.Brokers;
import ottla.kafkatests.Plan;

/**
 * Stands before Kafka's class of this name on the class path: the tests of Streams make their cluster with it, past
 * ClusterInstance. As there, the cluster is one broker of another process, and how many were asked for is only what is counted,
 * unless Plan.SEVERAL.
 */
public final class KafkaClusterTestKit implements AutoCloseable {
    private final TestKitNodes nodes;
    private final List<Map<String, String>> settings;
    private final MockFaultHandler faults = new MockFaultHandler("none");
    private Brokers brokers;

    /** Brokers that clusters asked for which are there now. */
    private static final AtomicInteger ALIVE = new AtomicInteger();

    public static int alive() {
        return ALIVE.get();
    }

    private KafkaClusterTestKit(TestKitNodes nodes, List<Map<String, String>> settings) {
        this.nodes = nodes;
        this.settings = settings;
    }

    /** Collects what is asked for. */
    public static final class Builder {
        private final TestKitNodes nodes;
        private final Map<String, String> settings = new HashMap<>();

        public Builder(TestKitNodes nodes) {
            this.nodes = nodes;
        }

        public Builder setConfigProp(String key, Object value) {
            settings.put(key, String.valueOf(value));
            return this;
        }

        public KafkaClusterTestKit build() {
            List<Map<String, String>> each = nodes.brokerNodes().values().stream().limit(Plan.SEVERAL ? Long.MAX_VALUE : 1).map(node -> {
                Map<String, String> own = new HashMap<>(settings);
                own.putAll(node.propertyOverrides());
                return own;
            }).toList();
            each.stream().flatMap(own -> Plan.refused(own).stream()).findFirst().ifPresent(reason -> {
                throw new TestAbortedException(reason);
            });
            return new KafkaClusterTestKit(nodes, each);
        }
    }

    public void format() {
        brokers = new Brokers(new Plan(settings, settings.get(0), null, Map.of(), 1, false));
        ALIVE.addAndGet(nodes.brokerNodes().size());
    }

    public void startup() {
        brokers.start();
    }

    public void waitForReadyBrokers() {
        // a start returns when the broker answers with itself
    }

    public String bootstrapServers() {
        return brokers.bootstrap();
    }

    public String bootstrapControllers() {
        return brokers.controllers();
    }

    public Admin admin() {
        return Admin.create(Map.of("bootstrap.servers", bootstrapServers()));
    }

    /** The ids that were asked for, to be counted: there are no objects behind them. */
    public Map<Integer, BrokerServer> brokers() {
        Map<Integer, BrokerServer> ids = new HashMap<>();
        nodes.brokerNodes().keySet().forEach(id -> ids.put(id, null));
        return Collections.unmodifiableMap(ids);
    }

    public Map<Integer, ControllerServer> controllers() {
        throw new TestAbortedException("the controller's object");
    }

    public TestKitNodes nodes() {
        return nodes;
    }

    public MockFaultHandler fatalFaultHandler() {
        return faults;
    }

    public MockFaultHandler nonFatalFaultHandler() {
        return faults;
    }

    @Override
    public void close() {
        if (brokers != null) {
            brokers.close();
            brokers = null;
            ALIVE.addAndGet(-nodes.brokerNodes().size());
        }
    }
}

package ottla.kafkatests;

import java.io.File;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.metadata.MetadataCache;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.fault.FaultHandlerException;
import org.apache.kafka.test.TestUtils;
import org.opentest4j.TestAbortedException;

/**
 * What a test sees as its cluster: brokers, each in a process of its own, behind the interface ClusterInstance.
 *
 * A public method here answers the interface's method of that name; the interface's defaults do what is made of others; all else
 * would need the broker's own objects: then the test is aborted with the reason, and so it is again at its end, whatever it made
 * of that. Brokers and controllers are ids with objects behind them that know little more than how to stop and what their
 * configuration is.
 */
public final class Cluster implements InvocationHandler {
    private static final int FIRST_BROKER = 0;
    private static final int CONTROLLER = 3000;

    private final ClusterConfig config;
    private final Type type;
    private final ClusterInstance seen;
    private Brokers brokers;
    private boolean started;
    private boolean stopped;
    private String outOfReach;

    public Cluster(ClusterConfig config, Type type) {
        this.config = config;
        this.type = type;
        this.seen = (ClusterInstance) Proxy.newProxyInstance(
            ClusterInstance.class.getClassLoader(), new Class<?>[] {ClusterInstance.class}, this);
    }

    public ClusterInstance seen() {
        return seen;
    }

    /** Why the test cannot be about this broker; what it asked for in vain. */
    public Optional<String> outOfReach() {
        return Optional.ofNullable(outOfReach);
    }

    @Override
    public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
        if (method.getDeclaringClass() == Object.class) {
            return method.invoke(this, arguments);
        }
        try {
            return getClass().getMethod(method.getName(), method.getParameterTypes()).invoke(this, arguments);
        } catch (NoSuchMethodException notHere) {
            if (method.isDefault()) {
                return InvocationHandler.invokeDefault(proxy, method, arguments);
            }
            throw abort("needs the broker's object: " + method.getName());
        } catch (InvocationTargetException wrapper) {
            throw wrapper.getCause();
        }
    }

    private TestAbortedException abort(String reason) {
        outOfReach = reason;
        return new TestAbortedException(reason);
    }

    // What happens to it

    /** Refuses what no broker of another process can be, then makes one; it is not started. */
    public synchronized void make() {
        if (config.brokerSecurityProtocol().name().startsWith("SASL") || config.brokerSecurityProtocol().name().contains("SSL")) {
            throw abort("needs a listener with " + config.brokerSecurityProtocol());
        }
        List<Map<String, String>> settings =
            IntStream.range(0, Plan.SEVERAL ? config.numBrokers() : 1).mapToObj(this::settingsOf).toList();
        Stream.concat(settings.stream(), config.perServerOverrideProperties().values().stream()) // those of controllers, too
            .flatMap(each -> Plan.refused(each).stream())
            .findFirst()
            .ifPresent(reason -> {
                throw abort(reason);
            });
        Map<String, Short> features = config.features().entrySet().stream()
            .collect(Collectors.toMap(entry -> entry.getKey().featureName(), Map.Entry::getValue));
        boolean newest = config.metadataVersion() == MetadataVersion.latestTesting();
        String release = newest ? null : config.metadataVersion().version();
        brokers = new Brokers(
            new Plan(settings, settingsOf(CONTROLLER), release, features, config.numDisksPerBroker(), config.standalone()));
    }

    private Map<String, String> settingsOf(int id) {
        Map<String, String> own = new HashMap<>(config.serverProperties());
        own.putAll(config.perServerOverrideProperties().getOrDefault(id, Map.of()));
        return own;
    }

    public synchronized void start() {
        if (brokers == null) {
            make();
        }
        if (!started) {
            brokers.start();
            started = true;
        }
    }

    public synchronized void stop() {
        if (!stopped && brokers != null) {
            stopped = true;
            brokers.close();
        }
    }

    public boolean started() {
        return started;
    }

    public boolean stopped() {
        return stopped;
    }

    public void shutdownBroker(int id) {
        brokers.stop(known(id));
    }

    public void startBroker(int id) {
        brokers.start(known(id));
    }

    private int known(int id) {
        if (!brokers.ids().contains(id)) {
            throw abort("a second broker");
        }
        return id;
    }

    // What it is

    public ClusterConfig config() {
        return config;
    }

    public Type type() {
        return type;
    }

    public String clusterId() {
        return brokers.clusterId();
    }

    public String bootstrapServers() {
        return brokers.bootstrap();
    }

    public String bootstrapControllers() {
        return brokers.controllers();
    }

    public List<Integer> brokerBoundPorts() {
        return brokers.ids().stream().map(id -> port(brokers.bootstrap(id))).toList();
    }

    public List<Integer> controllerBoundPorts() {
        return List.of(port(brokers.controllers()));
    }

    private static int port(String address) {
        return Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
    }

    public ListenerName clientListener() {
        return config.brokerListenerName();
    }

    public ListenerName controllerListenerName() {
        return config.controllerListenerName();
    }

    /** A set of the caller's own: tests take ids out of it. */
    public Set<Integer> brokerIds() {
        return new HashSet<>(brokers.ids());
    }

    public Set<Integer> controllerIds() {
        return Set.of(brokers.ids().size() > 1 ? CONTROLLER : FIRST_BROKER);
    }

    public Set<GroupProtocol> supportedGroupProtocols() {
        String told = config.serverProperties().getOrDefault("group.coordinator.rebalance.protocols", "classic,consumer");
        boolean off = config.features().entrySet().stream()
            .anyMatch(entry -> entry.getKey().featureName().equals("group.version") && entry.getValue() == 0);
        boolean both = told.contains("consumer") && !off;
        return both ? Set.of(GroupProtocol.CLASSIC, GroupProtocol.CONSUMER) : Set.of(GroupProtocol.CLASSIC);
    }

    public Optional<FaultHandlerException> firstFatalException() {
        return Optional.empty();
    }

    public Optional<FaultHandlerException> firstNonFatalException() {
        return Optional.empty();
    }

    public Map<Integer, KafkaBroker> brokers() {
        return brokers.ids().stream().collect(Collectors.toMap(id -> id, this::broker));
    }

    private KafkaBroker broker(int id) {
        return (KafkaBroker) Proxy.newProxyInstance(
            KafkaBroker.class.getClassLoader(), new Class<?>[] {KafkaBroker.class}, (proxy, method, arguments) -> ofBroker(id, method));
    }

    public Map<Integer, KafkaBroker> aliveBrokers() {
        return brokers.ids().stream().filter(brokers::running).collect(Collectors.toMap(id -> id, this::broker));
    }

    public Map<Integer, ControllerServer> controllers() {
        throw abort("the controller's object");
    }

    private Object ofBroker(int id, Method method) throws Exception {
        switch (method.getName()) {
            case "shutdown":
                brokers.stop(id);
                return null;
            case "startup":
                brokers.start(id);
                return null;
            case "isShutdown":
                return !brokers.running(id);
            case "awaitShutdown":
                return null; // stop() returns when the process is gone
            case "boundPort":
                return port(brokers.bootstrap(id));
            case "clusterId":
                return brokers.clusterId();
            case "metadataCache":
                return Proxy.newProxyInstance(
                    MetadataCache.class.getClassLoader(), new Class<?>[] {MetadataCache.class}, (proxy, asked, of) -> known(asked, of));
            case "config":
                return new KafkaConfig(current(id), false);
            case "toString":
                return "broker " + id;
            case "hashCode":
                return id;
            default:
                throw abort("needs the broker's object: " + method.getName());
        }
    }

    /** The broker's settings as they are now: those of its file, and over them what was set since. */
    private Map<String, String> current(int id) throws Exception {
        Map<String, String> values = new HashMap<>(brokers.settings(id));
        if (!brokers.running(id)) {
            return values;
        }
        ConfigResource asked = new ConfigResource(ConfigResource.Type.BROKER, String.valueOf(id));
        try (Admin admin = seen.admin()) {
            admin.describeConfigs(List.of(asked)).all().get().get(asked).entries().stream()
                .filter(entry -> entry.source().name().startsWith("DYNAMIC") && entry.value() != null)
                .forEach(entry -> values.put(entry.name(), entry.value()));
        }
        return values;
    }

    /** What the broker's cache of metadata knows, as far as its clients are told. */
    private Object known(Method asked, Object[] arguments) throws Exception {
        if (asked.getName().equals("getAliveBrokerNodes")) {
            return brokers.ids().stream()
                .filter(brokers::running)
                .map(id -> new Node(id, "localhost", port(brokers.bootstrap(id))))
                .toList();
        }
        if (asked.getName().equals("numPartitions")) {
            try (Admin admin = seen.admin()) {
                int found = led(admin, (String) arguments[0]);
                return found < 0 ? Optional.empty() : Optional.of(found);
            }
        }
        throw abort("needs the broker's object: metadataCache." + asked.getName());
    }

    // What is waited for

    public void waitForReadyBrokers() {
        // a start returns when the broker answers with itself
    }

    /** Until the broker knows what its controller has written: Kafka's reads it a moment later. */
    public void ensureConsistentMetadata() throws InterruptedException, ExecutionException {
        if (!brokers.anyRuns()) {
            return;
        }
        try (Admin admin = seen.admin()) {
            var quorum = admin.describeMetadataQuorum().quorumInfo().get();
            long written = quorum.voters().stream().mapToLong(voter -> voter.logEndOffset()).max().orElse(0);
            TestUtils.waitForCondition(
                () -> admin.describeFeatures().featureMetadata().get().finalizedFeaturesEpoch().orElse(-1L) >= written - 1,
                15_000, "the broker did not come to offset " + written + " of the metadata");
        }
    }

    public void createTopic(String topic, int partitions, short replicas) throws Throwable {
        createTopic(topic, partitions, replicas, Map.of());
    }

    /** One replica of each partition, however many there should be, unless there are several brokers: see Plan. */
    public void createTopic(String topic, int partitions, short replicas, Map<String, String> configs) throws Throwable {
        try (Admin admin = seen.admin()) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, Plan.SEVERAL ? replicas : 1).configs(configs))).all().get();
        } catch (ExecutionException error) {
            if (!(error.getCause() instanceof TopicExistsException)) {
                throw error.getCause();
            }
        }
        waitTopicCreation(topic, partitions);
    }

    public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
        if (partitions <= 0) {
            throw new IllegalArgumentException("partitions: " + partitions);
        }
        try (Admin admin = seen.admin()) {
            TestUtils.waitForCondition(() -> led(admin, topic) == partitions, 15_000, "no " + topic + " with " + partitions);
        }
    }

    public void waitTopicDeletion(String topic) throws InterruptedException {
        try (Admin admin = seen.admin()) {
            TestUtils.waitForCondition(() -> led(admin, topic) < 0 && !hasDirectory(topic), 30_000, topic + " is still there");
        }
    }

    private boolean hasDirectory(String topic) {
        return brokers.directories().stream().anyMatch(directory -> {
            String[] names = new File(directory).list();
            return names != null && Arrays.stream(names).anyMatch(name -> name.matches(java.util.regex.Pattern.quote(topic) + "-\\d+"));
        });
    }

    /** How many of its partitions have leaders, or cannot have one as no replica runs; -1 when there is no such topic. */
    private int led(Admin admin, String topic) throws InterruptedException, ExecutionException {
        try {
            var found = admin.describeTopics(List.of(topic)).topicNameValues().get(topic).get().partitions();
            return (int) found.stream()
                .filter(partition -> partition.leader() != null && partition.leader().id() >= 0
                    || partition.replicas().stream().noneMatch(replica -> brokers.running(replica.id())))
                .count();
        } catch (ExecutionException error) {
            if (error.getCause() instanceof UnknownTopicOrPartitionException) {
                return -1;
            }
            throw error;
        }
    }
}

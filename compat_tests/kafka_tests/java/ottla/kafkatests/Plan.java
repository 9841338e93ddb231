package ottla.kafkatests;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * What brokers are made with: the settings of each, those of a controller beside them, the metadata version to format with (null:
 * the newest), levels of features, the number of log directories, and whether the quorum of a single broker is in its log
 * (standalone) or in its configuration.
 *
 * Every test gets one broker, whichever number it asks for, unless -Dottla.several=true: many that ask for three never look at the
 * others. What is said of replicas in the settings is cut to one for that.
 */
public record Plan(
    List<Map<String, String>> brokers,
    Map<String, String> controller,
    String release,
    Map<String, Short> features,
    int disks,
    boolean standalone
) {
    /** Whether a test gets as many brokers as it asks for, with a controller in a process of its own. */
    public static final boolean SEVERAL = Boolean.getBoolean("ottla.several");

    private static final Set<String> OF_REPLICAS = Set.of(
        "offsets.topic.replication.factor", "transaction.state.log.replication.factor", "transaction.state.log.min.isr",
        "share.coordinator.state.topic.replication.factor", "share.coordinator.state.topic.min.isr",
        "default.replication.factor", "min.insync.replicas");

    public Plan {
        if (!SEVERAL) {
            Map<String, String> settings = new HashMap<>(brokers.get(0));
            OF_REPLICAS.forEach(key -> settings.put(key, "1"));
            brokers = List.of(settings);
        }
    }

    /** The first setting that asks the broker for a class of the test, an authorizer or a secured listener, as a reason. */
    public static Optional<String> refused(Map<String, String> settings) {
        for (Map.Entry<String, String> setting : settings.entrySet()) {
            if (setting.getKey().equals("authorizer.class.name") && !setting.getValue().isEmpty()) {
                return Optional.of("needs an authorizer");
            }
            if (setting.getKey().endsWith("listener.security.protocol.map") && setting.getValue().matches(".*:(SSL|SASL).*")) {
                return Optional.of("needs a listener with SSL or SASL");
            }
            for (String word : setting.getValue().split(",")) {
                if (isOfTest(word.trim())) {
                    return Optional.of("needs a class of the test in the broker: " + setting.getKey());
                }
            }
        }
        return Optional.empty();
    }

    private static boolean isOfTest(String name) {
        if (!name.contains(".")) {
            return false;
        }
        try {
            var domain = Class.forName(name, false, Thread.currentThread().getContextClassLoader()).getProtectionDomain();
            return domain.getCodeSource() != null && domain.getCodeSource().getLocation().getPath().endsWith("-test.jar");
        } catch (ClassNotFoundException | LinkageError notAClass) {
            return false;
        }
    }
}

package ottla.kafkatests;

import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.AutoStart;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.ClusterConfigProperty;
import org.apache.kafka.common.test.api.ClusterFeature;
import org.apache.kafka.common.test.api.ClusterTemplate;
import org.apache.kafka.common.test.api.ClusterTest;
import org.apache.kafka.common.test.api.ClusterTestDefaults;
import org.apache.kafka.common.test.api.Type;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.LifecycleMethodExecutionExceptionHandler;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.jupiter.api.extension.TestExecutionExceptionHandler;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;
import org.junit.jupiter.api.extension.TestTemplateInvocationContextProvider;
import org.junit.platform.commons.util.ReflectionUtils;
import org.opentest4j.TestAbortedException;

/**
 * Runs Kafka's cluster tests, each with a broker of its own (see Cluster), in place of Kafka's own extension.
 *
 * What the annotations ask for in both forms of a cluster (controller and broker in one process, or in two) is run once: from
 * outside both are an address. With -Dottla.cases=FILE only the cases that are named there run, CLASS#METHOD or
 * CLASS#METHOD[INVOCATION] a line.
 */
public final class ClusterTests implements TestTemplateInvocationContextProvider, ExecutionCondition {
    private static final Set<String> CHOSEN = chosen();

    @ClusterTestDefaults
    private static final class Defaults {}

    private static Set<String> chosen() {
        String file = System.getProperty("ottla.cases");
        try {
            return file == null ? Set.of() : Set.copyOf(Files.readAllLines(Path.of(file)));
        } catch (java.io.IOException error) {
            throw new IllegalStateException(error);
        }
    }

    @Override
    public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
        if (CHOSEN.isEmpty() || context.getTestMethod().isEmpty()) {
            return ConditionEvaluationResult.enabled(null);
        }
        String method = context.getRequiredTestClass().getName() + "#" + context.getRequiredTestMethod().getName();
        String invocation = Results.invocation(context.getUniqueId());
        boolean wanted = CHOSEN.contains(method) || CHOSEN.contains(method + invocation)
            || invocation.isEmpty() && CHOSEN.stream().anyMatch(name -> name.startsWith(method + "["));
        return wanted ? ConditionEvaluationResult.enabled(null) : ConditionEvaluationResult.disabled(Results.NOT_CHOSEN);
    }

    @Override
    public boolean supportsTestTemplate(ExtensionContext context) {
        Method method = context.getRequiredTestMethod();
        return Stream.of(ClusterTest.class, org.apache.kafka.common.test.api.ClusterTests.class, ClusterTemplate.class)
            .anyMatch(method::isAnnotationPresent);
    }

    @Override
    public Stream<TestTemplateInvocationContext> provideTestTemplateInvocationContexts(ExtensionContext context) {
        Method method = context.getRequiredTestMethod();
        ClusterTestDefaults told = context.getRequiredTestClass().getDeclaredAnnotation(ClusterTestDefaults.class);
        ClusterTestDefaults defaults = told != null ? told : Defaults.class.getDeclaredAnnotation(ClusterTestDefaults.class);
        List<ClusterConfig> configs = new ArrayList<>();
        ClusterTemplate template = method.getDeclaredAnnotation(ClusterTemplate.class);
        if (template != null) {
            configs.addAll(generated(context, template.value()));
        }
        if (method.isAnnotationPresent(ClusterTest.class)) {
            configs.add(config(method.getDeclaredAnnotation(ClusterTest.class), defaults));
        }
        var several = method.getDeclaredAnnotation(org.apache.kafka.common.test.api.ClusterTests.class);
        if (several != null) {
            Arrays.stream(several.value()).map(one -> config(one, defaults)).forEach(configs::add);
        }
        return configs.stream().map(Invocation::new);
    }

    @SuppressWarnings("unchecked")
    private static List<ClusterConfig> generated(ExtensionContext context, String name) {
        Method generator = ReflectionUtils.getRequiredMethod(context.getRequiredTestClass(), name);
        return (List<ClusterConfig>) ReflectionUtils.invokeMethod(generator, context.getTestInstance().orElse(null));
    }

    private static ClusterConfig config(ClusterTest test, ClusterTestDefaults defaults) {
        List<ClusterConfigProperty> properties =
            Stream.concat(Arrays.stream(defaults.serverProperties()), Arrays.stream(test.serverProperties())).toList();
        Map<Integer, Map<String, String>> ofServers = properties.stream().collect(Collectors.groupingBy(
            ClusterConfigProperty::id,
            Collectors.toMap(ClusterConfigProperty::key, ClusterConfigProperty::value, (first, last) -> last)));
        Map<String, String> ofAll = ofServers.containsKey(-1) ? ofServers.remove(-1) : Map.of();
        return ClusterConfig.builder()
            .setTypes(Set.of(test.types().length == 0 ? defaults.types() : test.types()))
            .setBrokers(test.brokers() == 0 ? defaults.brokers() : test.brokers())
            .setControllers(test.controllers() == 0 ? defaults.controllers() : test.controllers())
            .setDisksPerBroker(test.disksPerBroker() == 0 ? defaults.disksPerBroker() : test.disksPerBroker())
            .setAutoStart(test.autoStart() == AutoStart.DEFAULT ? defaults.autoStart() : test.autoStart() == AutoStart.YES)
            .setBrokerListenerName(ListenerName.normalised(test.brokerListener()))
            .setBrokerSecurityProtocol(test.brokerSecurityProtocol())
            .setControllerListenerName(ListenerName.normalised(test.controllerListener()))
            .setControllerSecurityProtocol(test.controllerSecurityProtocol())
            .setServerProperties(ofAll)
            .setPerServerProperties(ofServers)
            .setMetadataVersion(test.metadataVersion())
            .setTags(List.of(test.tags()))
            .setFeatures(Arrays.stream(test.features()).collect(Collectors.toMap(ClusterFeature::feature, ClusterFeature::version)))
            .setStandalone(test.standalone())
            .build();
    }

    /** One test with its cluster. */
    private record Invocation(ClusterConfig config) implements TestTemplateInvocationContext {
        @Override
        public List<Extension> getAdditionalExtensions() {
            Type type = config.clusterTypes().contains(Type.KRAFT) ? Type.KRAFT : Type.CO_KRAFT;
            return List.of(new Life(new Cluster(config, type)));
        }
    }

    /** The cluster's life around the test. */
    private record Life(Cluster cluster)
        implements BeforeEachCallback, AfterTestExecutionCallback, TestExecutionExceptionHandler,
            LifecycleMethodExecutionExceptionHandler, ParameterResolver {

        @Override
        public void beforeEach(ExtensionContext context) {
            ClusterConfig asked = cluster.config();
            Results.asksFor(context.getUniqueId(), Math.max(asked.numBrokers(), asked.numControllers()));
            try {
                cluster.make();
            } finally {
                context.getStore(ExtensionContext.Namespace.create(Life.class)).put("cluster", (AutoCloseable) cluster::stop);
            }
            if (cluster.config().isAutoStart()) {
                cluster.start();
            }
        }

        /** A failure that came of what cannot be had from outside is none of the broker. */
        @Override
        public void handleTestExecutionException(ExtensionContext context, Throwable error) throws Throwable {
            if (cluster.outOfReach().isPresent()) {
                throw new TestAbortedException(cluster.outOfReach().get(), error);
            }
            throw error;
        }

        @Override
        public void handleBeforeEachMethodExecutionException(ExtensionContext context, Throwable error) throws Throwable {
            handleTestExecutionException(context, error);
        }

        @Override
        public void handleAfterEachMethodExecutionException(ExtensionContext context, Throwable error) throws Throwable {
            handleTestExecutionException(context, error);
        }

        @Override
        public void afterTestExecution(ExtensionContext context) {
            cluster.stop();
        }

        @Override
        public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
            return parameter.getParameter().getType() == ClusterInstance.class;
        }

        @Override
        public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
            return cluster.seen();
        }
    }
}

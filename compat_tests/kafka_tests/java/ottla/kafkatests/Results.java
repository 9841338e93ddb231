package ottla.kafkatests;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.test.KafkaClusterTestKit;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.support.descriptor.ClassSource;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;

/**
 * Appends a JSON line to the file -Dottla.results for every case as it ends, so that a JVM that hangs has told what came before:
 * class, case, result (passed, failed, excluded), reason, brokers (how many the test asked for, or controllers if
 * these are more; 0 for a test without a cluster), seconds, trace.
 *
 * A class that fails as a whole, before its cases, is a line with the case "".
 */
public final class Results implements TestExecutionListener {
    static final String NOT_CHOSEN = "not chosen";
    private static final Pattern INVOCATION = Pattern.compile("\\[(?:test-template|class-template)-invocation:#(\\d+)\\]");
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, Integer> BROKERS = new ConcurrentHashMap<>();

    private final Map<String, Long> began = new ConcurrentHashMap<>();

    static void asksFor(String id, int brokers) {
        BROKERS.put(id, brokers);
    }

    /** "[2]" of the second invocation of a test that has several; "" for others. */
    static String invocation(String id) {
        StringBuilder numbers = new StringBuilder();
        Matcher found = INVOCATION.matcher(id);
        while (found.find()) {
            numbers.append('[').append(found.group(1)).append(']');
        }
        return numbers.toString();
    }

    @Override
    public void executionStarted(TestIdentifier test) {
        began.put(test.getUniqueId(), System.nanoTime());
    }

    @Override
    public void executionSkipped(TestIdentifier test, String reason) {
        if (!reason.contains(NOT_CHOSEN)) {
            write(test, "excluded", reason, null);
        }
    }

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
        Throwable error = result.getThrowable().orElse(null);
        if (test.isContainer() && error == null) {
            return;
        }
        String what = switch (result.getStatus()) {
            case SUCCESSFUL -> "passed";
            case ABORTED -> "excluded";
            case FAILED -> "failed";
        };
        write(test, what, error == null ? "" : first(error), error);
    }

    private static String first(Throwable error) {
        String name = what(error);
        Throwable cause = error.getCause();
        return cause == null || error instanceof org.opentest4j.TestAbortedException ? name : name + " <- " + what(cause);
    }

    private static String what(Throwable error) {
        if (error instanceof org.opentest4j.TestAbortedException) {
            return String.valueOf(error.getMessage());
        }
        String text = String.valueOf(error.getMessage());
        return error.getClass().getSimpleName() + ": " + text.substring(0, Math.min(400, text.length()));
    }

    private void write(TestIdentifier test, String result, String reason, Throwable error) {
        ObjectNode line = JSON.createObjectNode();
        var source = test.getSource().orElse(null);
        if (source instanceof MethodSource method) {
            String owner = test.getUniqueId().replaceFirst(".*\\[class:([^\\]]+)\\].*", "$1");
            line.put("class", owner).put("case", method.getMethodName() + invocation(test.getUniqueId()));
        } else if (source instanceof ClassSource owner) {
            line.put("class", owner.getClassName()).put("case", "");
        } else {
            return; // the engine itself
        }
        Long start = began.get(test.getUniqueId());
        line.put("result", result).put("reason", reason);
        line.put("brokers", BROKERS.getOrDefault(test.getUniqueId(), KafkaClusterTestKit.alive()));
        line.put("seconds", start == null ? 0 : (System.nanoTime() - start) / 10_000_000 / 100.0);
        if (error != null && result.equals("failed")) {
            StringWriter trace = new StringWriter();
            error.printStackTrace(new PrintWriter(trace, true));
            line.put("trace", trace.toString());
        }
        append(line);
    }

    private static synchronized void append(ObjectNode line) {
        try {
            Files.write(
                Path.of(System.getProperty("ottla.results")), (JSON.writeValueAsString(line) + "\n").getBytes(StandardCharsets.UTF_8),
                StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException lost) {
            throw new IllegalStateException(lost);
        }
    }
}

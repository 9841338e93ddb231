import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;

/**
 * The Java client behind lines of JSON, for compat_tests/java_client.py: one JVM serves all tests of a file.
 *
 * <p>A line on stdin is a command, {"command": NAME, ...arguments}; a line on stdout is its answer, {"result": ...} or, where the
 * client threw, {"error": SIMPLE CLASS NAME, "message": TEXT}. One at a time and in order. The end of stdin ends the program.
 *
 * <p>The commands are in Records (produce, consume, positions), Members (join, member, leave), Transactions (copier_...),
 * Administration and GroupAdministration; all of these take "bootstrap" and "settings", which are the client's own settings by name. Keys, values and
 * headers are texts or null.
 */
public final class Program {
    static final ObjectMapper JSON = new ObjectMapper();
    static final Duration TIMEOUT = Duration.ofSeconds(30);

    /** What a command's name stands for: from its arguments to what Jackson can write. */
    interface Command {
        Object run(JsonNode arguments) throws Exception;
    }

    private Program() {}

    public static void main(String[] unused) throws Exception {
        Map<String, Command> commands = new HashMap<>();
        Records.register(commands);
        Members.register(commands);
        Transactions.register(commands);
        Administration.register(commands);
        GroupAdministration.register(commands);
        serve(commands);
        Members.leaveAll();
        Administration.closeAll();
    }

    /** Answers the lines of stdin until its end. */
    static void serve(Map<String, Command> commands) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            output.println(JSON.writeValueAsString(answer(commands, JSON.readTree(line))));
        }
    }

    private static Map<String, Object> answer(Map<String, Command> commands, JsonNode request) {
        Map<String, Object> answer = new LinkedHashMap<>();
        Command command = commands.get(request.get("command").asText());
        try {
            if (command == null) {
                throw new IllegalArgumentException("no command " + request.get("command"));
            }
            answer.put("result", command.run(request));
        } catch (Exception error) { // whatever the client throws is an answer, which the test judges
            Throwable cause = cause(error);
            answer.put("error", cause.getClass().getSimpleName());
            answer.put("message", String.valueOf(cause.getMessage()));
        }
        return answer;
    }

    /** What went wrong, out of the wrapping of futures. */
    static Throwable cause(Throwable error) {
        return error instanceof ExecutionException && error.getCause() != null ? error.getCause() : error;
    }

    /** The client's settings: those of the request on top of the address and the given ones. */
    static Map<String, Object> settings(JsonNode request, Map<String, Object> defaults) {
        Map<String, Object> settings = new HashMap<>(defaults);
        settings.put("bootstrap.servers", request.get("bootstrap").asText());
        request.path("settings").properties().forEach(entry -> settings.put(entry.getKey(), entry.getValue().asText()));
        return settings;
    }

    /** A text argument, null where it is missing or null. */
    static String text(JsonNode node, String field) {
        JsonNode found = node.path(field);
        return found.isMissingNode() || found.isNull() ? null : found.asText();
    }
}

import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;

/**
 * Apache's command-line tools within one JVM, for a process each would take most of the time: their main methods, one at a time, with
 * their exits and streams caught. Driven as Program is, by the one command "tool". Needs the jars of the tools.
 */
public final class Tools {
    /** What a tool prints. One stream for good, for Scala's println keeps the one it finds first. */
    private static final ByteArrayOutputStream PRINTED = new ByteArrayOutputStream();

    private static final PrintStream STREAM = new PrintStream(PRINTED, true, StandardCharsets.UTF_8);
    private static final InputStream INPUT = System.in;

    /** What a tool had printed when it exited; null until then. */
    private static String printed;

    private Tools() {}

    /** Ends a tool where it would have ended its process. An Error, for the tools catch exceptions. */
    private static final class Ended extends Error {
        private static final long serialVersionUID = 1;

        Ended() {
            super(null, null, false, false);
        }
    }

    public static void main(String[] unused) throws Exception {
        Program.serve(Map.of("tool", Tools::run));
    }

    /** Runs the main method of "class" with "arguments" and "stdin"; {exit: its exit code, output: stdout and stderr in one}. */
    private static Object run(JsonNode request) throws Exception {
        List<String> arguments = new ArrayList<>();
        request.get("arguments").forEach(argument -> arguments.add(argument.asText()));
        List<Integer> codes = new ArrayList<>();
        List<Runnable> hooks = new ArrayList<>();
        Exit.Procedure end = (code, message) -> {
            if (message != null) {
                STREAM.println(message);
            }
            if (codes.isEmpty()) { // later ones are of tools that catch even Errors
                codes.add(code);
                printed = PRINTED.toString(StandardCharsets.UTF_8);
            }
            throw new Ended();
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        PRINTED.reset();
        printed = null;
        PrintStream out = System.out;
        PrintStream errors = System.err;
        System.setOut(STREAM);
        System.setErr(STREAM);
        System.setIn(new ByteArrayInputStream(request.path("stdin").asText("").getBytes(StandardCharsets.UTF_8)));
        try {
            Class<?> tool = Class.forName(request.get("class").asText());
            tool.getMethod("main", String[].class).invoke(null, (Object) arguments.toArray(new String[0]));
        } catch (InvocationTargetException thrown) {
            if (!(thrown.getCause() instanceof Ended)) {
                codes.add(1); // as a process that dies of an exception
                thrown.getCause().printStackTrace(STREAM);
            }
        } finally {
            hooks.forEach(Runnable::run); // the console producer, for one, sends its last records here
            System.setOut(out);
            System.setErr(errors);
            System.setIn(INPUT);
        }
        String output = printed == null ? PRINTED.toString(StandardCharsets.UTF_8) : printed;
        return Map.of("exit", codes.isEmpty() ? 0 : codes.get(0), "output", output);
    }
}

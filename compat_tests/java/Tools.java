import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;

/**
 * Apache's command-line tools within one JVM, for a process each would take most of the time: their main methods, one at a time, with
 * their exits and streams caught. Driven as Program is, by the command "tool" and those of Holders. Needs the tools' jars.
 */
public final class Tools {
    private static final ByteArrayOutputStream BOTH = new ByteArrayOutputStream();
    private static final Captured OUT = new Captured();
    private static final Captured ERRORS = new Captured();
    private static final InputStream INPUT = System.in;

    /** What a tool prints to one of its streams, which goes to BOTH, too. One for good: Scala's println keeps what it finds first. */
    private static final class Captured extends OutputStream {
        private final ByteArrayOutputStream own = new ByteArrayOutputStream();
        private final PrintStream stream = new PrintStream(this, true, StandardCharsets.UTF_8);

        @Override
        public synchronized void write(int letter) {
            write(new byte[] {(byte) letter}, 0, 1);
        }

        @Override
        public synchronized void write(byte[] bytes, int from, int count) {
            own.write(bytes, from, count);
            BOTH.write(bytes, from, count);
        }
    }

    /** What was printed, of both streams, the one and the other. */
    private record Printed(String output, String stdout, String stderr) {
        /** All until now, which is forgotten here. */
        static Printed taken() {
            Printed taken = new Printed(text(BOTH), text(OUT.own), text(ERRORS.own));
            for (ByteArrayOutputStream each : List.of(BOTH, OUT.own, ERRORS.own)) {
                each.reset();
            }
            return taken;
        }

        Printed and(Printed later) {
            return new Printed(output + later.output, stdout + later.stdout, stderr + later.stderr);
        }

        private static String text(ByteArrayOutputStream bytes) {
            return bytes.toString(StandardCharsets.UTF_8);
        }
    }

    /** What a tool had printed when it exited; null until then. */
    private static Printed printed;

    private Tools() {}

    /** Ends a tool where it would have ended its process. An Error, for the tools catch exceptions. */
    private static final class Ended extends Error {
        private static final long serialVersionUID = 1;

        Ended() {
            super(null, null, false, false);
        }
    }

    public static void main(String[] unused) throws Exception {
        Map<String, Program.Command> commands = new HashMap<>();
        commands.put("tool", Tools::run);
        Holders.register(commands);
        Program.serve(commands);
        Holders.releaseAll();
    }

    /** Runs the main method of "class" with "arguments" and "stdin"; {exit: its code, stdout, stderr, output: the two as they came}. */
    private static Object run(JsonNode request) throws Exception {
        List<String> arguments = new ArrayList<>();
        request.get("arguments").forEach(argument -> arguments.add(argument.asText()));
        List<Integer> codes = new ArrayList<>();
        List<Runnable> hooks = new ArrayList<>();
        Exit.Procedure end = (code, message) -> {
            if (codes.isEmpty()) { // later ones are of tools that catch even Errors
                codes.add(code);
                printed = Printed.taken();
            }
            throw new Ended();
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        Printed.taken();
        printed = null;
        PrintStream out = System.out;
        PrintStream errors = System.err;
        System.setOut(OUT.stream);
        System.setErr(ERRORS.stream);
        System.setIn(new ByteArrayInputStream(request.path("stdin").asText("").getBytes(StandardCharsets.UTF_8)));
        try {
            Class<?> tool = Class.forName(request.get("class").asText());
            tool.getMethod("main", String[].class).invoke(null, (Object) arguments.toArray(new String[0]));
        } catch (InvocationTargetException thrown) {
            if (!(thrown.getCause() instanceof Ended)) {
                codes.add(1); // as a process that dies of an exception
                thrown.getCause().printStackTrace(ERRORS.stream);
            }
        } finally {
            Printed behind = Printed.taken(); // after an exit: what a tool says that caught it, which no process could say
            printed = printed == null ? behind : printed;
            hooks.forEach(Runnable::run); // the console producer, for one, sends its last records here
            System.setOut(out);
            System.setErr(errors);
            System.setIn(INPUT);
        }
        Printed all = printed.and(Printed.taken());
        int code = codes.isEmpty() ? 0 : codes.get(0);
        return Map.of("exit", code, "output", all.output, "stdout", all.stdout, "stderr", all.stderr);
    }
}

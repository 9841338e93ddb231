package ottla.kafkatests;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/**
 * The brokers of a cluster, each in a process of its own, kept by the Python side (compat_tests/kafka_tests/keeper.py), to which
 * each cluster has a connection: a JSON object a line, an answer a line. The connection's end is the brokers' end.
 *
 * Requests: {"create": [settings of each], "controller": settings, "release": version or null, "features": {name: level},
 * "disks": n, "standalone": bool}, then {"start": id} and {"stop": id} as often as wanted; null stands for all. Every answer is
 * {"error": text} or the place: bootstrap, controllers, and of each broker bootstrap and settings.
 */
public final class Brokers implements AutoCloseable {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Socket socket;
    private final BufferedReader answers;
    private final JsonNode place;
    private final Set<Integer> running = new HashSet<>();

    public Brokers(Plan plan) {
        try {
            socket = new Socket(InetAddress.getLoopbackAddress(), Integer.getInteger("ottla.keeper.port"));
            answers = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
            var request = JSON.createObjectNode();
            request.set("create", JSON.valueToTree(plan.brokers()));
            request.set("controller", JSON.valueToTree(plan.controller()));
            request.put("release", plan.release());
            request.set("features", JSON.valueToTree(plan.features()));
            request.put("disks", plan.disks());
            request.put("standalone", plan.standalone());
            place = ask(request);
        } catch (IOException error) {
            throw new IllegalStateException("the keeper of brokers does not answer", error);
        }
    }

    /** Starts all that do not run. */
    public synchronized void start() {
        askFor("start", null);
        running.addAll(ids());
    }

    public synchronized void start(int id) {
        askFor("start", id);
        running.add(id);
    }

    public synchronized void stop(int id) {
        running.remove(id);
        askFor("stop", id);
    }

    public synchronized boolean running(int id) {
        return running.contains(id);
    }

    public synchronized boolean anyRuns() {
        return !running.isEmpty();
    }

    /** Kafka's test kit counts brokers from 0. */
    public List<Integer> ids() {
        return IntStream.range(0, place.get("brokers").size()).boxed().toList();
    }

    public String bootstrap() {
        return place.get("bootstrap").asText();
    }

    public String bootstrap(int id) {
        return place.get("brokers").get(id).get("bootstrap").asText();
    }

    public String controllers() {
        return place.get("controllers").asText();
    }

    public String clusterId() {
        return place.get("cluster_id").asText();
    }

    /** Of server.properties, as written. */
    public Map<String, String> settings(int id) {
        var settings = place.get("brokers").get(id).get("settings");
        return JSON.convertValue(settings, JSON.getTypeFactory().constructMapType(Map.class, String.class, String.class));
    }

    /** The log directories of all brokers. */
    public List<String> directories() {
        return ids().stream().flatMap(id -> Stream.of(settings(id).get("log.dirs").split(","))).toList();
    }

    @Override
    public synchronized void close() {
        running.clear();
        try (socket) {
            socket.shutdownOutput();
            while (answers.readLine() != null) {
                continue; // until the keeper closes its side: then the process is gone
            }
        } catch (IOException error) {
            throw new IllegalStateException("the keeper of brokers went away", error);
        }
    }

    private void askFor(String what, Integer id) {
        try {
            ask(JSON.createObjectNode().put(what, id));
        } catch (IOException error) {
            throw new IllegalStateException("the keeper of brokers does not answer", error);
        }
    }

    private JsonNode ask(JsonNode request) throws IOException {
        OutputStream out = socket.getOutputStream();
        out.write((JSON.writeValueAsString(request) + "\n").getBytes(StandardCharsets.UTF_8));
        out.flush();
        String line = answers.readLine();
        if (line == null) {
            throw new IOException("no answer to " + request);
        }
        JsonNode answer = JSON.readTree(line);
        if (answer.has("error")) {
            throw new IllegalStateException(answer.get("error").asText());
        }
        return answer;
    }
}

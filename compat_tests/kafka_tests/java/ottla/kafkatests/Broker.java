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
import java.util.List;
import java.util.Map;

/**
 * A broker in a process of its own, kept by the Python side (compat_tests/kafka_tests/keeper.py), to which each broker has a
 * connection: a JSON object a line, an answer a line. The connection's end is the broker's end.
 *
 * Requests: {"create": settings, "release": version or null, "features": {name: level}, "disks": n, "standalone": bool}, then
 * "start" and "stop" as often as wanted. Every answer is {"error": text} or the place: bootstrap, controllers, settings.
 */
public final class Broker implements AutoCloseable {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Socket socket;
    private final BufferedReader answers;
    private final JsonNode place;
    private boolean running;

    public Broker(Plan plan) {
        try {
            socket = new Socket(InetAddress.getLoopbackAddress(), Integer.getInteger("ottla.keeper.port"));
            answers = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
            var request = JSON.createObjectNode();
            request.set("create", JSON.valueToTree(plan.settings()));
            request.put("release", plan.release());
            request.set("features", JSON.valueToTree(plan.features()));
            request.put("disks", plan.disks());
            request.put("standalone", plan.standalone());
            place = ask(request);
        } catch (IOException error) {
            throw new IllegalStateException("the keeper of brokers does not answer", error);
        }
    }

    public synchronized void start() {
        askFor("start");
        running = true;
    }

    public synchronized void stop() {
        running = false;
        askFor("stop");
    }

    public synchronized boolean running() {
        return running;
    }

    public String bootstrap() {
        return place.get("bootstrap").asText();
    }

    public String controllers() {
        return place.get("controllers").asText();
    }

    public String clusterId() {
        return place.get("cluster_id").asText();
    }

    /** Of server.properties, as written. */
    public Map<String, String> settings() {
        return JSON.convertValue(place.get("settings"), JSON.getTypeFactory().constructMapType(Map.class, String.class, String.class));
    }

    public List<String> directories() {
        return List.of(settings().get("log.dirs").split(","));
    }

    @Override
    public synchronized void close() {
        running = false;
        try (socket) {
            socket.shutdownOutput();
            while (answers.readLine() != null) {
                continue; // until the keeper closes its side: then the process is gone
            }
        } catch (IOException error) {
            throw new IllegalStateException("the keeper of brokers went away", error);
        }
    }

    private void askFor(String what) {
        try {
            ask(JSON.createObjectNode().put(what, true));
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

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Members that hold their place in a group while tools look at it: each a thread that polls until told to leave. */
final class Holders {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final Map<String, Holder> BY_NAME = new ConcurrentHashMap<>();

    private Holders() {}

    static void register(Map<String, Program.Command> commands) {
        commands.put("hold", Holders::hold);
        commands.put("release", request -> release(request.get("member").asText()));
    }

    /** Starts "member" of "kind" consumer or share, with "settings", which subscribes to "topics". */
    private static Object hold(JsonNode request) {
        List<String> topics = new ArrayList<>();
        request.get("topics").forEach(topic -> topics.add(topic.asText()));
        Map<String, Object> settings = Program.settings(request, Map.of());
        StringDeserializer text = new StringDeserializer();
        Holder holder;
        if (request.get("kind").asText().equals("share")) {
            KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(settings, text, text);
            consumer.subscribe(topics);
            holder = new Holder(() -> consumer.poll(POLL), consumer::wakeup, consumer::close);
        } else {
            KafkaConsumer<String, String> consumer = new KafkaConsumer<>(new HashMap<>(settings), text, text);
            consumer.subscribe(topics);
            holder = new Holder(() -> consumer.poll(POLL), consumer::wakeup, consumer::close);
        }
        BY_NAME.put(request.get("member").asText(), holder);
        holder.start();
        return null;
    }

    /** Ends a member, which says goodbye to its group; what went wrong, or null. */
    private static Object release(String name) throws InterruptedException {
        Holder holder = BY_NAME.remove(name);
        holder.wakeup.run();
        holder.join(Program.TIMEOUT.toMillis());
        return holder.error;
    }

    static void releaseAll() throws InterruptedException {
        for (String name : List.copyOf(BY_NAME.keySet())) {
            release(name);
        }
    }

    private static final class Holder extends Thread {
        private final Runnable poll;
        private final Runnable wakeup;
        private final Runnable close;
        private volatile String error;

        Holder(Runnable poll, Runnable wakeup, Runnable close) {
            this.poll = poll;
            this.wakeup = wakeup;
            this.close = close;
        }

        @Override
        public void run() {
            try {
                while (true) {
                    poll.run();
                }
            } catch (WakeupException told) {
                error = null; // leave
            } catch (RuntimeException failed) { // told when the member is ended
                error = failed.toString();
            } finally {
                close.run();
            }
        }
    }
}

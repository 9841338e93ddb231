import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Members of share groups. Those of share_join do what they are told, a call at a time; those of share_work poll in a thread of their
 * own, and accept everything, until they are told to stop.
 */
final class ShareMembers {
    private static final Map<String, Told> TOLD = new ConcurrentHashMap<>();
    private static final Map<String, Worker> WORKERS = new ConcurrentHashMap<>();

    private ShareMembers() {}

    static void register(Map<String, Program.Command> commands) {
        commands.put("share_join", request -> {
            TOLD.put(name(request), new Told(consumer(request)));
            return null;
        });
        commands.put("share_poll", request -> TOLD.get(name(request)).poll(request.get("timeout_ms").asLong()));
        commands.put("share_acknowledge", request -> TOLD.get(name(request)).acknowledge(request.get("types")));
        commands.put("share_commit", request -> TOLD.get(name(request)).commit());
        commands.put("share_lock_ms", request -> TOLD.get(name(request)).consumer.acquisitionLockTimeoutMs().orElse(null));
        commands.put("share_leave", request -> {
            TOLD.remove(name(request)).consumer.close();
            return null;
        });
        commands.put("share_work", ShareMembers::work);
        commands.put("share_worked", request -> WORKERS.get(name(request)).deliveries());
        commands.put("share_stop", request -> stop(name(request)));
    }

    private static String name(JsonNode request) {
        return request.get("member").asText();
    }

    private static KafkaShareConsumer<String, String> consumer(JsonNode request) {
        StringDeserializer text = new StringDeserializer();
        KafkaShareConsumer<String, String> consumer =
                new KafkaShareConsumer<>(Program.settings(request, Map.of("group.id", request.get("group").asText())), text, text);
        List<String> topics = new ArrayList<>();
        request.get("topics").forEach(topic -> topics.add(topic.asText()));
        consumer.subscribe(topics);
        return consumer;
    }

    private static Object work(JsonNode request) {
        Worker worker = new Worker(consumer(request));
        WORKERS.put(name(request), worker);
        worker.start();
        return null;
    }

    /** What the worker was given; or what it failed with. */
    private static Object stop(String name) throws InterruptedException {
        Worker worker = WORKERS.remove(name);
        worker.consumer.wakeup();
        worker.join(Program.TIMEOUT.toMillis());
        if (worker.error != null) {
            throw new IllegalStateException(worker.error);
        }
        return worker.deliveries();
    }

    static void leaveAll() throws InterruptedException {
        TOLD.values().forEach(told -> told.consumer.close(Duration.ofSeconds(2)));
        for (String name : List.copyOf(WORKERS.keySet())) {
            stop(name);
        }
    }

    private static final class Told {
        private final KafkaShareConsumer<String, String> consumer;
        private final Map<String, ConsumerRecord<String, String>> given = new TreeMap<>();

        Told(KafkaShareConsumer<String, String> consumer) {
            this.consumer = consumer;
        }

        /** [partition, offset, delivery count, value] of each record. */
        Object poll(long timeoutMs) {
            List<Object> records = new ArrayList<>();
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(timeoutMs))) {
                given.put(record.partition() + "-" + record.offset(), record);
                records.add(List.of(record.partition(), record.offset(), record.deliveryCount().orElse((short) -1), record.value()));
            }
            return records;
        }

        /** "types": [partition, offset, name of the type] each. */
        Object acknowledge(JsonNode types) {
            for (JsonNode type : types) {
                ConsumerRecord<String, String> record = given.get(type.get(0).asInt() + "-" + type.get(1).asLong());
                consumer.acknowledge(record, AcknowledgeType.valueOf(type.get(2).asText()));
            }
            return null;
        }

        /** By partition, the class of what it failed with, or null. */
        Object commit() {
            Map<String, Object> answer = new LinkedHashMap<>();
            for (Map.Entry<TopicIdPartition, Optional<KafkaException>> entry : consumer.commitSync().entrySet()) {
                Object error = entry.getValue().map(failed -> (Object) failed.getClass().getSimpleName()).orElse(null);
                answer.put(String.valueOf(entry.getKey().partition()), error);
            }
            return answer;
        }
    }

    private static final class Worker extends Thread {
        private final KafkaShareConsumer<String, String> consumer;
        private final List<Object> given = new ArrayList<>();
        private volatile String error;

        Worker(KafkaShareConsumer<String, String> consumer) {
            this.consumer = consumer;
        }

        /** [partition, offset, delivery count] of each record, in the order in which they came. */
        synchronized Object deliveries() {
            return List.copyOf(given);
        }

        @Override
        public void run() {
            try {
                while (true) {
                    for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                        synchronized (this) {
                            given.add(List.of(record.partition(), record.offset(), record.deliveryCount().orElse((short) -1)));
                        }
                    }
                }
            } catch (WakeupException told) {
                consumer.commitSync(); // what was polled last is accepted
            } catch (RuntimeException failed) { // told when the worker is stopped
                error = failed.toString();
            } finally {
                consumer.close();
            }
        }
    }
}

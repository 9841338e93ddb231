import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.internals.AppInfoParser;

/** The Java client behind the protocol of the drivers of compat_tests/behaviours, whose __init__.py has the calls and settings. */
public final class Behaviours {
    private static final Map<String, KafkaProducer<String, String>> PRODUCERS = new ConcurrentHashMap<>();
    private static final Map<String, Reader> READERS = new ConcurrentHashMap<>();
    private static final Map<String, String> NAMES = Map.ofEntries(
            Map.entry("idempotent", "enable.idempotence"),
            Map.entry("transactional_id", "transactional.id"),
            Map.entry("delivery_ms", "delivery.timeout.ms"),
            Map.entry("request_ms", "request.timeout.ms"),
            Map.entry("group", "group.id"),
            Map.entry("client_id", "client.id"),
            Map.entry("instance_id", "group.instance.id"),
            Map.entry("session_ms", "session.timeout.ms"),
            Map.entry("heartbeat_ms", "heartbeat.interval.ms"),
            Map.entry("poll_ms", "max.poll.interval.ms"),
            Map.entry("check_crcs", "check.crcs"),
            Map.entry("reset", "auto.offset.reset"));

    private Behaviours() {}

    public static void main(String[] unused) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode asked = Program.JSON.readTree(line);
            Thread answering = new Thread(() -> answer(asked));
            answering.setDaemon(true);
            answering.start();
        }
        System.exit(0); // a client that hangs holds nobody up
    }

    private static void answer(JsonNode asked) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("id", asked.get("id").asInt());
        try {
            line.put("result", call(asked));
        } catch (Exception error) { // whatever the client throws is what the table shows
            line.putAll(describe(error));
        }
        emit(line);
    }

    private static Object call(JsonNode asked) throws Exception {
        String of = asked.path("of").asText();
        switch (asked.get("call").asText()) {
            case "version" -> {
                return AppInfoParser.getVersion();
            }
            case "producer" -> open(of, asked);
            case "send" -> {
                return send(PRODUCERS.get(of), asked);
            }
            case "begin" -> PRODUCERS.get(of).beginTransaction();
            case "commit" -> PRODUCERS.get(of).commitTransaction();
            case "abort" -> PRODUCERS.get(of).abortTransaction();
            case "consumer" -> READERS.put(of, new Reader(asked));
            case "close" -> close(of);
            default -> throw new IllegalArgumentException("no call " + asked.get("call"));
        }
        return null;
    }

    private static Map<String, Object> settings(JsonNode asked) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", asked.get("bootstrap").asText());
        asked.get("settings").properties().forEach(entry -> {
            if (NAMES.containsKey(entry.getKey())) {
                settings.put(NAMES.get(entry.getKey()), entry.getValue().asText());
            }
        });
        return settings;
    }

    private static void open(String of, JsonNode asked) {
        KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings(asked), new StringSerializer(), new StringSerializer());
        PRODUCERS.put(of, producer);
        if (asked.get("settings").has("transactional_id")) {
            producer.initTransactions();
        }
    }

    private static Object send(KafkaProducer<String, String> producer, JsonNode asked) throws InterruptedException {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode value : asked.get("values")) {
            sent.add(producer.send(new ProducerRecord<>(asked.get("topic").asText(), 0, null, value.asText())));
        }
        List<Object> found = new ArrayList<>();
        for (Future<RecordMetadata> future : sent) {
            try {
                found.add(Map.of("offset", future.get().offset()));
            } catch (ExecutionException error) {
                found.add(describe(error));
            }
        }
        return found;
    }

    private static void close(String of) throws InterruptedException {
        KafkaProducer<String, String> producer = PRODUCERS.remove(of);
        if (producer != null) {
            producer.close(Duration.ofSeconds(1));
        } else {
            READERS.remove(of).end();
        }
    }

    private static Map<String, Object> describe(Throwable error) {
        Throwable cause = Program.cause(error);
        Map<String, Object> described = new LinkedHashMap<>();
        described.put("error", cause.getClass().getSimpleName());
        described.put("code", cause instanceof ApiException ? (Object) Errors.forException(cause).code() : null);
        described.put("message", String.valueOf(cause.getMessage()));
        return described;
    }

    private static synchronized void emit(Map<String, Object> line) {
        try {
            System.out.println(Program.JSON.writeValueAsString(line));
        } catch (com.fasterxml.jackson.core.JsonProcessingException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    /** A consumer in a thread of its own. */
    private static final class Reader extends Thread implements ConsumerRebalanceListener {
        private final String of;
        private final boolean commits;
        private final KafkaConsumer<String, String> consumer;
        private volatile boolean ending;

        Reader(JsonNode asked) {
            of = asked.get("of").asText();
            JsonNode given = asked.get("settings");
            commits = given.path("commit").asText().equals("each");
            Map<String, Object> settings = settings(asked);
            if (commits || !given.has("group")) {
                settings.put("enable.auto.commit", "false");
            }
            consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
            if (given.has("group")) {
                consumer.subscribe(List.of(asked.get("topic").asText()), this);
            } else {
                TopicPartition partition = new TopicPartition(asked.get("topic").asText(), 0);
                consumer.assign(List.of(partition));
                consumer.seek(partition, 0);
            }
            setDaemon(true);
            start();
        }

        void end() throws InterruptedException {
            ending = true;
            consumer.wakeup();
            join();
        }

        @Override
        public void run() {
            while (!ending) {
                try {
                    consumer.poll(Duration.ofMillis(100)).forEach(this::take);
                } catch (WakeupException told) {
                    break;
                } catch (RuntimeException error) { // whatever the client throws is what the table shows
                    failed("poll", error);
                    pause(); // an error that comes at once, again and again, would be all that is written
                }
            }
            consumer.close(CloseOptions.timeout(Duration.ofSeconds(5)));
        }

        private void take(ConsumerRecord<String, String> record) {
            say("record", Map.of("offset", record.offset(), "value", record.value()));
            if (!commits) {
                return;
            }
            try {
                consumer.commitSync();
                say("committed", Map.of());
            } catch (WakeupException told) {
                throw told;
            } catch (RuntimeException error) {
                failed("commit", error);
            }
        }

        private static void pause() {
            try {
                Thread.sleep(100);
            } catch (InterruptedException never) {
                throw new IllegalStateException(never);
            }
        }

        private void failed(String during, RuntimeException error) {
            Map<String, Object> described = describe(error);
            described.put("while", during);
            say("error", described);
        }

        private void say(String event, Map<String, Object> more) {
            Map<String, Object> line = new LinkedHashMap<>();
            line.put("of", of);
            line.put("event", event);
            line.putAll(more);
            emit(line);
        }

        private void changed(String event, Collection<TopicPartition> partitions) {
            say(event, Map.of("partitions", partitions.stream().map(TopicPartition::partition).sorted().toList()));
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            changed("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            changed("revoked", partitions);
        }
    }
}

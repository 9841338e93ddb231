import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Consume, transform, produce: a consumer of "source" in a group and a transactional producer, step by step, as the test drives them.
 * There is one such pair at a time.
 */
final class Transactions {
    private static KafkaConsumer<String, String> consumer;
    private static KafkaProducer<String, String> producer;
    private static String source;

    private Transactions() {}

    static void register(Map<String, Program.Command> commands) {
        commands.put("copier_open", Transactions::open);
        commands.put("copier_committed", Transactions::committed);
        commands.put("copier_read", Transactions::read);
        commands.put("copier_write", Transactions::write);
        commands.put("copier_commit", request -> commit());
        commands.put("copier_abort", Transactions::abort);
        commands.put("copier_close", request -> close());
    }

    /** Opens the pair as "name", its group and its transactional id; the producer before it took over is fenced. */
    private static Object open(JsonNode request) {
        close();
        source = request.get("source").asText();
        String name = request.get("name").asText();
        Map<String, Object> producing = Program.settings(request, Map.of("transactional.id", name, "transaction.timeout.ms", "30000"));
        producer = new KafkaProducer<>(producing, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        Map<String, Object> consuming = new HashMap<>();
        consuming.put("group.id", name);
        consuming.put("isolation.level", "read_committed");
        consuming.put("auto.offset.reset", "earliest");
        consuming.put("enable.auto.commit", "false");
        consuming.put("session.timeout.ms", "6000");
        consuming.put("heartbeat.interval.ms", "1000");
        consuming.put("max.poll.records", request.get("count").asText());
        consumer = Records.consumer(request, consuming);
        consumer.subscribe(List.of(source));
        return null;
    }

    /** What the group has committed of "partitions", 0 where it has nothing. */
    private static Object committed(JsonNode request) {
        Set<TopicPartition> partitions = new HashSet<>();
        request.get("partitions").forEach(number -> partitions.add(new TopicPartition(source, number.asInt())));
        Map<Integer, Long> found = new HashMap<>();
        consumer.committed(partitions).forEach((where, at) -> found.put(where.partition(), at == null ? 0 : at.offset()));
        return found;
    }

    /** What one poll brings: lists of partition, offset and value. */
    private static Object read(JsonNode unused) {
        List<Object> found = new ArrayList<>();
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
            found.add(List.of(record.partition(), record.offset(), record.value()));
        }
        return found;
    }

    /** Begins a transaction with "records", pairs of partition and value, for "target", and with the group's next offsets. */
    private static Object write(JsonNode request) {
        producer.beginTransaction();
        for (JsonNode record : request.get("records")) {
            String value = record.get(1).asText();
            producer.send(new ProducerRecord<>(request.get("target").asText(), record.get(0).asInt(), null, value));
        }
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        request.get("offsets").properties().forEach(entry -> offsets.put(
                new TopicPartition(source, Integer.parseInt(entry.getKey())), new OffsetAndMetadata(entry.getValue().asLong())));
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        producer.flush();
        return null;
    }

    private static Object commit() {
        producer.commitTransaction();
        return null;
    }

    /** Aborts the transaction and goes back to "offsets". */
    private static Object abort(JsonNode request) {
        producer.abortTransaction();
        for (TopicPartition partition : consumer.assignment()) {
            consumer.seek(partition, request.get("offsets").get(String.valueOf(partition.partition())).asLong());
        }
        return null;
    }

    private static Object close() {
        if (consumer != null) {
            consumer.close(Duration.ofSeconds(5));
            consumer = null;
        }
        if (producer != null) {
            producer.close(Duration.ZERO);
            producer = null;
        }
        return null;
    }
}

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Producing, and consuming partitions without a group. */
final class Records {
    private Records() {}

    static void register(Map<String, Program.Command> commands) {
        commands.put("produce", Records::produce);
        commands.put("consume", Records::consume);
        commands.put("positions", Records::positions);
    }

    static KafkaConsumer<String, String> consumer(JsonNode request, Map<String, Object> defaults) {
        return new KafkaConsumer<>(Program.settings(request, defaults), new StringDeserializer(), new StringDeserializer());
    }

    /** Sends "records" to "topic" and answers, for each, where it went ({partition, offset, timestamp_ms}) or its {error}. */
    private static Object produce(JsonNode request) throws Exception {
        List<Object> answers = new ArrayList<>();
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(Program.settings(request, Map.of()), new StringSerializer(), new StringSerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (JsonNode record : request.get("records")) {
                sent.add(producer.send(toSend(request.get("topic").asText(), record)));
            }
            producer.flush();
            for (Future<RecordMetadata> future : sent) {
                answers.add(placed(future));
            }
        }
        return answers;
    }

    private static Map<String, Object> placed(Future<RecordMetadata> future) throws Exception {
        try {
            RecordMetadata where = future.get(Program.TIMEOUT.toSeconds(), TimeUnit.SECONDS);
            return Map.of("partition", where.partition(), "offset", where.offset(), "timestamp_ms", where.timestamp());
        } catch (ExecutionException error) {
            return Map.of("error", Program.cause(error).getClass().getSimpleName());
        }
    }

    private static ProducerRecord<String, String> toSend(String topic, JsonNode record) {
        Integer partition = record.has("partition") ? record.get("partition").asInt() : null;
        Long timestampMs = record.has("timestamp_ms") ? record.get("timestamp_ms").asLong() : null;
        ProducerRecord<String, String> made =
                new ProducerRecord<>(topic, partition, timestampMs, Program.text(record, "key"), Program.text(record, "value"));
        for (JsonNode header : record.path("headers")) {
            byte[] value = header.get(1).isNull() ? null : header.get(1).asText().getBytes(StandardCharsets.UTF_8);
            made.headers().add(header.get(0).asText(), value);
        }
        return made;
    }

    static Map<String, Object> describe(ConsumerRecord<String, String> record) {
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("partition", record.partition());
        found.put("offset", record.offset());
        found.put("timestamp_ms", record.timestamp());
        found.put("timestamp_type", record.timestampType().toString());
        found.put("key", record.key());
        found.put("value", record.value());
        List<Object> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            String value = header.value() == null ? null : new String(header.value(), StandardCharsets.UTF_8);
            List<String> pair = new ArrayList<>(List.of(header.key()));
            pair.add(value);
            headers.add(pair);
        }
        found.put("headers", headers);
        return found;
    }

    private static List<TopicPartition> partitions(JsonNode request) {
        List<TopicPartition> found = new ArrayList<>();
        request.get("partitions").forEach(number -> found.add(new TopicPartition(request.get("topic").asText(), number.asInt())));
        return found;
    }

    /** Reads "count" records of "partitions", from "offset" or "timestamp_ms" on, else from the earliest. More than those end it. */
    private static Object consume(JsonNode request) {
        List<Object> found = new ArrayList<>();
        int count = request.get("count").asInt();
        try (KafkaConsumer<String, String> consumer = consumer(request, Map.of("auto.offset.reset", "earliest"))) {
            List<TopicPartition> partitions = partitions(request);
            consumer.assign(partitions);
            if (request.has("timestamp_ms")) {
                times(consumer, partitions, request.get("timestamp_ms").asLong()).forEach((p, o) -> consumer.seek(p, o.offset()));
            } else if (request.has("offset")) {
                partitions.forEach(partition -> consumer.seek(partition, request.get("offset").asLong()));
            } else {
                consumer.seekToBeginning(partitions);
            }
            long deadline = System.nanoTime() + Program.TIMEOUT.toNanos();
            while (found.size() < count && System.nanoTime() < deadline) {
                consumer.poll(Duration.ofMillis(200)).forEach(record -> found.add(describe(record)));
            }
        }
        return found;
    }

    private static Map<TopicPartition, OffsetAndTimestamp> times(
            KafkaConsumer<String, String> consumer, List<TopicPartition> partitions, long timestampMs) {
        Map<TopicPartition, Long> wanted = new HashMap<>();
        partitions.forEach(partition -> wanted.put(partition, timestampMs));
        return consumer.offsetsForTimes(wanted);
    }

    /** What a consumer says of "partitions": beginning, end, and [offset, timestamp, leader epoch] at "timestamp_ms". */
    private static Object positions(JsonNode request) {
        try (KafkaConsumer<String, String> consumer = consumer(request, Map.of())) {
            List<TopicPartition> partitions = partitions(request);
            Map<TopicPartition, Long> beginning = consumer.beginningOffsets(partitions);
            Map<TopicPartition, Long> end = consumer.endOffsets(partitions);
            Map<TopicPartition, OffsetAndTimestamp> at = times(consumer, partitions, request.get("timestamp_ms").asLong());
            Map<Integer, Object> found = new LinkedHashMap<>();
            for (TopicPartition partition : partitions) {
                Map<String, Object> one = new LinkedHashMap<>();
                one.put("beginning", beginning.get(partition));
                one.put("end", end.get(partition));
                OffsetAndTimestamp there = at.get(partition);
                one.put("at", there == null ? null : List.of(there.offset(), there.timestamp(), there.leaderEpoch().orElse(-1)));
                found.put(partition.partition(), one);
            }
            return found;
        }
    }
}

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;

/** Members of consumer groups: each a thread that polls until told to leave. */
final class Members {
    private static final Map<String, Member> BY_NAME = new ConcurrentHashMap<>();

    private Members() {}

    static void register(Map<String, Program.Command> commands) {
        commands.put("join", Members::join);
        commands.put("member", request -> BY_NAME.get(request.get("member").asText()).state());
        commands.put("leave", request -> leave(request.get("member").asText()));
    }

    /** Starts "member", which subscribes to "topics" (or to "pattern", or to "regex", which the broker matches) and commits by itself. */
    private static Object join(JsonNode request) {
        Member member = new Member(request);
        BY_NAME.put(request.get("member").asText(), member);
        member.start();
        return null;
    }

    /** Ends a member and answers its last state. A static member keeps its place in the group. */
    private static Object leave(String name) throws InterruptedException {
        Member member = BY_NAME.remove(name);
        member.consumer.wakeup();
        member.join(Program.TIMEOUT.toMillis());
        return member.state();
    }

    static void leaveAll() throws InterruptedException {
        for (String name : List.copyOf(BY_NAME.keySet())) {
            leave(name);
        }
    }

    private static final class Member extends Thread implements ConsumerRebalanceListener {
        private final KafkaConsumer<String, String> consumer;
        private final JsonNode request;
        private final TreeSet<Integer> assigned = new TreeSet<>();
        private final List<Object> events = new ArrayList<>();
        private final List<String> values = new ArrayList<>();
        private String error;
        private String memberId;

        Member(JsonNode request) {
            this.request = request;
            Map<String, Object> defaults = new HashMap<>(
                    Map.of("auto.offset.reset", "earliest", "auto.commit.interval.ms", "200", "metadata.max.age.ms", "1000"));
            if (!request.path("settings").path("group.protocol").asText().equals("consumer")) { // there, they are the broker's
                defaults.putAll(Map.of("heartbeat.interval.ms", "300", "session.timeout.ms", "30000"));
            }
            consumer = Records.consumer(request, defaults);
        }

        @Override
        public void run() {
            try (consumer) {
                if (request.has("regex")) {
                    consumer.subscribe(new SubscriptionPattern(request.get("regex").asText()), this);
                } else if (request.has("pattern")) {
                    consumer.subscribe(java.util.regex.Pattern.compile(request.get("pattern").asText()), this);
                } else {
                    List<String> topics = new ArrayList<>();
                    request.get("topics").forEach(topic -> topics.add(topic.asText()));
                    consumer.subscribe(topics, this);
                }
                while (true) {
                    for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                        add(record);
                    }
                }
            } catch (WakeupException told) {
                return; // leave
            } catch (RuntimeException failed) { // shown in the state, where the test looks
                synchronized (this) {
                    error = failed.toString();
                }
            }
        }

        private synchronized void add(ConsumerRecord<String, String> record) {
            values.add(record.value());
            memberId = consumer.groupMetadata().memberId();
        }

        private synchronized void event(String what, Collection<TopicPartition> partitions) {
            List<Integer> numbers = partitions.stream().map(TopicPartition::partition).sorted().toList();
            events.add(List.of(what, numbers));
            if (what.equals("assigned")) {
                assigned.addAll(numbers);
            } else {
                assigned.removeAll(numbers);
            }
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            event("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            event("revoked", partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            event("lost", partitions);
        }

        /** {assigned, events: [what, partitions] of each rebalance so far, values: all read so far, member_id, error, alive}. */
        synchronized Map<String, Object> state() {
            Map<String, Object> state = new LinkedHashMap<>();
            state.put("assigned", List.copyOf(assigned));
            state.put("events", List.copyOf(events));
            state.put("values", List.copyOf(values));
            state.put("member_id", memberId);
            state.put("error", error);
            state.put("alive", isAlive());
            return state;
        }
    }
}

// Asks Kafka's simple assignor, for test_assignor_oracle.py. Reads groups from standard input, a line a fact:
//   topic <id> <partitions> <those with state, comma-separated, or "-">
//   member <id> <topic ids, comma-separated, or "-"> <what it has: id=0,1;id= or "-">
//   assign <homogeneous: true|false>
// An id of a topic is 32 hexadecimal digits. "assign" ends a group, and prints a line a member, as
//   <member id> <what it gets, as above; ids and partitions ascending>
// and then a line ".".
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

public class KafkaSimpleAssignorOracle {
    public static void main(String[] args) throws Exception {
        StringBuilder out = new StringBuilder();
        Map<Uuid, Integer> topics = new HashMap<>();
        Map<Uuid, Set<Integer>> ready = new HashMap<>();
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("topic")) {
                topics.put(uuid(words[1]), Integer.parseInt(words[2]));
                ready.put(uuid(words[1]), numbers(words[3]));
            } else if (words[0].equals("member")) {
                Set<Uuid> wanted = new LinkedHashSet<>();
                if (!words[2].equals("-")) for (String id : words[2].split(",")) wanted.add(uuid(id));
                Map<Uuid, Set<Integer>> held = new HashMap<>();
                if (!words[3].equals("-")) {
                    for (String part : words[3].split(";")) held.put(uuid(part.substring(0, 32)), numbers(part.substring(33)));
                }
                members.put(words[1], new MemberSubscriptionAndAssignmentImpl(Optional.empty(), Optional.empty(), wanted, new Assignment(held)));
            } else {
                out.append(assign(words[1].equals("true"), members, topics, ready));
                topics = new HashMap<>(); // a cleared one keeps its size, and with it another order
                ready = new HashMap<>();
                members = new HashMap<>();
            }
        }
        System.out.write(out.toString().getBytes(StandardCharsets.UTF_8));
        System.out.flush();
    }

    private static String assign(
        boolean homogeneous,
        Map<String, MemberSubscriptionAndAssignmentImpl> members,
        Map<Uuid, Integer> topics,
        Map<Uuid, Set<Integer>> ready
    ) {
        SubscriptionType type = homogeneous ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        GroupSpec group = new GroupSpecImpl(Collections.unmodifiableMap(members), type, Map.of(), Optional.of(ready));
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            public int numPartitions(Uuid id) {
                return topics.getOrDefault(id, -1);
            }

            public Set<String> racksForPartition(Uuid id, int partition) {
                return Set.of();
            }
        };
        GroupAssignment answer = new SimpleAssignor().assign(group, describer);
        StringBuilder out = new StringBuilder();
        for (var entry : new TreeMap<>(answer.members()).entrySet()) {
            Map<String, String> parts = new TreeMap<>();
            entry.getValue().partitions().forEach((id, partitions) ->
                parts.put(hex(id), new TreeSet<>(partitions).stream().map(String::valueOf).collect(Collectors.joining(","))));
            String text = parts.entrySet().stream().map(part -> part.getKey() + "=" + part.getValue()).collect(Collectors.joining(";"));
            out.append(entry.getKey()).append(" ").append(text.isEmpty() ? "-" : text).append("\n");
        }
        return out.append(".\n").toString();
    }

    private static Set<Integer> numbers(String text) {
        if (text.isEmpty() || text.equals("-")) return new HashSet<>();
        return new HashSet<>(Arrays.stream(text.split(",")).map(Integer::valueOf).toList());
    }

    private static Uuid uuid(String hex) {
        return new Uuid(Long.parseUnsignedLong(hex.substring(0, 16), 16), Long.parseUnsignedLong(hex.substring(16, 32), 16));
    }

    private static String hex(Uuid id) {
        return String.format("%016x%016x", id.getMostSignificantBits(), id.getLeastSignificantBits());
    }
}

// Asks Kafka's own assignors, for test_assignors_oracle.py. Reads groups from standard input, a line a fact:
//   topic <id> <partitions>
//   member <id> <instance id or "-"> <topic ids, comma-separated, or "-"> <what it has: id=0,1;id=2 or "-">
//   assign <uniform|range> <homogeneous: true|false>
// An id of a topic is 32 hexadecimal digits. "assign" ends a group, and prints a line a member, as
//   <member id> <what it gets, as above; ids and partitions ascending>
// and then a line ".", or "error" where the assignor refuses.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberSubscription;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignorException;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

public class KafkaAssignorOracle {
    private static final Map<String, PartitionAssignor> ASSIGNORS =
        Map.of("uniform", new UniformAssignor(), "range", new RangeAssignor());

    public static void main(String[] args) throws Exception {
        StringBuilder out = new StringBuilder();
        Map<Uuid, Integer> topics = new HashMap<>();
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("topic")) {
                topics.put(uuid(words[1]), Integer.parseInt(words[2]));
            } else if (words[0].equals("member")) {
                Set<Uuid> wanted = new LinkedHashSet<>();
                if (!words[3].equals("-")) for (String id : words[3].split(",")) wanted.add(uuid(id));
                Map<Uuid, Set<Integer>> held = new HashMap<>();
                if (!words[4].equals("-")) {
                    for (String part : words[4].split(";")) {
                        Uuid id = uuid(part.split("=")[0]);
                        Set<Integer> partitions = new HashSet<>(Arrays.stream(part.split("=")[1].split(",")).map(Integer::valueOf).toList());
                        held.put(id, partitions);
                        for (int p : partitions) owners.computeIfAbsent(id, __ -> new HashMap<>()).put(p, words[1]);
                    }
                }
                Optional<String> instance = words[2].equals("-") ? Optional.empty() : Optional.of(words[2]);
                members.put(words[1], new MemberSubscriptionAndAssignmentImpl(Optional.empty(), instance, wanted, new Assignment(held)));
            } else {
                out.append(assign(words[1], words[2].equals("true"), members, owners, topics));
                topics = new HashMap<>(); // a cleared one keeps its size, and with it another order
                members = new HashMap<>();
                owners = new HashMap<>();
            }
        }
        System.out.write(out.toString().getBytes(StandardCharsets.UTF_8));
        System.out.flush();
    }

    private static String assign(
        String name,
        boolean homogeneous,
        Map<String, MemberSubscriptionAndAssignmentImpl> members,
        Map<Uuid, Map<Integer, String>> owners,
        Map<Uuid, Integer> topics
    ) {
        SubscriptionType type = homogeneous ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        GroupSpec group = new GroupSpecImpl(Collections.unmodifiableMap(members), type, owners, Optional.empty());
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            public int numPartitions(Uuid id) {
                return topics.getOrDefault(id, -1);
            }

            public Set<String> racksForPartition(Uuid id, int partition) {
                return Set.of();
            }
        };
        try {
            GroupAssignment answer = ASSIGNORS.get(name).assign(group, describer);
            StringBuilder out = new StringBuilder();
            for (Map.Entry<String, MemberAssignment> entry : new TreeMap<>(answer.members()).entrySet()) {
                Map<String, String> parts = new TreeMap<>();
                entry.getValue().partitions().forEach((id, partitions) -> {
                    if (!partitions.isEmpty()) parts.put(hex(id), String.join(",", new TreeSet<>(partitions).stream().map(String::valueOf).toList()));
                });
                String text = String.join(";", parts.entrySet().stream().map(part -> part.getKey() + "=" + part.getValue()).toList());
                out.append(entry.getKey()).append(" ").append(text.isEmpty() ? "-" : text).append("\n");
            }
            return out.append(".\n").toString();
        } catch (PartitionAssignorException error) {
            return "error\n";
        }
    }

    private static Uuid uuid(String hex) {
        return new Uuid(Long.parseUnsignedLong(hex.substring(0, 16), 16), Long.parseUnsignedLong(hex.substring(16), 16));
    }

    private static String hex(Uuid id) {
        return String.format("%016x%016x", id.getMostSignificantBits(), id.getLeastSignificantBits());
    }
}

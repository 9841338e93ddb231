// Asks Kafka's own task assignor, for test_assignor_oracle.py. Reads groups from standard input, a line a fact:
//   subtopology <id> <tasks> <stateful: true|false>
//   member <id> <process> <active: a=0,1;b=2 or "-"> <standby, likewise> <offsets: a=0:55,1:7 or "-">
//   assign <standby replicas>
// "assign" ends a group, and prints a line a member, in order of their ids, as
//   <member id> <active> <standby>
// and then a line ".".
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.coordinator.group.api.streams.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.streams.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.streams.assignor.TopologyDescriber;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentConfigsImpl;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberMetadataAndStateImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;

public class KafkaTaskAssignorOracle {
    private static final StickyTaskAssignor ASSIGNOR = new StickyTaskAssignor();

    private record Subtopology(int tasks, boolean stateful) {}

    public static void main(String[] args) throws Exception {
        StringBuilder out = new StringBuilder();
        Map<String, Subtopology> subtopologies = new TreeMap<>();
        Map<String, MemberMetadataAndStateImpl> members = new HashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("subtopology")) {
                subtopologies.put(words[1], new Subtopology(Integer.parseInt(words[2]), words[3].equals("true")));
            } else if (words[0].equals("member")) {
                members.put(words[1], new MemberMetadataAndStateImpl(
                    Optional.empty(), Optional.empty(), words[2], Map.of(), tasks(words[3]), tasks(words[4]), Map.of(),
                    offsets(words[5]), Map.of()));
            } else {
                out.append(assign(members, subtopologies, Integer.parseInt(words[1])));
                subtopologies = new TreeMap<>();
                members = new HashMap<>();
            }
        }
        System.out.write(out.toString().getBytes(StandardCharsets.UTF_8));
        System.out.flush();
    }

    private static String assign(
        Map<String, MemberMetadataAndStateImpl> members, Map<String, Subtopology> subtopologies, int replicas
    ) {
        TopologyDescriber describer = new TopologyDescriber() {
            public List<String> subtopologies() {
                return List.copyOf(subtopologies.keySet());
            }

            public int maxNumInputPartitions(String id) {
                return subtopologies.get(id).tasks();
            }

            public boolean isStateful(String id) {
                return subtopologies.get(id).stateful();
            }
        };
        GroupAssignment answer =
            ASSIGNOR.assign(new GroupSpecImpl(members, new AssignmentConfigsImpl(replicas, List.of())), describer);
        StringBuilder out = new StringBuilder();
        for (Map.Entry<String, MemberAssignment> entry : new TreeMap<>(answer.members()).entrySet()) {
            MemberAssignment given = entry.getValue();
            out.append(entry.getKey()).append(" ").append(text(given.activeTasks())).append(" ")
                .append(text(given.standbyTasks())).append("\n");
        }
        return out.append(".\n").toString();
    }

    private static String text(Map<String, Set<Integer>> tasks) {
        Map<String, String> parts = new TreeMap<>();
        tasks.forEach((id, partitions) ->
            parts.put(id, String.join(",", new TreeSet<>(partitions).stream().map(String::valueOf).toList())));
        String all = String.join(";", parts.entrySet().stream().map(part -> part.getKey() + "=" + part.getValue()).toList());
        return all.isEmpty() ? "-" : all;
    }

    private static Map<String, Set<Integer>> tasks(String text) {
        Map<String, Set<Integer>> tasks = new HashMap<>();
        if (!text.equals("-")) {
            for (String part : text.split(";")) {
                Set<Integer> partitions = new TreeSet<>();
                for (String index : part.split("=")[1].split(",")) partitions.add(Integer.valueOf(index));
                tasks.put(part.split("=")[0], partitions);
            }
        }
        return tasks;
    }

    private static Map<String, Map<Integer, Long>> offsets(String text) {
        Map<String, Map<Integer, Long>> offsets = new HashMap<>();
        if (!text.equals("-")) {
            for (String part : text.split(";")) {
                Map<Integer, Long> partitions = new TreeMap<>();
                for (String pair : part.split("=")[1].split(",")) {
                    partitions.put(Integer.valueOf(pair.split(":")[0]), Long.valueOf(pair.split(":")[1]));
                }
                offsets.put(part.split("=")[0], partitions);
            }
        }
        return offsets;
    }
}

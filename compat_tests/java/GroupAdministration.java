import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.ClassicGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;

/** Administration of consumer groups and their offsets. */
final class GroupAdministration {
    private GroupAdministration() {}

    static void register(Map<String, Program.Command> commands) {
        commands.put("list_groups", GroupAdministration::listGroups);
        commands.put("describe_group", GroupAdministration::describeGroup);
        commands.put("describe_classic_group", GroupAdministration::describeClassicGroup);
        commands.put("group_offsets", GroupAdministration::groupOffsets);
        commands.put("alter_group_offsets", GroupAdministration::alterGroupOffsets);
        commands.put("delete_group_offsets", GroupAdministration::deleteGroupOffsets);
        commands.put("delete_group", request ->
                Administration.get(Administration.admin(request).deleteConsumerGroups(List.of(group(request))).all()));
        commands.put("remove_static_member", GroupAdministration::removeStaticMember);
    }

    private static String group(JsonNode request) {
        return request.get("group").asText();
    }

    /** {group: [protocol type, state, type]}, of those in "states" where given. */
    private static Object listGroups(JsonNode request) throws Exception {
        Set<GroupState> states = new java.util.HashSet<>();
        request.path("states").forEach(state -> states.add(GroupState.parse(state.asText())));
        Map<String, Object> found = new TreeMap<>();
        for (GroupListing group :
                Administration.get(Administration.admin(request).listGroups(new ListGroupsOptions().inGroupStates(states)).all())) {
            found.put(group.groupId(), List.of(
                    group.protocol(), group.groupState().map(Object::toString).orElse(""), group.type().map(Object::toString).orElse("")));
        }
        return found;
    }

    private static List<Object> members(Iterable<MemberDescription> members) {
        List<Object> found = new ArrayList<>();
        for (MemberDescription member : members) {
            found.add(Map.of(
                    "id", member.consumerId(),
                    "instance", member.groupInstanceId().orElse(""),
                    "client", member.clientId(),
                    "host", member.host(),
                    "partitions", member.assignment().topicPartitions().stream().map(TopicPartition::partition).sorted().toList()));
        }
        return found;
    }

    private static Object describeGroup(JsonNode request) throws Exception {
        ConsumerGroupDescription group = Administration.get(
                Administration.admin(request).describeConsumerGroups(List.of(group(request))).all()).get(group(request));
        return Map.of(
                "state", group.groupState().toString(),
                "type", group.type().toString(),
                "assignor", group.partitionAssignor(),
                "coordinator", group.coordinator().id(),
                "members", members(group.members()));
    }

    private static Object describeClassicGroup(JsonNode request) throws Exception {
        ClassicGroupDescription group = Administration.get(
                Administration.admin(request).describeClassicGroups(List.of(group(request))).all()).get(group(request));
        return Map.of(
                "state", group.state().toString(),
                "protocol", group.protocol(),
                "protocol_data", group.protocolData(),
                "members", members(group.members()));
    }

    /** {"topic-partition": [offset, leader epoch, metadata] or null}, of "partitions" of "topic" where given. */
    private static Object groupOffsets(JsonNode request) throws Exception {
        ListConsumerGroupOffsetsSpec spec = new ListConsumerGroupOffsetsSpec();
        if (request.has("partitions")) {
            spec.topicPartitions(partitions(request));
        }
        Map<String, Object> found = new TreeMap<>();
        Administration.get(Administration.admin(request).listConsumerGroupOffsets(Map.of(group(request), spec)).all())
                .get(group(request))
                .forEach((partition, offset) -> found.put(
                        partition.toString(),
                        offset == null ? null : List.of(offset.offset(), offset.leaderEpoch().orElse(-1), offset.metadata())));
        return found;
    }

    private static Set<TopicPartition> partitions(JsonNode request) {
        List<TopicPartition> found = new ArrayList<>();
        request.get("partitions").forEach(number -> found.add(new TopicPartition(request.get("topic").asText(), number.asInt())));
        return found.stream().collect(Collectors.toSet());
    }

    private static Object alterGroupOffsets(JsonNode request) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> wanted = new HashMap<>();
        request.get("offsets").properties().forEach(entry -> wanted.put(
                new TopicPartition(request.get("topic").asText(), Integer.parseInt(entry.getKey())),
                new OffsetAndMetadata(entry.getValue().asLong(), "altered")));
        return Administration.get(Administration.admin(request).alterConsumerGroupOffsets(group(request), wanted).all());
    }

    private static Object deleteGroupOffsets(JsonNode request) throws Exception {
        return Administration.get(
                Administration.admin(request).deleteConsumerGroupOffsets(group(request), partitions(request)).all());
    }

    private static Object removeStaticMember(JsonNode request) throws Exception {
        MemberToRemove member = new MemberToRemove(request.get("instance").asText());
        var options = new RemoveMembersFromConsumerGroupOptions(List.of(member));
        return Administration.get(Administration.admin(request).removeMembersFromConsumerGroup(group(request), options).all());
    }
}

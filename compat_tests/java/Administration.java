import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaFilter;

/** Administration of the cluster, of topics and of settings. One Admin an address lives as long as the program. */
final class Administration {
    private static final Map<String, Admin> BY_ADDRESS = new HashMap<>();

    private Administration() {}

    static void register(Map<String, Program.Command> commands) {
        commands.put("create_topic", Administration::createTopic);
        commands.put("describe_topic", Administration::describeTopic);
        commands.put("list_topics", request -> get(admin(request).listTopics().names()));
        commands.put("create_partitions", Administration::createPartitions);
        commands.put("connect", Administration::connect);
        commands.put("delete_topic", request -> get(admin(request).deleteTopics(List.of(topic(request))).all()));
        commands.put("describe_configs", Administration::describeConfigs);
        commands.put("alter_configs", Administration::alterConfigs);
        commands.put("list_config_resources", Administration::listConfigResources);
        commands.put("delete_records", Administration::deleteRecords);
        commands.put("list_offsets", Administration::listOffsets);
        commands.put("describe_cluster", Administration::describeCluster);
        commands.put("describe_features", Administration::describeFeatures);
        commands.put("describe_quorum", Administration::describeQuorum);
        commands.put("describe_log_dirs", Administration::describeLogDirs);
        commands.put("replica_log_dir", Administration::replicaLogDir);
        commands.put("alter_replica_log_dir", Administration::alterReplicaLogDir);
        commands.put("describe_producers", Administration::describeProducers);
        commands.put("describe_quotas", Administration::describeQuotas);
        commands.put("list_reassignments", Administration::listReassignments);
        commands.put("elect_leaders", Administration::electLeaders);
    }

    static Admin admin(JsonNode request) {
        return BY_ADDRESS.computeIfAbsent(
                request.get("bootstrap").asText(), address -> Admin.create(Program.settings(request, Map.of())));
    }

    /** Lists the topics by an Admin of its own, with the request's settings. */
    private static Object connect(JsonNode request) throws Exception {
        try (Admin admin = Admin.create(Program.settings(request, Map.of()))) {
            return get(admin.listTopics().names());
        }
    }

    /** Forgets the Admin of each address, and its connections. */
    static void closeAll() {
        BY_ADDRESS.values().forEach(admin -> admin.close(Duration.ofSeconds(5)));
        BY_ADDRESS.clear();
    }

    static <T> T get(KafkaFuture<T> future) throws Exception {
        return future.get(Program.TIMEOUT.toSeconds(), TimeUnit.SECONDS);
    }

    static String topic(JsonNode request) {
        return request.get("topic").asText();
    }

    static TopicPartition partition(JsonNode request) {
        return new TopicPartition(topic(request), request.path("partition").asInt());
    }

    static List<Integer> ids(List<Node> nodes) {
        return nodes.stream().map(Node::id).toList();
    }

    private static Object createTopic(JsonNode request) throws Exception {
        Map<String, String> configs = new HashMap<>();
        request.path("configs").properties().forEach(entry -> configs.put(entry.getKey(), entry.getValue().asText()));
        int partitions = request.get("partitions").asInt();
        NewTopic topic = new NewTopic(topic(request), partitions, (short) request.path("replicas").asInt(1)).configs(configs);
        CreateTopicsResult result = admin(request).createTopics(List.of(topic));
        return Map.of(
                "id", get(result.topicId(topic.name())).toString(),
                "partitions", get(result.numPartitions(topic.name())),
                "replicas", get(result.replicationFactor(topic.name())),
                "configs", describe(get(result.config(topic.name()))));
    }

    private static Object describeTopic(JsonNode request) throws Exception {
        TopicDescription topic = get(admin(request).describeTopics(List.of(topic(request))).allTopicNames()).get(topic(request));
        List<Object> partitions = new ArrayList<>();
        for (TopicPartitionInfo info : topic.partitions()) {
            partitions.add(Map.of(
                    "partition", info.partition(), "leader", info.leader().id(), "replicas", ids(info.replicas()), "isr", ids(info.isr()),
                    "elr", ids(Optional.ofNullable(info.elr()).orElse(List.of()))));
        }
        return Map.of("id", topic.topicId().toString(), "internal", topic.isInternal(), "partitions", partitions);
    }

    private static Object createPartitions(JsonNode request) throws Exception {
        NewPartitions wanted = NewPartitions.increaseTo(request.get("partitions").asInt());
        return get(admin(request).createPartitions(Map.of(topic(request), wanted)).all());
    }

    /** "type" (TOPIC, BROKER, GROUP...) and "name" of what has settings. */
    private static ConfigResource resource(JsonNode request) {
        return new ConfigResource(ConfigResource.Type.valueOf(request.get("type").asText()), request.get("name").asText());
    }

    private static Map<String, Object> describe(Config config) {
        Map<String, Object> found = new TreeMap<>();
        for (ConfigEntry entry : config.entries()) {
            Map<String, Object> one = new HashMap<>();
            one.put("value", entry.value());
            one.put("source", entry.source().toString());
            one.put("type", String.valueOf(entry.type())); // null in the answer to CreateTopics
            one.put("read_only", entry.isReadOnly());
            one.put("sensitive", entry.isSensitive());
            one.put("synonyms", entry.synonyms().stream().map(s -> List.of(s.name(), String.valueOf(s.value()), s.source())).toList());
            one.put("documented", entry.documentation() != null && !entry.documentation().isBlank());
            found.put(entry.name(), one);
        }
        return found;
    }

    private static Object describeConfigs(JsonNode request) throws Exception {
        DescribeConfigsOptions everything = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        ConfigResource resource = resource(request);
        return describe(get(admin(request).describeConfigs(List.of(resource), everything).all()).get(resource));
    }

    /** "changes" is a list of [name, SET | DELETE | APPEND | SUBTRACT, value]. */
    private static Object alterConfigs(JsonNode request) throws Exception {
        List<AlterConfigOp> changes = new ArrayList<>();
        for (JsonNode change : request.get("changes")) {
            ConfigEntry entry = new ConfigEntry(change.get(0).asText(), change.get(2).isNull() ? null : change.get(2).asText());
            changes.add(new AlterConfigOp(entry, AlterConfigOp.OpType.valueOf(change.get(1).asText())));
        }
        return get(admin(request).incrementalAlterConfigs(Map.of(resource(request), changes)).all());
    }

    private static Object listConfigResources(JsonNode request) throws Exception {
        Set<ConfigResource.Type> types = Set.of(ConfigResource.Type.valueOf(request.get("type").asText()));
        return get(admin(request).listConfigResources(types, new org.apache.kafka.clients.admin.ListConfigResourcesOptions()).all())
                .stream().map(ConfigResource::name).sorted().toList();
    }

    /** "offsets" by partition; answers the low watermarks. */
    private static Object deleteRecords(JsonNode request) throws Exception {
        Map<TopicPartition, RecordsToDelete> wanted = new HashMap<>();
        request.get("offsets").properties().forEach(entry -> wanted.put(
                new TopicPartition(topic(request), Integer.parseInt(entry.getKey())),
                RecordsToDelete.beforeOffset(entry.getValue().asLong())));
        Map<Integer, Long> low = new TreeMap<>();
        for (var entry : admin(request).deleteRecords(wanted).lowWatermarks().entrySet()) {
            low.put(entry.getKey().partition(), get(entry.getValue()).lowWatermark());
        }
        return low;
    }

    private static OffsetSpec spec(String which) {
        return switch (which) {
            case "earliest" -> OffsetSpec.earliest();
            case "latest" -> OffsetSpec.latest();
            case "max_timestamp" -> OffsetSpec.maxTimestamp();
            case "earliest_local" -> OffsetSpec.earliestLocal();
            case "latest_tiered" -> OffsetSpec.latestTiered();
            default -> OffsetSpec.forTimestamp(Long.parseLong(which));
        };
    }

    /** [offset, timestamp, leader epoch] of one partition for each of "specs". */
    private static Object listOffsets(JsonNode request) throws Exception {
        Map<String, Object> found = new TreeMap<>();
        for (JsonNode which : request.get("specs")) {
            ListOffsetsResult result = admin(request).listOffsets(Map.of(partition(request), spec(which.asText())));
            ListOffsetsResult.ListOffsetsResultInfo info = get(result.partitionResult(partition(request)));
            found.put(which.asText(), List.of(info.offset(), info.timestamp(), info.leaderEpoch().orElse(-1)));
        }
        return found;
    }

    private static Object describeCluster(JsonNode request) throws Exception {
        DescribeClusterResult result = admin(request).describeCluster();
        List<Object> nodes = new ArrayList<>();
        for (Node node : get(result.nodes())) {
            nodes.add(List.of(node.id(), node.host(), node.port()));
        }
        return Map.of("id", get(result.clusterId()), "controller", get(result.controller()).id(), "nodes", nodes);
    }

    private static Object describeFeatures(JsonNode request) throws Exception {
        Map<String, Object> found = new TreeMap<>();
        get(admin(request).describeFeatures().featureMetadata()).finalizedFeatures()
                .forEach((name, range) -> found.put(name, range.maxVersionLevel()));
        return found;
    }

    private static Object describeQuorum(JsonNode request) throws Exception {
        QuorumInfo quorum = get(admin(request).describeMetadataQuorum().quorumInfo());
        return Map.of(
                "leader", quorum.leaderId(),
                "epoch", quorum.leaderEpoch(),
                "high_watermark", quorum.highWatermark(),
                "voters", quorum.voters().stream().map(QuorumInfo.ReplicaState::replicaId).toList(),
                "observers", quorum.observers().stream().map(QuorumInfo.ReplicaState::replicaId).toList());
    }

    /** Of the one broker's directories: {path: {error, total, usable, replicas: "topic-partition": [size, lag, future]}}. */
    private static TopicPartitionReplica replica(JsonNode request) {
        return new TopicPartitionReplica(topic(request), request.path("partition").asInt(), 1);
    }

    private static Object replicaLogDir(JsonNode request) throws Exception {
        TopicPartitionReplica replica = replica(request);
        var found = get(admin(request).describeReplicaLogDirs(List.of(replica)).all()).get(replica);
        Map<String, Object> answer = new HashMap<>();
        answer.put("current", found.getCurrentReplicaLogDir());
        answer.put("future", found.getFutureReplicaLogDir());
        answer.put("future_lag", found.getFutureReplicaOffsetLag());
        return answer;
    }

    private static Object alterReplicaLogDir(JsonNode request) throws Exception {
        return get(admin(request).alterReplicaLogDirs(Map.of(replica(request), request.get("path").asText())).all());
    }

    private static Object describeLogDirs(JsonNode request) throws Exception {
        Map<String, Object> found = new TreeMap<>();
        get(admin(request).describeLogDirs(List.of(1)).allDescriptions()).get(1).forEach((path, directory) -> {
            Map<String, Object> replicas = new TreeMap<>();
            directory.replicaInfos().forEach((partition, replica) ->
                    replicas.put(partition.toString(), List.of(replica.size(), replica.offsetLag(), replica.isFuture())));
            found.put(path, Map.of(
                    "error", String.valueOf(directory.error()), "total", directory.totalBytes().orElse(-1),
                    "usable", directory.usableBytes().orElse(-1), "replicas", replicas));
        });
        TopicPartitionReplica replica = new TopicPartitionReplica(topic(request), request.path("partition").asInt(), 1);
        String current = get(admin(request).describeReplicaLogDirs(List.of(replica)).all()).get(replica).getCurrentReplicaLogDir();
        return Map.of("directories", found, "current", String.valueOf(current));
    }

    /** [producer id, epoch, last sequence, last timestamp] of a partition's active producers. */
    private static Object describeProducers(JsonNode request) throws Exception {
        List<Object> found = new ArrayList<>();
        for (ProducerState state : get(admin(request).describeProducers(List.of(partition(request))).partitionResult(partition(request)))
                .activeProducers()) {
            found.add(List.of(state.producerId(), state.producerEpoch(), state.lastSequence(), state.lastTimestamp()));
        }
        return found;
    }

    private static Object describeQuotas(JsonNode request) throws Exception {
        Map<String, Object> found = new TreeMap<>();
        get(admin(request).describeClientQuotas(ClientQuotaFilter.all()).entities())
                .forEach((entity, quotas) -> found.put(entity.toString(), quotas));
        return found;
    }

    private static Object listReassignments(JsonNode request) throws Exception {
        return get(admin(request).listPartitionReassignments().reassignments()).keySet().stream().map(TopicPartition::toString).toList();
    }

    /** The preferred (or, with "unclean", any) leader for a partition; the class of the error, or "none". */
    private static Object electLeaders(JsonNode request) throws Exception {
        ElectionType type = request.path("unclean").asBoolean() ? ElectionType.UNCLEAN : ElectionType.PREFERRED;
        var answer = get(admin(request).electLeaders(type, Set.of(partition(request))).partitions());
        return answer.get(partition(request)).map(error -> error.getClass().getSimpleName()).orElse("none");
    }
}

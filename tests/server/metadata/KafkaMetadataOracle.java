import java.io.File;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.List;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.utils.internals.BufferSupplier;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.ControlRecord;
import org.apache.kafka.raft.internals.RecordsIterator;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/** Reads metadata logs and snapshots (the arguments, in order) with Kafka's own classes and prints the image they come to. */
public class KafkaMetadataOracle {
    public static void main(String[] paths) throws Exception {
        MetadataImage image = MetadataImage.EMPTY;
        int epoch = 0;
        for (String path : paths) {
            MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(Files.readAllBytes(new File(path).toPath())));
            RecordsIterator<ApiMessageAndVersion> batches = new RecordsIterator<>(
                records, MetadataRecordSerde.INSTANCE, BufferSupplier.NO_CACHING, 8 << 20, true, new LogContext());
            while (batches.hasNext()) {
                Batch<ApiMessageAndVersion> batch = batches.next();
                epoch = batch.epoch();
                for (ControlRecord control : batch.controlRecords()) {
                    String leader = control.message() instanceof LeaderChangeMessage m ? " " + m.leaderId() : "";
                    System.out.println("control " + control.type() + leader);
                }
                MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
                for (ApiMessageAndVersion record : batch.records()) {
                    switch (MetadataRecordType.fromId(record.message().apiKey())) {
                        case BEGIN_TRANSACTION_RECORD, END_TRANSACTION_RECORD, NO_OP_RECORD -> { }
                        default -> delta.replay(record.message());
                    }
                }
                image = delta.apply(new MetadataProvenance(batch.lastOffset(), epoch, 0, true));
            }
        }
        print(image);
        System.out.println("epoch " + epoch);
    }

    private static void print(MetadataImage image) {
        image.features().metadataVersion().ifPresent(v -> System.out.println("feature metadata.version " + v.featureLevel()));
        image.features().finalizedVersions().forEach((name, level) -> System.out.println("feature " + name + " " + level));
        image.cluster().brokers().forEach((id, broker) -> System.out.println(
            "broker " + id + " " + broker.epoch() + " " + broker.incarnationId() + " " + broker.fenced() + " "
            + broker.inControlledShutdown() + " " + broker.rack().orElse("-") + " " + text(broker.directories()) + " "
            + new TreeMap<>(broker.listeners()).values().stream()
                .map(e -> e.listener() + "/" + e.host() + "/" + e.port() + "/" + e.securityProtocol().id)
                .collect(Collectors.joining(","))));
        image.topics().topicsByName().forEach((name, topic) -> topic.partitions().forEach((index, p) -> System.out.println(
            "partition " + name + " " + topic.id() + " " + index + " " + text(p.replicas) + " " + text(p.isr) + " " + p.leader
            + " " + p.leaderEpoch + " " + p.partitionEpoch + " " + text(List.of(p.directories)) + " " + text(p.addingReplicas)
            + " " + text(p.removingReplicas) + " " + p.leaderRecoveryState.value() + " " + text(p.elr) + " "
            + text(p.lastKnownElr))));
        image.configs().resourceData().forEach((resource, configs) -> configs.data().forEach((name, value) -> System.out.println(
            "config " + resource.type().id() + " " + (resource.name().isEmpty() ? "-" : resource.name()) + " " + name + " " + value)));
        image.scram().mechanisms().forEach((mechanism, users) -> users.keySet().forEach(
            user -> System.out.println("scram " + user + " " + mechanism.type())));
        image.acls().acls().keySet().forEach(id -> System.out.println("acl " + id));
        image.clientQuotas().entities().forEach((entity, quotas) -> quotas.quotas().keySet().forEach(
            key -> System.out.println("quota " + key + " " + new TreeMap<>(entity.entries()).keySet())));
        System.out.println("producer ids " + Math.max(0, image.producerIds().nextProducerId()));
    }

    private static String text(int[] ids) {
        return ids.length == 0 ? "-" : Arrays.stream(ids).mapToObj(Integer::toString).collect(Collectors.joining(","));
    }

    private static String text(List<Uuid> ids) {
        return ids.isEmpty() ? "-" : ids.stream().map(Uuid::toString).collect(Collectors.joining(","));
    }
}

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.telemetry.ClientTelemetryExporter;
import org.apache.kafka.server.telemetry.ClientTelemetryExporterProvider;

/** A plug-in of Apache Kafka's broker, which tells no client's telemetry without one: writes each push to a file, a line of base64. */
public final class PushedMetrics implements MetricsReporter, ClientTelemetryExporterProvider {
    private final Path file = Path.of(System.getProperty("pushed.metrics"));

    @Override
    public ClientTelemetryExporter clientTelemetryExporter() {
        return (context, payload) -> write(payload.data());
    }

    private synchronized void write(ByteBuffer data) {
        byte[] bytes = new byte[data.remaining()];
        data.duplicate().get(bytes);
        try {
            Files.writeString(
                    file,
                    Base64.getEncoder().encodeToString(bytes) + "\n",
                    StandardOpenOption.CREATE,
                    StandardOpenOption.APPEND);
        } catch (IOException failed) {
            throw new UncheckedIOException(failed);
        }
    }

    @Override
    public void init(List<KafkaMetric> metrics) {}

    @Override
    public void metricChange(KafkaMetric metric) {}

    @Override
    public void metricRemoval(KafkaMetric metric) {}

    @Override
    public void configure(Map<String, ?> settings) {}

    @Override
    public void close() {}
}

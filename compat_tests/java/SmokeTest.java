import java.time.Duration;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.streams.tests.SmokeTestDriver;

/**
 * The driver of Kafka Streams' smoke test with figures of one's own: SmokeTest BOOTSTRAP KEYS RECORDS_A_KEY SECONDS.
 *
 * <p>Writes the test's data within so many seconds, then reads what SmokeTestClient makes of it and holds it against what it must be.
 * Nothing may have been processed twice. Ends with "verified true", or "verified false".
 *
 * <p>The driver reads the topics' ends first and its positions afterwards. The last results are visible as soon as their own
 * partition has its marker, so another partition's marker may come between the two, and then a position is behind the end that was
 * read. What is wrong in the topics stays wrong: so a "no" is asked for once more, and "verified again" says that this was needed.
 */
public final class SmokeTest {
    private SmokeTest() {}

    public static void main(String[] arguments) {
        int keys = Integer.parseInt(arguments[1]);
        int records = Integer.parseInt(arguments[2]);
        Duration time = Duration.ofSeconds(Long.parseLong(arguments[3]));
        Map<String, Set<Integer>> written = SmokeTestDriver.generate(arguments[0], keys, records, time);
        System.out.println("generated");
        var result = SmokeTestDriver.verify(arguments[0], written, records, true);
        if (!result.passed()) {
            System.out.println("verified again");
            result = SmokeTestDriver.verify(arguments[0], written, records, true);
        }
        System.out.println("verified " + result.passed());
        System.exit(result.passed() ? 0 : 1);
    }
}

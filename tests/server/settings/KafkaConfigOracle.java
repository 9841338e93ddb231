// Asks Kafka's own ConfigDefs, for tests/server/settings/config_oracle.py. Prints tab-separated lines and ends:
//   def <table> <name> <type> <default text> <internal>     every setting there is; an absent default is "\0"
//   mode <name> <cluster-wide|per-broker>                   what can be changed while a broker runs
//   synonym <topic|group> <name> <broker setting>
// and then for each line "<table> <name> <text>" (the text URL-encoded) of standard input:
//   ok <value as text>   or   refused <message>
// The table "start" has no names: its text is lines of a server.properties, and what is asked is whether a broker would start.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

public class KafkaConfigOracle {
    private static final Map<String, String> REQUIRED =
        Map.of("process.roles", "broker", "node.id", "1", "controller.listener.names", "CONTROLLER");

    public static void main(String[] args) throws Exception {
        Map<String, ConfigDef> tables = new LinkedHashMap<>();
        tables.put("topic", LogConfig.configDefCopy());
        tables.put("broker", kafka.server.KafkaConfig.configDef());
        tables.put("group", GroupConfig.CONFIG_DEF);
        tables.put("client-metrics", ClientMetricsConfigs.configDef());
        StringBuilder out = new StringBuilder();
        tables.forEach((table, definition) -> {
            for (ConfigDef.ConfigKey key : new TreeMap<>(definition.configKeys()).values()) {
                boolean none = key.defaultValue == null || key.defaultValue == ConfigDef.NO_DEFAULT_VALUE;
                String text = none ? "\0" : ConfigDef.convertToString(key.defaultValue, key.type);
                out.append(String.join("\t", "def", table, key.name, key.type.name(), text, "" + key.internalConfig)).append("\n");
            }
        });
        DynamicBrokerConfig.dynamicConfigUpdateModes().forEach((name, mode) -> out.append("mode\t" + name + "\t" + mode + "\n"));
        ServerTopicConfigSynonyms.TOPIC_CONFIG_SYNONYMS.forEach((a, b) -> out.append("synonym\ttopic\t" + a + "\t" + b + "\n"));
        GroupConfig.ALL_GROUP_CONFIG_SYNONYMS.forEach(
            (a, b) -> b.ifPresent(broker -> out.append("synonym\tgroup\t" + a + "\t" + broker + "\n")));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            String text = URLDecoder.decode(words[2], StandardCharsets.UTF_8);
            out.append(words[0].equals("start") ? start(text) : ask(tables.get(words[0]), words[1], text)).append("\n");
        }
        System.out.write(out.toString().getBytes(StandardCharsets.UTF_8));
        System.out.flush();
    }

    private static String start(String lines) throws java.io.IOException {
        Properties texts = new Properties();
        texts.load(new StringReader(lines));
        try {
            new kafka.server.KafkaConfig(texts, false);
            return "ok\t";
        } catch (RuntimeException refusal) {
            return refused(refusal);
        }
    }

    private static String refused(RuntimeException refusal) {
        return "refused\t" + URLEncoder.encode("" + refusal.getMessage(), StandardCharsets.UTF_8);
    }

    private static String ask(ConfigDef definition, String name, String text) {
        Map<String, String> texts = new HashMap<>();
        REQUIRED.forEach((key, value) -> { if (definition.configKeys().containsKey(key)) texts.put(key, value); });
        texts.put(name, text);
        try {
            Object value = definition.parse(texts).get(name);
            return "ok\t" + URLEncoder.encode("" + ConfigDef.convertToString(value, definition.configKeys().get(name).type), StandardCharsets.UTF_8);
        } catch (RuntimeException refusal) {
            return refused(refusal);
        }
    }
}

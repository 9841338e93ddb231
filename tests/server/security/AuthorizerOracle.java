import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Asks Kafka's StandardAuthorizer, for test_authorizer_oracle.py. Lines of words between tabs, percent-encoded:
 * "world everyone superUsers" begins anew, "rule type name pattern principal host operation permission" adds a rule,
 * "ask principal host operation type name" and "any principal host operation type" are answered with 1 or 0.
 */
public class AuthorizerOracle {
    static String everyone = "false";
    static String superUsers = "";
    static Map<Uuid, StandardAcl> rules = new HashMap<>();
    static StandardAuthorizer authorizer;
    static long next = 1;

    static StandardAuthorizer current() {
        if (authorizer == null) {
            authorizer = new StandardAuthorizer();
            Map<String, Object> configs = new HashMap<>();
            configs.put("node.id", "1");
            configs.put("super.users", superUsers);
            configs.put("allow.everyone.if.no.acl.found", everyone);
            authorizer.configure(configs);
            authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
            authorizer.loadSnapshot(rules);
            authorizer.completeInitialLoad();
        }
        return authorizer;
    }

    static AuthorizableRequestContext context(String principal, String host) throws Exception {
        int colon = principal.indexOf(':');
        KafkaPrincipal who = new KafkaPrincipal(principal.substring(0, colon), principal.substring(colon + 1));
        InetAddress address = InetAddress.getByName(host);
        return new AuthorizableRequestContext() {
            public String listenerName() { return "PLAINTEXT"; }
            public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
            public KafkaPrincipal principal() { return who; }
            public InetAddress clientAddress() { return address; }
            public int requestType() { return 3; }
            public int requestVersion() { return 1; }
            public String clientId() { return "c"; }
            public int correlationId() { return 1; }
        };
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            for (int i = 0; i < words.length; i++) {
                words[i] = URLDecoder.decode(words[i], StandardCharsets.UTF_8);
            }
            switch (words[0]) {
                case "world":
                    everyone = words[1];
                    superUsers = words[2];
                    rules = new HashMap<>();
                    authorizer = null;
                    break;
                case "rule":
                    rules.put(new Uuid(7, next++), new StandardAcl(
                        ResourceType.fromCode(Byte.parseByte(words[1])), words[2], PatternType.fromCode(Byte.parseByte(words[3])),
                        words[4], words[5], AclOperation.fromCode(Byte.parseByte(words[6])),
                        AclPermissionType.fromCode(Byte.parseByte(words[7]))));
                    break;
                case "ask":
                    Action action = new Action(AclOperation.fromCode(Byte.parseByte(words[3])), new ResourcePattern(
                        ResourceType.fromCode(Byte.parseByte(words[4])), words[5], PatternType.LITERAL), 1, true, true);
                    out.append(current().authorize(context(words[1], words[2]), List.of(action)).get(0)
                        == AuthorizationResult.ALLOWED ? '1' : '0');
                    break;
                default:
                    out.append(current().authorizeByResourceType(context(words[1], words[2]),
                        AclOperation.fromCode(Byte.parseByte(words[3])), ResourceType.fromCode(Byte.parseByte(words[4])))
                        == AuthorizationResult.ALLOWED ? '1' : '0');
            }
        }
        System.out.println(out);
    }
}

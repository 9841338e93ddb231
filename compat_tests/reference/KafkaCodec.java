import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Asks Kafka's own classes. With the argument "errors" it prints code and name, one error a line. Else it answers line by line:
 *
 *   encode CLASS VERSION JSON   -> the message's bytes in hex
 *   reread CLASS VERSION HEX    -> the bytes again, read and written by Kafka
 *
 * and "! reason" where Kafka refuses.
 */
public class KafkaCodec {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();
    private static final Map<String, Method> READERS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 1 && arguments[0].equals("errors")) {
            for (Errors error : Errors.values()) {
                System.out.println(error.code() + " " + error.name());
            }
            return;
        }
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        BufferedWriter out = new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8));
        System.setOut(new PrintStream(System.err));  // nothing else may write between the answers
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", 4);
            out.write(answer(words[0], words[1], Short.parseShort(words[2]), words[3]));
            out.newLine();
        }
        out.flush();
    }

    private static String answer(String verb, String className, short version, String payload) {
        try {
            Message message;
            if (verb.equals("encode")) {
                message = (Message) reader(className).invoke(null, JSON.readTree(payload), version);
            } else {
                message = (Message) Class.forName(className).getConstructor().newInstance();
                ByteBuffer buffer = ByteBuffer.wrap(HEX.parseHex(payload));
                message.read(new ByteBufferAccessor(buffer), version);
                if (buffer.hasRemaining()) {
                    return "! " + buffer.remaining() + " bytes left";
                }
            }
            return HEX.formatHex(bytes(message, version));
        } catch (InvocationTargetException error) {
            return "! " + oneLine(error.getCause());
        } catch (Exception error) {
            return "! " + oneLine(error);
        }
    }

    private static Method reader(String className) throws Exception {
        Method known = READERS.get(className);
        if (known == null) {
            known = Class.forName(className + "JsonConverter").getMethod("read", JsonNode.class, short.class);
            READERS.put(className, known);
        }
        return known;
    }

    private static byte[] bytes(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return buffer.array();
    }

    private static String oneLine(Throwable error) {
        return error.toString().replace('\n', ' ');
    }
}

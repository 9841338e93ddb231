import java.util.Arrays;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/** Prints Kafka's MBeans in the JVM whose JMX port is given, a line each: its name, a tab, its attributes' names. */
public final class KafkaMBeans {
    public static void main(String[] arguments) throws Exception {
        JMXServiceURL url = new JMXServiceURL("service:jmx:rmi:///jndi/rmi://127.0.0.1:" + arguments[0] + "/jmxrmi");
        try (JMXConnector connector = JMXConnectorFactory.connect(url)) {
            MBeanServerConnection server = connector.getMBeanServerConnection();
            for (ObjectName name : server.queryNames(new ObjectName("kafka.*:*"), null)) {
                MBeanAttributeInfo[] attributes = server.getMBeanInfo(name).getAttributes();
                String[] names = Arrays.stream(attributes).map(MBeanAttributeInfo::getName).toArray(String[]::new);
                System.out.println(name + "\t" + String.join(" ", names));
            }
        }
    }
}

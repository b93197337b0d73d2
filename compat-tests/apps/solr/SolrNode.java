import java.util.Properties;
import org.apache.solr.embedded.JettyConfig;
import org.apache.solr.embedded.JettySolrRunner;

/** One node of a SolrCloud cluster. The arguments are its home folder and its port; zkHost is a system property. */
public final class SolrNode {
    public static void main(String[] arguments) throws Exception {
        JettyConfig config = JettyConfig.builder().setPort(Integer.parseInt(arguments[1])).build();
        new JettySolrRunner(arguments[0], new Properties(), config).start();
        System.out.println("started");
    }
}

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.util.Bytes;

/**
 * Makes a table, fills it, reads it back, and reads the tables that were made before. The arguments are the
 * names of all tables, the new one last.
 */
public final class UseHBase {
    private static final int ROWS = 100;
    private static final byte[] FAMILY = Bytes.toBytes("f");
    private static final byte[] COLUMN = Bytes.toBytes("c");

    public static void main(String[] names) throws Exception {
        Configuration configuration = HBaseConfiguration.create();
        try (Connection connection = ConnectionFactory.createConnection(configuration);
                Admin admin = connection.getAdmin()) {
            TableName made = TableName.valueOf(names[names.length - 1]);
            if (!admin.tableExists(made)) {
                admin.createTable(TableDescriptorBuilder.newBuilder(made)
                        .setColumnFamily(ColumnFamilyDescriptorBuilder.of(FAMILY))
                        .build());
            }
            fill(connection, made);
            for (String name : names) {
                check(connection, TableName.valueOf(name));
            }
        }
        System.out.println("ok " + String.join(" ", names));
    }

    private static void fill(Connection connection, TableName name) throws IOException {
        try (Table table = connection.getTable(name)) {
            for (int row = 0; row < ROWS; row++) {
                table.put(new Put(Bytes.toBytes(row)).addColumn(FAMILY, COLUMN, Bytes.toBytes(name + " " + row)));
            }
        }
    }

    private static void check(Connection connection, TableName name) throws IOException {
        try (Table table = connection.getTable(name);
                ResultScanner scanner = table.getScanner(new Scan())) {
            int found = 0;
            for (Result ignored : scanner) {
                found++;
            }
            byte[] last = table.get(new Get(Bytes.toBytes(ROWS - 1))).getValue(FAMILY, COLUMN);
            if (found != ROWS || !Bytes.toString(last).equals(name + " " + (ROWS - 1))) {
                throw new IOException(name + " has " + found + " rows, the last is " + Bytes.toString(last));
            }
        }
    }
}

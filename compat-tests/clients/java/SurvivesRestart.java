import static java.nio.charset.StandardCharsets.UTF_8;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryForever;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooKeeper;

/**
 * A client whose server restarts: its session, ephemeral node and watches of every kind must outlive that.
 * It says `READY` when the server may go, and waits for a line that says that the server is back.
 */
public final class SurvivesRestart {
    private SurvivesRestart() {}

    public static void main(String[] arguments) throws Exception {
        try (CuratorFramework one = client(arguments[0]); CuratorFramework other = client(arguments[0])) {
            tell(one, other);
        }
        Story.say("== end");
        System.exit(0);
    }

    private static CuratorFramework client(String hostPort) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(hostPort, 40_000, 40_000, new RetryForever(100));
        client.start();
        client.blockUntilConnected();
        return client;
    }

    private static void tell(CuratorFramework one, CuratorFramework other) throws Exception {
        Story.Events events = new Story.Events();
        ZooKeeper client = one.getZookeeperClient().getZooKeeper();
        for (String name : new String[] {"data", "children", "persistent", "recursive"}) {
            one.create().creatingParentsIfNeeded().forPath("/watched/" + name, "1".getBytes(UTF_8));
        }
        one.create().withMode(CreateMode.EPHEMERAL).forPath("/alive");
        client.getData("/watched/data", watcher("data", events), null);
        client.exists("/watched/exists", watcher("exists", events));
        client.getChildren("/watched/children", watcher("children", events));
        client.addWatch("/watched/persistent", watcher("persistent", events), AddWatchMode.PERSISTENT);
        client.addWatch("/watched/recursive", watcher("recursive", events), AddWatchMode.PERSISTENT_RECURSIVE);
        long session = client.getSessionId();

        Story.say("READY");
        System.in.read();
        Story.waitUntil("the ephemeral node is there", () -> other.checkExists().forPath("/alive") != null);
        one.checkExists().forPath("/alive");
        Story.say("the session is the same", session == one.getZookeeperClient().getZooKeeper().getSessionId());

        other.setData().forPath("/watched/data", "2".getBytes(UTF_8));
        other.setData().forPath("/watched/data", "3".getBytes(UTF_8));
        other.create().forPath("/watched/exists");
        other.create().forPath("/watched/children/a");
        other.setData().forPath("/watched/persistent", "2".getBytes(UTF_8));
        other.create().forPath("/watched/persistent/a");
        other.create().forPath("/watched/recursive/a");
        other.create().forPath("/watched/recursive/a/b");
        other.delete().forPath("/watched/recursive/a/b");
        events.tell(8);
        events.tellRest();
    }

    private static Watcher watcher(String name, Story.Events events) {
        return event -> {
            if (event.getPath() != null) { // else it tells of the connection
                events.add(name, event.getType(), event.getPath());
            }
        };
    }
}

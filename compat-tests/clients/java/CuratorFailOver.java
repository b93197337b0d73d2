import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.retry.RetryForever;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooKeeper;

/**
 * Recipes that are in use when a server of the ensemble is killed, and when a session is lost. The argument is
 * the connect string. It says `READY` when the server may go, and waits for a line that says that it is gone.
 */
public final class CuratorFailOver {
    private static final int SESSION_MS = 30_000;
    private static final RetryForever RETRY = new RetryForever(50);

    private CuratorFailOver() {}

    public static void main(String[] arguments) throws Exception {
        try (CuratorFramework one = client(arguments[0]); CuratorFramework other = client(arguments[0])) {
            tell(arguments[0], one, other);
        }
        Story.say("== end");
        System.exit(0);
    }

    /** It stays with these addresses: the ones that servers in containers tell are not to be reached from here. */
    private static CuratorFramework client(String hosts) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(hosts)
                .sessionTimeoutMs(SESSION_MS)
                .connectionTimeoutMs(SESSION_MS)
                .retryPolicy(RETRY)
                .ensembleTracker(false)
                .build();
        client.start();
        client.blockUntilConnected();
        return client;
    }

    private static void tell(String hosts, CuratorFramework one, CuratorFramework other) throws Exception {
        Story.Events events = new Story.Events();
        ExecutorService waiting = Executors.newCachedThreadPool();
        InterProcessMutex mine = new InterProcessMutex(one, "/lock");
        mine.acquire();
        InterProcessMutex theirs = new InterProcessMutex(other, "/lock");
        Future<Boolean> lockOfOther = waiting.submit(() -> theirs.acquire(2, TimeUnit.MINUTES));
        Lease lease = new InterProcessSemaphoreV2(one, "/semaphore", 1).acquire();
        LeaderLatch first = new LeaderLatch(one, "/latch", "first");
        first.start();
        first.await();
        LeaderLatch second = new LeaderLatch(other, "/latch", "second");
        second.start();
        Story.waitUntil("two candidates", () -> other.getChildren().forPath("/latch").size() == 2);
        Story.waitUntil("two at the lock", () -> theirs.getParticipantNodes().size() == 2);
        GroupMember member = new GroupMember(one, "/group", "one");
        member.start();
        GroupMember watching = new GroupMember(other, "/group", "other");
        watching.start();
        Story.waitUntil("two members", () -> watching.getCurrentMembers().size() == 2);
        DistributedAtomicLong counter = new DistributedAtomicLong(one, "/counter", RETRY);
        Story.say("counter", counter.increment().postValue());
        other.create().forPath("/cache", "1".getBytes(UTF_8));
        CountDownLatch filled = new CountDownLatch(1);
        CuratorCache cache = CuratorCache.build(one, "/cache");
        cache.listenable().addListener(CuratorCacheListener.builder()
                .afterInitialized()
                .forAll((type, before, now) -> events.add(type, new String(now.getData(), UTF_8)))
                .build());
        cache.listenable().addListener(CuratorCacheListener.builder().forInitialized(filled::countDown).build());
        cache.start();
        filled.await();
        long session = session(one);

        Story.say("READY");
        System.in.read();

        Story.say("counter", counter.increment().postValue());
        other.setData().forPath("/cache", "2".getBytes(UTF_8));
        events.tell(1);
        Story.say("the session is the same", session == session(one));
        Story.waitUntil("the latch is where it was", () -> first.hasLeadership() && !second.hasLeadership());
        Story.say("the lock is where it was", mine.isAcquiredInThisProcess(), lockOfOther.isDone());
        Story.say("a second lease",
                new InterProcessSemaphoreV2(other, "/semaphore", 1).acquire(300, TimeUnit.MILLISECONDS));
        Story.waitUntil("two members", () -> watching.getCurrentMembers().size() == 2);

        end(hosts, one.getZookeeperClient().getZooKeeper());

        Story.say("the lock goes to the other", lockOfOther.get());
        Story.waitUntil("the latch goes to the other", second::hasLeadership);
        Lease free = new InterProcessSemaphoreV2(other, "/semaphore", 1).acquire(20, TimeUnit.SECONDS);
        Story.say("the lease is free", free != null);
        Story.attempt("the old lease", lease::getData);
        Story.waitUntil("the member is back with its new session", () -> watching.getCurrentMembers().size() == 2);
        Story.waitUntil("the candidate is back, too", () -> second.getParticipants().size() == 2);
        Story.say("the session is the same", session == session(one));
        other.setData().forPath("/cache", "3".getBytes(UTF_8));
        Story.waitUntil("the cache follows",
                () -> cache.get("/cache").map(node -> new String(node.getData(), UTF_8)).orElse("").equals("3"));
        Story.say("counter", counter.increment().postValue());
        waiting.shutdownNow();
    }

    private static long session(CuratorFramework client) throws Exception {
        return client.getZookeeperClient().getZooKeeper().getSessionId();
    }

    /** End a client's session behind its back. */
    private static void end(String hosts, ZooKeeper client) throws Exception {
        CountDownLatch isConnected = new CountDownLatch(1);
        ZooKeeper twin = new ZooKeeper(hosts, SESSION_MS, event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected) {
                isConnected.countDown();
            }
        }, client.getSessionId(), client.getSessionPasswd());
        isConnected.await();
        twin.close();
    }
}

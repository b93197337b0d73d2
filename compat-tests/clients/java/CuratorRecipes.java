import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicInteger;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.cache.NodeCache;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedCountListener;
import org.apache.curator.framework.recipes.shared.SharedCountReader;
import org.apache.curator.framework.recipes.watch.PersistentWatcher;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/**
 * Curator's recipes, each as a short story told with two clients. The argument is host:port; the output has a
 * heading for each story and must not depend on the server.
 */
public final class CuratorRecipes {
    private static final int SESSION_MS = 30_000;
    private static final int CONNECT_MS = 15_000;
    private static final RetryOneTime RETRY = new RetryOneTime(100);

    private interface Tale {
        void tell(CuratorFramework one, CuratorFramework other) throws Exception;
    }

    private static String hostPort;

    private CuratorRecipes() {}

    public static void main(String[] arguments) {
        hostPort = arguments[0];
        Map<String, Tale> tales = new LinkedHashMap<>();
        tales.put("leader latch", CuratorRecipes::leaderLatch);
        tales.put("leader selector", CuratorRecipes::leaderSelector);
        tales.put("mutex", CuratorRecipes::mutex);
        tales.put("mutex without an owner", CuratorRecipes::semaphoreMutex);
        tales.put("read write lock", CuratorRecipes::readWriteLock);
        tales.put("semaphore", CuratorRecipes::semaphore);
        tales.put("multi lock", CuratorRecipes::multiLock);
        tales.put("barriers", CuratorRecipes::barriers);
        tales.put("counters", CuratorRecipes::counters);
        tales.put("queue", CuratorRecipes::queue);
        tales.put("queue with a consumer", CuratorQueues::plain);
        tales.put("queue with ids", CuratorQueues::byId);
        tales.put("priority queue", CuratorQueues::byPriority);
        tales.put("delay queue", CuratorQueues::delayed);
        tales.put("group member", CuratorRecipes::groupMember);
        tales.put("curator cache", CuratorRecipes::curatorCache);
        tales.put("node cache", CuratorRecipes::nodeCache);
        tales.put("path children cache", CuratorRecipes::pathChildrenCache);
        tales.put("tree cache", CuratorRecipes::treeCache);
        tales.put("persistent watcher", CuratorRecipes::persistentWatcher);
        tales.put("transactions", CuratorRecipes::transactions);
        tales.put("reads in one request", CuratorRecipes::multiRead);
        tales.put("ttl and container nodes", CuratorRecipes::ttlAndContainers);
        tales.put("persistent node with a time to live", CuratorRecipes::persistentTtlNode);
        tales.put("access control", CuratorRecipes::accessControl);
        tales.put("expired session", CuratorRecipes::expiredSession);
        tales.put("odds and ends", CuratorRecipes::oddsAndEnds);
        for (Map.Entry<String, Tale> tale : tales.entrySet()) {
            Story.say("==", tale.getKey());
            try (CuratorFramework one = connected(); CuratorFramework other = connected()) {
                tale.getValue().tell(one, other);
            } catch (Exception failure) {
                Story.say("BROKE OFF", failure);
            }
        }
        Story.say("== end");
        System.exit(0); // a tale that broke off may have left threads behind
    }

    private static CuratorFramework connected() throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(hostPort, SESSION_MS, CONNECT_MS, RETRY);
        client.start();
        client.blockUntilConnected();
        return client;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(UTF_8);
    }

    private static String text(byte[] data) {
        return data == null ? "null" : "'" + new String(data, UTF_8) + "'";
    }

    private static String node(ChildData data) {
        return data == null ? "-" : data.getPath() + text(data.getData()) + "v" + data.getStat().getVersion();
    }

    private static Object sorted(Collection<String> names) {
        return new TreeSet<>(names);
    }

    private static Object ids(Collection<Participant> participants) {
        List<String> names = new ArrayList<>();
        for (Participant participant : participants) {
            names.add(participant.getId() + (participant.isLeader() ? "*" : ""));
        }
        return sorted(names);
    }

    // -- elections and locks

    private static void leaderLatch(CuratorFramework one, CuratorFramework other) throws Exception {
        try (LeaderLatch second = new LeaderLatch(other, "/latch", "second")) {
            LeaderLatch first = new LeaderLatch(one, "/latch", "first");
            first.start();
            Story.say("first leads", first.await(10, TimeUnit.SECONDS));
            second.start();
            Story.waitUntil("two take part", () -> first.getParticipants().size() == 2);
            Story.say(ids(second.getParticipants()), "leader", second.getLeader().getId());
            Story.say("second leads at once", second.await(200, TimeUnit.MILLISECONDS));
            first.close();
            Story.say("second leads after that", second.await(10, TimeUnit.SECONDS));
            Story.waitUntil("one takes part", () -> second.getParticipants().size() == 1);
        }
    }

    private static LeaderSelector selector(
            CuratorFramework client, String name, Story.Events events, CountDownLatch leave) {
        LeaderSelector selector = new LeaderSelector(client, "/selector", new LeaderSelectorListenerAdapter() {
            @Override
            public void takeLeadership(CuratorFramework ignored) throws Exception {
                events.add(name, "leads");
                leave.await();
                events.add(name, "leaves");
            }
        });
        selector.setId(name);
        return selector;
    }

    private static void leaderSelector(CuratorFramework one, CuratorFramework other) throws Exception {
        Story.Events events = new Story.Events();
        CountDownLatch firstLeaves = new CountDownLatch(1);
        CountDownLatch secondLeaves = new CountDownLatch(1);
        try (LeaderSelector first = selector(one, "first", events, firstLeaves);
                LeaderSelector second = selector(other, "second", events, secondLeaves)) {
            first.start();
            events.tell(1);
            second.start();
            Story.waitUntil("two take part", () -> first.getParticipants().size() == 2);
            Story.say(ids(first.getParticipants()));
            firstLeaves.countDown();
            events.tell(2);
            secondLeaves.countDown();
            events.tell(1);
        }
    }

    private static void mutex(CuratorFramework one, CuratorFramework other) throws Exception {
        InterProcessMutex mine = new InterProcessMutex(one, "/mutex");
        InterProcessMutex theirs = new InterProcessMutex(other, "/mutex");
        mine.acquire();
        mine.acquire();
        Story.say("held", mine.isAcquiredInThisProcess(), "others get it",
                theirs.acquire(300, TimeUnit.MILLISECONDS));
        Story.say("nodes", mine.getParticipantNodes().size());
        mine.release();
        Story.say("others get it after one release", theirs.acquire(300, TimeUnit.MILLISECONDS));
        mine.release();
        Story.say("others get it after the other", theirs.acquire(10, TimeUnit.SECONDS));
        Story.say("nodes", mine.getParticipantNodes().size());
        theirs.release();
        Story.say("nodes", mine.getParticipantNodes().size());
    }

    private static void semaphoreMutex(CuratorFramework one, CuratorFramework other) throws Exception {
        InterProcessSemaphoreMutex mine = new InterProcessSemaphoreMutex(one, "/semaphore-mutex");
        InterProcessSemaphoreMutex theirs = new InterProcessSemaphoreMutex(other, "/semaphore-mutex");
        mine.acquire();
        Story.say("once more by the same", mine.acquire(300, TimeUnit.MILLISECONDS));
        Story.say("by another", theirs.acquire(300, TimeUnit.MILLISECONDS));
        mine.release();
        Story.say("by another after a release", theirs.acquire(10, TimeUnit.SECONDS));
        theirs.release();
    }

    private static void readWriteLock(CuratorFramework one, CuratorFramework other) throws Exception {
        InterProcessReadWriteLock mine = new InterProcessReadWriteLock(one, "/rw");
        InterProcessReadWriteLock theirs = new InterProcessReadWriteLock(other, "/rw");
        mine.readLock().acquire();
        Story.say("both read", theirs.readLock().acquire(10, TimeUnit.SECONDS));
        theirs.readLock().release();
        Story.say("write beside a reader", theirs.writeLock().acquire(300, TimeUnit.MILLISECONDS));
        mine.readLock().release();
        Story.say("write alone", theirs.writeLock().acquire(10, TimeUnit.SECONDS));
        Story.say("read beside a writer", mine.readLock().acquire(300, TimeUnit.MILLISECONDS));
        Story.say("the writer reads", theirs.readLock().acquire(10, TimeUnit.SECONDS));
        theirs.writeLock().release();
        Story.say("read after it", mine.readLock().acquire(10, TimeUnit.SECONDS));
    }

    private static void semaphore(CuratorFramework one, CuratorFramework other) throws Exception {
        InterProcessSemaphoreV2 mine = new InterProcessSemaphoreV2(one, "/semaphore", 2);
        InterProcessSemaphoreV2 theirs = new InterProcessSemaphoreV2(other, "/semaphore", 2);
        Lease first = mine.acquire();
        Lease second = theirs.acquire();
        Story.say("a third", theirs.acquire(300, TimeUnit.MILLISECONDS));
        mine.returnLease(first);
        Lease third = theirs.acquire(10, TimeUnit.SECONDS);
        Story.say("after a return", third != null, "nodes", mine.getParticipantNodes().size());
        theirs.returnAll(Arrays.asList(second, third));
        Story.waitUntil("in the end none is left", () -> {
            Stat leases = one.checkExists().forPath("/semaphore/leases"); // a container, which may be gone
            return leases == null || leases.getNumChildren() == 0;
        });
    }

    private static void multiLock(CuratorFramework one, CuratorFramework other) throws Exception {
        InterProcessMultiLock both = new InterProcessMultiLock(one, Arrays.asList("/multi/a", "/multi/b"));
        InterProcessMutex b = new InterProcessMutex(other, "/multi/b");
        b.acquire();
        Story.say("both, one being held", both.acquire(300, TimeUnit.MILLISECONDS));
        b.release();
        Story.say("both", both.acquire(10, TimeUnit.SECONDS));
        Story.say("one of them elsewhere", b.acquire(300, TimeUnit.MILLISECONDS));
        both.release();
    }

    // -- barriers, counters, queues, groups

    private static void barriers(CuratorFramework one, CuratorFramework other) throws Exception {
        ExecutorService threads = Executors.newCachedThreadPool();
        DistributedBarrier barrier = new DistributedBarrier(one, "/barrier");
        barrier.setBarrier();
        Future<Boolean> waits =
                threads.submit(() -> new DistributedBarrier(other, "/barrier").waitOnBarrier(10, TimeUnit.SECONDS));
        Story.say("passed before", waits.isDone());
        barrier.removeBarrier();
        Story.say("passed after", waits.get());
        DistributedDoubleBarrier mine = new DistributedDoubleBarrier(one, "/double", 2);
        DistributedDoubleBarrier theirs = new DistributedDoubleBarrier(other, "/double", 2);
        Story.say("alone", new DistributedDoubleBarrier(one, "/alone", 2).enter(200, TimeUnit.MILLISECONDS));
        Future<Boolean> enters = threads.submit(() -> theirs.enter(10, TimeUnit.SECONDS));
        Story.say("together", mine.enter(10, TimeUnit.SECONDS), enters.get());
        Future<Boolean> leaves = threads.submit(() -> theirs.leave(10, TimeUnit.SECONDS));
        Story.say("and out", mine.leave(10, TimeUnit.SECONDS), leaves.get());
        threads.shutdownNow();
    }

    private static void counters(CuratorFramework one, CuratorFramework other) throws Exception {
        DistributedAtomicLong mine = new DistributedAtomicLong(one, "/long", RETRY);
        DistributedAtomicLong theirs = new DistributedAtomicLong(other, "/long", RETRY);
        Story.say("initialised", mine.initialize(40L), theirs.initialize(50L));
        Story.say(mine.increment().postValue(), theirs.add(10L).postValue(), mine.get().preValue());
        Story.say("compare and set", mine.compareAndSet(1L, 2L).succeeded(), mine.compareAndSet(51L, 2L).succeeded());
        DistributedAtomicInteger number = new DistributedAtomicInteger(one, "/integer", RETRY);
        Story.say(number.get().preValue(), number.add(5).postValue(), number.decrement().postValue());
        Story.Events events = new Story.Events();
        try (SharedCount here = new SharedCount(one, "/count", 7);
                SharedCount there = new SharedCount(other, "/count", 9)) {
            here.start();
            there.start();
            there.addListener(new SharedCountListener() {
                @Override
                public void countHasChanged(SharedCountReader reader, int count) {
                    events.add("count", count);
                }

                @Override
                public void stateChanged(CuratorFramework client, ConnectionState state) {}
            });
            Story.say(here.getCount(), there.getCount());
            here.setCount(8);
            events.tell(1);
            Story.say("version", there.getVersionedValue().getVersion());
            Story.say("from an old version", here.trySetCount(here.getVersionedValue(), 10));
            events.tell(1);
        }
    }

    private static void queue(CuratorFramework one, CuratorFramework other) throws Exception {
        SimpleDistributedQueue in = new SimpleDistributedQueue(one, "/queue");
        SimpleDistributedQueue out = new SimpleDistributedQueue(other, "/queue");
        Story.say("empty", text(out.peek()), text(out.poll()));
        for (String item : Arrays.asList("x", "y", "z")) {
            in.offer(bytes(item));
        }
        Story.say(text(out.peek()), text(out.poll()), text(out.take()), one.getChildren().forPath("/queue"));
        ExecutorService threads = Executors.newCachedThreadPool();
        out.take();
        Future<byte[]> waits = threads.submit(() -> out.poll(10, TimeUnit.SECONDS));
        in.offer(bytes("late"));
        Story.say("waited for", text(waits.get()));
        threads.shutdownNow();
    }

    private static void groupMember(CuratorFramework one, CuratorFramework other) throws Exception {
        try (GroupMember mine = new GroupMember(one, "/group", "one", bytes("1"))) {
            GroupMember theirs = new GroupMember(other, "/group", "other", bytes("2"));
            mine.start();
            theirs.start();
            Story.waitUntil("two members", () -> mine.getCurrentMembers().size() == 2
                    && theirs.getCurrentMembers().size() == 2);
            Story.say(sorted(theirs.getCurrentMembers().keySet()));
            theirs.close();
            Story.waitUntil("one member", () -> mine.getCurrentMembers().size() == 1);
        }
    }

    // -- caches and watches

    private static void curatorCache(CuratorFramework one, CuratorFramework other) throws Exception {
        other.create().creatingParentsIfNeeded().forPath("/cache/a/deep", bytes("1"));
        Story.Events events = new Story.Events();
        try (CuratorCache cache = CuratorCache.build(one, "/cache")) {
            cache.listenable().addListener(CuratorCacheListener.builder()
                    .forAll((type, old, now) -> events.add(type, node(old), node(now)))
                    .forInitialized(() -> events.add("initialised"))
                    .build());
            cache.start();
            events.tellSorted(4);
            other.setData().forPath("/cache/a", bytes("2"));
            events.tell(1);
            other.create().withMode(CreateMode.EPHEMERAL).forPath("/cache/b", bytes("3"));
            events.tell(1);
            other.create().forPath("/cache-not", bytes("4"));
            other.create().forPath("/cache/a/deep/er", bytes("5"));
            events.tell(1);
            other.delete().forPath("/cache/a/deep/er");
            events.tell(1);
            other.delete().deletingChildrenIfNeeded().forPath("/cache/a");
            events.tell(2);
            Story.say("size", cache.size());
            other.delete().deletingChildrenIfNeeded().forPath("/cache");
            events.tell(2);
            other.create().forPath("/cache", bytes("6"));
            events.tell(1);
            events.tellRest();
        }
    }

    private static void nodeCache(CuratorFramework one, CuratorFramework other) throws Exception {
        Story.Events events = new Story.Events();
        try (NodeCache cache = new NodeCache(one, "/node-cache")) {
            cache.getListenable().addListener(() -> events.add("changed", node(cache.getCurrentData())));
            cache.start(true);
            Story.say("at first", node(cache.getCurrentData()));
            other.create().forPath("/node-cache", bytes("1"));
            events.tell(1);
            other.setData().forPath("/node-cache", bytes("2"));
            events.tell(1);
            other.delete().forPath("/node-cache");
            events.tell(1);
        }
        events.tellRest();
    }

    private static void pathChildrenCache(CuratorFramework one, CuratorFramework other) throws Exception {
        other.create().creatingParentsIfNeeded().forPath("/children/a", bytes("1"));
        Story.Events events = new Story.Events();
        try (PathChildrenCache cache = new PathChildrenCache(one, "/children", true)) {
            cache.getListenable().addListener((client, event) -> events.add(event.getType(), node(event.getData())));
            cache.start(PathChildrenCache.StartMode.POST_INITIALIZED_EVENT);
            events.tellSorted(2);
            other.create().forPath("/children/b", bytes("2"));
            events.tell(1);
            other.setData().forPath("/children/b", bytes("3"));
            events.tell(1);
            other.delete().forPath("/children/a");
            events.tell(1);
            events.tellRest();
        }
    }

    private static void treeCache(CuratorFramework one, CuratorFramework other) throws Exception {
        other.create().creatingParentsIfNeeded().forPath("/tree/a/b", bytes("1"));
        Story.Events events = new Story.Events();
        try (TreeCache cache = TreeCache.newBuilder(one, "/tree").build()) {
            cache.getListenable().addListener((client, event) -> events.add(event.getType(), node(event.getData())));
            cache.start();
            events.tellSorted(4);
            other.setData().forPath("/tree/a/b", bytes("2"));
            events.tell(1);
            other.create().forPath("/tree/a/c", bytes("3"));
            events.tell(1);
            other.delete().forPath("/tree/a/b");
            events.tell(1);
            Story.say("children", sorted(cache.getCurrentChildren("/tree/a").keySet()));
            events.tellRest();
        }
    }

    private static void persistentWatcher(CuratorFramework one, CuratorFramework other) throws Exception {
        for (boolean isRecursive : new boolean[] {false, true}) {
            String root = isRecursive ? "/recursive" : "/persistent";
            Story.say(root);
            Story.Events events = new Story.Events();
            try (PersistentWatcher watcher = new PersistentWatcher(one, root, isRecursive)) {
                CountDownLatch isSet = new CountDownLatch(1);
                watcher.getResetListenable().addListener(isSet::countDown);
                watcher.getListenable().addListener(event -> events.add(event.getType(), event.getPath()));
                watcher.start();
                isSet.await();
                other.create().forPath(root, bytes("1"));
                other.create().forPath(root + "/a", bytes("2"));
                other.create().forPath(root + "/a/b", bytes("3"));
                other.setData().forPath(root + "/a", bytes("4"));
                other.setData().forPath(root, bytes("5"));
                other.delete().deletingChildrenIfNeeded().forPath(root);
                events.tell(isRecursive ? 8 : 5);
            }
            other.create().forPath(root, bytes("after"));
            one.sync().forPath("/");
            events.tellRest();
        }
    }

    // -- several operations at once

    private static void transactions(CuratorFramework one, CuratorFramework other) throws Exception {
        List<CuratorTransactionResult> done = one.transaction()
                .forOperations(
                        one.transactionOp().create().forPath("/txn", bytes("1")),
                        one.transactionOp()
                                .create()
                                .withMode(CreateMode.EPHEMERAL_SEQUENTIAL)
                                .forPath("/txn/s-", bytes("2")),
                        one.transactionOp().setData().withVersion(0).forPath("/txn", bytes("3")),
                        one.transactionOp().check().withVersion(1).forPath("/txn"),
                        one.transactionOp().create().forPath("/txn/gone", bytes("4")),
                        one.transactionOp().delete().forPath("/txn/gone"));
        for (CuratorTransactionResult result : done) {
            Stat stat = result.getResultStat();
            Story.say(result.getType(), result.getForPath(), result.getResultPath(),
                    stat == null ? "no stat" : "v" + stat.getVersion() + "c" + stat.getNumChildren());
        }
        Story.say(text(other.getData().forPath("/txn")), other.getChildren().forPath("/txn"));
        try {
            one.transaction()
                    .forOperations(
                            one.transactionOp().setData().forPath("/txn", bytes("never")),
                            one.transactionOp().check().withVersion(7).forPath("/txn"),
                            one.transactionOp().create().forPath("/txn/never"));
        } catch (KeeperException failure) {
            Story.say(failure.code());
            for (OpResult result : failure.getResults()) {
                Story.say("error", ((OpResult.ErrorResult) result).getErr());
            }
        }
        Story.say(text(other.getData().forPath("/txn")), other.getChildren().forPath("/txn"));
    }

    private static void multiRead(CuratorFramework one, CuratorFramework other) throws Exception {
        other.create().creatingParentsIfNeeded().forPath("/reads/a", bytes("1"));
        ZooKeeper client = one.getZookeeperClient().getZooKeeper();
        List<OpResult> results = client.multi(Arrays.asList(
                Op.getChildren("/reads"), Op.getData("/reads/a"), Op.getData("/reads/none"), Op.getChildren("/none")));
        Story.say(((OpResult.GetChildrenResult) results.get(0)).getChildren());
        Story.say(text(((OpResult.GetDataResult) results.get(1)).getData()));
        Story.say(((OpResult.ErrorResult) results.get(2)).getErr(), ((OpResult.ErrorResult) results.get(3)).getErr());
    }

    // -- nodes that go by themselves, and who may do what

    private static void ttlAndContainers(CuratorFramework one, CuratorFramework other) throws Exception {
        Stat stat = new Stat();
        one.create().withTtl(1000).storingStatIn(stat).withMode(CreateMode.PERSISTENT_WITH_TTL).forPath("/ttl");
        Story.say("owner", Long.toHexString(stat.getEphemeralOwner()), "version", stat.getVersion());
        one.create().forPath("/timed"); // where nobody else has created anything: names count that
        Story.say(one.create().withTtl(1000).withMode(CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL).forPath("/timed/ttl-"));
        Story.attempt("no time at all",
                () -> one.create().withTtl(0).withMode(CreateMode.PERSISTENT_WITH_TTL).forPath("/ttl0"));
        Story.waitUntil("the nodes with a time to live are gone", () -> other.checkExists().forPath("/ttl") == null
                && one.getChildren().forPath("/timed").isEmpty());
        one.create().creatingParentContainersIfNeeded().forPath("/container/child");
        Story.say("owner", Long.toHexString(one.checkExists().forPath("/container").getEphemeralOwner()));
        one.create().withMode(CreateMode.CONTAINER).forPath("/never-used");
        one.delete().forPath("/container/child");
        Story.waitUntil("the empty container is gone", () -> other.checkExists().forPath("/container") == null);
        Story.say("one that was never used stays", other.checkExists().forPath("/never-used") != null);
    }

    private static void persistentTtlNode(CuratorFramework one, CuratorFramework other) throws Exception {
        PersistentTtlNode node = new PersistentTtlNode(one, "/ttl-node", 900, bytes("1"));
        node.start();
        Story.say("created", node.waitForInitialCreate(10, TimeUnit.SECONDS));
        Story.say(text(other.getData().forPath("/ttl-node")));
        Thread.sleep(2000);
        Story.say("kept alive", other.checkExists().forPath("/ttl-node") != null);
        node.close();
        Story.waitUntil("gone with its owner", () -> other.checkExists().forPath("/ttl-node") == null);
    }

    private static void accessControl(CuratorFramework one, CuratorFramework other) throws Exception {
        try (CuratorFramework owner = CuratorFrameworkFactory.builder()
                .connectString(hostPort)
                .retryPolicy(RETRY)
                .authorization("digest", bytes("owner:secret"))
                .build()) {
            owner.start();
            owner.create().withACL(ZooDefs.Ids.CREATOR_ALL_ACL).forPath("/mine", bytes("secret"));
            Story.say(owner.getACL().forPath("/mine"));
            Story.attempt("read by another", () -> text(other.getData().forPath("/mine")));
            Story.attempt("ACL by another", () -> other.getACL().forPath("/mine"));
            owner.create().forPath("/mine/child");
            Story.attempt("a child by another", () -> other.create().forPath("/mine/another"));
            Story.attempt("its deletion by another", () -> other.delete().forPath("/mine/child"));
            Story.attempt("write by another", () -> other.setData().forPath("/mine", bytes("public")));
            owner.delete().forPath("/mine/child"); // later nobody may
            owner.setACL().withVersion(0).withACL(ZooDefs.Ids.READ_ACL_UNSAFE).forPath("/mine");
            Story.attempt("read by another", () -> text(other.getData().forPath("/mine")));
            Story.attempt("ACL from an old version",
                    () -> owner.setACL().withVersion(0).withACL(ZooDefs.Ids.OPEN_ACL_UNSAFE).forPath("/mine"));
            List<String> ids = new ArrayList<>();
            ZooKeeper client = owner.getZookeeperClient().getZooKeeper();
            client.whoAmI().forEach(id -> ids.add(id.getAuthScheme() + " " + id.getUser()));
            Story.say(sorted(ids));
        }
        Story.attempt("nobody's ACL",
                () -> one.create().withACL(ZooDefs.Ids.CREATOR_ALL_ACL).forPath("/nobodys"));
    }

    private static void expiredSession(CuratorFramework one, CuratorFramework other) throws Exception {
        Story.Events events = new Story.Events();
        one.getConnectionStateListenable().addListener((client, state) -> events.add(state));
        try (PersistentNode node = new PersistentNode(one, CreateMode.EPHEMERAL, false, "/alive", bytes("1"))) {
            node.start();
            Story.say("created", node.waitForInitialCreate(10, TimeUnit.SECONDS));
            long before = other.checkExists().forPath("/alive").getEphemeralOwner();
            ZooKeeper client = one.getZookeeperClient().getZooKeeper();
            CountDownLatch isConnected = new CountDownLatch(1);
            ZooKeeper twin = new ZooKeeper(hostPort, SESSION_MS, event -> {
                if (event.getState() == Watcher.Event.KeeperState.SyncConnected) {
                    isConnected.countDown();
                }
            }, client.getSessionId(), client.getSessionPasswd());
            isConnected.await();
            twin.close(); // ends the session of both
            Story.waitUntil("created anew", () -> {
                Stat stat = other.checkExists().forPath("/alive");
                return stat != null && stat.getEphemeralOwner() != before;
            });
            events.tell(3);
        }
    }

    private static void oddsAndEnds(CuratorFramework one, CuratorFramework other) throws Exception {
        ZooKeeper client = one.getZookeeperClient().getZooKeeper();
        one.create().creatingParentsIfNeeded().forPath("/odds/a/b", bytes("1"));
        one.create().withMode(CreateMode.EPHEMERAL).forPath("/odds/e", bytes("2"));
        Story.say("all children", client.getAllChildrenNumber("/odds"));
        Story.say("ephemerals", client.getEphemerals(), client.getEphemerals("/none"));
        Story.say(one.create().orSetData().forPath("/odds/a", bytes("3")), text(other.getData().forPath("/odds/a")));
        Story.say(one.create().withProtection().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath("/odds/p-")
                .replaceFirst("_c_[-0-9a-f]{36}", "_c_"));
        Story.attempt("delete with children", () -> one.delete().forPath("/odds/a"));
        Story.attempt("an old version", () -> one.setData().withVersion(0).forPath("/odds/a", bytes("4")));
        Story.attempt("a child of an ephemeral", () -> one.create().forPath("/odds/e/c"));
        Story.attempt("no node", () -> one.getData().forPath("/none"));
        Story.attempt("exists already", () -> one.create().forPath("/odds"));
        Story.attempt("too large", () -> one.create().forPath("/odds/large", new byte[2 << 20]));
        Story.attempt("ensemble", () -> text(one.getConfig().forEnsemble()));
        Story.attempt("watches that are none", () -> {
            client.removeWatches("/odds", event -> {}, Watcher.WatcherType.Any, false);
            return "removed";
        });
        Story.Events events = new Story.Events();
        Watcher watcher = event -> events.add(event.getType(), event.getPath());
        client.addWatch("/odds", watcher, AddWatchMode.PERSISTENT_RECURSIVE);
        other.setData().forPath("/odds/a/b", bytes("5"));
        events.tell(1);
        client.removeWatches("/odds", watcher, Watcher.WatcherType.Any, false);
        events.tell(1);
        other.setData().forPath("/odds/a/b", bytes("6"));
        client.getData("/odds/a/b", false, null);
        events.tellRest();
    }
}

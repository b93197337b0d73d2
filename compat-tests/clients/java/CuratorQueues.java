import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.queue.DistributedDelayQueue;
import org.apache.curator.framework.recipes.queue.DistributedIdQueue;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.state.ConnectionState;

/** Curator's queues with consumers. Each is filled before its consumer comes, so that its order can be told. */
final class CuratorQueues {
    private static final int FLUSH_MS = 10_000;
    private static final int DELAY_MS = 500;

    private CuratorQueues() {}

    private static final class Texts implements QueueSerializer<String> {
        @Override
        public byte[] serialize(String item) {
            return item.getBytes(UTF_8);
        }

        @Override
        public String deserialize(byte[] data) {
            return new String(data, UTF_8);
        }
    }

    private static QueueConsumer<String> into(Story.Events events) {
        return new QueueConsumer<String>() {
            @Override
            public void consumeMessage(String message) {
                events.add("consumed", message);
            }

            @Override
            public void stateChanged(CuratorFramework client, ConnectionState state) {}
        };
    }

    private static QueueBuilder<String> queue(CuratorFramework client, QueueConsumer<String> consumer, String path) {
        return QueueBuilder.builder(client, consumer, new Texts(), path);
    }

    static void plain(CuratorFramework one, CuratorFramework other) throws Exception {
        try (DistributedQueue<String> in = queue(one, null, "/queues/plain").buildQueue()) {
            in.start();
            for (String item : new String[] {"a", "b", "c"}) {
                in.put(item);
            }
            Story.say("flushed", in.flushPuts(FLUSH_MS, TimeUnit.MILLISECONDS));
        }
        Story.Events events = new Story.Events();
        try (DistributedQueue<String> out =
                queue(other, into(events), "/queues/plain").lockPath("/queues/locks").buildQueue()) {
            out.start();
            events.tell(3);
            Story.waitUntil("empty", () -> one.getChildren().forPath("/queues/plain").isEmpty());
        }
        events.tellRest();
    }

    static void byId(CuratorFramework one, CuratorFramework other) throws Exception {
        try (DistributedIdQueue<String> in = queue(one, null, "/queues/ids").buildIdQueue()) {
            in.start();
            in.put("a", "first");
            in.put("b", "second");
            in.put("c", "third");
            Story.say("flushed", in.flushPuts(FLUSH_MS, TimeUnit.MILLISECONDS));
            Story.say("removed", in.remove("second"), "once more", in.remove("second"));
        }
        Story.Events events = new Story.Events();
        try (DistributedIdQueue<String> out = queue(other, into(events), "/queues/ids").buildIdQueue()) {
            out.start();
            events.tell(2);
        }
        events.tellRest();
    }

    static void byPriority(CuratorFramework one, CuratorFramework other) throws Exception {
        try (DistributedPriorityQueue<String> in = queue(one, null, "/queues/priorities").buildPriorityQueue(0)) {
            in.start();
            in.put("late", 500);
            in.put("soon", 20);
            in.put("now", -1);
            Story.say("flushed", in.flushPuts(FLUSH_MS, TimeUnit.MILLISECONDS));
        }
        Story.Events events = new Story.Events();
        try (DistributedPriorityQueue<String> out =
                queue(other, into(events), "/queues/priorities").buildPriorityQueue(0)) {
            out.start();
            events.tell(3);
        }
        events.tellRest();
    }

    static void delayed(CuratorFramework one, CuratorFramework other) throws Exception {
        Story.Events events = new Story.Events();
        try (DistributedDelayQueue<String> in = queue(one, null, "/queues/delays").buildDelayQueue();
                DistributedDelayQueue<String> out = queue(other, into(events), "/queues/delays").buildDelayQueue()) {
            in.start();
            out.start();
            long begun = System.currentTimeMillis();
            in.put("delayed", begun + DELAY_MS);
            in.put("at once", begun);
            events.tell(2);
            Story.say("not before its time", System.currentTimeMillis() >= begun + DELAY_MS);
        }
        events.tellRest();
    }
}

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Output that two servers must agree on, and waiting that does not show how long it took. */
final class Story {
    private static final long PATIENCE_MS = 20_000;

    private Story() {}

    static synchronized void say(Object... words) {
        StringBuilder line = new StringBuilder();
        for (Object word : words) {
            line.append(line.length() == 0 ? "" : " ").append(word);
        }
        System.out.println(line);
        System.out.flush();
    }

    /** Say what came of it: a value, or the exception by its name, which is all that clients can rely on. */
    static void attempt(String what, Callable<?> action) {
        try {
            say(what, "->", action.call());
        } catch (Exception failure) {
            say(what, "!!", failure.getClass().getSimpleName());
        }
    }

    static void waitUntil(String what, Callable<Boolean> isTrue) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(PATIENCE_MS);
        while (!isTrue.call()) {
            if (System.nanoTime() > deadline) {
                say("NEVER:", what);
                return;
            }
            Thread.sleep(10);
        }
        say(what);
    }

    /** What happened on other threads, told on the story's own. */
    static final class Events {
        private final BlockingQueue<String> queue = new LinkedBlockingQueue<>();

        void add(Object... words) {
            StringBuilder line = new StringBuilder();
            for (Object word : words) {
                line.append(line.length() == 0 ? "" : " ").append(word);
            }
            queue.add(line.toString());
        }

        void tell(int count) throws InterruptedException {
            for (String event : take(count)) {
                say(event);
            }
        }

        /** For events that come in no particular order. */
        void tellSorted(int count) throws InterruptedException {
            List<String> events = take(count);
            Collections.sort(events);
            for (String event : events) {
                say(event);
            }
        }

        private List<String> take(int count) throws InterruptedException {
            List<String> events = new ArrayList<>();
            while (events.size() < count) {
                String event = queue.poll(PATIENCE_MS, TimeUnit.MILLISECONDS);
                events.add(event == null ? "NO EVENT" : event);
                if (event == null) {
                    break;
                }
            }
            return events;
        }

        /** Nothing more may have come: say what did. */
        void tellRest() {
            say("further events:", new ArrayList<>(queue));
            queue.clear();
        }
    }
}

package clients;

import java.util.Objects;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** The checks of all libraries, in this order, and their report. */
enum Check {
    CONNECT("connect", Library::connect),
    STRINGS("strings", Library::strings),
    HASHES("hashes", Library::hashes),
    LISTS_SETS_ZSETS("lists-sets-zsets", Library::listsSetsZsets),
    COUNTERS_EXPIRY("counters-expiry", Library::countersExpiry),
    PIPELINE("pipeline", Library::pipeline),
    MULTI_KEY("multi-key", Library::multiKey),
    SCAN("scan", Library::scan),
    SCRIPTS("scripts", Library::scripts),
    BIG_VALUES("big-values", Library::bigValues),
    ERRORS("errors", Library::errors),
    CONCURRENT("concurrent", Library::concurrent),
    CLUSTER("cluster", Library::cluster),
    TRANSACTIONS("transactions", Library::transactions),
    BLOCKING("blocking", Library::blocking),
    PUBSUB("pubsub", Library::pubsub),
    DATABASES("databases", Library::databases),
    RECONNECT("reconnect", Library::reconnect);

    /** Longer than any check takes on a busy machine. */
    private static final int CHECK_SECONDS_MAX = 30;

    private final String label;
    private final Body body;

    private interface Body {
        void run(Library library) throws Exception;
    }

    Check(String label, Body body) {
        this.label = label;
        this.body = body;
    }

    /** Runs all checks and prints one line for each; gives the exit code. */
    static int runAll(Library library) {
        int failed = 0;
        // Why no more checks can be run. Without this each of them would wait until its deadline.
        String lost = null;
        for (Check check : values()) {
            try {
                Expect.that(lost == null, lost);
                check.run(library);
                System.out.println("ok " + check.label);
            } catch (Exception | AssertionError error) {
                failed += 1;
                if (check == CONNECT || error instanceof TimeoutException) {
                    lost = check.label + " left no client that can be used";
                }
                System.out.println("not ok " + check.label + ": " + reason(error));
            }
        }
        library.close();
        System.out.println("done");
        return failed == 0 ? 0 : 1;
    }

    /** Runs this check in a thread of its own, since a call that blocks in a library cannot be cut short otherwise. */
    private void run(Library library) throws Exception {
        FutureTask<Void> task = new FutureTask<>(() -> {
            body.run(library);
            return null;
        });
        Thread thread = new Thread(task, label);
        thread.setDaemon(true);
        thread.start();
        try {
            task.get(secondsMax(), TimeUnit.SECONDS);
        } catch (TimeoutException late) {
            throw new TimeoutException("not done after " + secondsMax() + " s");
        } catch (ExecutionException failure) {
            if (failure.getCause() instanceof Exception exception) {
                throw exception;
            }
            throw new AssertionError(failure.getCause().getMessage(), failure.getCause());
        }
    }

    private int secondsMax() {
        return this == RECONNECT ? Restart.SECONDS_MAX + 2 * Restart.RECONNECT_SECONDS_MAX : CHECK_SECONDS_MAX;
    }

    /** One line: the exception, and its cause, which libraries like to hide. */
    private static String reason(Throwable error) {
        Throwable cause = error.getCause();
        boolean tellsAll = cause == null || Objects.equals(error.getMessage(), cause.getMessage());
        String text = tellsAll ? error.toString() : error + " (" + cause + ")";
        String line = text.replaceAll("\\s+", " ");
        return line.substring(0, Math.min(line.length(), 500));
    }
}

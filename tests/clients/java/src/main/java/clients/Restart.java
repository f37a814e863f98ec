package clients;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.Callable;

/** A restart of the proxy, and how a program comes through it. */
final class Restart {
    /** The longest time for the harness to restart the proxy. */
    static final int SECONDS_MAX = 60;

    /** How long the client may take, then, to work again. */
    static final int RECONNECT_SECONDS_MAX = 10;

    private Restart() {}

    /** Asks for it and waits until it is done. That this comes to an end is seen to by the deadline of the check. */
    static void await() throws IOException {
        System.out.println("restart?");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Expect.equal(lines.readLine(), "restarted");
    }

    /** Does {@code work} again and again until it does not throw, as a program with a lost connection would. */
    static void eventually(Callable<Void> work) throws Exception {
        long deadline = System.nanoTime() + RECONNECT_SECONDS_MAX * 1_000_000_000L;
        while (true) {
            try {
                work.call();
                return;
            } catch (Exception | AssertionError error) {
                if (System.nanoTime() >= deadline) {
                    throw error;
                }
                Thread.sleep(100);
            }
        }
    }
}

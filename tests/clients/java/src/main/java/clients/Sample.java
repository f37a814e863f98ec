package clients;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.IntFunction;
import java.util.stream.IntStream;

/** Keys and values that the checks of all libraries use. */
final class Sample {
    static final int MIB = 1 << 20;

    /** A script with one key and one argument, whose reply depends on both. */
    static final String ADD = "return redis.call('INCRBY', KEYS[1], ARGV[1])";

    private Sample() {}

    /** The next {@code count} lines of a subscriber, in their order. */
    static List<String> take(BlockingQueue<String> heard, int count) throws InterruptedException {
        List<String> lines = new ArrayList<>();
        while (lines.size() < count) {
            // No machine needs longer; the deadline of the check would not name the missing lines.
            String line = heard.poll(20, TimeUnit.SECONDS);
            Expect.that(line != null, "only " + lines + " was heard");
            lines.add(line);
        }
        return lines;
    }

    /** So many keys, in the order of their numbers; they spread over all shards. */
    static List<String> keys(String prefix, int count) {
        return IntStream.range(0, count).mapToObj(n -> prefix + ":" + n).toList();
    }

    static String[] keyArray(String prefix, int count) {
        return keys(prefix, count).toArray(String[]::new);
    }

    /** The keys, in order, each with the {@code value} of its number. */
    static <V> Map<String, V> numbered(List<String> keys, IntFunction<V> value) {
        Map<String, V> pairs = new LinkedHashMap<>();
        for (String key : keys) {
            pairs.put(key, value.apply(pairs.size()));
        }
        return pairs;
    }

    /** A small value that only a client and a proxy leave alone which take values for bytes. */
    static byte[] everyByte() {
        byte[] value = new byte[256];
        for (int n = 0; n < value.length; n++) {
            value[n] = (byte) n;
        }
        return value;
    }

    /** Bytes that are all different around any cut, and no valid UTF-8; the same in each run. */
    static byte[] bytes(int length) {
        byte[] value = new byte[length];
        for (int at = 0; at < length; at++) {
            value[at] = (byte) (at * 31 + (at >> 8) * 7 + (at >> 16));
        }
        return value;
    }
}

package clients;

import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.stream.IntStream;

/** Comparisons that report the found value. */
final class Expect {
    private Expect() {}

    static void that(boolean holds, String otherwise) {
        if (!holds) {
            throw new AssertionError(otherwise);
        }
    }

    static void equal(Object actual, Object expected) {
        if (Objects.equals(actual, expected)) {
            return;
        }
        String place = "";
        if (actual instanceof List<?> found && expected instanceof List<?> wanted && found.size() == wanted.size()) {
            int at = IntStream.range(0, found.size())
                    .filter(n -> !Objects.equals(found.get(n), wanted.get(n)))
                    .findFirst()
                    .orElseThrow();
            place = " at " + at + " of " + found.size();
            actual = found.get(at);
            expected = wanted.get(at);
        }
        throw new AssertionError(abridged(actual) + " instead of " + abridged(expected) + place);
    }

    /** That two large values are the same, without printing them. */
    static void sameBytes(byte[] actual, byte[] expected) {
        Expect.that(actual != null, "there is no value");
        int differs = Arrays.mismatch(actual, expected);
        that(differs == -1, expected.length + " bytes come back different from byte " + differs + " on");
    }

    /** That {@code found} has every one of {@code expected} exactly once, in any order. */
    static void eachOnce(Collection<String> found, Collection<String> expected) {
        equal(found.stream().sorted().toList(), expected.stream().sorted().toList());
    }

    /** That {@code work} throws an error of the library, and that its message begins so. */
    static void error(Class<? extends Exception> kind, String start, Callable<?> work) throws Exception {
        String message = message(kind, work);
        that(message.startsWith(start), "the error is " + message);
    }

    private static String message(Class<? extends Exception> kind, Callable<?> work) throws Exception {
        Object result;
        try {
            result = work.call();
        } catch (Exception error) {
            if (kind.isInstance(error)) {
                return error.getMessage();
            }
            throw error;
        }
        throw new AssertionError(abridged(result) + " instead of a " + kind.getSimpleName());
    }

    private static String abridged(Object value) {
        String text = String.valueOf(value);
        return text.length() <= 200 ? text : text.substring(0, 100) + " … " + text.substring(text.length() - 90);
    }
}

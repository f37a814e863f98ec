package clients;

/**
 * Typical uses of a Redis library, against the endpoint on 127.0.0.1:&lt;port&gt;, whose keyspace should be
 * empty. It prints a line per check, as {@link Check} says.
 */
public final class Main {
    private Main() {}

    public static void main(String[] args) {
        if (args.length != 3 || !args[2].matches("nodes|store")) {
            usage();
        }
        int port = Integer.parseInt(args[1]);
        Library library = switch (args[0]) {
            case "jedis" -> new JedisLibrary(port);
            case "lettuce" -> new LettuceLibrary(port);
            default -> usage();
        };
        // Not left to the end of the last thread: a client that did not come to an end must not keep the program alive.
        System.exit(Check.runAll(library));
    }

    private static Library usage() {
        System.err.println("usage: java -jar clients.jar <jedis|lettuce> <port> <nodes|store>");
        System.exit(2);
        throw new AssertionError("unreachable");
    }
}

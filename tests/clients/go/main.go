// Command program does with go-redis what its users do, against the port that it is given.
// tests/clients/README.md says how it is started and what it prints.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

// checkTimeout bounds one check. Generous: the machine may be busy with other tests.
const checkTimeout = 60 * time.Second

// world is what every check gets.
type world struct {
	ctx context.Context
	// rdb is one client for all checks, as an application would have it.
	rdb *redis.Client
	// hasScripts is false where shards are in memory: there is no Lua in them.
	hasScripts bool
	stdin      *bufio.Reader
}

// check is what is tried, and its name.
type check struct {
	name string
	run  func(*world) error
}

// faultChecks run while nodes cut connections.
var faultChecks = []check{{"writes", writes}}

// checks in the order in which they run.
var checks = []check{
	{"connect", connect},
	{"strings", plainStrings},
	{"hashes", hashes},
	{"lists-sets-zsets", listsSetsZsets},
	{"counters-expiry", countersExpiry},
	{"pipeline", pipeline},
	{"multi-key", multiKey},
	{"scan", scan},
	{"scripts", scripts},
	{"big-values", bigValues},
	{"errors", wrongTypes},
	{"concurrent", concurrent},
	{"cluster", cluster},
	{"transactions", transactions},
	{"blocking", blocking},
	{"pubsub", pubsub},
	{"databases", databases},
	{"reconnect", reconnect},
}

func main() {
	setups := map[string][]check{"nodes": checks, "store": checks, "faults": faultChecks}
	if len(os.Args) != 4 || os.Args[1] != "go-redis" || setups[os.Args[3]] == nil {
		fmt.Fprintln(os.Stderr, "usage: program go-redis <port> nodes|store|faults")
		os.Exit(2)
	}
	// No option but the address: the library's default handshake, which asks for RESP3 first.
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[2]})
	w := &world{rdb: rdb, hasScripts: os.Args[3] == "nodes", stdin: bufio.NewReader(os.Stdin)}
	failed := false
	for _, check := range setups[os.Args[3]] {
		if err := runCheck(w, check.run); err != nil {
			failed = true
			fmt.Printf("not ok %s: %v\n", check.name, err)
		} else {
			fmt.Printf("ok %s\n", check.name)
		}
	}
	fmt.Println("done")
	if failed {
		os.Exit(1)
	}
}

// runCheck gives `run` its own deadline.
func runCheck(w *world, run func(*world) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	w.ctx = ctx
	return run(w)
}

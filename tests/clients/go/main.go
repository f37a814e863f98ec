// Command program runs typical uses of go-redis, rueidis or asynq against the given port.
// tests/clients/README.md defines its arguments and its output.
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

// world is the argument of every check.
type world struct {
	ctx context.Context
	// rdb is one client for all checks, as an application would have it.
	rdb *redis.Client
	stdin      *bufio.Reader
}

// check is a function with its name.
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
	w := &world{stdin: bufio.NewReader(os.Stdin)}
	checks := chosen(w, os.Args[1:])
	if checks == nil {
		fmt.Fprintln(os.Stderr, "usage: program go-redis <port> nodes|store|faults")
		fmt.Fprintln(os.Stderr, "       program asynq <port> nodes")
		fmt.Fprintln(os.Stderr, "       program rueidis <port> emulate")
		os.Exit(2)
	}
	failed := false
	for _, check := range checks {
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

// chosen returns the checks that the arguments name, and puts their settings into `w`.
func chosen(w *world, args []string) []check {
	if len(args) != 3 {
		return nil
	}
	library, port, setup := args[0], args[1], args[2]
	switch {
	case library == "asynq" && setup == "nodes":
		return asynqChecks(port)
	case library == "rueidis" && setup == "emulate":
		return rueidisChecks(port)
	case library == "go-redis":
		// No option but the address: the library's default handshake, which asks for RESP3 first.
		w.rdb = redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})
		return map[string][]check{"nodes": checks, "store": checks, "faults": faultChecks}[setup]
	}
	return nil
}

// runCheck gives `run` its own deadline.
func runCheck(w *world, run func(*world) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	w.ctx = ctx
	return run(w)
}

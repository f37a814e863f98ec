package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// asOne has checks with rueidis, to which shards are one Redis. It puts requests of all goroutines on few connections.
type asOne struct {
	*world
	port   string
	client rueidis.Client
}

// rueidisChecks in the order in which they run.
func rueidisChecks(port string) []check {
	a := &asOne{port: port}
	checks := []struct {
		name string
		run  func(e *expectations)
	}{
		{"connect", a.connect},
		{"strings", a.strings},
		{"pipeline", a.pipeline},
		{"multi-key", a.multiKey},
		{"scan", a.scan},
		{"scripts", a.scripts},
		{"errors", a.errors},
		{"transactions", a.transactions},
		{"blocking", a.blocking},
		{"pubsub", a.pubsub},
		{"caching", a.caching},
		{"locks", a.locks},
		{"reconnect", a.reconnect},
	}
	var all []check
	for _, check_ := range checks {
		all = append(all, check{check_.name, func(w *world) error {
			a.world = w
			e := &expectations{}
			check_.run(e)
			return e.err
		}})
	}
	return all
}

func (a *asOne) connect(e *expectations) {
	a.client = a.open(e)
	e.equal("PING", "PONG")(a.do("PING").ToString())
	greeting, err := a.do("HELLO").AsMap()
	e.noError("HELLO", err)
	protocol := greeting["proto"]
	e.equal("the protocol", int64(3))(protocol.AsInt64())
}

// open gives a client of its own, with the library's default handshake: RESP3 and CLIENT TRACKING OPTIN.
func (a *asOne) open(e *expectations) rueidis.Client {
	client, err := rueidis.NewClient(a.options())
	e.noError("a client", err)
	return client
}

func (a *asOne) options() rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress: []string{"127.0.0.1:" + a.port}, ForceSingleClient: true, ConnWriteTimeout: checkTimeout,
	}
}

func (a *asOne) do(words ...string) rueidis.RedisResult {
	return a.client.Do(a.ctx, a.command(words...))
}

func (a *asOne) command(words ...string) rueidis.Completed {
	return a.client.B().Arbitrary(words...).Build()
}

func (a *asOne) strings(e *expectations) {
	binary := "\x00\r\n\xff$5\r\n*1\r\n"
	e.equal("SET", "OK")(a.do("SET", "string:binary", binary).ToString())
	e.equal("GET", binary)(a.do("GET", "string:binary").ToString())
	e.fails("GET of no key", "nil", a.do("GET", "string:no").Error())
	e.equal("SET NX of a key", true)(rueidis.IsRedisNil(a.do("SET", "string:binary", "x", "NX").Error()), nil)
	e.equal("APPEND", int64(3))(a.do("APPEND", "string:new", "abc").AsInt64())
	e.equal("HSET", int64(2))(a.do("HSET", "hash", "a", "1", "b", "two").AsInt64())
	e.equal("HGETALL", map[string]string{"a": "1", "b": "two"})(a.do("HGETALL", "hash").AsStrMap())
	e.equal("ZADD", int64(2))(a.do("ZADD", "zset", "1.5", "a", "-2", "b").AsInt64())
	scores := []rueidis.ZScore{{Member: "b", Score: -2}, {Member: "a", Score: 1.5}}
	e.equal("ZRANGE", scores)(a.do("ZRANGE", "zset", "0", "-1", "WITHSCORES").AsZScores())
}

func (a *asOne) pipeline(e *expectations) {
	var commands rueidis.Commands
	for n := range 500 {
		key := fmt.Sprintf("pipe:%d", n)
		commands = append(commands, a.command("SET", key, fmt.Sprint(n)), a.command("GET", key))
	}
	replies := a.client.DoMulti(a.ctx, commands...)
	for n := range 500 {
		e.equal("SET", "OK")(replies[2*n].ToString())
		e.equal("GET", fmt.Sprint(n))(replies[2*n+1].ToString())
	}
	// Simultaneous requests of goroutines go out as one pipeline too.
	var tasks sync.WaitGroup
	values := make([]string, 50)
	for task := range values {
		tasks.Go(func() {
			for range 50 {
				values[task], _ = a.do("GET", fmt.Sprintf("pipe:%d", task)).ToString()
			}
		})
	}
	tasks.Wait()
	for task, value := range values {
		e.equal("GET of a goroutine", fmt.Sprint(task))(value, nil)
	}
}

// multiKey also has commands whose keys must be on one node of a Redis Cluster.
func (a *asOne) multiKey(e *expectations) {
	pairs, keys, expected := map[string]string{}, []string{}, map[string]string{}
	for n := range 100 {
		key := fmt.Sprintf("multi:%d", n)
		keys, pairs[key], expected[key] = append(keys, key), fmt.Sprint(n), fmt.Sprint(n)
	}
	for _, err := range rueidis.MSet(a.client, a.ctx, pairs) {
		e.noError("MSET", err)
	}
	messages, err := rueidis.MGet(a.client, a.ctx, keys)
	e.noError("MGET", err)
	for key, message := range messages {
		e.equal("MGET", expected[key])(message.ToString())
	}
	e.equal("RENAME", "OK")(a.do("RENAME", "multi:0", "multi:renamed").ToString())
	e.equal("MSETNX", int64(0))(a.do("MSETNX", "multi:1", "x", "multi:other", "y").AsInt64())
	union := []string{"SUNION"}
	for n := range 20 {
		key := fmt.Sprintf("multi:set:%d", n)
		e.equal("SADD", int64(2))(a.do("SADD", key, fmt.Sprint(n), fmt.Sprint(n+1)).AsInt64())
		union = append(union, key)
	}
	members, err := a.do(union...).AsStrSlice()
	e.equal("SUNION", 21)(len(members), err)
	e.equal("SINTERSTORE", int64(1))(a.do("SINTERSTORE", "multi:both", "multi:set:3", "multi:set:4").AsInt64())
	e.equal("SMEMBERS", []string{"4"})(a.do("SMEMBERS", "multi:both").AsStrSlice())
	e.equal("DEL", int64(99))(a.do(append([]string{"DEL"}, keys...)...).AsInt64())
}

func (a *asOne) scan(e *expectations) {
	expected, commands := []string{}, rueidis.Commands{}
	for n := range 1000 {
		key := fmt.Sprintf("scan:%d", n)
		expected, commands = append(expected, key), append(commands, a.command("SET", key, "x"))
	}
	a.client.DoMulti(a.ctx, commands...)
	var found []string
	scanner := rueidis.NewScanner(func(cursor uint64) (rueidis.ScanEntry, error) {
		return a.do("SCAN", fmt.Sprint(cursor), "MATCH", "scan:*", "COUNT", "100").AsScanEntry()
	})
	for key := range scanner.Iter() {
		found = append(found, key)
	}
	e.noError("SCAN", scanner.Err())
	slices.Sort(expected)
	slices.Sort(found)
	e.holds(slices.Equal(found, expected), "SCAN gives %d keys, not each of 1000 once", len(found))
}

func (a *asOne) scripts(e *expectations) {
	const source = "return {KEYS[1], redis.call('incrby', KEYS[1], ARGV[1])}"
	script := rueidis.NewLuaScript(source)
	// Tries EVALSHA, and EVAL where the shard does not have it. Enough keys that every shard runs it.
	for n := range 40 {
		key := fmt.Sprintf("script:%d", n)
		for _, sum := range []int64{7, 14} {
			reply, err := script.Exec(a.ctx, a.client, []string{key}, []string{"7"}).ToArray()
			e.noError("a script", err)
			e.holds(len(reply) == 2, "a script gives %v", reply)
			if e.err == nil {
				e.equal("its key", key)(reply[0].ToString())
				e.equal("its sum", sum)(reply[1].AsInt64())
			}
		}
	}
	digest, err := a.do("SCRIPT", "LOAD", source).ToString()
	e.noError("SCRIPT LOAD", err)
	e.equal("SCRIPT EXISTS", []int64{1, 0})(a.do("SCRIPT", "EXISTS", digest, strings.Repeat("0", 40)).AsIntSlice())
}

func (a *asOne) errors(e *expectations) {
	e.equal("SET", "OK")(a.do("SET", "errors", "x").ToString())
	e.fails("LPUSH", "WRONGTYPE", a.do("LPUSH", "errors", "x").Error())
	e.fails("INCR", "value is not an integer", a.do("INCR", "errors").Error())
	e.fails("no command", "unknown command", a.do("NOSUCH").Error())
	e.equal("GET behind errors", "x")(a.do("GET", "errors").ToString())
}

// transactions have keys of all shards: a part on each, with replies in the order of the commands.
func (a *asOne) transactions(e *expectations) {
	names := make([]string, 20)
	commands := []rueidis.Completed{a.command("MULTI")}
	for n := range names {
		names[n] = fmt.Sprintf("tx:%d", n)
		commands = append(commands, a.command("SET", names[n], fmt.Sprint(n)), a.command("INCR", names[n]))
	}
	replies := a.client.DoMulti(a.ctx, append(commands, a.command("EXEC"))...)
	executed, err := replies[len(replies)-1].ToArray()
	e.noError("EXEC", err)
	e.holds(len(executed) == 40, "EXEC gives %d replies", len(executed))
	for n := range len(executed) / 2 {
		e.equal("SET in it", "OK")(executed[2*n].ToString())
		e.equal("INCR in it", int64(n+1))(executed[2*n+1].AsInt64())
	}
	for _, written := range []string{"tx:3", "tx:19"} {
		// A connection of its own, for as long as keys are watched.
		err := a.client.Dedicated(func(own rueidis.DedicatedClient) error {
			own.Do(a.ctx, a.command(append([]string{"WATCH"}, names[:10]...)...))
			e.equal("SET by another", "OK")(a.do("SET", written, "100").ToString())
			replies := own.DoMulti(a.ctx, a.command("MULTI"), a.command("INCR", "tx:3"), a.command("INCR", "tx:4"), a.command("EXEC"))
			sums, err := replies[3].AsIntSlice()
			if written == "tx:3" {
				e.holds(rueidis.IsRedisNil(err), "a watched key was written, and EXEC gives %v, %v", sums, err)
			} else {
				e.equal("EXEC of nobody's keys", []int64{101, 6})(sums, err)
			}
			return nil
		})
		e.noError("a connection", err)
	}
}

func (a *asOne) blocking(e *expectations) {
	words := []string{"BLPOP"}
	for n := range 20 {
		words = append(words, fmt.Sprintf("blocking:%d", n))
	}
	popped := make(chan rueidis.RedisResult, 1)
	blpop := a.client.B().Arbitrary(append(words, "20")...).Blocking()
	go func() { popped <- a.client.Do(a.ctx, blpop) }()
	for a.ctx.Err() == nil {
		if list, _ := a.do("CLIENT", "LIST").ToString(); strings.Contains(list, " flags=b") {
			break
		}
		time.Sleep(time.Millisecond)
	}
	e.equal("RPUSH", int64(2))(a.do("RPUSH", "blocking:7", "x", "y").AsInt64())
	result := <-popped
	e.equal("BLPOP", []string{"blocking:7", "x"})(result.AsStrSlice())
	none := a.client.Do(a.ctx, a.client.B().Arbitrary("BRPOP", "blocking:none", "blocking:no", "0.01").Blocking())
	e.holds(rueidis.IsRedisNil(none.Error()), "BRPOP of nothing gives %v", none)
}

func (a *asOne) pubsub(e *expectations) {
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	told, ended := make(chan string, 200), make(chan error, 1)
	subscribe := a.client.B().Psubscribe().Pattern("news:*", "olds:*").Build()
	go func() {
		ended <- a.client.Receive(ctx, subscribe, func(message rueidis.PubSubMessage) {
			told <- message.Channel + " " + message.Message
		})
	}()
	for a.ctx.Err() == nil {
		if patterns, _ := a.do("PUBSUB", "NUMPAT").AsInt64(); patterns == 2 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	for n := range 100 {
		e.equal("PUBLISH", int64(1))(a.do("PUBLISH", "news:a", fmt.Sprint(n)).AsInt64())
	}
	e.equal("PUBLISH to nobody", int64(0))(a.do("PUBLISH", "other", "x").AsInt64())
	for n := range 100 {
		e.equal("a message in its turn", fmt.Sprintf("news:a %d", n))(<-told, nil)
	}
	cancel()
	e.fails("Receive", "context canceled", <-ended)
}

// caching reads through the client's cache, each key of which another client writes: nothing old may be left in it.
func (a *asOne) caching(e *expectations) {
	other := a.open(e)
	defer other.Close()
	for n := range 40 {
		key := fmt.Sprintf("cached:%d", n)
		read := func() rueidis.RedisResult {
			// CLIENT CACHING YES, MULTI, PTTL, GET, EXEC, unless it is in the cache.
			return a.client.DoCache(a.ctx, a.client.B().Get().Key(key).Cache(), time.Hour)
		}
		write := func(words ...string) {
			e.noError(words[0], other.Do(a.ctx, other.B().Arbitrary(words...).Build()).Error())
		}
		until := func(what string, holds func(rueidis.RedisResult) bool) {
			for !holds(read()) {
				if a.ctx.Err() != nil {
					e.holds(false, "the cache keeps an old value: %s", what)
					return
				}
				time.Sleep(time.Millisecond)
			}
			e.holds(read().IsCacheHit(), "what was read is not in the cache: %s", what)
		}
		is := func(value string) func(rueidis.RedisResult) bool {
			return func(result rueidis.RedisResult) bool {
				got, err := result.ToString()
				return err == nil && got == value
			}
		}
		isNil := func(result rueidis.RedisResult) bool { return rueidis.IsRedisNil(result.Error()) }
		until("no key", isNil)
		write("SET", key, "1")
		until("SET of a missing key", is("1"))
		write("APPEND", key, "2")
		until("APPEND", is("12"))
		write("DEL", key)
		until("DEL", isNil)
		write("SET", key, "3", "PX", "60")
		until("a key that will expire", func(result rueidis.RedisResult) bool { return is("3")(result) || isNil(result) })
		for a.ctx.Err() == nil && !isNil(read()) {
			time.Sleep(time.Millisecond)
		}
		write("SET", key, "4")
		until("SET of an expired key", is("4"))
	}
	// Many at a time, from the cache and not.
	var commands []rueidis.CacheableTTL
	for n := range 80 {
		commands = append(commands, rueidis.CT(a.client.B().Get().Key(fmt.Sprintf("cached:%d", n)).Cache(), time.Hour))
	}
	for n, result := range a.client.DoMultiCache(a.ctx, commands...) {
		e.holds(result.IsCacheHit() == (n < 40), "whether cached:%d is from the cache: %v", n, result.IsCacheHit())
		if n < 40 {
			e.equal("DoMultiCache", "4")(result.ToString())
		}
	}
}

// locks are rueidis's: keys in several shards, of which most must be had, and news of them by client-side caching.
func (a *asOne) locks(e *expectations) {
	const holders = 10
	counted := 0
	var tasks sync.WaitGroup
	failures := make(chan error, holders)
	for range holders {
		tasks.Go(func() {
			locker, err := rueidislock.NewLocker(rueidislock.LockerOption{ClientOption: a.options(), KeyMajority: 2})
			if err == nil {
				defer locker.Close()
				_, release, err2 := locker.WithContext(a.ctx, "lock")
				if err = err2; err == nil {
					// Without the lock some would be lost.
					before := counted
					time.Sleep(time.Millisecond)
					counted = before + 1
					release()
				}
			}
			failures <- err
		})
	}
	tasks.Wait()
	close(failures)
	for err := range failures {
		e.noError("a lock", err)
	}
	e.equal("what was counted", holders)(counted, nil)
}

func (a *asOne) reconnect(e *expectations) {
	e.noError("the restart", restart(a.world))
	for a.ctx.Err() == nil && a.do("SET", "reconnect", "again").Error() != nil {
		time.Sleep(10 * time.Millisecond)
	}
	for range 100 {
		e.equal("GET", "again")(a.do("GET", "reconnect").ToString())
	}
}

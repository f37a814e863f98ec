package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

func connect(w *world) error {
	e := &expectations{}
	e.equal("PING", "PONG")(w.rdb.Ping(w.ctx).Result())
	e.equal("ECHO", "hello")(w.rdb.Echo(w.ctx, "hello").Result())
	// A client with a name, in a database by number: more of the handshake.
	named := redis.NewClient(&redis.Options{Addr: w.rdb.Options().Addr, ClientName: "named", DB: 0})
	defer named.Close()
	e.equal("CLIENT GETNAME", "named")(named.ClientGetName(w.ctx).Result())
	greeting, err := w.rdb.Do(w.ctx, "HELLO").Result()
	e.noError("HELLO", err)
	fields, isMap := greeting.(map[any]any)
	e.holds(isMap, "HELLO gives %#v", greeting)
	e.equal("the protocol", int64(3))(fields["proto"], nil)
	return e.err
}

func plainStrings(w *world) error {
	e, rdb := &expectations{}, w.rdb
	binary := "\x00\r\n\xff$5\r\n*1\r\n"
	e.equal("SET", "OK")(rdb.Set(w.ctx, "string:binary", binary, 0).Result())
	e.equal("GET", binary)(rdb.Get(w.ctx, "string:binary").Result())
	e.equal("SET of nothing", "OK")(rdb.Set(w.ctx, "string:empty", "", 0).Result())
	e.equal("GET of nothing", "")(rdb.Get(w.ctx, "string:empty").Result())
	e.fails("GET of no key", redis.Nil.Error(), rdb.Get(w.ctx, "string:no").Err())
	e.equal("SETNX of a key", false)(rdb.SetNX(w.ctx, "string:binary", "x", 0).Result())
	e.equal("SETNX of no key", true)(rdb.SetNX(w.ctx, "string:new", "Grüße", 0).Result())
	e.equal("APPEND", int64(9))(rdb.Append(w.ctx, "string:new", "!!").Result())
	e.equal("GETRANGE", "Grüße")(rdb.GetRange(w.ctx, "string:new", 0, 6).Result())
	e.equal("SETRANGE", int64(9))(rdb.SetRange(w.ctx, "string:new", 7, "??").Result())
	e.equal("STRLEN", int64(9))(rdb.StrLen(w.ctx, "string:new").Result())
	e.equal("GETSET", "Grüße??")(rdb.GetSet(w.ctx, "string:new", "x").Result())
	e.equal("GETDEL", "x")(rdb.GetDel(w.ctx, "string:new").Result())
	e.equal("TYPE", "string")(rdb.Type(w.ctx, "string:empty").Result())
	return e.err
}

func hashes(w *world) error {
	e, rdb := &expectations{}, w.rdb
	e.equal("HSET", int64(2))(rdb.HSet(w.ctx, "hash", map[string]any{"a": 1, "b": "two"}).Result())
	e.equal("HGETALL", map[string]string{"a": "1", "b": "two"})(rdb.HGetAll(w.ctx, "hash").Result())
	e.equal("HGETALL of no key", map[string]string{})(rdb.HGetAll(w.ctx, "hash:no").Result())
	e.equal("HMGET", []any{"two", nil, "1"})(rdb.HMGet(w.ctx, "hash", "b", "no", "a").Result())
	e.equal("HINCRBY", int64(8))(rdb.HIncrBy(w.ctx, "hash", "a", 7).Result())
	e.equal("HINCRBYFLOAT", 8.5)(rdb.HIncrByFloat(w.ctx, "hash", "a", 0.5).Result())
	e.equal("HSETNX", false)(rdb.HSetNX(w.ctx, "hash", "a", "x").Result())
	e.equal("HEXISTS", true)(rdb.HExists(w.ctx, "hash", "b").Result())
	e.equal("HDEL", int64(1))(rdb.HDel(w.ctx, "hash", "b", "no").Result())
	e.equal("HKEYS", []string{"a"})(rdb.HKeys(w.ctx, "hash").Result())
	e.equal("HLEN", int64(1))(rdb.HLen(w.ctx, "hash").Result())
	var scanned struct {
		A float64 `redis:"a"`
	}
	e.noError("HGETALL into a struct", rdb.HGetAll(w.ctx, "hash").Scan(&scanned))
	e.equal("its field", 8.5)(scanned.A, nil)
	return e.err
}

func listsSetsZsets(w *world) error {
	e, rdb := &expectations{}, w.rdb
	e.equal("RPUSH", int64(4))(rdb.RPush(w.ctx, "list", "a", "b", "c", "d").Result())
	e.equal("LRANGE", []string{"a", "b", "c", "d"})(rdb.LRange(w.ctx, "list", 0, -1).Result())
	e.equal("LPOP", "a")(rdb.LPop(w.ctx, "list").Result())
	e.equal("RPOP of two", []string{"d", "c"})(rdb.RPopCount(w.ctx, "list", 2).Result())
	e.equal("LINSERT", int64(2))(rdb.LInsertBefore(w.ctx, "list", "b", "x").Result())
	e.equal("LINDEX", "x")(rdb.LIndex(w.ctx, "list", 0).Result())

	e.equal("SADD", int64(3))(rdb.SAdd(w.ctx, "set:{t}", 1, 2, 3).Result())
	e.equal("SADD of others", int64(2))(rdb.SAdd(w.ctx, "other:{t}", 3, 4).Result())
	e.equal("SINTER", []string{"3"})(rdb.SInter(w.ctx, "set:{t}", "other:{t}").Result())
	e.equal("SUNIONSTORE", int64(4))(rdb.SUnionStore(w.ctx, "both:{t}", "set:{t}", "other:{t}").Result())
	e.equal("SISMEMBER", true)(rdb.SIsMember(w.ctx, "both:{t}", 4).Result())
	e.equal("SREM", int64(1))(rdb.SRem(w.ctx, "both:{t}", 4, 5).Result())
	members, err := rdb.SMembersMap(w.ctx, "both:{t}").Result()
	e.equal("SMEMBERS", map[string]struct{}{"1": {}, "2": {}, "3": {}})(members, err)

	ranks := []redis.Z{{Member: "a", Score: 1.5}, {Member: "b", Score: -2}, {Member: "c", Score: 1e20}}
	e.equal("ZADD", int64(3))(rdb.ZAdd(w.ctx, "zset", ranks...).Result())
	inOrder := []redis.Z{{Member: "b", Score: -2}, {Member: "a", Score: 1.5}, {Member: "c", Score: 1e20}}
	e.equal("ZRANGE WITHSCORES", inOrder)(rdb.ZRangeWithScores(w.ctx, "zset", 0, -1).Result())
	e.equal("ZINCRBY", 4.0)(rdb.ZIncrBy(w.ctx, "zset", 2.5, "a").Result())
	e.equal("ZSCORE", 4.0)(rdb.ZScore(w.ctx, "zset", "a").Result())
	e.equal("ZRANK", int64(1))(rdb.ZRank(w.ctx, "zset", "a").Result())
	byScore := redis.ZRangeBy{Min: "(-2", Max: "+inf", Offset: 0, Count: 1}
	e.equal("ZRANGEBYSCORE", []string{"a"})(rdb.ZRangeByScore(w.ctx, "zset", &byScore).Result())
	e.equal("ZPOPMIN", []redis.Z{{Member: "b", Score: -2}})(rdb.ZPopMin(w.ctx, "zset").Result())
	return e.err
}

func countersExpiry(w *world) error {
	e, rdb := &expectations{}, w.rdb
	e.equal("INCR", int64(1))(rdb.Incr(w.ctx, "counter").Result())
	e.equal("INCRBY", int64(1<<53+2))(rdb.IncrBy(w.ctx, "counter", 1<<53+1).Result())
	e.equal("DECRBY", int64(-8))(rdb.DecrBy(w.ctx, "counter", 1<<53+10).Result())
	e.equal("INCRBYFLOAT", -7.75)(rdb.IncrByFloat(w.ctx, "counter", 0.25).Result())

	e.equal("TTL of a lasting key", time.Duration(-1))(rdb.TTL(w.ctx, "counter").Result())
	e.equal("TTL of no key", time.Duration(-2))(rdb.TTL(w.ctx, "counter:no").Result())
	e.equal("EXPIRE", true)(rdb.Expire(w.ctx, "counter", 100*time.Second).Result())
	left, err := rdb.PTTL(w.ctx, "counter").Result()
	e.noError("PTTL", err)
	e.holds(left > 0 && left <= 100*time.Second, "PTTL gives %v", left)
	e.equal("PERSIST", true)(rdb.Persist(w.ctx, "counter").Result())
	e.equal("SET EX", "OK")(rdb.Set(w.ctx, "counter", 1, 100*time.Second).Result())
	e.equal("TTL", 100*time.Second)(rdb.TTL(w.ctx, "counter").Result())
	e.equal("SET PX", "OK")(rdb.Set(w.ctx, "counter", 1, 30*time.Millisecond).Result())
	for w.ctx.Err() == nil && rdb.Exists(w.ctx, "counter").Val() == 1 {
		time.Sleep(time.Millisecond)
	}
	e.fails("GET of an expired key", redis.Nil.Error(), rdb.Get(w.ctx, "counter").Err())
	return e.err
}

// pipeline sends commands for all shards in one go, with an error in the middle.
func pipeline(w *world) error {
	e := &expectations{}
	var sets []*redis.StatusCmd
	var values []*redis.StringCmd
	var wrong *redis.IntCmd
	_, err := w.rdb.Pipelined(w.ctx, func(pipe redis.Pipeliner) error {
		for n := range 500 {
			sets = append(sets, pipe.Set(w.ctx, fmt.Sprintf("pipe:%d", n), n, 0))
			if n == 250 {
				wrong = pipe.LPush(w.ctx, "pipe:0", "x")
			}
			values = append(values, pipe.Get(w.ctx, fmt.Sprintf("pipe:%d", n)))
		}
		return nil
	})
	e.fails("the pipeline", "WRONGTYPE", err)
	e.fails("its LPUSH", "WRONGTYPE", wrong.Err())
	for n := range 500 {
		e.equal("a SET of the pipeline", "OK")(sets[n].Result())
		e.equal("a GET of the pipeline", n)(values[n].Int())
	}
	return e.err
}

func multiKey(w *world) error {
	e, rdb := &expectations{}, w.rdb
	var pairs, expected []any
	var keys []string
	for n := range 100 {
		key, value := fmt.Sprintf("multi:%d", n), fmt.Sprintf("value %d", n)
		pairs, keys, expected = append(pairs, key, value), append(keys, key), append(expected, value)
	}
	e.equal("MSET", "OK")(rdb.MSet(w.ctx, pairs...).Result())
	e.equal("MGET", append(expected, nil))(rdb.MGet(w.ctx, append(keys, "multi:no")...).Result())
	for n, key := range keys {
		e.equal("GET", expected[n].(string))(rdb.Get(w.ctx, key).Result())
	}
	e.equal("EXISTS", int64(101))(rdb.Exists(w.ctx, append(keys, "multi:no", "multi:7")...).Result())
	e.equal("TOUCH", int64(100))(rdb.Touch(w.ctx, append(keys, "multi:no")...).Result())
	e.equal("UNLINK", int64(50))(rdb.Unlink(w.ctx, keys[:50]...).Result())
	e.equal("DEL", int64(50))(rdb.Del(w.ctx, keys...).Result())
	e.equal("EXISTS at the end", int64(0))(rdb.Exists(w.ctx, keys...).Result())
	return e.err
}

func scan(w *world) error {
	e, rdb := &expectations{}, w.rdb
	fields, ranks := map[string]any{}, []redis.Z{}
	var members []any
	_, err := rdb.Pipelined(w.ctx, func(pipe redis.Pipeliner) error {
		for n := range 1000 {
			pipe.Set(w.ctx, fmt.Sprintf("scan:%d", n), n, 0)
			member := fmt.Sprintf("member:%d", n)
			fields[member], members = n, append(members, member)
			ranks = append(ranks, redis.Z{Member: member, Score: float64(n)})
		}
		pipe.HSet(w.ctx, "scanned:hash", fields)
		pipe.SAdd(w.ctx, "scanned:set", members...)
		pipe.ZAdd(w.ctx, "scanned:zset", ranks...)
		return nil
	})
	e.noError("the keys", err)
	for _, count := range []int64{10, 300} {
		e.once("SCAN", "scan:", 1, w, rdb.Scan(w.ctx, 0, "scan:*", count))
	}
	e.once("SCAN TYPE", "scan:", 1, w, rdb.ScanType(w.ctx, 0, "scan:*", 100, "string"))
	e.once("HSCAN", "member:", 2, w, rdb.HScan(w.ctx, "scanned:hash", 0, "", 100))
	e.once("SSCAN", "member:", 1, w, rdb.SScan(w.ctx, "scanned:set", 0, "", 100))
	e.once("ZSCAN", "member:", 2, w, rdb.ZScan(w.ctx, "scanned:zset", 0, "", 100))
	return e.err
}

// once walks the library's iterator over prefix0 to prefix999, each of which must come once. Every `stride`th is a
// name, the others are values or scores.
func (e *expectations) once(what, prefix string, stride int, w *world, page *redis.ScanCmd) {
	seen := map[string]int{}
	iterator := page.Iterator()
	for place := 0; iterator.Next(w.ctx); place++ {
		if place%stride == 0 {
			seen[iterator.Val()]++
		}
	}
	e.noError(what, iterator.Err())
	for n := range 1000 {
		name := fmt.Sprintf("%s%d", prefix, n)
		e.holds(seen[name] == 1, "%s gives %s %d times", what, name, seen[name])
	}
	e.holds(len(seen) == 1000, "%s gives %d names", what, len(seen))
}

func scripts(w *world) error {
	e, rdb := &expectations{}, w.rdb
	const source = "return {KEYS[1], ARGV[1], redis.call('incrby', KEYS[1], ARGV[1])}"
	script := redis.NewScript("return redis.call('incrby', KEYS[1], ARGV[1]) * 2")
	e.equal("EVAL", []any{"script:1", "5", int64(5)})(rdb.Eval(w.ctx, source, []string{"script:1"}, 5).Result())
	digest, err := rdb.ScriptLoad(w.ctx, source).Result()
	e.noError("SCRIPT LOAD", err)
	e.equal("SCRIPT EXISTS", []bool{true, false})(rdb.ScriptExists(w.ctx, digest, strings.Repeat("0", 40)).Result())
	// Enough keys that every shard runs it: it must have been loaded into all.
	for n := range 40 {
		key := fmt.Sprintf("script:sha:%d", n)
		e.equal("EVALSHA", []any{key, "7", int64(7)})(rdb.EvalSha(w.ctx, digest, []string{key}, 7).Result())
	}
	for n := range 40 {
		// Tries EVALSHA, and EVAL where the shard does not have it.
		key := fmt.Sprintf("script:object:%d", n)
		e.equal("a script object", 6)(script.Run(w.ctx, rdb, []string{key}, 3).Int())
		e.equal("a script object again", 12)(script.Run(w.ctx, rdb, []string{key}, 3).Int())
	}
	return e.err
}

func bigValues(w *world) error {
	e := &expectations{}
	for _, size := range []int{1 << 20, 20 << 20} {
		value := make([]byte, size)
		for at := range value {
			value[at] = byte(at ^ at>>8 ^ at>>16)
		}
		e.equal("SET", "OK")(w.rdb.Set(w.ctx, "big", value, 0).Result())
		stored, err := w.rdb.Get(w.ctx, "big").Bytes()
		e.noError("GET", err)
		e.holds(bytes.Equal(stored, value), "%d bytes came back as %d others", size, len(stored))
	}
	e.equal("DEL", int64(1))(w.rdb.Del(w.ctx, "big").Result())
	return e.err
}

func wrongTypes(w *world) error {
	e, rdb := &expectations{}, w.rdb
	e.equal("SET", "OK")(rdb.Set(w.ctx, "errors", "x", 0).Result())
	conn := rdb.Conn()
	defer conn.Close()
	for _, refused := range []struct {
		why string
		err error
	}{
		{"WRONGTYPE Operation against a key", conn.LPush(w.ctx, "errors", "x").Err()},
		{"ERR value is not an integer", conn.Incr(w.ctx, "errors").Err()},
		{"ERR unknown command", conn.Do(w.ctx, "NOSUCH", "x").Err()},
		{"ERR wrong number of arguments", conn.Do(w.ctx, "GET").Err()},
	} {
		e.fails("a wrong request", refused.why, refused.err)
		var fromServer redis.Error
		e.holds(errors.As(refused.err, &fromServer), "%v is no redis.Error", refused.err)
		e.equal("GET after it", "x")(conn.Get(w.ctx, "errors").Result())
	}
	return e.err
}

// concurrent has 50 goroutines share the client, which gives them connections of its pool.
func concurrent(w *world) error {
	failures := make(chan error, 50)
	var tasks sync.WaitGroup
	for task := range 50 {
		tasks.Add(1)
		go func() {
			defer tasks.Done()
			e := &expectations{}
			for n := range 50 {
				key, value := fmt.Sprintf("task:%d:%d", task, n), fmt.Sprintf("%d of %d", n, task)
				e.equal("SET", "OK")(w.rdb.Set(w.ctx, key, value, 0).Result())
				e.equal("GET", value)(w.rdb.Get(w.ctx, key).Result())
			}
			failures <- e.err
		}()
	}
	tasks.Wait()
	close(failures)
	var all []error
	for failure := range failures {
		all = append(all, failure)
	}
	return errors.Join(all...)
}

// cluster takes the port for one node of a Redis Cluster, as programs do that are configured for one.
func cluster(w *world) error {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{w.rdb.Options().Addr}})
	defer rdb.Close()
	e := &expectations{}
	for n := range 100 {
		e.equal("SET", "OK")(rdb.Set(w.ctx, fmt.Sprintf("cluster:%d", n), n, 0).Result())
	}
	var values []*redis.StringCmd
	_, err := rdb.Pipelined(w.ctx, func(pipe redis.Pipeliner) error {
		for n := range 100 {
			values = append(values, pipe.Get(w.ctx, fmt.Sprintf("cluster:%d", n)))
		}
		return nil
	})
	e.noError("the pipeline", err)
	for n := range 100 {
		e.equal("GET", n)(values[n].Int())
	}
	e.equal("MSET", "OK")(rdb.MSet(w.ctx, "a:{cluster}", 1, "b:{cluster}", 2).Result())
	e.equal("MGET", []any{"2", "1"})(rdb.MGet(w.ctx, "b:{cluster}", "a:{cluster}").Result())
	var nodes atomic.Int64
	e.noError("all nodes", rdb.ForEachShard(w.ctx, func(context.Context, *redis.Client) error {
		nodes.Add(1)
		return nil
	}))
	e.equal("the number of nodes", int64(1))(nodes.Load(), nil)
	return e.err
}

// reconnect repeats a request until it succeeds, as clients with retries do.
func reconnect(w *world) error {
	err := restart(w)
	if err != nil {
		return err
	}
	for start := time.Now(); time.Since(start) < 10*time.Second; time.Sleep(10 * time.Millisecond) {
		if err = w.rdb.Set(w.ctx, "reconnect", "again", 0).Err(); err == nil {
			e := &expectations{}
			for range 100 {
				e.equal("GET", "again")(w.rdb.Get(w.ctx, "reconnect").Result())
			}
			return e.err
		}
	}
	return fmt.Errorf("no answer 10 s after the restart: %w", err)
}

// restart asks the harness for the restart of its setup.
func restart(w *world) error {
	fmt.Println("restart?")
	if line, err := w.stdin.ReadString('\n'); err != nil || line != "restarted\n" {
		return fmt.Errorf("stdin says %q, %v", line, err)
	}
	return nil
}

// writes appends to lists while nodes cut connections. The library itself repeats requests that it takes for not carried out, by the
// words of the error: nothing may be there twice, and all that succeeded must be there.
func writes(w *world) error {
	const writers, cuts, between = 8, 30, 200
	var made atomic.Int64
	var isOver atomic.Bool
	var running sync.WaitGroup
	done := make([]map[string]bool, writers)
	failed := make([]int, writers)
	for n := range writers {
		done[n] = map[string]bool{}
		running.Add(1)
		go func() {
			defer running.Done()
			for id := 0; !isOver.Load(); id++ {
				element := fmt.Sprint(id)
				if w.rdb.RPush(w.ctx, fmt.Sprintf("writes:%d", n), element).Err() == nil {
					done[n][element] = true
				} else {
					failed[n]++
				}
				made.Add(1)
			}
		}()
	}
	var err error
	for range cuts {
		for before := made.Load(); made.Load() < before+between && w.ctx.Err() == nil; {
			time.Sleep(time.Millisecond)
		}
		if err = restart(w); err != nil {
			break
		}
	}
	isOver.Store(true)
	running.Wait()
	e := &expectations{err: err}
	for n := range writers {
		elements, err := w.rdb.LRange(w.ctx, fmt.Sprintf("writes:%d", n), 0, -1).Result()
		e.noError("LRANGE", err)
		times := map[string]int{}
		for _, element := range elements {
			times[element]++
			e.holds(times[element] == 1, "%s is there %d times", element, times[element])
		}
		for element := range done[n] {
			e.holds(times[element] == 1, "%s was acknowledged and is not there", element)
		}
		fmt.Fprintf(os.Stderr, "%d acknowledged, %d failed\n", len(done[n]), failed[n])
	}
	return e.err
}

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// transactions uses keys of one shard, but for the last, whose keys are apart.
func transactions(w *world) error {
	e, rdb := &expectations{}, w.rdb
	var incremented *redis.IntCmd
	var both *redis.StringSliceCmd
	_, err := rdb.TxPipelined(w.ctx, func(tx redis.Pipeliner) error {
		tx.Set(w.ctx, "tx:a{t}", 1, 0)
		incremented = tx.Incr(w.ctx, "tx:a{t}")
		tx.RPush(w.ctx, "tx:b{t}", "x", "y")
		both = tx.LRange(w.ctx, "tx:b{t}", 0, -1)
		return nil
	})
	e.noError("EXEC", err)
	e.equal("INCR in it", int64(2))(incremented.Result())
	e.equal("LRANGE in it", []string{"x", "y"})(both.Result())

	// A transaction that checks that no other client writes between its GET and its SET.
	double := func(meanwhile func() error) error {
		return rdb.Watch(w.ctx, func(tx *redis.Tx) error {
			value, err := tx.Get(w.ctx, "tx:a{t}").Int()
			if err := errors.Join(err, meanwhile()); err != nil {
				return err
			}
			_, err = tx.TxPipelined(w.ctx, func(pipe redis.Pipeliner) error {
				pipe.Set(w.ctx, "tx:a{t}", value*2, 0)
				return nil
			})
			return err
		}, "tx:a{t}")
	}
	lost := double(func() error { return rdb.Set(w.ctx, "tx:a{t}", 10, 0).Err() })
	e.holds(errors.Is(lost, redis.TxFailedErr), "a watched key was written, and EXEC gives %v", lost)
	e.noError("EXEC of nobody's key", double(func() error { return rdb.Set(w.ctx, "tx:b{t}", 10, 0).Err() }))
	e.equal("what was doubled", 20)(rdb.Get(w.ctx, "tx:a{t}").Int())

	_, err = rdb.TxPipelined(w.ctx, func(tx redis.Pipeliner) error {
		for n := range 20 {
			tx.Set(w.ctx, fmt.Sprintf("tx:apart:%d", n), "x", 0)
		}
		return nil
	})
	e.fails("EXEC over several shards", "EXECABORT", err)
	for n := range 20 {
		e.equal("what it left", int64(0))(rdb.Exists(w.ctx, fmt.Sprintf("tx:apart:%d", n)).Result())
	}
	return e.err
}

// blocking has one client wait for another's element.
func blocking(w *world) error {
	e, rdb := &expectations{}, w.rdb
	popped := make(chan *redis.StringSliceCmd, 1)
	go func() { popped <- rdb.BLPop(w.ctx, 20*time.Second, "blocking:a{t}", "blocking:b{t}") }()
	w.untilSomebodyWaits()
	e.equal("RPUSH", int64(2))(rdb.RPush(w.ctx, "blocking:b{t}", "x", "y").Result())
	e.equal("BLPOP", []string{"blocking:b{t}", "x"})((<-popped).Result())

	read := make(chan *redis.XStreamSliceCmd, 1)
	args := redis.XReadArgs{Streams: []string{"blocking:stream", "0"}, Block: 20 * time.Second}
	go func() { read <- rdb.XRead(w.ctx, &args) }()
	w.untilSomebodyWaits()
	added := redis.XAddArgs{Stream: "blocking:stream", Values: map[string]any{"field": "value"}}
	id, err := rdb.XAdd(w.ctx, &added).Result()
	e.noError("XADD", err)
	message := redis.XMessage{ID: id, Values: map[string]any{"field": "value"}}
	streams, err := (<-read).Result()
	e.noError("XREAD", err)
	e.holds(len(streams) == 1 && len(streams[0].Messages) == 1, "XREAD gives %#v", streams)
	if e.err == nil {
		e.equal("its message", message.ID)(streams[0].Messages[0].ID, nil)
		e.equal("its fields", message.Values)(streams[0].Messages[0].Values, nil)
	}

	// The library's shortest timeout is a second, except for commands that it does not know.
	e.fails("BRPOP of nothing", redis.Nil.Error(), rdb.Do(w.ctx, "BRPOP", "blocking:none", "0.01").Err())
	return e.err
}

// untilSomebodyWaits returns when CLIENT LIST has a client whose request waits, or at the end of the check's time.
func (w *world) untilSomebodyWaits() {
	for w.ctx.Err() == nil && !strings.Contains(w.rdb.ClientList(w.ctx).Val(), " flags=b ") {
		time.Sleep(time.Millisecond)
	}
}

// pubsub subscribes to channels and to a pattern, and unsubscribes.
func pubsub(w *world) error {
	e, rdb := &expectations{}, w.rdb
	subscription := rdb.Subscribe(w.ctx, "news:a", "news:b")
	defer subscription.Close()
	e.noError("PSUBSCRIBE", subscription.PSubscribe(w.ctx, "news:*"))
	for range 3 {
		confirmed, err := subscription.Receive(w.ctx)
		e.noError("a confirmation", err)
		_, isOne := confirmed.(*redis.Subscription)
		e.holds(isOne, "%#v is no confirmation", confirmed)
	}
	e.equal("PUBLISH", int64(2))(rdb.Publish(w.ctx, "news:a", "x").Result())
	e.equal("PUBLISH to the pattern", int64(1))(rdb.Publish(w.ctx, "news:other", "y").Result())
	// Between channels there is no order: each has its shard.
	var told []string
	for range 3 {
		message, err := subscription.ReceiveMessage(w.ctx)
		if err != nil {
			return err
		}
		told = append(told, message.Pattern+" "+message.Channel+" "+message.Payload)
	}
	slices.Sort(told)
	e.equal("the messages", []string{" news:a x", "news:* news:a x", "news:* news:other y"})(told, nil)

	e.noError("PUNSUBSCRIBE", subscription.PUnsubscribe(w.ctx, "news:*"))
	_, err := subscription.Receive(w.ctx)
	e.noError("a confirmation", err)
	for n := range 100 {
		e.noError("PUBLISH", rdb.Publish(w.ctx, "news:b", n).Err())
	}
	channel := subscription.Channel()
	for n := range 100 {
		select {
		case message := <-channel:
			e.equal("a message in its turn", fmt.Sprint(n))(message.Payload, nil)
		case <-w.ctx.Done():
			return w.ctx.Err()
		}
	}
	e.noError("UNSUBSCRIBE", subscription.Unsubscribe(w.ctx))
	for w.ctx.Err() == nil && rdb.Publish(w.ctx, "news:a", "z").Val() != 0 {
		time.Sleep(time.Millisecond)
	}
	e.equal("PUBLISH to nobody", int64(0))(rdb.Publish(w.ctx, "news:a", "z").Result())
	return e.err
}

// databases has clients in two of them, each of which finds its own.
func databases(w *world) error {
	e, rdb := &expectations{}, w.rdb
	e.equal("SET", "OK")(rdb.Set(w.ctx, "database", "zero", 0).Result())
	other := redis.NewClient(&redis.Options{Addr: rdb.Options().Addr, DB: 1})
	defer other.Close()
	e.fails("GET elsewhere", redis.Nil.Error(), other.Get(w.ctx, "database").Err())
	e.equal("SET elsewhere", "OK")(other.Set(w.ctx, "database", "one", 0).Result())
	e.equal("GET", "zero")(rdb.Get(w.ctx, "database").Result())
	conn := other.Conn()
	defer conn.Close()
	e.equal("SELECT", "OK")(conn.Select(w.ctx, 0).Result())
	e.equal("GET behind SELECT", "zero")(conn.Get(w.ctx, "database").Result())
	e.fails("SELECT of none", "DB index is out of range", conn.Select(w.ctx, 99).Err())
	return e.err
}

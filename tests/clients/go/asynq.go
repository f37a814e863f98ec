package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/hibiken/asynq"
)

const tasks = 1000

var queues = map[string]int{"first": 2, "second": 1}

// asynqChecks have asynq do tasks. Its scripts have several keys each, which share a hash tag per queue: `{first}`.
func asynqChecks(port string) []check {
	return []check{{"jobs", func(w *world) error { return jobs(w, asynq.RedisClientOpt{Addr: "127.0.0.1:" + port}) }}}
}

// jobs has each of the tasks done once. Task 0 fails, and is not repeated.
func jobs(w *world, redis asynq.RedisClientOpt) error {
	e := &expectations{}
	client := asynq.NewClient(redis)
	defer client.Close()
	for n := range tasks {
		payload, err := json.Marshal(n)
		e.noError("a number", err)
		options := []asynq.Option{asynq.Queue([]string{"first", "second"}[n%2]), asynq.Retention(time.Hour), asynq.MaxRetry(0)}
		if n >= 900 {
			// These go another way: into a sorted set, and to the queue when their time has come.
			options = append(options, asynq.ProcessIn(time.Millisecond))
		}
		if n%10 == 5 {
			options = append(options, asynq.TaskID(fmt.Sprintf("task:%d", n)))
		}
		_, err = client.Enqueue(asynq.NewTask("add", payload), options...)
		e.noError("Enqueue", err)
	}
	_, err := client.Enqueue(asynq.NewTask("add", []byte("5")), asynq.Queue("second"), asynq.TaskID("task:5"))
	e.holds(errors.Is(err, asynq.ErrTaskIDConflict), "a task's second Enqueue gives %v", err)

	done := doTasks(w, e, redis)
	expected := map[int]int{}
	for n := range tasks {
		expected[n] = 1
	}
	e.holds(maps.Equal(done, expected), "%d tasks were done, or some more than once", len(done))
	inspector := asynq.NewInspector(redis)
	defer inspector.Close()
	for queue, failed := range map[string]int{"first": 1, "second": 0} {
		info, err := inspector.GetQueueInfo(queue)
		e.noError("GetQueueInfo", err)
		if err == nil {
			counts := []int{info.Pending, info.Active, info.Scheduled, info.Retry, info.Archived, info.Completed}
			e.equal("counts of queue "+queue, []int{0, 0, 0, 0, failed, tasks/2 - failed})(counts, nil)
		}
	}
	return e.err
}

// doTasks runs a server until no task is left, and gives how often each was done.
func doTasks(w *world, e *expectations, redis asynq.RedisClientOpt) map[int]int {
	var lock sync.Mutex
	done := map[int]int{}
	server := asynq.NewServer(redis, asynq.Config{
		Concurrency: 10, Queues: queues, LogLevel: asynq.FatalLevel,
		TaskCheckInterval: 10 * time.Millisecond, DelayedTaskCheckInterval: 100 * time.Millisecond,
	})
	e.noError("Start", server.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		var n int
		if err := json.Unmarshal(task.Payload(), &n); err != nil {
			return err
		}
		lock.Lock()
		defer lock.Unlock()
		done[n]++
		if n == 0 {
			return errors.New("on purpose")
		}
		return nil
	})))
	for isDone := false; !isDone && w.ctx.Err() == nil; time.Sleep(time.Millisecond) {
		lock.Lock()
		isDone = len(done) == tasks
		lock.Unlock()
	}
	// Jobs in work are finished.
	server.Shutdown()
	return done
}

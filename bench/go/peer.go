// The actor and group workloads of pleach-bench in Go, as the same JSON lines, without a ratio.
//
//	apt-get install golang-go golang-golang-x-sync-dev
//	GO111MODULE=off GOPATH=/usr/share/gocode go run bench/go/peer.go
//
// An actor is a goroutine that reads a buffered channel; Go has no unbounded ones, so a mailbox holds
// 1,024 messages; that of an actor that gets none holds one. A group is an errgroup, whose tasks write their results into a slice: nothing can
// be read before `Wait`. The median of the rounds counts.
package main

import (
	"errors"
	"fmt"
	"runtime"
	"sort"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	rounds   = 10
	capacity = 1024
	crowd    = 1000
	ring     = 1000
)

type item [2]uint64

var sink uint64

func main() {
	runtime.GOMAXPROCS(2)
	measure("channels", "actor.tell_bounded1024_main", 200_000, func(ops int) { tell(ops, 1) })
	measure("channels", "actor.tell_4senders_main", 200_000, func(ops int) { tell(ops, 4) })
	measure("channels", "actor.ask", 50_000, ask)
	measure("channels", "actor.ring1000_named", 100_000, pass)
	measure("channels", "actor.spawn1000", 10_000, spawn)
	measure("channels", "actor.restart_error_awaited", 5_000, func(ops int) { restart(ops, false) })
	measure("channels", "actor.restart_panic_awaited", 5_000, func(ops int) { restart(ops, true) })
	measure("errgroup", "group.128_joined", 25_600, func(ops int) { group(ops, 128, -1) })
	measure("errgroup", "group.10k_joined", 50_000, func(ops int) { group(ops, 10_000, -1) })
	measure("errgroup", "group.10k_max4_joined", 20_000, func(ops int) { group(ops, 10_000, 4) })
}

func measure(of, workload string, ops int, run func(int)) {
	var samples []float64
	for round := 0; round < rounds; round++ {
		start := time.Now()
		run(ops)
		samples = append(samples, float64(time.Since(start).Nanoseconds())/float64(ops))
	}
	sort.Float64s(samples)
	median := (samples[rounds/2-1] + samples[rounds/2]) / 2
	fmt.Printf("{\"workload\":%q,\"peer\":\"go %s\",\"ns_per_op\":%.4f,\"ratio_to_floor\":null}\n", workload, of, median)
}

func tell(ops, senders int) {
	mailbox := make(chan item, capacity)
	for sender := 0; sender < senders; sender++ {
		go func() {
			for n := 0; n < ops/senders; n++ {
				mailbox <- item{uint64(n), uint64(n)}
			}
		}()
	}
	for n := 0; n < ops/senders*senders; n++ {
		sink += (<-mailbox)[0]
	}
}

type question struct {
	n     uint64
	reply chan uint64
}

func ask(ops int) {
	mailbox := make(chan question, capacity)
	go func() {
		for question := range mailbox {
			question.reply <- question.n + 1
		}
	}()
	for n := 0; n < ops; n++ {
		reply := make(chan uint64, 1)
		mailbox <- question{uint64(n), reply}
		sink += <-reply
	}
	close(mailbox)
}

func pass(ops int) {
	first, done := make(chan int, capacity), make(chan struct{})
	member := func(mailbox, next chan int) {
		for left := range mailbox {
			if left == 0 {
				close(done)
				return
			}
			next <- left - 1
		}
	}
	next := first
	for n := 1; n < ring; n++ {
		mailbox := make(chan int, capacity)
		go member(mailbox, next)
		next = mailbox
	}
	go member(first, next)
	first <- ops
	<-done
}

func spawn(ops int) {
	for batch := 0; batch < ops/crowd; batch++ {
		var ended sync.WaitGroup
		var mailboxes [crowd]chan item
		for n := range mailboxes {
			mailbox := make(chan item, 1)
			mailboxes[n] = mailbox
			ended.Add(1)
			go func() {
				defer ended.Done()
				for item := range mailbox {
					sink += item[0]
				}
			}()
		}
		for _, mailbox := range mailboxes {
			close(mailbox)
		}
		ended.Wait()
	}
}

var failed = errors.New("failed")

func restart(ops int, panics bool) {
	for n := 0; n < ops; n++ {
		mailbox, ended := make(chan item, 1), make(chan error, 1)
		go func() {
			defer func() {
				if reason := recover(); reason != nil {
					ended <- fmt.Errorf("panic: %v", reason)
				}
			}()
			<-mailbox
			if panics {
				panic("message")
			}
			ended <- failed
		}()
		mailbox <- item{uint64(n), uint64(n)}
		if <-ended == nil {
			panic("it did not fail")
		}
	}
}

func group(ops, tasks, limit int) {
	for batch := 0; batch < ops/tasks; batch++ {
		results := make([]uint64, tasks)
		var group errgroup.Group
		group.SetLimit(limit)
		for n := 0; n < tasks; n++ {
			n := n
			group.Go(func() error {
				results[n] = uint64(n)
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			panic(err)
		}
		for _, result := range results {
			sink += result
		}
	}
}

// Three Go clients behind one command shape, for compat_tests/test_go.py.
//
//	client NAME COMMAND BOOTSTRAP      NAME: franz, sarama or kafka-go
//
// The command's arguments are one line of JSON on stdin, its answer is lines of JSON on stdout. What each command takes and prints
// is written down in compat_tests/programs.py, for all programs. An error ends the program with status 1 and its text on stderr;
// only `admin` goes on after one, for there an error may be the expected answer.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Record is a record as it goes in and comes out; nil keys, values and header values are Kafka's nulls.
type Record struct {
	Partition   int32        `json:"partition"`
	Offset      int64        `json:"offset"`
	TimestampMs int64        `json:"timestamp_ms"`
	Key         *string      `json:"key"`
	Value       *string      `json:"value"`
	Headers     [][2]*string `json:"headers"`
}

// Send is a number of records, produced together by one producer.
type Send struct {
	Codec      string   `json:"codec"`
	Acks       string   `json:"acks"` // none, leader, all
	Idempotent bool     `json:"idempotent"`
	Records    []Record `json:"records"`
}

// Round is one transaction: records and, if a group is named, offsets of the group, by partition of the same topic.
type Round struct {
	Records []Record        `json:"records"`
	Commit  bool            `json:"commit"`
	Group   string          `json:"group"`
	Offsets map[int32]int64 `json:"offsets"`
}

// Args holds the arguments of all commands and administrative calls: each uses its own.
type Args struct {
	Topic       string            `json:"topic"`
	Group       string            `json:"group"`
	Sends       []Send            `json:"sends"`
	Id          string            `json:"transactional_id"`
	Rounds      []Round           `json:"rounds"`
	Committed   *bool             `json:"committed"` // nil: as the client does by itself
	Calls       []json.RawMessage `json:"calls"`
	Call        string            `json:"call"`
	Partition   int32             `json:"partition"`
	Partitions  []int32           `json:"partitions"`
	Count       int               `json:"count"`
	Offset      *int64            `json:"offset"`
	TimestampMs *int64            `json:"timestamp_ms"`
	At          string            `json:"at"`       // earliest, latest
	Balancer    string            `json:"balancer"` // range, server (the broker assigns), or empty: the client's own
	Settings    map[string]string `json:"settings"`
	Names       []string          `json:"names"`
	Offsets     map[int32]int64   `json:"offsets"`
	Ways        []Way             `json:"ways"`
}

// Client is one library under test.
type Client interface {
	// Produce returns the offset of each record, or -1 where the client is not told.
	Produce(ctx context.Context, topic string, send Send) ([]int64, error)
	// Consume emits Count records of the partitions, from the offset, the timestamp or the start on.
	Consume(ctx context.Context, args Args) error
	// Join is a member of a group until the context ends: emits assignments and records, commits after each record.
	Join(ctx context.Context, args Args) error
	// Transact does the rounds with one producer, and calls done with the offsets of each round's records.
	Transact(ctx context.Context, args Args, done func(offsets []int64)) error
	// Admin does one call. Its result is what programs.py says of that call.
	Admin(ctx context.Context, args Args) (any, error)
}

const callTimeout = 30 * time.Second

var output sync.Mutex

// emit prints one line of JSON, whole and at once.
func emit(line any) {
	encoded, err := json.Marshal(line)
	if err != nil {
		panic(err) // our own types always encode
	}
	output.Lock()
	defer output.Unlock()
	fmt.Println(string(encoded))
}

func emitAssigned(partitions []int32) {
	if partitions == nil {
		partitions = []int32{}
	}
	emit(map[string]any{"assigned": partitions})
}

func emitRecord(record Record) { emit(map[string]any{"record": record}) }

func bytesOf(text *string) []byte {
	if text == nil {
		return nil
	}
	return []byte(*text)
}

func textOf(raw []byte) *string {
	if raw == nil {
		return nil
	}
	text := string(raw)
	return &text
}

func unsupported(args Args) error { return fmt.Errorf("the client has no call for %s", args.Call) }

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: client NAME COMMAND BOOTSTRAP, and the arguments as a line of JSON on stdin")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(name, command, bootstrap string) error {
	stdin := bufio.NewReader(os.Stdin)
	if command == "behave" {
		return behave(name, stdin)
	}
	makers := map[string]func(string) (Client, error){"franz": newFranz, "sarama": newSarama, "kafka-go": newKafkaGo}
	maker, known := makers[name]
	if !known {
		return fmt.Errorf("no client %q", name)
	}
	client, err := maker(bootstrap)
	if err != nil {
		return err
	}
	line, err := stdin.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("no arguments on stdin: %w", err)
	}
	var args Args
	if err := json.Unmarshal(line, &args); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	switch command {
	case "produce":
		return produce(ctx, client, args)
	case "consume":
		return client.Consume(ctx, args)
	case "join":
		go func() { // stdin closed: leave
			_, _ = io.Copy(io.Discard, stdin)
			cancel()
		}()
		if err := client.Join(ctx, args); err != nil {
			return err
		}
		emit(map[string]any{"left": true})
		return nil
	case "transact":
		return client.Transact(ctx, args, func(offsets []int64) { emit(map[string]any{"offsets": offsets}) })
	case "admin":
		return admin(ctx, client, args)
	case "ways":
		return tryWays(ctx, maker, args.Ways)
	}
	return fmt.Errorf("no command %q", command)
}

func produce(ctx context.Context, client Client, args Args) error {
	for _, send := range args.Sends {
		offsets, err := client.Produce(ctx, args.Topic, send)
		if err != nil {
			return fmt.Errorf("%s, acks %s: %w", send.Codec, send.Acks, err)
		}
		emit(map[string]any{"offsets": offsets})
	}
	return nil
}

func admin(ctx context.Context, client Client, args Args) error {
	for _, raw := range args.Calls {
		var call Args
		if err := json.Unmarshal(raw, &call); err != nil {
			return err
		}
		limited, cancel := context.WithTimeout(ctx, callTimeout)
		result, err := client.Admin(limited, call)
		cancel()
		if err != nil {
			emit(map[string]any{"error": err.Error()})
		} else {
			emit(map[string]any{"result": result})
		}
	}
	return nil
}

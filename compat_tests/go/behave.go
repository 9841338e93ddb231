// The protocol of the drivers of compat_tests/behaviours, whose __init__.py has the calls and the settings: a line of JSON for each
// call, each in a goroutine of its own.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Ask is a call.
type Ask struct {
	Id        int      `json:"id"`
	Call      string   `json:"call"`
	Of        string   `json:"of"`
	Bootstrap string   `json:"bootstrap"`
	Topic     string   `json:"topic"`
	Values    []string `json:"values"`
	Settings  struct {
		Idempotent  *bool  `json:"idempotent"`
		Transaction string `json:"transactional_id"`
		DeliveryMs  int    `json:"delivery_ms"`
		RequestMs   int    `json:"request_ms"`
		Group       string `json:"group"`
		ClientId    string `json:"client_id"`
		InstanceId  string `json:"instance_id"`
		SessionMs   int    `json:"session_ms"`
		HeartbeatMs int    `json:"heartbeat_ms"`
		Reset       string `json:"reset"`
		Commit      string `json:"commit"`
	} `json:"settings"`
}

func milliseconds(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }

// Behaving is a library under test.
type Behaving struct {
	module  string
	produce func(ask Ask) (sender, error)
	consume func(ask Ask) (io.Closer, error)
}

// sender is a producer.
type sender interface {
	io.Closer
	// Send sends all values together: one result each.
	Send(ask Ask) []any
	Begin() error
	Commit() error
	Abort() error
}

var behaving = map[string]Behaving{
	"franz":  {"github.com/twmb/franz-go", franzSender, franzReader},
	"sarama": {"github.com/IBM/sarama", saramaSender, saramaReader},
}

// errorLine says what the client calls an error, and which code of Kafka's it has.
func errorLine(err error) map[string]any {
	line := map[string]any{"error": fmt.Sprintf("%T", err), "code": nil, "message": err.Error()}
	var ofFranz *kerr.Error
	var ofSarama sarama.KError
	if errors.As(err, &ofFranz) {
		line["error"], line["code"] = ofFranz.Message, ofFranz.Code
	} else if errors.As(err, &ofSarama) {
		line["error"], line["code"] = "sarama.KError", int(ofSarama)
	} else {
		var ofConsumer *sarama.ConsumerError
		if errors.As(err, &ofConsumer) { // which says only where
			line["error"] = fmt.Sprintf("%T", ofConsumer.Err)
		}
		for name, known := range sentinels {
			if errors.Is(err, known) {
				line["error"] = name
				return line
			}
		}
		var packet sarama.PacketDecodingError
		if errors.As(err, &packet) {
			line["error"] = "sarama.PacketDecodingError"
		} else if line["error"] == "*errors.errorString" || line["error"] == "*fmt.wrapError" {
			line["error"] = "error" // without a type or a name of its own
		}
	}
	return line
}

// sentinels are errors without a type of their own.
var sentinels = map[string]error{
	"kgo.ErrRecordTimeout":               kgo.ErrRecordTimeout,
	"kgo.ErrRecordRetries":               kgo.ErrRecordRetries,
	"kgo.ErrAborting":                    kgo.ErrAborting,
	"kgo.ErrClientClosed":                kgo.ErrClientClosed,
	"sarama.ErrOutOfBrokers":             sarama.ErrOutOfBrokers,
	"sarama.ErrClosedClient":             sarama.ErrClosedClient,
	"sarama.ErrNonTransactedProducer":    sarama.ErrNonTransactedProducer,
	"sarama.ErrTransitionNotAllowed":     sarama.ErrTransitionNotAllowed,
	"sarama.ErrTxnUnableToParseResponse": sarama.ErrTxnUnableToParseResponse,
	"sarama.ErrTransactionNotReady":      sarama.ErrTransactionNotReady,
	"io.EOF":                             io.EOF,
	"context.DeadlineExceeded":           context.DeadlineExceeded,
}

func emitEvent(of, event string, more map[string]any) {
	line := map[string]any{"of": of, "event": event}
	for name, value := range more {
		line[name] = value
	}
	emit(line)
}

func emitFailure(of, while string, err error) {
	line := errorLine(err)
	line["while"] = while
	emitEvent(of, "error", line)
}

type behaviour struct {
	library Behaving
	lock    sync.Mutex
	senders map[string]sender
	readers map[string]io.Closer
}

// behave answers calls until the lines end.
func behave(name string, lines *bufio.Reader) error {
	library, known := behaving[name]
	if !known {
		return fmt.Errorf("no behaviours of %q", name)
	}
	b := &behaviour{library: library, senders: map[string]sender{}, readers: map[string]io.Closer{}}
	decoder := json.NewDecoder(lines)
	for {
		var ask Ask
		if err := decoder.Decode(&ask); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		go func() {
			result, err := b.answer(ask)
			line := map[string]any{"result": result}
			if err != nil {
				line = errorLine(err)
			}
			line["id"] = ask.Id
			emit(line)
		}()
	}
}

func (b *behaviour) sender(of string) sender {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.senders[of]
}

func (b *behaviour) answer(ask Ask) (any, error) {
	switch ask.Call {
	case "version":
		return versionOf(b.library.module)
	case "producer":
		made, err := b.library.produce(ask)
		if err == nil {
			b.lock.Lock()
			b.senders[ask.Of] = made
			b.lock.Unlock()
		}
		return nil, err
	case "send":
		return b.sender(ask.Of).Send(ask), nil
	case "begin":
		return nil, b.sender(ask.Of).Begin()
	case "commit":
		return nil, b.sender(ask.Of).Commit()
	case "abort":
		return nil, b.sender(ask.Of).Abort()
	case "consumer":
		made, err := b.library.consume(ask)
		if err == nil {
			b.lock.Lock()
			b.readers[ask.Of] = made
			b.lock.Unlock()
		}
		return nil, err
	case "close":
		return nil, b.close(ask.Of)
	}
	return nil, fmt.Errorf("no call %q", ask.Call)
}

func (b *behaviour) close(of string) error {
	b.lock.Lock()
	var held io.Closer = b.readers[of]
	if made, is := b.senders[of]; is {
		held = made
	}
	delete(b.readers, of)
	delete(b.senders, of)
	b.lock.Unlock()
	return held.Close()
}

func versionOf(module string) (string, error) {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return dependency.Version, nil
		}
	}
	return "", fmt.Errorf("no %s in this program", module)
}

// franz-go behind the protocol of behave.go.
package main

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func franzOptions(ask Ask) []kgo.Opt {
	options := []kgo.Opt{kgo.SeedBrokers(ask.Bootstrap)}
	given := ask.Settings
	if given.ClientId != "" {
		options = append(options, kgo.ClientID(given.ClientId))
	}
	if given.RequestMs != 0 {
		options = append(options, kgo.RequestTimeoutOverhead(milliseconds(given.RequestMs)))
	}
	return options
}

type franzProducer struct{ client *kgo.Client }

func franzSender(ask Ask) (sender, error) {
	options := franzOptions(ask)
	given := ask.Settings
	if given.Idempotent != nil && !*given.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	if given.Transaction != "" {
		options = append(options, kgo.TransactionalID(given.Transaction))
	}
	if given.DeliveryMs != 0 {
		options = append(options, kgo.RecordDeliveryTimeout(milliseconds(given.DeliveryMs)))
	}
	if given.RequestMs != 0 { // it waits as long as the broker may take, and then the overhead
		options = append(options, kgo.ProduceRequestTimeout(milliseconds(given.RequestMs)))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	if given.Transaction != "" { // else it would begin with the first record
		if _, _, err := client.ProducerID(context.Background()); err != nil {
			client.Close()
			return nil, err
		}
	}
	return &franzProducer{client}, nil
}

func (p *franzProducer) Send(ask Ask) []any {
	ctx := context.Background()
	records := make([]*kgo.Record, len(ask.Values))
	for n, value := range ask.Values {
		records[n] = &kgo.Record{Topic: ask.Topic, Value: []byte(value)}
	}
	found := make([]any, len(records))
	var left sync.WaitGroup
	for n, record := range records {
		left.Add(1)
		p.client.Produce(ctx, record, func(record *kgo.Record, err error) {
			defer left.Done()
			if err != nil {
				found[n] = errorLine(err)
			} else {
				found[n] = map[string]any{"offset": record.Offset}
			}
		})
	}
	left.Wait()
	return found
}

func (p *franzProducer) Begin() error  { return p.client.BeginTransaction() }
func (p *franzProducer) Commit() error { return p.end(kgo.TryCommit) }
func (p *franzProducer) Abort() error  { return p.end(kgo.TryAbort) }

func (p *franzProducer) end(how kgo.TransactionEndTry) error {
	if err := p.client.Flush(context.Background()); err != nil {
		return err
	}
	return p.client.EndTransaction(context.Background(), how)
}

func (p *franzProducer) Close() error {
	p.client.Close()
	return nil
}

type franzConsumer struct {
	client *kgo.Client
	end    context.CancelFunc
	ended  chan struct{}
}

func franzReader(ask Ask) (io.Closer, error) {
	options := franzOptions(ask)
	given := ask.Settings
	if given.Group == "" {
		from := map[string]map[int32]kgo.Offset{ask.Topic: {0: kgo.NewOffset().At(0)}}
		options = append(options, kgo.ConsumePartitions(from))
	} else {
		options = append(options, franzMember(ask)...)
	}
	if given.Reset == "earliest" {
		options = append(options, kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	consumer := &franzConsumer{client, cancel, make(chan struct{})}
	go consumer.run(ctx, ask)
	return consumer, nil
}

func franzMember(ask Ask) []kgo.Opt {
	say := func(event string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
			emitEvent(ask.Of, event, map[string]any{"partitions": changed[ask.Topic]})
		}
	}
	given := ask.Settings
	options := []kgo.Opt{
		kgo.ConsumerGroup(given.Group),
		kgo.ConsumeTopics(ask.Topic),
		kgo.OnPartitionsAssigned(say("assigned")),
	}
	if given.Commit == "each" { // else its own functions commit
		lost := say("revoked")
		options = append(options, kgo.DisableAutoCommit(), kgo.OnPartitionsRevoked(lost), kgo.OnPartitionsLost(lost))
	}
	if given.InstanceId != "" {
		options = append(options, kgo.InstanceID(given.InstanceId))
	}
	if given.SessionMs != 0 {
		options = append(options, kgo.SessionTimeout(milliseconds(given.SessionMs)))
	}
	if given.HeartbeatMs != 0 {
		options = append(options, kgo.HeartbeatInterval(milliseconds(given.HeartbeatMs)))
	}
	return options
}

func (c *franzConsumer) run(ctx context.Context, ask Ask) {
	defer close(c.ended)
	for {
		fetches := c.client.PollFetches(ctx)
		if ctx.Err() != nil || fetches.IsClientClosed() {
			return
		}
		fetches.EachError(func(_ string, _ int32, err error) { emitFailure(ask.Of, "poll", err) })
		fetches.EachRecord(func(record *kgo.Record) {
			emitEvent(ask.Of, "record", map[string]any{"offset": record.Offset, "value": string(record.Value)})
			if ask.Settings.Commit != "each" {
				return
			}
			if err := c.client.CommitRecords(ctx, record); err != nil {
				emitFailure(ask.Of, "commit", err)
			} else {
				emitEvent(ask.Of, "committed", nil)
			}
		})
		if len(fetches.Errors()) > 0 {
			time.Sleep(milliseconds(100)) // an error that comes at once, again and again, would be all that is written
		}
	}
}

func (c *franzConsumer) Close() error {
	c.end()
	<-c.ended
	c.client.Close()
	return nil
}

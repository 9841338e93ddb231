// sarama behind the protocol of behave.go.
package main

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/IBM/sarama"
)

func saramaSettings(ask Ask) *sarama.Config {
	config := sarama.NewConfig()
	given := ask.Settings
	if given.ClientId != "" {
		config.ClientID = given.ClientId
	}
	if given.RequestMs != 0 {
		config.Net.ReadTimeout = milliseconds(given.RequestMs)
	}
	return config
}

type saramaProducer struct{ sarama.SyncProducer }

func saramaSender(ask Ask) (sender, error) {
	config := saramaSettings(ask)
	config.Producer.Return.Successes = true // a synchronous producer asks for it
	given := ask.Settings
	if given.Idempotent != nil && *given.Idempotent || given.Transaction != "" { // what it asks for
		config.Producer.Idempotent = true
		config.Producer.RequiredAcks = sarama.WaitForAll
		config.Net.MaxOpenRequests = 1
	}
	if given.Transaction != "" {
		config.Producer.Transaction.ID = given.Transaction
	}
	producer, err := sarama.NewSyncProducer([]string{ask.Bootstrap}, config)
	if err != nil {
		return nil, err
	}
	return saramaProducer{producer}, nil
}

func (p saramaProducer) Send(ask Ask) []any {
	messages := make([]*sarama.ProducerMessage, len(ask.Values))
	for n, value := range ask.Values {
		messages[n] = &sarama.ProducerMessage{Topic: ask.Topic, Value: sarama.StringEncoder(value)}
	}
	err := p.SendMessages(messages)
	failed := map[*sarama.ProducerMessage]error{}
	var failures sarama.ProducerErrors
	if errors.As(err, &failures) {
		for _, failure := range failures {
			failed[failure.Msg] = failure.Err
		}
	}
	found := make([]any, len(messages))
	for n, message := range messages {
		switch {
		case failed[message] != nil:
			found[n] = errorLine(failed[message])
		case err != nil && len(failures) == 0:
			found[n] = errorLine(err)
		default:
			found[n] = map[string]any{"offset": message.Offset}
		}
	}
	return found
}

func (p saramaProducer) Begin() error  { return p.BeginTxn() }
func (p saramaProducer) Commit() error { return p.CommitTxn() }
func (p saramaProducer) Abort() error  { return p.AbortTxn() }

func saramaReader(ask Ask) (io.Closer, error) {
	config := saramaSettings(ask)
	config.Consumer.Return.Errors = true // else they are only logged
	given := ask.Settings
	if given.Reset == "earliest" {
		config.Consumer.Offsets.Initial = sarama.OffsetOldest
	}
	if given.Group == "" {
		return saramaPartition(ask, config)
	}
	if given.InstanceId != "" {
		config.Consumer.Group.InstanceId = given.InstanceId
		config.Version = sarama.V2_4_0_0
	}
	if given.SessionMs != 0 {
		config.Consumer.Group.Session.Timeout = milliseconds(given.SessionMs)
	}
	if given.HeartbeatMs != 0 {
		config.Consumer.Group.Heartbeat.Interval = milliseconds(given.HeartbeatMs)
	}
	if given.Commit == "each" {
		config.Consumer.Offsets.AutoCommit.Enable = false
	}
	group, err := sarama.NewConsumerGroup([]string{ask.Bootstrap}, given.Group, config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	member := &saramaBehaving{ask: ask, group: group, end: cancel}
	go func() {
		for failure := range group.Errors() {
			emitFailure(ask.Of, "poll", failure)
		}
	}()
	member.running.Go(func() {
		for ctx.Err() == nil {
			if err := group.Consume(ctx, []string{ask.Topic}, member); err != nil && ctx.Err() == nil {
				emitFailure(ask.Of, "join", err)
				return // as in its documentation: an error of Consume ends the application
			}
		}
	})
	return member, nil
}

type saramaBehaving struct {
	ask     Ask
	group   sarama.ConsumerGroup
	end     context.CancelFunc
	running sync.WaitGroup
}

func (m *saramaBehaving) Close() error {
	m.end()
	m.running.Wait()
	return m.group.Close()
}

func (m *saramaBehaving) Setup(session sarama.ConsumerGroupSession) error {
	emitEvent(m.ask.Of, "assigned", map[string]any{"partitions": session.Claims()[m.ask.Topic]})
	return nil
}

func (m *saramaBehaving) Cleanup(session sarama.ConsumerGroupSession) error {
	emitEvent(m.ask.Of, "revoked", map[string]any{"partitions": session.Claims()[m.ask.Topic]})
	return nil
}

func (m *saramaBehaving) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, more := <-claim.Messages():
			if !more {
				return nil
			}
			emitEvent(m.ask.Of, "record", map[string]any{"offset": message.Offset, "value": string(message.Value)})
			session.MarkMessage(message, "")
			if m.ask.Settings.Commit == "each" {
				session.Commit() // which returns nothing: errors come by Errors
				emitEvent(m.ask.Of, "committed", nil)
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

type saramaPartitionReader struct {
	consumer  sarama.Consumer
	partition sarama.PartitionConsumer
}

func saramaPartition(ask Ask, config *sarama.Config) (io.Closer, error) {
	consumer, err := sarama.NewConsumer([]string{ask.Bootstrap}, config)
	if err != nil {
		return nil, err
	}
	partition, err := consumer.ConsumePartition(ask.Topic, 0, 0)
	if err != nil {
		return nil, errors.Join(err, consumer.Close())
	}
	go func() {
		for message := range partition.Messages() {
			emitEvent(ask.Of, "record", map[string]any{"offset": message.Offset, "value": string(message.Value)})
		}
	}()
	go func() {
		for failure := range partition.Errors() {
			emitFailure(ask.Of, "poll", failure.Err)
		}
	}()
	return saramaPartitionReader{consumer, partition}, nil
}

func (r saramaPartitionReader) Close() error {
	return errors.Join(r.partition.Close(), r.consumer.Close())
}

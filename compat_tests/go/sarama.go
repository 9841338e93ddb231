// IBM sarama: SyncProducer, Consumer, ConsumerGroup and ClusterAdmin.
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

type saramaClient struct{ bootstrap string }

func newSarama(bootstrap string) (Client, error) { return saramaClient{bootstrap}, nil }

// config with the newest protocol the library speaks: its default is 2.8's.
func (s saramaClient) config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.MaxWaitTime = 100 * time.Millisecond // a commit waits for a fetch on the same connection
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Heartbeat.Interval = 200 * time.Millisecond
	config.Consumer.Group.Rebalance.Retry.Backoff = 100 * time.Millisecond // of 2 s
	config.Consumer.Retry.Backoff = 100 * time.Millisecond                 // of 2 s
	if way != nil {
		way.saramaConfig(config)
	}
	return config
}

func (w *Way) saramaConfig(config *sarama.Config) {
	config.Metadata.Retry.Max = 0
	config.Producer.Retry.Max = 0
	if w.encrypted() {
		config.Net.TLS.Enable = true
		config.Net.TLS.Config, _ = w.tls()
	}
	if w.logsIn() {
		config.Net.SASL.Enable = true
		config.Net.SASL.Mechanism = sarama.SASLMechanism(w.Mechanism)
		config.Net.SASL.User, config.Net.SASL.Password = w.Username, w.Password
		config.Net.SASL.TokenProvider = token(w.Token)
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
			hash := scram.SHA256
			if w.Mechanism == sarama.SASLTypeSCRAMSHA512 {
				hash = scram.SHA512
			}
			return &saramaScram{hash: hash}
		}
	}
}

type token string

func (t token) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(t)}, nil
}

// saramaScram is the SCRAM that its users plug in.
type saramaScram struct {
	hash         scram.HashGeneratorFcn
	conversation *scram.ClientConversation
}

func (s *saramaScram) Begin(user, password, authzID string) error {
	client, err := s.hash.NewClient(user, password, authzID)
	if err == nil {
		s.conversation = client.NewConversation()
	}
	return err
}

func (s *saramaScram) Step(challenge string) (string, error) { return s.conversation.Step(challenge) }

func (s *saramaScram) Done() bool { return s.conversation.Done() }

var saramaCodecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

var saramaAcks = map[string]sarama.RequiredAcks{
	"none": sarama.NoResponse, "leader": sarama.WaitForLocal, "all": sarama.WaitForAll,
}

func (s saramaClient) Produce(_ context.Context, topic string, send Send) ([]int64, error) {
	config := s.config()
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Compression = saramaCodecs[send.Codec]
	config.Producer.RequiredAcks = saramaAcks[send.Acks]
	config.Producer.Flush.Frequency = 20 * time.Millisecond
	if send.Idempotent {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewSyncProducer([]string{s.bootstrap}, config)
	if err != nil {
		return nil, err
	}
	messages := make([]*sarama.ProducerMessage, len(send.Records))
	for n, record := range send.Records {
		messages[n] = saramaMessage(topic, record)
	}
	err = producer.SendMessages(messages)
	offsets := make([]int64, len(messages))
	for n, message := range messages {
		offsets[n] = message.Offset
		if send.Acks == "none" {
			offsets[n] = -1
		}
	}
	return offsets, errors.Join(err, producer.Close())
}

func saramaMessage(topic string, record Record) *sarama.ProducerMessage {
	message := &sarama.ProducerMessage{
		Topic: topic, Partition: record.Partition, Timestamp: time.UnixMilli(record.TimestampMs),
	}
	if record.Key != nil {
		message.Key = sarama.StringEncoder(*record.Key)
	}
	if record.Value != nil {
		message.Value = sarama.StringEncoder(*record.Value)
	}
	for _, header := range record.Headers {
		message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(*header[0]), Value: bytesOf(header[1])})
	}
	return message
}

func recordOfSarama(message *sarama.ConsumerMessage) Record {
	record := Record{
		Partition:   message.Partition,
		Offset:      message.Offset,
		TimestampMs: message.Timestamp.UnixMilli(),
		Key:         textOf(message.Key),
		Value:       textOf(message.Value),
	}
	for _, header := range message.Headers {
		record.Headers = append(record.Headers, [2]*string{textOf(header.Key), textOf(header.Value)})
	}
	return record
}

func (s saramaClient) Transact(_ context.Context, args Args, done func([]int64)) error {
	config := s.config()
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = true
	config.Producer.Transaction.ID = args.Id
	config.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer([]string{s.bootstrap}, config)
	if err != nil {
		return err
	}
	for _, round := range args.Rounds {
		offsets, err := saramaRound(producer, args.Topic, round)
		if err != nil {
			return errors.Join(err, producer.Close())
		}
		done(offsets)
	}
	return producer.Close()
}

func saramaRound(producer sarama.SyncProducer, topic string, round Round) ([]int64, error) {
	if err := producer.BeginTxn(); err != nil {
		return nil, err
	}
	messages := make([]*sarama.ProducerMessage, len(round.Records))
	for n, record := range round.Records {
		messages[n] = saramaMessage(topic, record)
	}
	if err := producer.SendMessages(messages); err != nil {
		return nil, err
	}
	if round.Group != "" {
		committed := map[string][]*sarama.PartitionOffsetMetadata{}
		for partition, offset := range round.Offsets {
			committed[topic] = append(committed[topic], &sarama.PartitionOffsetMetadata{Partition: partition, Offset: offset})
		}
		if err := producer.AddOffsetsToTxn(committed, round.Group); err != nil {
			return nil, err
		}
	}
	end := producer.AbortTxn
	if round.Commit {
		end = producer.CommitTxn
	}
	if err := end(); err != nil {
		return nil, err
	}
	offsets := make([]int64, len(messages))
	for n, message := range messages {
		offsets[n] = message.Offset
	}
	return offsets, nil
}

func (s saramaClient) Consume(_ context.Context, args Args) error {
	config := s.config()
	if args.Committed != nil && *args.Committed {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	client, err := sarama.NewClient([]string{s.bootstrap}, config)
	if err != nil {
		return err
	}
	defer client.Close()
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return err
	}
	messages, failures := make(chan *sarama.ConsumerMessage), make(chan error)
	for _, partition := range args.Partitions {
		at := sarama.OffsetOldest
		if args.Offset != nil {
			at = *args.Offset
		}
		if args.TimestampMs != nil {
			if at, err = client.GetOffset(args.Topic, partition, *args.TimestampMs); err != nil {
				return err
			}
		}
		one, err := consumer.ConsumePartition(args.Topic, partition, at)
		if err != nil {
			return err
		}
		go func() {
			for failure := range one.Errors() {
				failures <- failure
			}
		}()
		go func() {
			for message := range one.Messages() {
				messages <- message
			}
		}()
	}
	for range args.Count {
		select {
		case message := <-messages:
			emitRecord(recordOfSarama(message))
		case failure := <-failures:
			return failure
		}
	}
	return nil
}

// saramaMember handles the claims of each generation.
type saramaMember struct{ topic string }

func (m saramaMember) Setup(session sarama.ConsumerGroupSession) error {
	partitions := session.Claims()[m.topic]
	slices.Sort(partitions)
	emitAssigned(partitions)
	return nil
}

func (m saramaMember) Cleanup(sarama.ConsumerGroupSession) error {
	emitAssigned(nil)
	return nil
}

func (m saramaMember) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		emitRecord(recordOfSarama(message))
		session.MarkMessage(message, "")
		session.Commit()
	}
	return nil
}

func (s saramaClient) Join(ctx context.Context, args Args) error {
	group, err := sarama.NewConsumerGroup([]string{s.bootstrap}, args.Group, s.config())
	if err != nil {
		return err
	}
	failures := make(chan error, 1)
	go func() {
		for failure := range group.Errors() {
			select {
			case failures <- failure:
			default:
			}
		}
	}()
	for ctx.Err() == nil {
		if err := group.Consume(ctx, []string{args.Topic}, saramaMember{args.Topic}); err != nil {
			return err
		}
		select {
		case failure := <-failures:
			return fmt.Errorf("in the group: %w", failure)
		default:
		}
	}
	return group.Close()
}

func (s saramaClient) Admin(_ context.Context, args Args) (any, error) {
	client, err := sarama.NewClient([]string{s.bootstrap}, s.config())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	admin, err := sarama.NewClusterAdminFromClient(client)
	if err != nil {
		return nil, err
	}
	for _, part := range []func(sarama.ClusterAdmin, Args) (any, bool, error){
		saramaTopics, saramaConfigs, saramaGroups, saramaCluster,
	} {
		if result, known, err := part(admin, args); known {
			return result, err
		}
	}
	return nil, unsupported(args)
}

func pointers(settings map[string]string) map[string]*string {
	out := map[string]*string{}
	for name, value := range settings {
		out[name] = &value
	}
	return out
}

func saramaTopics(admin sarama.ClusterAdmin, args Args) (any, bool, error) {
	switch args.Call {
	case "create_topic":
		detail := &sarama.TopicDetail{
			NumPartitions: int32(args.Count), ReplicationFactor: 1, ConfigEntries: pointers(args.Settings),
		}
		return nil, true, admin.CreateTopic(args.Topic, detail, false)
	case "delete_topic":
		return nil, true, admin.DeleteTopic(args.Topic)
	case "list_topics":
		topics, err := admin.ListTopics()
		names := []string{}
		for name := range topics {
			names = append(names, name)
		}
		return names, true, err
	case "describe_topic":
		topics, err := admin.DescribeTopics([]string{args.Topic})
		if err != nil {
			return nil, true, err
		}
		if topics[0].Err != sarama.ErrNoError {
			return nil, true, topics[0].Err
		}
		return len(topics[0].Partitions), true, nil
	case "create_partitions":
		return nil, true, admin.CreatePartitions(args.Topic, int32(args.Count), nil, false)
	case "delete_records":
		return nil, true, admin.DeleteRecords(args.Topic, map[int32]int64{args.Partition: *args.Offset})
	case "list_offsets":
		at := map[string]int64{"earliest": sarama.OffsetOldest, "latest": sarama.OffsetNewest}[args.At]
		if args.TimestampMs != nil {
			at = *args.TimestampMs
		}
		listed, err := admin.ListOffsets(map[string]map[int32]int64{args.Topic: {args.Partition: at}}, nil)
		if err != nil {
			return nil, true, err
		}
		found := listed[args.Topic][args.Partition]
		if !errors.Is(found.Err, sarama.ErrNoError) { // never nil
			return nil, true, found.Err
		}
		return found.Offset, true, nil
	}
	return nil, false, nil
}

func saramaConfigs(admin sarama.ClusterAdmin, args Args) (any, bool, error) {
	switch args.Call {
	case "describe_configs":
		resource := sarama.ConfigResource{Type: sarama.TopicResource, Name: args.Topic, ConfigNames: args.Names}
		entries, err := admin.DescribeConfig(resource)
		values := map[string]string{}
		for _, entry := range entries {
			values[entry.Name] = entry.Value
		}
		return values, true, err
	case "alter_configs":
		changes := map[string]sarama.IncrementalAlterConfigsEntry{}
		for name, value := range pointers(args.Settings) {
			changes[name] = sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: value}
		}
		return nil, true, admin.IncrementalAlterConfig(sarama.TopicResource, args.Topic, changes, false)
	case "replace_configs":
		return nil, true, admin.AlterConfig(sarama.TopicResource, args.Topic, pointers(args.Settings), false)
	}
	return nil, false, nil
}

func saramaLogDirs(admin sarama.ClusterAdmin, topic string) (map[int32]int64, error) {
	brokers, _, err := admin.DescribeCluster()
	if err != nil {
		return nil, err
	}
	ids := []int32{}
	for _, broker := range brokers {
		ids = append(ids, broker.ID())
	}
	dirs, err := admin.DescribeLogDirs(ids)
	sizes := map[int32]int64{}
	for _, found := range dirs {
		for _, dir := range found {
			for _, described := range dir.Topics {
				for _, partition := range described.Partitions {
					if described.Topic == topic {
						sizes[partition.PartitionID] += partition.Size
					}
				}
			}
		}
	}
	return sizes, err
}

func saramaGroups(admin sarama.ClusterAdmin, args Args) (any, bool, error) {
	switch args.Call {
	case "list_groups":
		groups, err := admin.ListConsumerGroups()
		names := []string{}
		for name := range groups {
			names = append(names, name)
		}
		return names, true, err
	case "describe_group":
		groups, err := admin.DescribeConsumerGroups([]string{args.Group})
		if err != nil {
			return nil, true, err
		}
		if groups[0].Err != sarama.ErrNoError {
			return nil, true, groups[0].Err
		}
		return map[string]any{"state": groups[0].State, "members": len(groups[0].Members)}, true, nil
	case "commit_offsets":
		offsets := map[int32]sarama.OffsetAndMetadata{}
		for partition, offset := range args.Offsets {
			offsets[partition] = sarama.OffsetAndMetadata{Offset: offset}
		}
		response, err := admin.AlterConsumerGroupOffsets(args.Group, map[string]map[int32]sarama.OffsetAndMetadata{args.Topic: offsets}, nil)
		if err != nil {
			return nil, true, err
		}
		for partition, code := range response.Errors[args.Topic] {
			if code != sarama.ErrNoError {
				return nil, true, fmt.Errorf("partition %d: %w", partition, code)
			}
		}
		return nil, true, nil
	case "fetch_offsets":
		response, err := admin.ListConsumerGroupOffsets(args.Group, map[string][]int32{args.Topic: args.Partitions})
		if err != nil {
			return nil, true, err
		}
		offsets := map[int32]int64{}
		for partition, block := range response.Blocks[args.Topic] {
			if block.Offset >= 0 {
				offsets[partition] = block.Offset
			}
		}
		return offsets, true, nil
	case "delete_offsets":
		return nil, true, admin.DeleteConsumerGroupOffset(args.Group, args.Topic, args.Partition)
	case "delete_group":
		return nil, true, admin.DeleteConsumerGroup(args.Group)
	}
	return nil, false, nil
}

func saramaCluster(admin sarama.ClusterAdmin, args Args) (any, bool, error) {
	switch args.Call {
	case "describe_cluster":
		brokers, controller, err := admin.DescribeCluster()
		ids := []int32{}
		for _, broker := range brokers {
			ids = append(ids, broker.ID())
		}
		return map[string]any{"controller": controller, "brokers": ids}, true, err
	case "log_dirs":
		sizes, err := saramaLogDirs(admin, args.Topic)
		return sizes, true, err
	case "elect_leaders":
		results, err := admin.ElectLeaders(sarama.PreferredElection, map[string][]int32{args.Topic: {args.Partition}})
		if err != nil {
			return nil, true, err
		}
		return int(results[args.Topic][args.Partition].ErrorCode), true, nil
	case "list_reassignments":
		moving, err := admin.ListPartitionReassignments(args.Topic, []int32{args.Partition})
		return len(moving[args.Topic]), true, err
	case "describe_quotas":
		anyUser := []sarama.QuotaFilterComponent{{EntityType: sarama.QuotaEntityUser, MatchType: sarama.QuotaMatchAny}}
		quotas, err := admin.DescribeClientQuotas(anyUser, false)
		return len(quotas), true, err
	}
	return nil, false, nil
}

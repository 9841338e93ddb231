// segmentio/kafka-go: Writer, Reader, ConsumerGroup, and Client to administer. It has no idempotent producer.
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	kafka "github.com/segmentio/kafka-go"
)

type kafkaGo struct {
	bootstrap string
	client    *kafka.Client
}

func newKafkaGo(bootstrap string) (Client, error) {
	return kafkaGo{bootstrap, &kafka.Client{Addr: kafka.TCP(bootstrap), Timeout: callTimeout}}, nil
}

var kafkaGoCodecs = map[string]kafka.Compression{
	"none": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
}

var kafkaGoAcks = map[string]kafka.RequiredAcks{
	"none": kafka.RequireNone, "leader": kafka.RequireOne, "all": kafka.RequireAll,
}

func (k kafkaGo) Produce(ctx context.Context, topic string, send Send) ([]int64, error) {
	if send.Idempotent {
		return nil, errors.New("kafka-go has no idempotent producer")
	}
	offsets := make([]int64, len(send.Records))
	placed := func(messages []kafka.Message, err error) {
		for _, message := range messages {
			place := message.WriterData.(place)
			offsets[place.index] = message.Offset
			if err != nil || send.Acks == "none" {
				offsets[place.index] = -1
			}
		}
	}
	writer := &kafka.Writer{
		Addr:         kafka.TCP(k.bootstrap),
		Topic:        topic,
		Balancer:     kafka.BalancerFunc(func(m kafka.Message, _ ...int) int { return int(m.WriterData.(place).partition) }),
		BatchTimeout: 20 * time.Millisecond,
		BatchSize:    len(send.Records), // or it makes more than one batch
		RequiredAcks: kafkaGoAcks[send.Acks],
		Compression:  kafkaGoCodecs[send.Codec],
		Completion:   placed,
	}
	messages := make([]kafka.Message, len(send.Records))
	for n, record := range send.Records {
		messages[n] = kafka.Message{
			Key:        bytesOf(record.Key),
			Value:      bytesOf(record.Value),
			Time:       time.UnixMilli(record.TimestampMs),
			WriterData: place{n, record.Partition},
		}
		for _, header := range record.Headers {
			messages[n].Headers = append(messages[n].Headers, kafka.Header{Key: *header[0], Value: bytesOf(header[1])})
		}
	}
	err := writer.WriteMessages(ctx, messages...)
	return offsets, errors.Join(err, writer.Close())
}

// place is what a message carries through the writer: its index among the records, and the partition it goes to.
type place struct {
	index     int
	partition int32
}

func recordOfKafkaGo(message kafka.Message) Record {
	record := Record{
		Partition:   int32(message.Partition),
		Offset:      message.Offset,
		TimestampMs: message.Time.UnixMilli(),
		Key:         textOf(message.Key),
		Value:       textOf(message.Value),
	}
	for _, header := range message.Headers {
		record.Headers = append(record.Headers, [2]*string{&header.Key, textOf(header.Value)})
	}
	return record
}

func (k kafkaGo) reader(topic string, partition int, committed bool) *kafka.Reader {
	isolation := kafka.ReadUncommitted
	if committed {
		isolation = kafka.ReadCommitted
	}
	return kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{k.bootstrap}, Topic: topic, Partition: partition, MaxWait: 100 * time.Millisecond, MaxBytes: 10e6,
		IsolationLevel: isolation,
	})
}

func (k kafkaGo) Transact(context.Context, Args, func([]int64)) error {
	return errors.New("kafka-go has no transactional producer")
}

func (k kafkaGo) Consume(ctx context.Context, args Args) error {
	messages, failures := make(chan kafka.Message), make(chan error)
	for _, partition := range args.Partitions {
		reader := k.reader(args.Topic, int(partition), args.Committed != nil && *args.Committed)
		defer reader.Close()
		var err error
		switch {
		case args.Offset != nil:
			err = reader.SetOffset(*args.Offset)
		case args.TimestampMs != nil:
			err = reader.SetOffsetAt(ctx, time.UnixMilli(*args.TimestampMs))
		}
		if err != nil {
			return err
		}
		go func() {
			for {
				message, err := reader.ReadMessage(ctx)
				if err != nil {
					failures <- err
					return
				}
				messages <- message
			}
		}()
	}
	for range args.Count {
		select {
		case message := <-messages:
			emitRecord(recordOfKafkaGo(message))
		case failure := <-failures:
			return failure
		}
	}
	return nil
}

// Join uses ConsumerGroup and not the Reader above it, for only that tells what is assigned.
func (k kafkaGo) Join(ctx context.Context, args Args) error {
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID:                args.Group,
		Brokers:           []string{k.bootstrap},
		Topics:            []string{args.Topic},
		HeartbeatInterval: 200 * time.Millisecond,
		StartOffset:       kafka.FirstOffset,
	})
	if err != nil {
		return err
	}
	for {
		generation, err := group.Next(ctx)
		if ctx.Err() != nil {
			return group.Close()
		}
		if err != nil {
			return err
		}
		partitions := []int32{}
		for _, assigned := range generation.Assignments[args.Topic] {
			partitions = append(partitions, int32(assigned.ID))
			generation.Start(func(ctx context.Context) { k.read(ctx, generation, args.Topic, assigned) })
		}
		slices.Sort(partitions)
		emitAssigned(partitions)
	}
}

// read one assigned partition until the generation ends. A commit that the ended generation refuses is the next one's to make.
func (k kafkaGo) read(ctx context.Context, generation *kafka.Generation, topic string, assigned kafka.PartitionAssignment) {
	reader := k.reader(topic, assigned.ID, false)
	defer reader.Close()
	if err := reader.SetOffset(assigned.Offset); err != nil {
		panic(err)
	}
	for {
		message, err := reader.ReadMessage(ctx)
		if err != nil {
			return
		}
		emitRecord(recordOfKafkaGo(message))
		if err := generation.CommitOffsets(map[string]map[int]int64{topic: {assigned.ID: message.Offset + 1}}); err != nil {
			return
		}
	}
}

func (k kafkaGo) Admin(ctx context.Context, args Args) (any, error) {
	for _, part := range []func(context.Context, Args) (any, bool, error){
		k.topics, k.configs, k.groups, k.groupOffsets, k.cluster,
	} {
		if result, known, err := part(ctx, args); known {
			return result, err
		}
	}
	return nil, unsupported(args)
}

func (k kafkaGo) topics(ctx context.Context, args Args) (any, bool, error) {
	switch args.Call {
	case "create_topic":
		config := kafka.TopicConfig{Topic: args.Topic, NumPartitions: args.Count, ReplicationFactor: 1}
		for name, value := range args.Settings {
			config.ConfigEntries = append(config.ConfigEntries, kafka.ConfigEntry{ConfigName: name, ConfigValue: value})
		}
		response, err := k.client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{config}})
		if err == nil {
			err = response.Errors[args.Topic]
		}
		return nil, true, err
	case "delete_topic":
		response, err := k.client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{args.Topic}})
		if err == nil {
			err = response.Errors[args.Topic]
		}
		return nil, true, err
	case "list_topics":
		response, err := k.client.Metadata(ctx, &kafka.MetadataRequest{})
		if err != nil {
			return nil, true, err
		}
		names := []string{}
		for _, topic := range response.Topics {
			names = append(names, topic.Name)
		}
		return names, true, nil
	case "describe_topic":
		response, err := k.client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{args.Topic}})
		if err != nil {
			return nil, true, err
		}
		return len(response.Topics[0].Partitions), true, response.Topics[0].Error
	case "create_partitions":
		wanted := []kafka.TopicPartitionsConfig{{Name: args.Topic, Count: int32(args.Count)}}
		response, err := k.client.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{Topics: wanted})
		if err == nil {
			err = response.Errors[args.Topic]
		}
		return nil, true, err
	case "list_offsets":
		offset, err := k.listOffset(ctx, args)
		return offset, true, err
	}
	return nil, false, nil
}

func (k kafkaGo) listOffset(ctx context.Context, args Args) (int64, error) {
	at := map[string]int64{"earliest": kafka.FirstOffset, "latest": kafka.LastOffset}[args.At]
	if args.TimestampMs != nil {
		at = *args.TimestampMs
	}
	asked := map[string][]kafka.OffsetRequest{args.Topic: {{Partition: int(args.Partition), Timestamp: at}}}
	response, err := k.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: asked})
	if err != nil {
		return 0, err
	}
	found := response.Topics[args.Topic][0]
	switch {
	case args.At == "earliest":
		return found.FirstOffset, found.Error
	case args.At == "latest":
		return found.LastOffset, found.Error
	}
	for offset := range found.Offsets {
		return offset, found.Error
	}
	return -1, found.Error
}

func (k kafkaGo) configs(ctx context.Context, args Args) (any, bool, error) {
	switch args.Call {
	case "describe_configs":
		resource := kafka.DescribeConfigRequestResource{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: args.Topic, ConfigNames: args.Names,
		}
		response, err := k.client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
			Resources: []kafka.DescribeConfigRequestResource{resource},
		})
		if err != nil {
			return nil, true, err
		}
		values := map[string]string{}
		for _, entry := range response.Resources[0].ConfigEntries {
			values[entry.ConfigName] = entry.ConfigValue
		}
		return values, true, response.Resources[0].Error
	case "alter_configs":
		resource := kafka.IncrementalAlterConfigsRequestResource{ResourceType: kafka.ResourceTypeTopic, ResourceName: args.Topic}
		for name, value := range args.Settings {
			change := kafka.IncrementalAlterConfigsRequestConfig{Name: name, Value: value, ConfigOperation: kafka.ConfigOperationSet}
			resource.Configs = append(resource.Configs, change)
		}
		response, err := k.client.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{
			Resources: []kafka.IncrementalAlterConfigsRequestResource{resource},
		})
		if err == nil {
			err = response.Resources[0].Error
		}
		return nil, true, err
	case "replace_configs":
		resource := kafka.AlterConfigRequestResource{ResourceType: kafka.ResourceTypeTopic, ResourceName: args.Topic}
		for name, value := range args.Settings {
			resource.Configs = append(resource.Configs, kafka.AlterConfigRequestConfig{Name: name, Value: value})
		}
		response, err := k.client.AlterConfigs(ctx, &kafka.AlterConfigsRequest{
			Resources: []kafka.AlterConfigRequestResource{resource},
		})
		if err != nil {
			return nil, true, err
		}
		for _, failure := range response.Errors {
			err = errors.Join(err, failure)
		}
		return nil, true, err
	}
	return nil, false, nil
}

func (k kafkaGo) groups(ctx context.Context, args Args) (any, bool, error) {
	switch args.Call {
	case "list_groups":
		response, err := k.client.ListGroups(ctx, &kafka.ListGroupsRequest{})
		if err != nil {
			return nil, true, err
		}
		names := []string{}
		for _, group := range response.Groups {
			names = append(names, group.GroupID)
		}
		return names, true, response.Error
	case "describe_group":
		response, err := k.client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{args.Group}})
		if err != nil {
			return nil, true, err
		}
		group := response.Groups[0]
		return map[string]any{"state": group.GroupState, "members": len(group.Members)}, true, group.Error
	case "delete_group":
		response, err := k.client.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{args.Group}})
		if err == nil {
			err = response.Errors[args.Group]
		}
		return nil, true, err
	}
	return nil, false, nil
}

func (k kafkaGo) groupOffsets(ctx context.Context, args Args) (any, bool, error) {
	switch args.Call {
	case "commit_offsets":
		request := kafka.OffsetCommitRequest{GroupID: args.Group, GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{}}
		for partition, offset := range args.Offsets {
			commit := kafka.OffsetCommit{Partition: int(partition), Offset: offset}
			request.Topics[args.Topic] = append(request.Topics[args.Topic], commit)
		}
		response, err := k.client.OffsetCommit(ctx, &request)
		if err != nil {
			return nil, true, err
		}
		for _, partition := range response.Topics[args.Topic] {
			err = errors.Join(err, partition.Error)
		}
		return nil, true, err
	case "fetch_offsets":
		asked := []int{}
		for _, partition := range args.Partitions {
			asked = append(asked, int(partition))
		}
		response, err := k.client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{
			GroupID: args.Group, Topics: map[string][]int{args.Topic: asked},
		})
		if err != nil {
			return nil, true, err
		}
		offsets := map[int]int64{}
		for _, partition := range response.Topics[args.Topic] {
			if partition.Error != nil {
				return nil, true, fmt.Errorf("partition %d: %w", partition.Partition, partition.Error)
			}
			if partition.CommittedOffset >= 0 {
				offsets[partition.Partition] = partition.CommittedOffset
			}
		}
		return offsets, true, response.Error
	case "delete_offsets":
		response, err := k.client.OffsetDelete(ctx, &kafka.OffsetDeleteRequest{
			GroupID: args.Group, Topics: map[string][]int{args.Topic: {int(args.Partition)}},
		})
		if err != nil {
			return nil, true, err
		}
		return nil, true, errors.Join(response.Error, response.Topics[args.Topic][0].Error)
	}
	return nil, false, nil
}

func (k kafkaGo) cluster(ctx context.Context, args Args) (any, bool, error) {
	switch args.Call {
	case "describe_cluster":
		response, err := k.client.Metadata(ctx, &kafka.MetadataRequest{})
		if err != nil {
			return nil, true, err
		}
		ids := []int{}
		for _, broker := range response.Brokers {
			ids = append(ids, broker.ID)
		}
		return map[string]any{"cluster_id": response.ClusterID, "controller": response.Controller.ID, "brokers": ids}, true, nil
	case "elect_leaders":
		response, err := k.client.ElectLeaders(ctx, &kafka.ElectLeadersRequest{
			Topic: args.Topic, Partitions: []int{int(args.Partition)}, Timeout: callTimeout,
		})
		if err != nil {
			return nil, true, err
		}
		var code kafka.Error
		errors.As(response.PartitionResults[0].Error, &code)
		return int(code), true, response.Error
	case "list_reassignments":
		asked := map[string]kafka.ListPartitionReassignmentsRequestTopic{
			args.Topic: {PartitionIndexes: []int{int(args.Partition)}},
		}
		response, err := k.client.ListPartitionReassignments(ctx, &kafka.ListPartitionReassignmentsRequest{
			Topics: asked, Timeout: callTimeout,
		})
		if err != nil {
			return nil, true, err
		}
		return len(response.Topics[args.Topic].Partitions), true, response.Error
	}
	return nil, false, nil
}

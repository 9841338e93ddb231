// franz-go: kgo to produce and consume, kadm to administer.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type franz struct{ bootstrap string }

func newFranz(bootstrap string) (Client, error) { return franz{bootstrap}, nil }

func (f franz) open(options ...kgo.Opt) (*kgo.Client, error) {
	options = append([]kgo.Opt{kgo.SeedBrokers(f.bootstrap)}, options...)
	if way != nil {
		options = append(options, kgo.RequestRetries(0))
		if way.encrypted() {
			config, err := way.tls()
			if err != nil {
				return nil, err
			}
			options = append(options, kgo.DialTLSConfig(config))
		}
		if way.logsIn() {
			options = append(options, kgo.SASL(franzLogin(way)))
		}
	}
	return kgo.NewClient(options...)
}

func franzLogin(way *Way) sasl.Mechanism {
	switch way.Mechanism {
	case "SCRAM-SHA-256":
		return scram.Auth{User: way.Username, Pass: way.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: way.Username, Pass: way.Password}.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Auth{Token: way.Token}.AsMechanism()
	}
	return plain.Auth{User: way.Username, Pass: way.Password}.AsMechanism()
}

// Check asks a broker for nothing: its answer, or why there is no connection, where producing would try again until the time is over.
func (f franz) Check(ctx context.Context) error {
	client, err := f.open()
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Ping(ctx)
}

var franzCodecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

var franzAcks = map[string]kgo.Acks{"none": kgo.NoAck(), "leader": kgo.LeaderAck(), "all": kgo.AllISRAcks()}

func (f franz) Produce(ctx context.Context, topic string, send Send) ([]int64, error) {
	options := []kgo.Opt{
		kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(franzCodecs[send.Codec]),
		kgo.RequiredAcks(franzAcks[send.Acks]),
		kgo.ProducerLinger(20 * time.Millisecond),
	}
	if !send.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := f.open(options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	records := make([]*kgo.Record, len(send.Records))
	for n, record := range send.Records {
		records[n] = franzRecord(record)
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return nil, err
	}
	offsets := make([]int64, len(records))
	for n, record := range records {
		offsets[n] = record.Offset
		if send.Acks == "none" {
			offsets[n] = -1
		}
	}
	return offsets, nil
}

func franzRecord(record Record) *kgo.Record {
	out := &kgo.Record{
		Partition: record.Partition,
		Timestamp: time.UnixMilli(record.TimestampMs),
		Key:       bytesOf(record.Key),
		Value:     bytesOf(record.Value),
	}
	for _, header := range record.Headers {
		out.Headers = append(out.Headers, kgo.RecordHeader{Key: *header[0], Value: bytesOf(header[1])})
	}
	return out
}

func recordOfFranz(record *kgo.Record) Record {
	out := Record{
		Partition:   record.Partition,
		Offset:      record.Offset,
		TimestampMs: record.Timestamp.UnixMilli(),
		Key:         textOf(record.Key),
		Value:       textOf(record.Value),
	}
	for _, header := range record.Headers {
		out.Headers = append(out.Headers, [2]*string{&header.Key, textOf(header.Value)})
	}
	return out
}

func (f franz) Consume(ctx context.Context, args Args) error {
	at := kgo.NewOffset().AtStart()
	if args.Offset != nil {
		at = kgo.NewOffset().At(*args.Offset)
	}
	if args.TimestampMs != nil {
		at = kgo.NewOffset().AfterMilli(*args.TimestampMs)
	}
	from := map[int32]kgo.Offset{}
	for _, partition := range args.Partitions {
		from[partition] = at
	}
	isolation := kgo.ReadUncommitted()
	if args.Committed != nil && *args.Committed {
		isolation = kgo.ReadCommitted()
	}
	assigned := kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{args.Topic: from})
	client, err := f.open(assigned, kgo.FetchIsolationLevel(isolation))
	if err != nil {
		return err
	}
	defer client.Close()
	for seen := 0; seen < args.Count; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(record *kgo.Record) { emitRecord(recordOfFranz(record)) })
		seen += fetches.NumRecords()
	}
	return nil
}

// Transact has no offsets of groups: they go with sessions of kgo's own, whose member does both.
func (f franz) Transact(ctx context.Context, args Args, done func([]int64)) error {
	client, err := f.open(
		kgo.DefaultProduceTopic(args.Topic), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID(args.Id),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	for _, round := range args.Rounds {
		if round.Group != "" {
			return errors.New("the client has no offsets in a plain transaction")
		}
		if err := client.BeginTransaction(); err != nil {
			return err
		}
		records := make([]*kgo.Record, len(round.Records))
		for n, record := range round.Records {
			records[n] = franzRecord(record)
		}
		if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return err
		}
		if err := client.EndTransaction(ctx, kgo.TransactionEndTry(round.Commit)); err != nil {
			return err
		}
		offsets := make([]int64, len(records))
		for n, record := range records {
			offsets[n] = record.Offset
		}
		done(offsets)
	}
	return nil
}

// commitWithin is how long a member waits for one commit: its broker may be away.
const commitWithin = 20 * time.Second

func (f franz) Join(ctx context.Context, args Args) error {
	var lock sync.Mutex
	owned := map[int32]bool{}
	change := func(owns bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
			lock.Lock()
			defer lock.Unlock()
			for _, partition := range changed[args.Topic] {
				if owns {
					owned[partition] = true
				} else {
					delete(owned, partition)
				}
			}
			emitAssigned(slices.Sorted(maps.Keys(owned)))
		}
	}
	options := []kgo.Opt{
		kgo.ConsumerGroup(args.Group),
		kgo.ConsumeTopics(args.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.HeartbeatInterval(200 * time.Millisecond),
		kgo.OnPartitionsAssigned(change(true)),
		kgo.OnPartitionsRevoked(change(false)),
		kgo.OnPartitionsLost(change(false)),
	}
	switch args.Balancer {
	case "range":
		options = append(options, kgo.Balancers(kgo.RangeBalancer()))
	case "server": // KIP-848; the balancer names the broker's assignor
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	}
	client, err := f.open(options...)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(record *kgo.Record) { emitRecord(recordOfFranz(record)) })
		// What was told is committed, also if this member is to leave meanwhile.
		committing, end := context.WithTimeout(context.WithoutCancel(ctx), commitWithin)
		err := client.CommitRecords(committing, fetches.Records()...)
		end()
		if err != nil && args.Balancer != "server" { // there, the broker dies and comes back
			return fmt.Errorf("commit: %w", err)
		}
		client.AllowRebalance()
	}
}

func (f franz) Admin(ctx context.Context, args Args) (any, error) {
	client, err := f.open()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	for _, part := range []func(context.Context, *kadm.Client, Args) (any, bool, error){
		franzTopics, franzConfigs, franzGroups, franzCluster,
	} {
		if result, known, err := part(ctx, admin, args); known {
			return result, err
		}
	}
	return nil, unsupported(args)
}

func franzTopics(ctx context.Context, admin *kadm.Client, args Args) (any, bool, error) {
	switch args.Call {
	case "create_topic":
		settings := map[string]*string{}
		for name, value := range args.Settings {
			settings[name] = &value
		}
		_, err := admin.CreateTopic(ctx, int32(args.Count), 1, settings, args.Topic)
		return nil, true, err
	case "delete_topic":
		_, err := admin.DeleteTopic(ctx, args.Topic)
		return nil, true, err
	case "list_topics":
		topics, err := admin.ListTopics(ctx)
		return topics.Names(), true, err
	case "describe_topic":
		topics, err := admin.ListTopics(ctx, args.Topic)
		if err == nil {
			err = topics.Error()
		}
		return len(topics[args.Topic].Partitions), true, err
	case "create_partitions":
		responses, err := admin.UpdatePartitions(ctx, args.Count, args.Topic)
		if err == nil {
			err = responses.Error()
		}
		return nil, true, err
	case "delete_records":
		offsets := kadm.Offsets{}
		offsets.AddOffset(args.Topic, args.Partition, *args.Offset, -1)
		responses, err := admin.DeleteRecords(ctx, offsets)
		if err == nil {
			err = responses.Error()
		}
		return nil, true, err
	case "list_offsets":
		offset, err := franzListOffset(ctx, admin, args)
		return offset, true, err
	}
	return nil, false, nil
}

func franzListOffset(ctx context.Context, admin *kadm.Client, args Args) (int64, error) {
	var listed kadm.ListedOffsets
	var err error
	switch {
	case args.TimestampMs != nil:
		listed, err = admin.ListOffsetsAfterMilli(ctx, *args.TimestampMs, args.Topic)
	case args.At == "earliest":
		listed, err = admin.ListStartOffsets(ctx, args.Topic)
	default:
		listed, err = admin.ListEndOffsets(ctx, args.Topic)
	}
	if err == nil {
		err = listed.Error()
	}
	found, _ := listed.Lookup(args.Topic, args.Partition)
	return found.Offset, err
}

func franzConfigs(ctx context.Context, admin *kadm.Client, args Args) (any, bool, error) {
	switch args.Call {
	case "describe_configs":
		resources, err := admin.DescribeTopicConfigs(ctx, args.Topic)
		if err != nil {
			return nil, true, err
		}
		resource, err := resources.On(args.Topic, nil)
		if err == nil {
			err = resource.Err
		}
		values := map[string]string{}
		for _, config := range resource.Configs {
			if slices.Contains(args.Names, config.Key) {
				values[config.Key] = config.MaybeValue()
			}
		}
		return values, true, err
	case "alter_configs", "replace_configs":
		var changes []kadm.AlterConfig
		for name, value := range args.Settings {
			changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value})
		}
		alter := admin.AlterTopicConfigs
		if args.Call == "replace_configs" {
			alter = admin.AlterTopicConfigsState
		}
		responses, err := alter(ctx, changes, args.Topic)
		if err == nil {
			_, err = responses.On(args.Topic, func(response *kadm.AlterConfigsResponse) error { return response.Err })
		}
		return nil, true, err
	}
	return nil, false, nil
}

func franzGroups(ctx context.Context, admin *kadm.Client, args Args) (any, bool, error) {
	switch args.Call {
	case "list_groups":
		groups, err := admin.ListGroups(ctx)
		return groups.Groups(), true, err
	case "describe_group":
		groups, err := admin.DescribeGroups(ctx, args.Group)
		if err == nil {
			err = groups.Error()
		}
		group := groups[args.Group]
		return map[string]any{"state": group.State, "members": len(group.Members)}, true, err
	case "commit_offsets":
		offsets := kadm.Offsets{}
		for partition, offset := range args.Offsets {
			offsets.AddOffset(args.Topic, partition, offset, -1)
		}
		return nil, true, admin.CommitAllOffsets(ctx, args.Group, offsets)
	case "fetch_offsets":
		offsets := map[int32]int64{}
		responses, err := admin.FetchOffsets(ctx, args.Group)
		if err == nil {
			err = responses.Error()
		}
		for partition, response := range responses[args.Topic] {
			offsets[partition] = response.At
		}
		return offsets, true, err
	case "delete_offsets":
		set := kadm.TopicsSet{}
		set.Add(args.Topic, args.Partition)
		responses, err := admin.DeleteOffsets(ctx, args.Group, set)
		if err == nil {
			err = responses.Error()
		}
		return nil, true, err
	case "delete_group":
		_, err := admin.DeleteGroup(ctx, args.Group)
		return nil, true, err
	}
	return nil, false, nil
}

func franzCluster(ctx context.Context, admin *kadm.Client, args Args) (any, bool, error) {
	one := kadm.TopicsSet{}
	one.Add(args.Topic, args.Partition)
	switch args.Call {
	case "describe_cluster":
		metadata, err := admin.BrokerMetadata(ctx)
		return map[string]any{
			"cluster_id": metadata.Cluster, "controller": metadata.Controller, "brokers": metadata.Brokers.NodeIDs(),
		}, true, err
	case "log_dirs":
		sizes := map[int32]int64{}
		dirs, err := admin.DescribeAllLogDirs(ctx, nil)
		for _, broker := range dirs {
			err = errors.Join(err, broker.Error())
			broker.EachPartition(func(p kadm.DescribedLogDirPartition) {
				if p.Topic == args.Topic {
					sizes[p.Partition] += p.Size
				}
			})
		}
		return sizes, true, err
	case "elect_leaders":
		results, err := admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, one)
		if err != nil {
			return nil, true, err
		}
		var code *kerr.Error
		if errors.As(results[args.Topic][args.Partition].Err, &code) {
			return code.Code, true, nil
		}
		return 0, true, nil
	case "list_reassignments":
		moving, err := admin.ListPartitionReassignments(ctx, one)
		return len(moving[args.Topic]), true, err
	case "describe_producers":
		topics, err := admin.DescribeProducers(ctx, one)
		found := topics[args.Topic].Partitions[args.Partition]
		return len(found.ActiveProducers), true, errors.Join(err, found.Err)
	case "describe_quotas":
		anyUser := []kadm.DescribeClientQuotaComponent{{Type: "user", MatchType: kmsg.QuotasMatchTypeAny}}
		quotas, err := admin.DescribeClientQuotas(ctx, false, anyUser)
		return len(quotas), true, err
	}
	return nil, false, nil
}

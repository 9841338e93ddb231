// @platformatic/kafka.

import { randomUUID } from 'node:crypto'

import { emit, encrypted, logsIn, offsetsFrom, text, tlsOf } from './client.mjs'
import { zstd } from './zstd.mjs'

const UNCOMMITTED = 0
const COMMITTED = 1
const ACKS = { none: 0, leader: 1, all: -1 }
const TOPIC = 2 // resource type
const EARLIEST = -2n
const LATEST = -1n
const ANY_NAME = 2 // match type of a quota's entity
const SET = 0 // operation of IncrementalAlterConfigs

export async function open(bootstrap, way) {
  await zstd() // before the library looks for it
  const secured = way ? { retries: 0 } : {}
  if (encrypted(way)) secured.tls = tlsOf(way)
  if (logsIn(way)) {
    const { mechanism, username, password, token } = way
    secured.sasl = token ? { mechanism, token } : { mechanism, username, password }
  }
  const options = { clientId: 'compat', bootstrapBrokers: [bootstrap], retryDelay: 100, ...secured }
  return new Client(await import('@platformatic/kafka'), options)
}

function toBuffer(data) {
  return data === null || data === undefined ? undefined : Buffer.from(data)
}

const serializers = { key: toBuffer, value: toBuffer, headerKey: toBuffer, headerValue: toBuffer }
const deserializers = { key: text, value: text, headerKey: text, headerValue: text }

function recordOf({ partition, offset, timestamp, key, value, headers }) {
  return { partition, offset, timestamp_ms: timestamp, key: text(key), value: text(value), headers: [...headers] }
}

class Client {
  constructor(library, options) {
    this.library = library
    this.options = options
  }

  async produce(topic, { codec, acks, idempotent, records }) {
    const producer = new this.library.Producer({ ...this.options, serializers, idempotent })
    const messages = records.map(({ partition, timestamp_ms, key, value, headers }) => ({
      topic,
      partition,
      timestamp: BigInt(timestamp_ms),
      key,
      value,
      headers: new Map(headers),
    }))
    const { offsets } = await producer.send({ messages, acks: ACKS[acks], compression: codec, idempotent })
    await producer.close()
    return offsetsFrom(
      records,
      (offsets ?? []).map(({ partition, offset }) => [partition, Number(offset)]),
    )
  }

  /** Its offsets of a group go with the messages of a consumer, so there are none here. */
  async transact({ topic, transactional_id, rounds }, done) {
    const producer = new this.library.Producer({
      ...this.options,
      serializers,
      idempotent: true,
      transactionalId: transactional_id,
    })
    for (const { records, commit, group } of rounds) {
      if (group) throw new Error('offsets need a consumer')
      const transaction = await producer.beginTransaction()
      const messages = records.map(({ partition, timestamp_ms, key, value }) => ({
        topic,
        partition,
        timestamp: BigInt(timestamp_ms),
        key,
        value,
      }))
      const { offsets } = await transaction.send({ messages, acks: ACKS.all })
      await (commit ? transaction.commit() : transaction.abort())
      const first = offsets.map(({ partition, offset }) => [partition, Number(offset)])
      done(offsetsFrom(records, first))
    }
    await producer.close()
  }

  consumer(groupId) {
    return new this.library.Consumer({
      ...this.options,
      groupId,
      deserializers,
      autocommit: false,
      heartbeatInterval: 200,
      sessionTimeout: 30_000,
      rebalanceTimeout: 30_000,
      maxWaitTime: 100,
    })
  }

  /** It reads in groups only: here one of its own. Of partitions that are not asked for it stands at the end. */
  async consume({ topic, partitions, count, offset, timestamp_ms, committed }) {
    const consumer = this.consumer(randomUUID())
    const at = async (timestamp) => (await consumer.listOffsets({ topics: [topic], timestamp })).get(topic)
    const ends = await at(LATEST)
    const starts = await at(timestamp_ms === undefined ? EARLIEST : BigInt(timestamp_ms))
    const offsets = ends.map((end, partition) => {
      const start = offset === undefined ? starts[partition] : BigInt(offset)
      return { topic, partition, offset: partitions.includes(partition) ? start : end }
    })
    const isolationLevel = committed === false ? UNCOMMITTED : COMMITTED
    const stream = await consumer.consume({ topics: [topic], mode: 'manual', offsets, isolationLevel })
    let seen = 0
    for await (const message of stream) {
      emit({ record: recordOf(message) })
      if (++seen === count) break
    }
    await consumer.close(true)
  }

  async join({ group, topic }, closed) {
    const consumer = this.consumer(group)
    consumer.on('consumer:group:join', ({ assignments }) => {
      const own = (assignments ?? []).find((one) => one.topic === topic)
      emit({ assigned: [...(own?.partitions ?? [])].sort((a, b) => a - b) })
    })
    consumer.on('consumer:group:rebalance', () => emit({ assigned: [] }))
    const stream = await consumer.consume({ topics: [topic], mode: 'committed', fallbackMode: 'earliest' })
    closed.then(() => stream.close())
    for await (const message of stream) {
      emit({ record: recordOf(message) })
      await message.commit()
    }
    await consumer.close(true)
  }

  async admin(args) {
    const call = CALLS[args.call]
    if (!call) throw new Error(`@platformatic/kafka has no call for ${args.call}`)
    const admin = new this.library.Admin(this.options)
    try {
      return await call(admin, args)
    } finally {
      await admin.close()
    }
  }
}

function entries(settings) {
  return Object.entries(settings).map(([name, value]) => ({ name, value }))
}

const CALLS = {
  async create_topic(admin, { topic, count, settings }) {
    await admin.createTopics({ topics: [topic], partitions: count, replicas: 1, configs: entries(settings) })
  },
  delete_topic: (admin, { topic }) => admin.deleteTopics({ topics: [topic] }),
  list_topics: (admin) => admin.listTopics(),
  async describe_topic(admin, { topic }) {
    return (await admin.metadata({ topics: [topic], forceUpdate: true })).topics.get(topic).partitionsCount
  },
  create_partitions: (admin, { topic, count }) =>
    admin.createPartitions({ topics: [{ name: topic, count, assignments: null }] }),
  async delete_records(admin, { topic, partition, offset }) {
    await admin.deleteRecords({ topics: [{ name: topic, partitions: [{ partition, offset: BigInt(offset) }] }] })
  },
  async list_offsets(admin, { topic, partition, at, timestamp_ms }) {
    const timestamp = timestamp_ms !== undefined ? BigInt(timestamp_ms) : at === 'earliest' ? EARLIEST : LATEST
    const found = await admin.listOffsets({ topics: [{ name: topic, partitions: [{ partitionIndex: partition, timestamp }] }] })
    return found[0].partitions[0].offset
  },
  async describe_configs(admin, { topic, names }) {
    const found = await admin.describeConfigs({
      resources: [{ resourceType: TOPIC, resourceName: topic, configurationKeys: names }],
    })
    return Object.fromEntries(found[0].configs.map(({ name, value }) => [name, value]))
  },
  alter_configs: (admin, { topic, settings }) =>
    admin.incrementalAlterConfigs({
      resources: [
        {
          resourceType: TOPIC,
          resourceName: topic,
          configs: entries(settings).map((entry) => ({ ...entry, configOperation: SET })),
        },
      ],
    }),
  replace_configs: (admin, { topic, settings }) =>
    admin.alterConfigs({ resources: [{ resourceType: TOPIC, resourceName: topic, configs: entries(settings) }] }),
  async list_groups(admin) {
    return [...(await admin.listGroups()).keys()]
  },
  async describe_group(admin, { group }) {
    const found = (await admin.describeGroups({ groups: [group] })).get(group)
    const state = found.state.toLowerCase()
    return { state: state[0].toUpperCase() + state.slice(1), members: found.members.size }
  },
  commit_offsets: (admin, { group, topic, offsets }) =>
    admin.alterConsumerGroupOffsets({
      groupId: group,
      topics: [
        {
          name: topic,
          partitionOffsets: Object.entries(offsets).map(([partition, offset]) => ({
            partition: Number(partition),
            offset: BigInt(offset),
          })),
        },
      ],
    }),
  async fetch_offsets(admin, { group, topic, partitions }) {
    const groups = [{ groupId: group, topics: [{ name: topic, partitionIndexes: partitions }] }]
    const found = await admin.listConsumerGroupOffsets({ groups })
    const committed = found[0].topics[0].partitions.filter(({ committedOffset }) => committedOffset >= 0)
    return Object.fromEntries(committed.map(({ partitionIndex, committedOffset }) => [partitionIndex, committedOffset]))
  },
  async delete_offsets(admin, { group, topic, partition }) {
    await admin.deleteConsumerGroupOffsets({ groupId: group, topics: [{ name: topic, partitionIndexes: [partition] }] })
  },
  delete_group: (admin, { group }) => admin.deleteGroups({ groups: [group] }),
  async describe_cluster(admin) {
    const { id, controllerId, brokers } = await admin.metadata({ topics: [], forceUpdate: true })
    return { cluster_id: id, controller: controllerId, brokers: [...brokers.keys()] }
  },
  async log_dirs(admin, { topic }) {
    const { topics } = await admin.metadata({ topics: [topic], forceUpdate: true })
    const partitions = Array.from({ length: topics.get(topic).partitionsCount }, (_, partition) => partition)
    const sizes = {}
    for (const { results } of await admin.describeLogDirs({ topics: [{ name: topic, partitions }] })) {
      for (const dir of results) {
        for (const described of dir.topics.filter(({ name }) => name === topic)) {
          for (const { partitionIndex, partitionSize } of described.partitions) sizes[partitionIndex] = partitionSize
        }
      }
    }
    return sizes
  },
  async describe_quotas(admin) {
    return (await admin.describeClientQuotas({ components: [{ entityType: 'user', matchType: ANY_NAME }], strict: false })).length
  },
}

// kafkajs. Of the codecs it has only gzip itself; the others are plugged in, as its users do.

import { lz4Compress, lz4Decompress } from '@platformatic/wasm-utils'
import { randomUUID } from 'node:crypto'
import kafkajs from 'kafkajs'
import snappy from 'kafkajs-snappy'

import { emit, encrypted, logsIn, offsetsFrom, text, tlsOf } from './client.mjs'
import { zstd } from './zstd.mjs'

const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, Partitioners, logLevel } = kafkajs

const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}
const ACKS = { none: 0, leader: 1, all: -1 }

export async function open(bootstrap, way) {
  const { compress, decompress } = await zstd()
  CompressionCodecs[CompressionTypes.Snappy] = snappy
  CompressionCodecs[CompressionTypes.LZ4] = () => ({
    compress: async (encoder) => lz4Compress(encoder.buffer),
    decompress: async (data) => lz4Decompress(data),
  })
  CompressionCodecs[CompressionTypes.ZSTD] = () => ({
    compress: async (encoder) => compress(encoder.buffer),
    decompress: async (data) => decompress(data),
  })
  const secured = way ? { retry: { retries: 0 } } : {}
  if (encrypted(way)) secured.ssl = tlsOf(way)
  if (logsIn(way)) secured.sasl = loginOf(way)
  return new Client(
    new Kafka({ brokers: [bootstrap], clientId: 'compat', logLevel: logLevel.ERROR, logCreator: toStderr, ...secured }),
  )
}

function loginOf({ mechanism, username, password, token }) {
  const name = mechanism.toLowerCase()
  if (name === 'oauthbearer') return { mechanism: name, oauthBearerProvider: async () => ({ value: token }) }
  return { mechanism: name, username, password }
}

/** Stdout is for answers only. */
function toStderr() {
  return ({ label, log }) => console.error(label, log.message, log.error ?? '')
}

function recordOf(partition, { offset, timestamp, key, value, headers }) {
  return {
    partition,
    offset: Number(offset),
    timestamp_ms: Number(timestamp),
    key: text(key),
    value: text(value),
    headers: Object.entries(headers ?? {}).map(([name, raw]) => [name, text(raw)]),
  }
}

class Client {
  constructor(kafka) {
    this.kafka = kafka
  }

  async produce(topic, { codec, acks, idempotent, records }) {
    const producer = this.kafka.producer({
      idempotent,
      maxInFlightRequests: idempotent ? 1 : null,
      createPartitioner: Partitioners.DefaultPartitioner,
    })
    await producer.connect()
    const messages = records.map(({ partition, timestamp_ms, key, value, headers }) => ({
      partition,
      timestamp: String(timestamp_ms),
      key,
      value,
      headers: Object.fromEntries(headers),
    }))
    const placed = await producer.send({ topic, messages, acks: ACKS[acks], compression: CODECS[codec] })
    await producer.disconnect()
    const told = acks === 'none' ? [] : placed
    return offsetsFrom(
      records,
      told.map(({ partition, baseOffset }) => [partition, Number(baseOffset)]),
    )
  }

  async transact({ topic, transactional_id, rounds }, done) {
    const producer = this.kafka.producer({
      idempotent: true,
      maxInFlightRequests: 1,
      transactionalId: transactional_id,
      createPartitioner: Partitioners.DefaultPartitioner,
    })
    await producer.connect()
    for (const { records, commit, group, offsets } of rounds) {
      const transaction = await producer.transaction()
      const messages = records.map(({ partition, timestamp_ms, key, value }) => {
        return { partition, timestamp: String(timestamp_ms), key, value }
      })
      const placed = await transaction.send({ topic, messages, acks: -1 })
      if (group) {
        const partitions = Object.entries(offsets).map(([partition, offset]) => {
          return { partition: Number(partition), offset: String(offset) }
        })
        await transaction.sendOffsets({ consumerGroupId: group, topics: [{ topic, partitions }] })
      }
      await (commit ? transaction.commit() : transaction.abort())
      const first = placed.map(({ partition, baseOffset }) => [partition, Number(baseOffset)])
      done(offsetsFrom(records, first))
    }
    await producer.disconnect()
  }

  /** It reads in groups only: here one of its own, from which it is sent to the offsets. */
  async consume({ topic, partitions, count, offset, timestamp_ms, committed }) {
    const from = new Map(partitions.map((partition) => [partition, offset ?? 0]))
    if (timestamp_ms !== undefined) {
      const found = await this.withAdmin((admin) => admin.fetchTopicOffsetsByTimestamp(topic, timestamp_ms))
      for (const one of found) if (from.has(one.partition)) from.set(one.partition, Number(one.offset))
    }
    const consumer = this.consumer(randomUUID(), { readUncommitted: committed === false })
    await consumer.connect()
    await consumer.subscribe({ topic, fromBeginning: true })
    let seen = 0
    await new Promise((resolve, reject) => {
      consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
      const eachMessage = async ({ partition, message }) => {
        if (Number(message.offset) < (from.get(partition) ?? Infinity)) return // read ahead of the seek
        if (seen < count) emit({ record: recordOf(partition, message) })
        if (++seen === count) resolve()
      }
      consumer.run({ autoCommit: false, eachMessage }).catch(reject)
      for (const [partition, at] of from) consumer.seek({ topic, partition, offset: String(at) })
    })
    await consumer.disconnect()
  }

  consumer(groupId, more = {}) {
    return this.kafka.consumer({ groupId, heartbeatInterval: 200, maxWaitTimeInMs: 100, sessionTimeout: 30_000, ...more })
  }

  async join({ group, topic }, closed) {
    const consumer = this.consumer(group)
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      emit({ assigned: [...(payload.memberAssignment[topic] ?? [])].sort((a, b) => a - b) })
    })
    consumer.on(consumer.events.REBALANCING, () => emit({ assigned: [] }))
    await consumer.connect()
    await consumer.subscribe({ topic, fromBeginning: true })
    await consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        emit({ record: recordOf(partition, message) })
        await consumer.commitOffsets([{ topic, partition, offset: String(Number(message.offset) + 1) }])
      },
    })
    await closed
    await consumer.disconnect()
  }

  async withAdmin(job) {
    const admin = this.kafka.admin({ retry: { retries: 5 } })
    await admin.connect()
    try {
      return await job(admin)
    } finally {
      await admin.disconnect()
    }
  }

  async admin(args) {
    const call = CALLS[args.call]
    if (!call) throw new Error(`kafkajs has no call for ${args.call}`)
    return this.withAdmin((admin) => call(admin, args))
  }
}

const CALLS = {
  async create_topic(admin, { topic, count, settings }) {
    const configEntries = Object.entries(settings).map(([name, value]) => ({ name, value }))
    const created = await admin.createTopics({ topics: [{ topic, numPartitions: count, replicationFactor: 1, configEntries }] })
    if (!created) throw new Error(`${topic} exists`) // it has no error for this
  },
  delete_topic: (admin, { topic }) => admin.deleteTopics({ topics: [topic] }),
  list_topics: (admin) => admin.listTopics(),
  async describe_topic(admin, { topic }) {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    return topics[0].partitions.length
  },
  async create_partitions(admin, { topic, count }) {
    await admin.createPartitions({ topicPartitions: [{ topic, count }] })
  },
  async delete_records(admin, { topic, partition, offset }) {
    await admin.fetchTopicOffsets(topic) // it deletes only from topics whose metadata another call has loaded
    await admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: String(offset) }] })
  },
  async list_offsets(admin, { topic, partition, at, timestamp_ms }) {
    if (timestamp_ms !== undefined) {
      const found = await admin.fetchTopicOffsetsByTimestamp(topic, timestamp_ms)
      return Number(found.find((one) => one.partition === partition).offset)
    }
    const found = (await admin.fetchTopicOffsets(topic)).find((one) => one.partition === partition)
    return Number(at === 'earliest' ? found.low : found.high)
  },
  async describe_configs(admin, { topic, names }) {
    const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic, configNames: names }]
    const { resources: found } = await admin.describeConfigs({ includeSynonyms: false, resources })
    return Object.fromEntries(found[0].configEntries.map(({ configName, configValue }) => [configName, configValue]))
  },
  async replace_configs(admin, { topic, settings }) {
    const configEntries = Object.entries(settings).map(([name, value]) => ({ name, value }))
    await admin.alterConfigs({ validateOnly: false, resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }] })
  },
  async list_groups(admin) {
    return (await admin.listGroups()).groups.map(({ groupId }) => groupId)
  },
  async describe_group(admin, { group }) {
    const { groups } = await admin.describeGroups([group])
    return { state: groups[0].state, members: groups[0].members.length }
  },
  commit_offsets: (admin, { group, topic, offsets }) =>
    admin.setOffsets({
      groupId: group,
      topic,
      partitions: Object.entries(offsets).map(([partition, offset]) => ({ partition: Number(partition), offset: String(offset) })),
    }),
  async fetch_offsets(admin, { group, topic }) {
    const found = await admin.fetchOffsets({ groupId: group, topics: [topic] })
    const committed = found[0].partitions.filter(({ offset }) => Number(offset) >= 0)
    return Object.fromEntries(committed.map(({ partition, offset }) => [partition, Number(offset)]))
  },
  async delete_group(admin, { group }) {
    await admin.deleteGroups([group])
  },
  async describe_cluster(admin) {
    const { clusterId, controller, brokers } = await admin.describeCluster()
    return { cluster_id: clusterId, controller, brokers: brokers.map(({ nodeId }) => nodeId) }
  },
  async list_reassignments(admin, { topic, partition }) {
    const { topics } = await admin.listPartitionReassignments({ topics: [{ topic, partitions: [partition] }] })
    return topics.length
  },
}

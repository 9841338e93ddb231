// kafkajs behind the protocol of the drivers of compat_tests/behaviours (its __init__.py has the calls and the settings).

import kafkajs from 'kafkajs'
import { createRequire } from 'node:module'

import { emit, text } from './client.mjs'

const { Kafka, Partitioners, logLevel } = kafkajs
const open = new Map()

/** What kafkajs calls an error: Kafka's name where a broker said it, else the class. */
function describe(error) {
  const inner = error.cause ?? error.originalError
  const said = error.type ?? (inner && inner.type)
  return { error: error.name, code: error.code ?? inner?.code ?? null, said: said ?? null, message: error.message }
}

function kafkaOf({ bootstrap, settings }) {
  const { client_id: clientId, request_ms: requestTimeout } = settings
  return new Kafka({
    brokers: [bootstrap],
    logLevel: logLevel.NOTHING,
    ...(clientId && { clientId }),
    ...(requestTimeout && { requestTimeout }),
  })
}

async function producer(args) {
  const { idempotent, transactional_id: transactionalId } = args.settings
  const made = kafkaOf(args).producer({
    createPartitioner: Partitioners.DefaultPartitioner, // what it is by itself, and no warning
    ...(idempotent !== undefined && { idempotent }),
    ...(transactionalId && { transactionalId }),
  })
  await made.connect()
  open.set(args.of, { to: made, close: () => made.disconnect() })
}

async function send({ of, topic, values }) {
  const { to, transaction } = open.get(of)
  const all = values.map(async (value) => {
    const [placed] = await (transaction ?? to).send({ topic, messages: [{ partition: 0, value }] })
    return { offset: Number(placed.baseOffset) }
  })
  return (await Promise.allSettled(all)).map((one) => (one.status === 'fulfilled' ? one.value : describe(one.reason)))
}

/** It has a transaction as an object of its own. */
async function begin({ of }) {
  const held = open.get(of)
  held.transaction = await held.to.transaction()
}

async function end({ of }, how) {
  const held = open.get(of)
  const { transaction } = held
  await transaction[how]()
  held.transaction = undefined
}

async function consumer(args) {
  const { group: groupId, session_ms: sessionTimeout, heartbeat_ms: heartbeatInterval, reset, commit } = args.settings
  const say = (event, more) => emit({ of: args.of, event, ...more })
  const made = kafkaOf(args).consumer({
    groupId: groupId ?? `none-${args.of}`,
    ...(sessionTimeout && { sessionTimeout }),
    ...(heartbeatInterval && { heartbeatInterval }),
  })
  const { CRASH, GROUP_JOIN, REBALANCING } = made.events
  made.on(CRASH, ({ payload }) => say('error', { ...describe(payload.error), while: 'poll', restarts: payload.restart }))
  let owned = [] // it names no partitions when it gives them back
  made.on(GROUP_JOIN, ({ payload }) => {
    owned = payload.memberAssignment[args.topic] ?? []
    say('assigned', { partitions: owned })
  })
  made.on(REBALANCING, () => say('revoked', { partitions: owned }))
  open.set(args.of, { close: () => made.disconnect() })
  await made.connect()
  await made.subscribe({ topic: args.topic, fromBeginning: groupId === undefined || reset === 'earliest' })
  await made.run({
    ...(commit === 'each' && { autoCommit: false }),
    eachMessage: async ({ partition, message }) => {
      say('record', { offset: Number(message.offset), value: text(message.value) })
      if (commit !== 'each') return
      try {
        await made.commitOffsets([{ topic: args.topic, partition, offset: String(Number(message.offset) + 1) }])
        say('committed')
      } catch (error) {
        say('error', { ...describe(error), while: 'commit' })
        throw error // as an application does that does not catch it
      }
    },
  })
}

async function close({ of }) {
  const held = open.get(of)
  open.delete(of)
  await held.close()
}

const CALLS = {
  version: () => createRequire(import.meta.url)('kafkajs/package.json').version,
  producer,
  send,
  begin,
  commit: (args) => end(args, 'commit'),
  abort: (args) => end(args, 'abort'),
  consumer,
  close,
}

/** Answers calls, several at a time, until the lines end. */
export async function behave(lines) {
  process.on('unhandledRejection', () => {}) // a client that loses its broker leaves some behind
  lines.on('line', async (line) => {
    const args = JSON.parse(line)
    try {
      emit({ id: args.id, result: (await CALLS[args.call](args)) ?? null })
    } catch (error) {
      emit({ id: args.id, ...describe(error) })
    }
  })
  await new Promise((resolve) => lines.once('close', resolve))
}

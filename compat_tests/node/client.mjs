// kafkajs and @platformatic/kafka behind one command shape, for compat_tests/test_node.py.
//
//   node client.mjs NAME COMMAND BOOTSTRAP      NAME: kafkajs or platformatic
//
// The command's arguments are one line of JSON on stdin, its answer is lines of JSON on stdout. What each command takes and
// prints is written down in compat_tests/programs.py, for all programs. An error ends the program with status 1 and its text on
// stderr; only `admin` goes on after one, for there an error may be the expected answer.

import { createInterface } from 'node:readline'

const MODULES = { kafkajs: './kafkajs.mjs', platformatic: './platformatic.mjs' }

/** Whole lines; numbers of any width become JSON numbers. */
export function emit(line) {
  process.stdout.write(JSON.stringify(line, (_, value) => (typeof value === 'bigint' ? Number(value) : value)) + '\n')
}

/** The text of a Buffer or string, or null. */
export function text(raw) {
  return raw === null || raw === undefined ? null : raw.toString()
}

/** Offsets of one send's records: each partition counts on from the first offset it was given; -1 where none was. */
export function offsetsFrom(records, firstOffsets) {
  const next = new Map(firstOffsets)
  return records.map(({ partition }) => {
    if (!next.has(partition)) return -1
    const offset = next.get(partition)
    next.set(partition, offset + 1)
    return offset
  })
}

async function admin(client, calls) {
  for (const call of calls) {
    try {
      emit({ result: (await client.admin(call)) ?? null })
    } catch (error) {
      emit({ error: describe(error) })
    }
  }
}

/** An error with those that caused it. */
function describe(error) {
  const causes = [...(error.errors ?? []), ...(error.cause ? [error.cause] : [])]
  return [String(error.stack ?? error), ...causes.map(describe)].join('\n')
}

/** Sends a record each way and reads it again: the record and {"result": null}, or {"error": classes, "message": text}. */
async function tryWays(open, ways) {
  for (const way of ways) {
    let client
    try {
      client = await open(way.bootstrap, way)
      const sent = { partition: 0, timestamp_ms: Date.now(), key: null, value: 'secured', headers: [] }
      const [offset] = await client.produce(way.topic, { codec: 'none', acks: 'all', idempotent: false, records: [sent] })
      await client.consume({ topic: way.topic, partitions: [0], count: 1, offset })
      emit({ result: null })
    } catch (error) {
      emit({ error: [...new Set(classes(error))], message: describe(error) })
    }
    await client?.close?.()
  }
}

/** The names, codes and Kafka's own names in an error and in those that caused it. */
function classes(error) {
  const inner = [...(error.errors ?? []), error.cause, error.originalError].filter(Boolean)
  return [error.name, error.code, error.type, error.apiId, ...inner.flatMap(classes)].filter((one) => typeof one === 'string')
}

/** Whether a way is encrypted, and whether a client has to log in. */
export const encrypted = (way) => way?.protocol.endsWith('SSL') ?? false
export const logsIn = (way) => way?.protocol.startsWith('SASL_') ?? false

/** What Node's TLS takes. */
export function tlsOf({ authority, certificate, key }) {
  return certificate ? { ca: authority, cert: certificate, key } : { ca: authority }
}

async function main(name, command, bootstrap) {
  const behaviours = command === 'behave' ? await import('./behave.mjs') : null // before the first line comes
  const lines = createInterface({ input: process.stdin })
  if (behaviours) return behaviours.behave(lines)
  const closed = new Promise((resolve) => lines.once('close', resolve))
  const args = JSON.parse(await new Promise((resolve) => lines.once('line', resolve)))
  const { open } = await import(MODULES[name])
  if (command === 'ways') return tryWays(open, args.ways)
  const client = await open(bootstrap)
  if (command === 'produce') {
    for (const send of args.sends) emit({ offsets: await client.produce(args.topic, send) })
  } else if (command === 'consume') {
    await client.consume(args)
  } else if (command === 'join') {
    await client.join(args, closed)
    emit({ left: true })
  } else if (command === 'transact') {
    await client.transact(args, (offsets) => emit({ offsets }))
  } else if (command === 'admin') {
    await admin(client, args.calls)
  } else {
    throw new Error(`no command ${command}`)
  }
  await client.close?.()
}

if (process.argv.length !== 5) {
  console.error('usage: client.mjs NAME COMMAND BOOTSTRAP, and the arguments as a line of JSON on stdin')
  process.exit(2)
}
// Clients may leave timers and sockets behind; what they printed must be out before the end.
main(...process.argv.slice(2)).then(
  () => process.stdout.write('', () => process.exit(0)),
  (error) => process.stderr.write(describe(error) + '\n', () => process.exit(1)),
)

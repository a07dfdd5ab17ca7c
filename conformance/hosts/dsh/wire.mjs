// Owns the wire: JSON-RPC 2.0, one object a line, on standard input and output. Must never know what a message means, and lets nothing else write there.

import { writeSync } from 'node:fs'
import { createHook } from 'node:async_hooks'
import { inspect } from 'node:util'

/** Longest line in bytes. */
const LINE_LIMIT = 16 << 20

/** A request that cannot be served, with its JSON-RPC code. */
export class RpcError extends Error {
  constructor(code, message) {
    super(message)
    this.code = code
  }
}
export const INVALID_PARAMS = -32602
export const UNKNOWN_METHOD = -32601
export const INVALID_REQUEST = -32600

// Spans: V8 says when it enters and leaves each callback and promise reaction; what runs between, without one of these, is one uninterrupted span. Entries
// nest (a callback may run another scope synchronously), so leaving one returns to the span around it.
let spans = 0
let span = 0
const outer = []
createHook({
  before() {
    outer.push(span)
    spans += 1
    span = spans
  },
  after() {
    span = outer.pop() ?? 0
  },
}).enable()

const numbers = new Map()

/** The span that runs now: numbered from 1 in the order in which something is said of it, so that equal runs have equal numbers. */
export function currentSpan() {
  let number = numbers.get(span)
  if (number === undefined) {
    number = numbers.size + 1
    numbers.set(span, number)
  }
  return number
}

/** Says on standard error what people should know. */
export function note(text) {
  process.stderr.write(`dsh adapter: ${text}\n`)
}

const sleeper = new Int32Array(new SharedArrayBuffer(4))

// Synchronous, so that what was observed is out before the process can be killed.
function write(value) {
  const bytes = Buffer.from(`${JSON.stringify(value)}\n`)
  let done = 0
  while (done < bytes.length) {
    try {
      done += writeSync(1, bytes, done)
    } catch (error) {
      if (error.code === 'EAGAIN') Atomics.wait(sleeper, 0, 0, 1)
      else process.exit(error.code === 'EPIPE' ? 0 : 1)
    }
  }
}

let counter = 0
let sent = 0

/** Notifications sent so far. */
export function activity() {
  return sent
}

/** Sends one notification with the next logical counter. */
export function notify(method, params) {
  counter += 1
  sent += 1
  write({ jsonrpc: '2.0', method, params: { lc: counter, ...params } })
}

/** Redirects everything that libraries print. */
export function silence() {
  for (const level of ['log', 'info', 'debug', 'warn', 'error', 'trace', 'dir', 'table']) {
    console[level] = (...args) => note(args.map((arg) => (typeof arg === 'string' ? arg : inspect(arg))).join(' '))
  }
}

/**
 * Serves requests one after the other, each in a span of its own, until standard input ends. `methods` maps names to functions of the parameters; the next
 * request does not wait for the answer of those named in `concurrent`.
 */
export async function serve(methods, concurrent) {
  let tail = Buffer.alloc(0)
  for await (const chunk of process.stdin) {
    tail = tail.length === 0 ? chunk : Buffer.concat([tail, chunk])
    let start = 0
    for (let end = tail.indexOf(10); end !== -1; end = tail.indexOf(10, start)) {
      const line = tail.toString('utf8', start, end)
      start = end + 1
      if (line.trim() === '') continue
      const answered = answer(methods, line, concurrent)
      if (answered !== undefined) await answered
      if (tail.indexOf(10, start) !== -1) await new Promise((resolve) => setImmediate(resolve))
    }
    tail = tail.subarray(start)
    if (tail.length > LINE_LIMIT) throw new Error(`a line is longer than ${LINE_LIMIT} bytes`)
  }
}

function answer(methods, line, concurrent) {
  let request
  try {
    request = JSON.parse(line)
  } catch (error) {
    write({ jsonrpc: '2.0', id: null, error: { code: -32700, message: `not JSON: ${error.message}` } })
    return undefined
  }
  const id = request?.id
  const reply = (body) => {
    if (id !== undefined) write({ jsonrpc: '2.0', id, ...body })
    else if (body.error !== undefined) note(`notification ${request?.method}: ${body.error.message}`)
  }
  const fail = (error) => {
    const known = error instanceof RpcError
    if (!known) note(error?.stack ?? String(error))
    reply({ error: { code: known ? error.code : -32603, message: String(error?.message ?? error) } })
  }
  try {
    if (request?.jsonrpc !== '2.0' || typeof request.method !== 'string') throw new RpcError(INVALID_REQUEST, 'not a JSON-RPC 2.0 request')
    const method = Object.hasOwn(methods, request.method) ? methods[request.method] : undefined
    if (method === undefined) throw new RpcError(UNKNOWN_METHOD, `this host does not know the method \`${request.method}\``)
    // Only what must be waited for yields: the synchronous part of an operation is answered in its own span.
    const result = method(request.params ?? {})
    if (typeof result?.then !== 'function') {
      reply({ result: result ?? {} })
      return undefined
    }
    const answered = result.then((value) => reply({ result: value ?? {} }), fail)
    return concurrent.includes(request.method) ? undefined : answered
  } catch (error) {
    fail(error)
    return undefined
  }
}

// A driver for the adapter: one process, requests and answers, what was heard. Owns no expectation about the host.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const HERE = fileURLToPath(new URL('.', import.meta.url))
export const P = '11111111-0000-4000-8000-000000000001'
export const Q = '11111111-0000-4000-8000-000000000002'
export const C = '22222222-0000-4000-8000-000000000001'
export const D = '22222222-0000-4000-8000-000000000002'
const stores = []

/** A fresh store directory, in memory where there is such a place. */
export function newStore() {
  const store = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'dsh-adapter-'))
  stores.push(store)
  return store
}

/** One adapter process. */
export class Host {
  id = 0
  lines = []
  answers = new Map()
  ops = 0
  heard = 0

  constructor() {
    this.child = spawn(join(HERE, 'run.sh'), { stdio: ['pipe', 'pipe', 'pipe'] })
    this.exited = new Promise((resolve) => this.child.on('exit', (code, signal) => resolve(code ?? signal)))
    this.stderr = ''
    this.child.stderr.on('data', (data) => {
      this.stderr += data
    })
    let tail = ''
    this.child.stdout.setEncoding('utf8')
    this.child.stdout.on('data', (data) => {
      const lines = (tail + data).split('\n')
      tail = lines.pop()
      for (const line of lines) this.take(JSON.parse(line))
    })
  }

  take(message) {
    assert.equal(message.jsonrpc, '2.0')
    if (message.id === undefined) {
      assert.ok(message.params.lc > this.heard, 'the logical counter grows')
      this.heard = message.params.lc
      this.lines.push(message)
      return
    }
    if (message.id === null) {
      assert.equal(message.error.code, -32700)
      return
    }
    this.answers.get(message.id)(message)
    this.answers.delete(message.id)
  }

  send(text) {
    this.child.stdin.write(`${text}\n`)
  }

  /** The whole answer of one request. */
  raw(method, params) {
    this.id += 1
    const { id } = this
    const answer = new Promise((resolve) => this.answers.set(id, resolve))
    this.send(JSON.stringify({ jsonrpc: '2.0', id, method, params }))
    return Promise.race([answer, this.exited.then((code) => assert.fail(`the adapter ended with ${code}: ${this.stderr}`))])
  }

  async ask(method, params = {}) {
    const answer = await this.raw(method, params)
    assert.equal(answer.error, undefined, `${method}: ${JSON.stringify(answer.error)}`)
    return answer.result
  }

  async refuses(method, params, code) {
    const { error } = await this.raw(method, params)
    assert.equal(error?.code, code, `${method} is refused with ${code}, not ${JSON.stringify(error)}`)
    return error.message
  }

  async begin(options = {}) {
    this.info = await this.ask('initialize', { protocol: ['1.0'], suite: 'selftest' })
    await this.mount(options)
    return this
  }

  async mount({ store = newStore(), base = 0, ...rest } = {}) {
    this.store = store
    await this.ask('case/begin', { case: 'selftest', store, base, ...rest })
  }

  /** Starts calls, each given as [verb, arguments, more]; returns their names. */
  async start(...calls) {
    const made = calls.map(([name, args, more]) => {
      this.ops += 1
      return { op: `op-${this.ops}`, operation: args === undefined ? { name } : { name, args }, ...more }
    })
    await this.ask('op', { calls: made })
    return made.map(({ op }) => op)
  }

  async quiesce(budgetMs = 5000) {
    return (await this.ask('quiesce', { budgetMs })).state
  }

  /** Starts one call, waits until nothing moves, and gives its outcome. */
  async run(...call) {
    const [op] = await this.start(call)
    await this.quiesce()
    return this.outcome(op)
  }

  async ok(...call) {
    const outcome = await this.run(...call)
    assert.equal(outcome?.status, 'ok', JSON.stringify([call, outcome]))
    return outcome
  }

  outcome(op) {
    return this.lines.find(({ method, params }) => method === 'op/done' && params.op === op)?.params.outcome
  }

  notes(method) {
    return this.lines.filter((line) => line.method === method).map(({ params }) => params)
  }

  events(kind, session) {
    return this.notes('observe').filter(({ fact }) => fact.kind === kind && (session === undefined || fact.session === session))
  }

  facts(kind, session) {
    return this.events(kind, session).map(({ fact }) => fact)
  }

  async end() {
    await this.ask('case/end')
    this.child.stdin.end()
    assert.equal(await this.exited, 0, this.stderr)
  }

  async kill() {
    this.child.kill('SIGKILL')
    assert.equal(await this.exited, 'SIGKILL')
  }
}

/** Removes every store that was made. */
export function removeStores() {
  for (const store of stores) rmSync(store, { recursive: true, force: true })
}

export const create = (session, bind) => ['create-session', { session }, { bind }]
export const startOf = (parent, child, more = {}, call = {}) => ['start', { parent, provider: 'spawn', label: 'kid', child, content: 'do it', ...more }, call]
export const deliver = (sender, target) => ['deliver', { sender, target, content: 'more' }]
export const log = (store, id) => join(store, '_no-cwd', id, 'session.jsonl')
export const records = (store, id) => readFileSync(log(store, id), 'utf8').trimEnd().split('\n').slice(1).map((line) => JSON.parse(line))
export const hang = (session) => ({ script: { sessions: { [session]: [{ reply: 'hang', text: '' }] } } })

/** A host with the parent `p` of session P. */
export async function withParent(options) {
  const host = await new Host().begin(options)
  await host.ok(...create(P, 'p'))
  return host
}

// Owns one mounted host: the composition of the published packages, the points where it can be held or made to fail, and the operations. Must never change
// a package's code, nor what a method does while nothing is armed.

import { setImmediate as turn } from 'node:timers/promises'
import { format } from 'node:util'

import { Context } from '@deepseek-ai/cordis'
import AgentRegistry from '@deepseek-ai/dsh-agent'
import AgentLoop from '@deepseek-ai/dsh-agent-loop'
import LlmRuntime, { createUserMessage } from '@deepseek-ai/dsh-llm'
import SessionStore from '@deepseek-ai/dsh-session'
import JsonlSessionPersistence from '@deepseek-ai/dsh-session-persistence-jsonl'
import SessionProjectionRegistry from '@deepseek-ai/dsh-session-projection'
import SubagentRuntime from '@deepseek-ai/dsh-subagent'
import * as Fork from '@deepseek-ai/dsh-subagent-fork-in-process'
import * as Spawn from '@deepseek-ai/dsh-subagent-spawn-in-process'
import SystemPrompt from '@deepseek-ai/dsh-system-prompt'
import ToolRuntime, { defineTool } from '@deepseek-ai/dsh-tools'

import * as ids from './ids.mjs'
import { Controls } from './holds.mjs'
import { PROVIDER, Script, ScriptedModel, unlessAborted } from './model.mjs'
import { Observer, assertTrigger, initiator, operations } from './observe.mjs'
import { outcomeOf } from './outcome.mjs'
import { INVALID_PARAMS, RpcError, UNKNOWN_METHOD, activity, currentSpan, note, notify } from './wire.mjs'

/** Turns of the event loop without anything happening after which nothing can happen by itself. */
const STILL_TURNS = 4
const AGENT_OPTIONS = { provider: PROVIDER, model: PROVIDER }

/** The mounted case; the watched methods below do nothing else while there is none. */
let mounted

/** Whether `session` belongs to a child that the continuation manager made. */
const isChild = (header) => header?.origin === 'subagent'

/** Wraps `prototype[name]` by `around(go, args)`. */
function wrap(prototype, name, around) {
  const original = prototype[name]
  if (typeof original !== 'function') throw new Error(`${prototype.constructor.name} of this host has no method \`${name}\``)
  prototype[name] = function (...args) {
    return mounted === undefined ? original.apply(this, args) : around(() => original.apply(this, args), args)
  }
}

/** Arrives at a hold point that is also a fault target, then goes on. Synchronous when nothing is armed. */
function pass(point, session, go, signal) {
  const { controls } = mounted
  const failure = controls.trip(point, session)
  if (failure !== undefined) return Promise.reject(failure)
  const gate = controls.arrive(point, session, signal)
  return gate === undefined ? go() : gate.then(go)
}

function watchStorage() {
  const prototype = JsonlSessionPersistence.prototype
  wrap(prototype, 'listArtifacts', (go) => pass('store.list', undefined, go))
  wrap(prototype, 'loadStored', (go, [id]) => {
    const reading = pass('store.read', id, go)
    const { observer } = mounted
    reading.then(
      (stored) => {
        if (stored !== undefined) observer.stored.set(id, stored.events.length)
      },
      () => {},
    )
    return reading
  })
  wrap(prototype, 'appendBatch', (go, [meta, events]) => {
    const writing = pass('store.append', meta.id, go)
    const { observer } = mounted
    writing.then(
      () => observer.fact('durable', { session: meta.id, end: events.at(-1).seq + 1 }),
      () => {},
    )
    return writing
  })
  wrap(prototype, 'commitRepair', (go, [meta, , closers]) => {
    const writing = pass('store.append', meta.id, go)
    const { observer } = mounted
    writing.then(
      () => {
        const kept = closers[0]?.seq ?? observer.stored.get(meta.id)
        observer.fact('repaired', { session: meta.id, kept, closers: closers.length })
        observer.fact('durable', { session: meta.id, end: kept + closers.length })
      },
      () => {},
    )
    return writing
  })
}

function watchRegistry() {
  const around = (go, [options]) => {
    const { setup, signal } = options
    const id = options.sessionId ?? options.resumeSessionId
    // The last moment before publication is the end of the unpublished set-up.
    options.setup = (childCtx) => {
      const made = setup?.(childCtx)
      return pass('start.create', id, () => made, signal)
    }
    const making = go()
    const { handles, controls } = mounted
    making.then(
      (handle) => {
        handles.set(handle.agent, handle)
        if (!isChild(handle.agent.session.header)) return
        const { dispose } = handle
        handle.dispose = (...args) => {
          const gate = controls.arrive('dispose.handle', id)
          return gate === undefined ? dispose(...args) : gate.then(() => dispose(...args))
        }
      },
      () => {},
    )
    return making
  }
  wrap(AgentRegistry.prototype, 'create', around)
  wrap(AgentRegistry.prototype, 'resume', around)
  wrap(SessionStore.prototype, 'flush', (go, [session]) => {
    if (!isChild(session.header) || operations.getStore()?.verb === 'flush') return go()
    const gate = mounted.controls.arrive('settle.flush', session.id)
    return gate === undefined ? go() : gate.then(go)
  })
}

watchStorage()
watchRegistry()

/** Mounts a fresh host on a store. */
export async function mount({ store, script, base, maxActive, frozenClock = false }) {
  if (mounted !== undefined) throw new RpcError(INVALID_PARAMS, 'a case is mounted already')
  if (maxActive !== undefined) throw new RpcError(INVALID_PARAMS, 'this host has no limit of active children')
  const replies = new Script(script)
  ids.begin(base, frozenClock)
  const ctx = new Context()
  const controls = new Controls()
  const observer = new Observer(ctx, controls, base, act, () => mounted?.observer)
  const model = new ScriptedModel(replies, controls, observer)
  const plugins = []
  const mountPlugin = async (plugin, config) => plugins.push({ plugin, fiber: await ctx.plugin(plugin, config) })
  mounted = { ctx, controls, observer, model, plugins, handles: new WeakMap(), bound: new Map(), running: new Map() }
  try {
    observer.listen()
    ctx.on('internal/dispatch', (_type, name, args) => failInsertion(name, args))
    ctx.on('agent/pre-step', ({ agent, messages, turn: number, step }, next) => {
      observer.proposed(agent.id, number, step)
      return declineByScript(agent, messages, step, next)
    })
    await mountPlugin(LlmRuntime)
    ctx.logger.exporter({ levels: { default: 2 }, export: (message) => note(`host: ${format(...message.args)}`) })
    await mountPlugin(SessionStore)
    await mountPlugin(SessionProjectionRegistry)
    await mountPlugin(SystemPrompt, {})
    await mountPlugin(ToolRuntime, {})
    await mountPlugin(AgentRegistry)
    await mountPlugin(JsonlSessionPersistence, { root: store, compression: 'none' })
    await mountPlugin(AgentLoop, { agents: [] })
    await mountPlugin(SubagentRuntime)
    await mountPlugin(Spawn, { providerName: 'spawn' })
    await mountPlugin(Fork, { providerName: 'fork' })
    ctx.llm.registerAdapter([PROVIDER], model)
    ctx.tools.register(echo())
    for (const name of ctx.subagents.list()) holdPreparation(ctx.subagents.getProvider(name))
  } catch (error) {
    mounted = undefined
    ids.end()
    throw error
  }
}

/**
 * Unmounts it as a program in order does: children are drained, then agents disposed, then the plugins unloaded, last first. Everything held goes on, and nothing
 * of the host is left when this resolves.
 */
export async function unmount() {
  const { ctx, controls, handles, plugins } = expectMounted()
  controls.releaseAll()
  await contained('drain', () => ctx.subagents.drainContinuableDescendants(ctx.agents.roots()))
  for (const { plugin, fiber } of plugins.toReversed()) {
    // Whose parent is gone was not below a root: the unload of the subagent service drains the rest, before the agents go.
    if (plugin === AgentLoop) {
      for (const agent of ctx.agents.list()) await contained(`disposal of ${agent.id}`, () => handles.get(agent)?.dispose())
    }
    await contained('unload', () => fiber.dispose())
  }
  await ctx.fiber.dispose()
  mounted = undefined
  ids.end()
}

/** A failure while stopping is told, and stops nothing else. */
async function contained(what, run) {
  try {
    await run()
  } catch (error) {
    note(`${what} failed while the case ended: ${error?.message ?? error}`)
  }
}

function expectMounted() {
  if (mounted === undefined) throw new RpcError(INVALID_PARAMS, 'no case is mounted')
  return mounted
}

/** The built-in tool: answers with its input. */
function echo() {
  return defineTool({
    name: 'echo',
    description: 'Answers with its input.',
    parameters: { input: { type: 'string', required: true, description: 'What to answer.' } },
    output: {
      schema: { type: 'object', additionalProperties: false, properties: { echo: { type: 'string', required: true } } },
      render: (_args, value) => [{ type: 'text', text: value.echo }],
    },
    async execute({ input }, exec) {
      const gate = mounted?.controls.arrive('tool.body', exec.agent?.id, exec.signal)
      if (gate !== undefined) await unlessAborted(gate, exec.signal)
      return { echo: input }
    },
  })
}

function holdPreparation(provider) {
  const prepare = provider.prepareContinuable
  provider.prepareContinuable = (request) => pass('start.prepare', request.sessionId, () => prepare.call(provider, request))
}

/** The host asks every internal check before it takes a record into a log; a check that throws makes the append fail, and nothing changes. */
function failInsertion(name, args) {
  if (name !== 'session/event') return
  const [session, event] = args
  if (event.type !== 'agent/inbox/spliced' || event.data.inserted.length === 0) return
  const failure = mounted?.controls.trip('inbox.insert', session.id)
  if (failure !== undefined) throw failure
}

/** This revision's model has no refusal of its own: the reply `refusal` is a policy in front of the model. */
function declineByScript(agent, messages, step, next) {
  const { model } = mounted
  if ((messages.length > 0 || step > 1) && model.script.peek(agent.id).reply === 'refusal') {
    model.script.take(agent.id)
    return { kind: 'reject' }
  }
  return next()
}

/** What a trigger does. Runs inside an event of the host, so it may not throw; what cannot be done is an operation that is refused. */
function act(what) {
  if (what.do === 'abort') {
    if (mounted.running.has(what.op)) cancel({ op: what.op })
    else note(`a trigger would cancel ${what.op}, which was not started`)
    return
  }
  const { call } = what
  try {
    expectHandles(call.operation)
  } catch (error) {
    notify('op/started', { op: call.op, span: currentSpan() })
    notify('op/done', { op: call.op, outcome: { status: 'refused', class: 'invalid-argument', message: error.message } })
    return
  }
  start(call)
}

/** Raises the signal of an operation's caller. */
export function cancel({ op }) {
  const record = expectMounted().running.get(op)
  if (record === undefined) throw new RpcError(INVALID_PARAMS, `no operation is called \`${op}\``)
  notify('op/aborted', { op })
  record.abort.abort(record.reason)
}

const UNSERVED = ['queue-edit', 'queue-remove', 'queue-steer']

function expectServed(operation) {
  if (UNSERVED.includes(operation?.name)) throw new RpcError(UNKNOWN_METHOD, `this revision has no \`${operation.name}\``)
  if (!Object.hasOwn(VERBS, operation?.name)) throw new RpcError(INVALID_PARAMS, `unknown operation \`${operation?.name}\``)
}

/** Starts calls in one span. */
export function startAll({ calls }) {
  const { running } = expectMounted()
  const names = new Set()
  for (const { op, operation } of calls) {
    expectServed(operation)
    if (running.has(op) || names.has(op)) throw new RpcError(INVALID_PARAMS, `operation \`${op}\` was started already`)
    names.add(op)
  }
  for (const call of calls) expectHandles(call.operation)
  for (const call of calls) start(call)
}

/** Every handle that an operation names must be bound before anything starts. */
function expectHandles({ args = {} }) {
  for (const handle of [args.agent, args.sender, args.by?.agent, ...(args.roots ?? []), args.provider === undefined && args.children === undefined ? undefined : args.parent]) {
    if (handle !== undefined) agentOf(handle)
  }
}

function agentOf(handle) {
  const agent = expectMounted().bound.get(handle)
  if (agent === undefined) throw new RpcError(INVALID_PARAMS, `no agent object is bound to \`${handle}\``)
  return agent
}

function start({ op, bind, aborted = false, operation }) {
  const { ctx, observer, running, bound } = mounted
  const { name: verb, args = {} } = operation
  const abort = new AbortController()
  const reason = new Error(`the caller of ${op} cancelled it`)
  const actor = actorOf(verb, args)
  const record = {
    op,
    verb,
    abort,
    reason,
    actor: actor === undefined ? undefined : observer.name(actor),
    initiator: initiator(ctx),
    done: false,
    makes: bind === undefined ? undefined : (session) => !record.has && VERBS[verb].makes?.(session, args, actor) === true,
    bound(agent) {
      record.has = true
      bound.set(bind, agent)
    },
  }
  const accepted = (result) => {
    // A delivery to a live receiver makes no agent; its handle names the one that received.
    if (bind !== undefined && !record.has && verb === 'deliver') record.bound(ctx.agents.get(args.target))
    done({ status: 'ok', ...result })
  }
  running.set(op, record)
  if (aborted) abort.abort(reason)
  notify('op/started', { op, actor: record.actor, span: currentSpan() })
  const done = (outcome) => {
    record.done = true
    notify('op/done', { op, outcome })
  }
  const refused = (error) => done(outcomeOf(error, reason))
  operations.run(record, () => {
    try {
      const result = VERBS[verb].run(ctx, args, abort.signal, actor)
      if (typeof result?.then === 'function') result.then(accepted, refused)
      else accepted(result)
    } catch (error) {
      refused(error)
    }
  })
}

function actorOf(verb, args) {
  const handle = VERBS[verb].actor?.(args)
  return handle === undefined ? undefined : agentOf(handle)
}

class Refusal extends Error {
  constructor(refusal, message) {
    super(message)
    this.refusal = refusal
  }
}

const block = (text) => [{ type: 'text', text }]

/** What each operation is on this host: who acts, what it runs, and which new session its handle belongs to. */
const VERBS = {
  'create-session': {
    makes: (session, args) => session.id === args.session,
    run: (ctx, { session }, signal) => ctx.agents.create({ sessionId: session, agentOptions: AGENT_OPTIONS, signal }).then(() => ({})),
  },
  'resume-session': {
    makes: (session, args) => session.id === args.session,
    run: (ctx, { session }, signal) => ctx.agents.resume({ resumeSessionId: session, agentOptions: AGENT_OPTIONS, signal }).then(() => ({})),
  },
  'dispose-session': {
    actor: ({ agent }) => agent,
    run(_ctx, _args, _signal, agent) {
      const handle = mounted.handles.get(agent)
      if (handle === undefined || isChild(agent.session.header)) throw new Refusal('unsupported', 'the host gives nobody the handle of a child')
      return handle.dispose().then(() => ({}))
    },
  },
  prompt: {
    actor: ({ agent }) => agent,
    run(_ctx, { list, waking, content }, signal, agent) {
      signal.throwIfAborted()
      const message = createUserMessage({ content: block(content), source: { kind: 'user' } })
      if (list === 'next-turn') agent.followup(message)
      else if (waking) agent.steer(message)
      else agent.inject(message)
      return { message: message.id }
    },
  },
  start: {
    actor: ({ parent }) => parent,
    makes: ({ id, header }, { child }, parent) => isChild(header) && header.parentSession === parent.id && (child === undefined || child === id),
    run: (ctx, { provider, label, child, content, maxDepth }, signal, parent) =>
      ctx.subagents
        .startContinuable({
          provider,
          label,
          ...(child === undefined ? {} : { childId: child }),
          request: { prompt: block(content), parent, ...(maxDepth === undefined ? {} : { maxDepth }) },
          signal,
        })
        .then(({ childId, messageId }) => ({ child: childId, message: messageId })),
  },
  deliver: {
    actor: ({ sender }) => sender,
    makes: (session, { target }) => session.id === target,
    run: (ctx, { target, content }, signal, sender) =>
      ctx.subagents
        .followup(sender, target, block(content), { source: { kind: 'coordinator', form: 'relay', senderSessionId: sender.id }, signal })
        .then((message) => ({ message })),
  },
  report: {
    actor: ({ sender }) => sender,
    run: (ctx, { waking, content }, signal, sender) =>
      ctx.subagents.reportFrom(sender, block(content), { delivery: waking ? 'next-step' : 'quiet', signal }).then((message) => ({ message })),
  },
  interrupt: {
    actor: ({ by }) => by.agent,
    run(ctx, { target, by }, _signal, agent) {
      ctx.subagents.interrupt(target, by.kind === 'user' ? { kind: 'user', parentSessionId: by.parent } : { kind: 'ancestor', agent })
      return {}
    },
  },
  'drain-descendants': {
    actor: ({ roots }) => roots[0],
    run: (ctx, { roots }) => ctx.subagents.drainContinuableDescendants(roots.map(agentOf)).then(() => ({})),
  },
  'drain-children': {
    actor: ({ parent }) => parent,
    run: (ctx, { children }, _signal, parent) => ctx.subagents.drainContinuableChildren(parent, children).then(() => ({})),
  },
  'drain-all': {
    // The first step of an unload of the host's subagent service, which keeps the service in place: its own manager closes admission and releases all.
    run: (ctx) => ctx.subagents.continuations.drain().then(() => ({})),
  },
  'list-children': {
    run: (ctx, { parent }, signal) => ctx.subagents.listChildren(parent, signal).then((rows) => ({ rows: rows.map(listed) })),
  },
  flush: {
    run(ctx, { session }) {
      const live = ctx.sessions.get(session)
      if (live === undefined) throw new Refusal('absent', `session "${session}" is not live`)
      return ctx.sessions.flush(live).then(() => ({}))
    },
  },
}

function listed(row) {
  if (row.kind !== 'child') return { session: row.id, row: { diagnostic: { reason: row.reason } } }
  return { session: row.id, row: 'child', label: row.label, live: row.activity === 'running' }
}

export const armHold = (params) => expectMounted().controls.armHold(params)
export const releaseHold = (params) => expectMounted().controls.release(params)
export const armFault = (params) => expectMounted().controls.armFault(params)
export function armTrigger(params) {
  const { controls } = expectMounted()
  assertTrigger(params)
  if (params.act.do === 'call') expectServed(params.act.call.operation)
  controls.armTrigger(params)
}

/** Whether storage work is under way: every file operation of the host is visible to Node as one of these. */
const storageBusy = () => process.getActiveResourcesInfo().some((kind) => kind.startsWith('FSReq') || kind.includes('CloseReq'))

/** Waits until nothing can move by itself: no storage work, no request being answered, no event for some turns of the loop, and no deadline ahead. */
export async function quiesce({ budgetMs }) {
  const { controls, model, running } = expectMounted()
  const end = performance.now() + budgetMs
  const answer = (state) => ({
    state,
    waiting: [
      ...controls.held(),
      ...[...model.hanging].map((session) => `model of ${session} hangs by script`),
      ...[...running.values()].filter((record) => !record.done).map((record) => `operation ${record.op}`),
    ],
  })
  let seen = activity()
  for (let still = 0; ; ) {
    if (performance.now() > end) return answer('busy')
    await turn()
    if (storageBusy() || model.running > 0 || activity() !== seen) {
      seen = activity()
      still = 0
      continue
    }
    still += 1
    if (still < STILL_TURNS) continue
    if (!ids.fireNext()) return answer(controls.held().length > 0 ? 'held' : 'quiet')
    still = 0
  }
}

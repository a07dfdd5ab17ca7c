// Owns the translation of the host's own events into facts, one to one. Must never invent, drop or correct what the host did.

import { AsyncLocalStorage } from 'node:async_hooks'

import { INVALID_PARAMS, RpcError, currentSpan, notify } from './wire.mjs'

/** The operation whose synchronous part or asynchronous continuation runs. */
export const operations = new AsyncLocalStorage()

const LISTS = { nextTurn: 'next-turn', nextStep: 'next-step' }
const REASONS = ['completed', 'aborted', 'error', 'max-tokens', 'refusal', 'interrupted']
/** Facts that come from a listener which may throw; the others come from inside a call of the host, where a throw would change it. */
const THROWABLE = [
  'session-entered',
  'session-left',
  'agent-entered',
  'agent-left',
  'start-edge',
  'end-edge',
  'inserted',
  'claimed',
  'discarded',
  'status-changed',
  'appended',
  'turn-started',
  'turn-ended',
]

/** Operations that end with the acceptance of a message. */
const SENDERS = ['start', 'deliver', 'prompt', 'report']

/** Refuses a trigger that could not do what it says. */
export function assertTrigger({ on, act }) {
  if (act.do === 'throw' && !THROWABLE.includes(on)) {
    throw new RpcError(INVALID_PARAMS, `a throw inside \`${on}\` would not leave a listener of this host; it is possible inside ${THROWABLE.join(', ')}`)
  }
}

/** The host's word for how a turn ended, in the words of a history. */
function turnReason(reason) {
  if (reason?.kind === 'blocked') return 'refusal'
  return REASONS.includes(reason?.kind) ? reason.kind : 'other'
}

function source(of) {
  switch (of.kind) {
    case 'coordinator':
      return { agent: { sender: of.senderSessionId } }
    case 'subagent-report':
      return { report: { child: of.senderSessionId } }
    case 'subagent-settled':
      return { notice: { child: of.senderSessionId } }
    default:
      return 'user'
  }
}

function text(blocks) {
  const parts = (blocks ?? []).filter((block) => block.type === 'text').map((block) => block.text)
  return parts.length === 0 ? undefined : parts.join('\n')
}

export class Observer {
  names = new WeakMap()
  /** Agent objects that entered. */
  announced = new WeakSet()
  agents = 0
  /** Position of the last step that each session proposed. */
  steps = new Map()
  /** `session message` of every message that a model of this process saw. */
  shown = new Set()
  /** Messages that the inbox of the agent that is being published held from the start, each with its list. */
  found = []
  /** Sequence number of the record that put a message in, and of the one that took it out, by `session message`. */
  insertedAt = new Map()
  removedAt = new Map()
  /** The message of each send that runs, if it wakes. */
  waking = []
  /** Records of each stored log as it was last read. */
  stored = new Map()

  /**
   * `act(what)` carries out what a trigger asks; `first` is the first number of the names of agent objects; `current()` is the observer of the mounted case.
   */
  constructor(ctx, controls, first, act, current) {
    this.ctx = ctx
    this.controls = controls
    this.first = first
    this.act = act
    this.current = current
  }

  /** Name of an agent object, given at first sight. */
  name(agent) {
    let name = this.names.get(agent)
    if (name === undefined) {
      this.agents += 1
      name = `agent:${this.first + this.agents}`
      this.names.set(agent, name)
    }
    return name
  }

  /**
   * The operation that the running code belongs to: not the turn that it woke, and nothing after its end. What sends a message is over with the span that
   * accepted it: what runs on from there (the watch over the child that the host set up meanwhile) is the host's own.
   */
  operation() {
    const record = operations.getStore()
    if (record === undefined || record.done || initiator(this.ctx) !== record.initiator) return undefined
    return record.acceptedIn === undefined || record.acceptedIn === currentSpan() ? record : undefined
  }

  /** Sends a fact and does what is armed for it; throws when a trigger says so. */
  fact(kind, fields) {
    const record = this.operation()
    notify('observe', { span: currentSpan(), op: record?.op, actor: record?.actor, fact: { kind, ...fields } })
    if (kind === 'inserted' && SENDERS.includes(record?.verb)) record.acceptedIn = currentSpan()
    let thrown
    for (const act of this.controls.due(kind, fields.session)) {
      if (act.do === 'throw') thrown ??= new Error(`thrown by a trigger inside ${kind}`)
      else this.act(act)
    }
    if (thrown !== undefined) throw thrown
  }

  /** Listens to everything. To be called before any plugin of the host is mounted, so that a fact comes before what other listeners make of it. */
  listen() {
    const { ctx } = this
    ctx.on('session/created', (session) => this.sessionEntered(session))
    ctx.on('session/disposed', (session) => this.fact('session-left', { session: session.id }))
    ctx.on('agent/created', ({ agent }) => this.agentEntered(agent))
    ctx.on('agent/disposed', ({ agent }) => this.fact('agent-left', { session: agent.id, agent: this.name(agent) }))
    ctx.on('agent/status', ({ agent, status }) => this.fact('status-changed', { session: agent.id, running: status === 'running' }))
    ctx.on('agent/inbox/inserted', ({ agent, message }) => this.messageInserted(agent, message))
    ctx.on('agent/inbox/claimed', ({ agent, message, turn }) =>
      this.fact('claimed', { session: agent.id, message: message.id, turn, seq: this.removedAt.get(`${agent.id} ${message.id}`) }),
    )
    ctx.on('agent/inbox/discarded', ({ agent, message }) =>
      this.fact('discarded', {
        session: agent.id,
        message: message.id,
        cause: 'cancelled',
        seq: this.removedAt.get(`${agent.id} ${message.id}`),
      }),
    )
    ctx.on('session/event', (session, event) => this.appended(session, event))
    ctx.on('subagent/start', (info) => this.fact('start-edge', { session: info.id, run: info.runId }))
    ctx.on('subagent/end', (info) =>
      this.fact('end-edge', {
        session: info.id,
        run: info.runId,
        reason: REASONS.includes(info.stopReason) ? info.stopReason : 'other',
        text: text(info.lastAssistantMessage),
      }),
    )
  }

  sessionEntered(session) {
    const agent = this.ctx.agents.get(session.id)
    if (agent !== undefined) {
      watchAgents(Object.getPrototypeOf(agent), () => this.current())
      this.bind(session, agent)
    }
    const loaded = this.stored.has(session.id)
    // Nothing was accepted yet: what the inbox of a rebuilt agent holds comes from its log.
    this.found = loaded ? Object.entries(LISTS).flatMap(([list, name]) => (agent?.inbox[list] ?? []).map(({ id }) => [id, name])) : []
    this.fact('session-entered', { session: session.id })
    if (loaded) this.fact('log-loaded', { session: session.id, end: session.firstLiveSeq })
    // What a new log began with before anybody could hear it: what it inherits, a child's descriptor, the end of a seed. Loaded records were there before.
    const first = loaded ? session.firstLiveSeq : 0
    for (const { seq, type } of session.events.slice(first)) this.fact('appended', { session: session.id, seq, record: type })
  }

  /** Gives the handle that the running operation asked for to the agent object that it just made. */
  bind(session, agent) {
    const record = operations.getStore()
    if (record?.makes?.(session) === true) record.bound(agent)
  }

  agentEntered(agent) {
    const { header } = agent.session
    const { found } = this
    this.announced.add(agent)
    this.fact('agent-entered', {
      session: agent.id,
      agent: this.name(agent),
      parent: header.origin === 'subagent' ? header.parentSession : undefined,
    })
    for (const [message, list] of found) this.fact('restored', { session: agent.id, message, list })
  }

  appended(session, event) {
    const { data, seq, type } = event
    if (type === 'agent/inbox/spliced') {
      const inbox = this.ctx.agents.get(session.id)?.inbox
      const before = data.target === 'next-turn' ? inbox?.nextTurn : inbox?.nextStep
      for (const message of before?.slice(data.start, data.start + (data.removedCount ?? 0)) ?? []) this.removedAt.set(`${session.id} ${message.id}`, seq)
      for (const message of data.inserted) this.insertedAt.set(`${session.id} ${message.id}`, { seq, list: data.target })
    }
    this.fact('appended', { session: session.id, seq, record: type })
    if (type === 'turn/start') this.fact('turn-started', { session: session.id, turn: data.turn })
    if (type === 'turn/end') this.fact('turn-ended', { session: session.id, turn: data.turn, reason: turnReason(data.reason) })
  }

  messageInserted(agent, message) {
    const key = `${agent.id} ${message.id}`
    // The log of a disposed agent object is heard no more, but its inbox still takes messages.
    const { seq, list = agent.inbox.nextTurn.includes(message) ? 'next-turn' : 'next-step' } = this.insertedAt.get(key) ?? {}
    this.fact('inserted', {
      session: agent.id,
      message: message.id,
      list,
      waking: this.waking.includes(message.id),
      source: source(message.source),
      seq,
    })
  }

  /** A step of `session` is proposed. */
  proposed(session, turn, step) {
    this.steps.set(session, { turn, step })
  }

  position(session) {
    return this.steps.get(session) ?? { turn: 0, step: 0 }
  }

  asked(session, turn, step, messages) {
    this.fact('model-asked', { session, turn, step })
    for (const message of messages) {
      const key = `${session} ${message.id}`
      // Not what came through no inbox: tool results, and the runtime context that the host adds by itself.
      if (message.role !== 'user' || ['tool', 'plugin'].includes(message.source.kind) || this.shown.has(key)) continue
      this.shown.add(key)
      this.fact('model-shown', { session, message: message.id })
    }
  }

  answered(session, turn, step, answer, said) {
    this.fact('model-answered', { session, turn, step, answer, text: said === '' ? undefined : said })
  }
}

/** The agent whose turn the running code belongs to. */
export function initiator(ctx) {
  try {
    return ctx.agents?.currentInitiator()
  } catch {
    return undefined
  }
}

/** Prototypes that are watched. */
const watched = new WeakSet()

/** Says which agents are woken and which are cancelled, by looking over the shoulder of the two methods that every agent object shares. */
function watchAgents(prototype, observer) {
  if (watched.has(prototype)) return
  watched.add(prototype)
  const { send, cancel } = prototype
  if (typeof send !== 'function' || typeof cancel !== 'function') throw new Error('agent objects of this host have no `send` or `cancel`')
  prototype.send = function (message, target, wakeup) {
    const listening = observer()
    if (listening === undefined) return send.call(this, message, target, wakeup)
    listening.waking.push(wakeup ? message.id : undefined)
    try {
      return send.call(this, message, target, wakeup)
    } finally {
      listening.waking.pop()
    }
  }
  prototype.cancel = function (cause, options = {}) {
    const listening = observer()
    // The roll-back of an agent that nobody was told of cancels nothing that anybody could see.
    if (listening?.announced.has(this)) {
      const causes = { user: 'user', parent: 'parent', disposed: 'disposed' }
      listening.fact('cancel-issued', { session: this.id, cause: causes[cause?.kind] ?? 'hook', keepsInbox: options.keepInbox === true })
    }
    return cancel.call(this, cause, options)
  }
}

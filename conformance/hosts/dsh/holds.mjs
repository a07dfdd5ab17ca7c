// Owns what a driver arms: holds, faults and triggers, and when each is met. Must never act on its own: without something armed nothing of the host changes,
// not even by one microtask.

import { INVALID_PARAMS, RpcError, notify } from './wire.mjs'

export const HOLD_POINTS = [
  'model.request',
  'tool.body',
  'start.prepare',
  'start.create',
  'store.append',
  'store.read',
  'store.list',
  'settle.flush',
  'dispose.handle',
]
export const FAULT_TARGETS = ['store.append', 'store.read', 'store.list', 'start.prepare', 'start.create', 'inbox.insert']

/** What a held call fails with, and what an armed fault throws. */
export class InjectedFailure extends Error {
  constructor(where) {
    super(`injected failure at ${where}`)
    this.name = 'InjectedFailure'
  }
}

export class Controls {
  holds = new Map()
  faults = []
  triggers = []

  armHold({ hold, point, session, nth }) {
    if (!HOLD_POINTS.includes(point)) throw new RpcError(INVALID_PARAMS, `this host has no hold point \`${point}\``)
    if (this.holds.has(hold)) throw new RpcError(INVALID_PARAMS, `hold \`${hold}\` is armed already`)
    this.holds.set(hold, { name: hold, point, session, left: nth, gate: undefined, waits: false })
  }

  release({ hold, fail = false }) {
    const armed = this.holds.get(hold)
    if (armed === undefined) throw new RpcError(INVALID_PARAMS, `no hold is called \`${hold}\``)
    this.holds.delete(hold)
    if (armed.gate === undefined) return
    if (fail) armed.gate.reject(new InjectedFailure(armed.point))
    else armed.gate.resolve()
  }

  /** Disarms everything and lets everything held go on. */
  releaseAll() {
    for (const hold of [...this.holds.keys()]) this.release({ hold })
    this.faults = []
    this.triggers = []
  }

  /** Names of the holds at which something waits, with the point. */
  held() {
    return [...this.holds.values()].filter((hold) => hold.waits).map((hold) => `${hold.name} at ${hold.point}`)
  }

  /**
   * A task of `session` arrives at `point`: `undefined` when it may go on, else a promise to wait for, which rejects when the held call must fail. `signal` is
   * what makes the task leave before it is released.
   */
  arrive(point, session, signal) {
    const met = []
    for (const hold of this.holds.values()) {
      if (hold.gate !== undefined || hold.point !== point || (hold.session !== undefined && hold.session !== session)) continue
      hold.left -= 1
      if (hold.left > 0) continue
      hold.gate = Promise.withResolvers()
      hold.waits = true
      met.push(hold)
    }
    if (met.length === 0) return undefined
    const leave = () => {
      for (const hold of met) hold.waits = false
    }
    if (signal?.aborted) leave()
    else signal?.addEventListener('abort', leave, { once: true })
    for (const hold of met) notify('hold/reached', { hold: hold.name, session })
    // A hold that is released with failure while nobody waits any more (its turn was cancelled) is not an unhandled rejection.
    const all = Promise.all(met.map((hold) => hold.gate.promise)).then(() => undefined)
    all.catch(() => {})
    return all
  }

  armFault({ target, session, nth, times }) {
    if (!FAULT_TARGETS.includes(target)) throw new RpcError(INVALID_PARAMS, `this host has no fault target \`${target}\``)
    this.faults.push({ target, session, left: nth, times })
  }

  /** A call of `session` to `target`: what it must throw, or `undefined`. */
  trip(target, session) {
    let failure
    for (const fault of this.faults) {
      if (fault.target !== target || (fault.session !== undefined && fault.session !== session)) continue
      fault.left -= 1
      if (fault.left > 0 || fault.times <= 0) continue
      fault.times -= 1
      failure ??= new InjectedFailure(target)
    }
    this.faults = this.faults.filter((fault) => fault.times > 0)
    return failure
  }

  armTrigger({ trigger, on, session, nth, act }) {
    if (this.triggers.some((armed) => armed.name === trigger)) throw new RpcError(INVALID_PARAMS, `trigger \`${trigger}\` is armed already`)
    this.triggers.push({ name: trigger, on, session, left: nth, act })
  }

  /** The acts due inside a fact, in the order in which they were armed. */
  due(kind, session) {
    const acts = []
    for (const trigger of this.triggers) {
      if (trigger.on !== kind || (trigger.session !== undefined && trigger.session !== session)) continue
      trigger.left -= 1
      if (trigger.left === 0) acts.push(trigger.act)
    }
    if (acts.length > 0) this.triggers = this.triggers.filter((trigger) => trigger.left > 0)
    return acts
  }
}

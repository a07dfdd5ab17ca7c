// Owns every source of chance of the process: fresh ids, the clock and timers. Must be loaded before any package of the host, which take them at import.
// It must never change what a value means: ids stay UUIDs, the clock stays milliseconds, a timer fires once, in order of its deadline.

import crypto from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'

export const real = {
  now: Date.now.bind(Date),
  setTimeout: globalThis.setTimeout,
  clearTimeout: globalThis.clearTimeout,
}

/** First reading of the clock of a case: 2026-01-01T00:00:00Z, in milliseconds. */
const EPOCH = 1767225600000

let counter = 0
let ticks = 0
let base = 0
let frozen = false
let mounted = false

/** Starts the ids and the clock of a case at `first`. */
export function begin(first, frozenClock) {
  base = first
  counter = first
  ticks = first
  frozen = frozenClock
  mounted = true
  timers.clear()
}

/** Gives the clock back and forgets every timer. */
export function end() {
  mounted = false
  timers.clear()
}

/** A fresh number of the case, above its base. */
export function number() {
  counter += 1
  return counter
}

function uuid() {
  return `d5000000-0000-4000-8000-${number().toString(16).padStart(12, '0')}`
}

crypto.randomUUID = uuid
globalThis.crypto.randomUUID = uuid
syncBuiltinESMExports()

Date.now = () => {
  if (!mounted) return real.now()
  if (frozen) return EPOCH
  ticks += 1
  return EPOCH + ticks
}

// Timers of the host wait for `fireNext`: a deadline comes when nothing else can move, so that no race against real time is left.
const timers = new Map()
let order = 0
let elapsed = 0

class Timer {
  constructor(callback, ms, args) {
    order += 1
    this.key = order
    this.callback = callback
    this.args = args
    this.ms = Number.isFinite(ms) && ms > 0 ? ms : 1
    this.due = elapsed + this.ms
    timers.set(this.key, this)
  }

  ref() {
    return this
  }

  unref() {
    return this
  }

  hasRef() {
    return true
  }

  refresh() {
    this.due = elapsed + this.ms
    timers.set(this.key, this)
    return this
  }

  close() {
    timers.delete(this.key)
    return this
  }

  [Symbol.toPrimitive]() {
    return this.key
  }

  [Symbol.dispose]() {
    this.close()
  }
}

globalThis.setTimeout = (callback, ms, ...args) => new Timer(callback, ms, args)
globalThis.clearTimeout = (timer) => {
  if (timer instanceof Timer) timer.close()
  else if (timers.has(timer)) timers.delete(timer)
  else real.clearTimeout(timer)
}

/** Lets time jump to the nearest deadline. `false` when there is none. */
export function fireNext() {
  let next
  for (const timer of timers.values()) {
    if (next === undefined || timer.due < next.due || (timer.due === next.due && timer.key < next.key)) next = timer
  }
  if (next === undefined) return false
  timers.delete(next.key)
  elapsed = Math.max(elapsed, next.due)
  next.callback(...next.args)
  return true
}

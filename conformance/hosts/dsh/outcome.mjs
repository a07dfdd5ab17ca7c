// Owns how an error of the host becomes a refusal: its own code where it has one, else the class that its kind says. Must never turn one code into another.

import { InjectedFailure } from './holds.mjs'

/** The error and what caused it, nearest first. */
function* chain(error) {
  const seen = new Set()
  for (let at = error; at !== undefined && at !== null && !seen.has(at); at = at.cause) {
    seen.add(at)
    yield at
  }
}

/** Uncoded errors that the packages throw, by the beginning or the heart of their text. */
const TEXTS = [
  [/already (exists|registered|has active work|attached|bound)|while it is live/, 'busy'],
  [/not found|is not live|is not resumable/, 'absent'],
  [/is not active|lifecycle disposed|owner disposed|inactive/, 'closing'],
  [/is not configured|no agent factory/, 'unsupported'],
]
const NAMES = {
  SubagentDepthError: 'capacity',
  TypeError: 'invalid-argument',
  RangeError: 'invalid-argument',
  SessionFormatUnsupportedError: 'unsupported',
  SessionPersistenceCorruptionError: 'failed',
}

function classOf(error, reason) {
  for (const at of chain(error)) if (at === reason || at.name === 'AbortError') return 'cancelled'
  if (error instanceof InjectedFailure) return 'failed'
  const name = error?.name === 'Error' ? error.constructor?.name : error?.name
  if (NAMES[name] !== undefined) return NAMES[name]
  const message = String(error?.message ?? error)
  return TEXTS.find(([pattern]) => pattern.test(message))?.[1] ?? 'failed'
}

/** `reason` is what the caller's signal is raised with. */
export function outcomeOf(error, reason) {
  const message = String(error?.message ?? error)
  if (error?.refusal !== undefined) return { status: 'refused', class: error.refusal, message }
  // A code of the operating system is not one of the host.
  if (typeof error?.code === 'string' && error.syscall === undefined) return { status: 'refused', code: error.code, message }
  return { status: 'refused', class: classOf(error, reason), message }
}

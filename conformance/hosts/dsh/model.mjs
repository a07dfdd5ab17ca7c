// Owns the scripted model: which reply a session's next request gets, and what the host sees of it. Must never judge or retry.

import { LlmAdapter } from '@deepseek-ai/dsh-llm'

import * as ids from './ids.mjs'
import { INVALID_PARAMS, RpcError } from './wire.mjs'

export const PROVIDER = 'scripted'
const REPLIES = ['text', 'tool-call', 'failure', 'hang', 'max-tokens', 'refusal']
const PLAIN = { reply: 'text', text: 'ok' }

/** Replies by session, used in order; then the default. */
export class Script {
  used = new Map()

  constructor({ sessions = {}, default: rest = PLAIN } = {}) {
    this.sessions = sessions
    this.rest = rest
    for (const { reply } of [rest, ...Object.values(sessions).flat()]) {
      if (!REPLIES.includes(reply)) throw new RpcError(INVALID_PARAMS, `the script has an unknown reply \`${reply}\``)
    }
  }

  /** The reply of the next request of `session`. */
  peek(session) {
    return this.sessions[session]?.[this.used.get(session) ?? 0] ?? this.rest
  }

  take(session) {
    const reply = this.peek(session)
    this.used.set(session, (this.used.get(session) ?? 0) + 1)
    return reply
  }
}

/** Waits for `promise` unless `signal` is raised first; then throws its reason. */
export async function unlessAborted(promise, signal) {
  if (signal === undefined) return promise
  const aborted = Promise.withResolvers()
  const raise = () => aborted.reject(signal.reason ?? new DOMException('aborted', 'AbortError'))
  if (signal.aborted) raise()
  signal.addEventListener('abort', raise, { once: true })
  try {
    return await Promise.race([promise, aborted.promise])
  } finally {
    signal.removeEventListener('abort', raise)
  }
}

export class ScriptedModel extends LlmAdapter {
  /** Requests that are being answered: neither held nor hanging by script. */
  running = 0
  /** Sessions whose request hangs by script. */
  hanging = new Set()

  constructor(script, controls, observer) {
    super()
    this.script = script
    this.controls = controls
    this.observer = observer
  }

  async *stream({ sessionId: session, messages, signal }) {
    const reply = this.script.take(session)
    const { turn, step } = this.observer.position(session)
    this.observer.asked(session, turn, step, messages)
    let text = ''
    let answer
    // Said once, before the host hears of the end.
    const end = (how) => {
      if (answer !== undefined) return
      answer = how
      this.observer.answered(session, turn, step, how, text)
    }
    this.running += 1
    try {
      const gate = this.controls.arrive('model.request', session, signal)
      if (gate !== undefined) await this.aside(() => unlessAborted(gate, signal))
      if (reply.text) {
        text = reply.text
        yield { type: 'block-start', index: 0, blockType: 'text' }
        yield { type: 'text-delta', index: 0, text }
        yield { type: 'block-end', index: 0, block: { type: 'text', text } }
      }
      const usage = { type: 'usage', usage: { inputTokens: 1, outputTokens: 1 } }
      switch (reply.reply) {
        case 'text':
          end('text')
          yield usage
          yield { type: 'finish', reason: { kind: 'stop' } }
          return
        case 'tool-call': {
          const call = { id: `call-${ids.number()}`, name: 'echo', arguments: JSON.stringify({ input: reply.input }) }
          yield { type: 'block-start', index: 1, blockType: 'tool-call' }
          yield { type: 'tool-call-delta', index: 1, id: call.id, name: call.name, argumentsDelta: call.arguments }
          yield { type: 'block-end', index: 1, block: { type: 'tool-call', ...call } }
          end('tool-calls')
          yield usage
          yield { type: 'finish', reason: { kind: 'tool-calls' } }
          return
        }
        case 'max-tokens':
          end('max-tokens')
          yield usage
          yield { type: 'finish', reason: { kind: 'max-tokens' } }
          return
        case 'failure':
          end('failure')
          yield { type: 'finish', reason: { kind: 'error', failure: { message: reply.message, code: 'SCRIPTED' } } }
          return
        case 'hang':
          this.hanging.add(session)
          try {
            await this.aside(() => unlessAborted(new Promise(() => {}), signal))
          } finally {
            this.hanging.delete(session)
          }
          return
        default:
          throw new Error(`the script has an unknown reply \`${reply.reply}\``)
      }
    } catch (error) {
      end(signal?.aborted ? 'cancelled' : 'failure')
      throw error
    } finally {
      this.running -= 1
      // The host stopped listening before the end.
      end('cancelled')
    }
  }

  /** Runs `wait` without counting the request as running. */
  async aside(wait) {
    this.running -= 1
    try {
      return await wait()
    } finally {
      this.running += 1
    }
  }
}

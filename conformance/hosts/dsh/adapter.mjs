// Entry of the adapter: checks what is installed, then serves the wire. Must control chance before any package is imported.

import * as ids from './ids.mjs'
import './ids.mjs'
import { checkNode, checkPackages, VERSION } from './versions.mjs'
import { INVALID_PARAMS, RpcError, note, serve, silence } from './wire.mjs'

const missing = checkNode() ?? checkPackages()
if (missing !== undefined) {
  note(missing)
  process.exit(3)
}
silence()
process.on('unhandledRejection', (error) => note(`unhandled rejection: ${error?.stack ?? error}`))

const { mount, unmount, startAll, quiesce, cancel, armHold, releaseHold, armFault, armTrigger } = await import('./host.mjs')
const { FAULT_TARGETS, HOLD_POINTS } = await import('./holds.mjs')

const PROTOCOL = '1.0'
const CAPABILITIES = [
  'batch',
  'cancel',
  'handles',
  'triggers',
  'restart',
  'files',
  'clock',
  'report',
  'drain',
  'drain-children',
  'resume-root',
  'observe:inbox',
  'observe:turns',
  'observe:registry',
  'observe:edges',
  'observe:cancel',
  'observe:log',
  'observe:loads',
  'observe:span',
  'observe:origin',
  'observe:durable',
  ...HOLD_POINTS.map((point) => `hold:${point}`),
  ...FAULT_TARGETS.map((target) => `fault:${target}`),
]

function initialize({ protocol }) {
  if (!Array.isArray(protocol) || !protocol.includes(PROTOCOL)) throw new RpcError(INVALID_PARAMS, `this adapter speaks protocol ${PROTOCOL} only`)
  return {
    protocol: PROTOCOL,
    host: { name: 'dsh', version: VERSION, language: 'javascript' },
    revision: '2026-08-06',
    capabilities: CAPABILITIES,
  }
}

await serve(
  {
    initialize,
    'case/begin': mount,
    'case/end': unmount,
    op: startAll,
    quiesce,
    'hold/arm': armHold,
    'hold/release': releaseHold,
    'fault/arm': armFault,
    'trigger/arm': armTrigger,
    '$/cancel': cancel,
  },
  ['quiesce'],
)
process.exit(0)

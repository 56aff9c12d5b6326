#!/bin/sh
# Runs demo.lua in a scratch directory that is gone afterwards, however it ends; the brokers die with demo.lua. Run by `make demo-rocketmq`.
dir=$(mktemp -d "${TMPDIR:-/tmp}/metasync-demo-XXXXXX") || exit 1
child=
trap 'rm -rf "$dir"' EXIT
trap '[ -n "$child" ] && kill "$child" 2>/dev/null; wait "$child" 2>/dev/null; exit 130' INT TERM HUP
TMPDIR=$dir luajit plugins/rocketmq/demo/demo.lua &
child=$!
wait "$child"

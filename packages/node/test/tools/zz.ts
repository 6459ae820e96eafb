import { temporaryDirectory } from "../sandbox/temporaryDirectory.ts"
import { mkdtempSync } from "node:fs"
import { drive, opened, processesWith } from "./shellRuns.ts"
const polite = (mark: string) => `sleep 600 & echo ready; wait; : ${mark}`
const stubborn = (mark: string) =>
  `(setsid sh -c 'trap "" TERM HUP INT; while :; do sleep 0.05; done; : ${mark}' >/dev/null 2>&1 &); ` +
  `trap "" TERM HUP INT; echo ready; while :; do sleep 0.05; done; : ${mark}`
const workdir = mkdtempSync("/tmp/zz")
const N = Number(process.argv[2] ?? 300)
const mark = `zz-${process.pid}`
const { fermata, model } = await opened(() => ["run_shell", { command: at % 20 === 0 ? stubborn(mark) : polite(mark), background: false }] as const, { workdir, policy: "all" })
var at = 0
let last = performance.now()
let state = ""
const watch = setInterval(() => {
  if (performance.now() - last > 20000) {
    console.log("HANG at", at, state, processesWith(mark))
    process.exit(3)
  }
}, 1000)
let worst = 0
for (; at < N; at++) {
  const controller = new AbortController()
  let cancelledAt = 0
  last = performance.now()
  state = "started"
  const { status } = await drive(fermata, model, {
    signal: controller.signal,
    onUpdate: (update) => {
      state += " " + update._tag
      if (update._tag !== "output") return
      cancelledAt = performance.now()
      controller.abort()
    }
  })
  worst = Math.max(worst, performance.now() - cancelledAt)
  if (status !== "cancelled") console.log("status", status, at, state)
}
console.log("ok", worst)
clearInterval(watch)
await fermata.close()

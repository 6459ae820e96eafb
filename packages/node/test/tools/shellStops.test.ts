/**
 * The stop of commands: what is left behind of a cancelled run, of a closed program and of a killed one.
 */
import { assert, describe, it } from "@effect/vitest"
import { approve } from "@fermata/node"
import * as Effect from "effect/Effect"
import { describeProcess } from "../sandbox/processes.ts"
import { temporaryDirectory } from "../sandbox/temporaryDirectory.ts"
import { childrenOfThis, descriptors, drive, opened, processesWith } from "./shellRuns.ts"

/** A command that says that it is ready, and then ignores what it is asked, with a descendant in a session of its own. */
const stubborn = (mark: string) =>
  `(setsid sh -c 'trap "" TERM HUP INT; while :; do sleep 0.05; done; : ${mark}' >/dev/null 2>&1 &); ` +
  `trap "" TERM HUP INT; echo ready; while :; do sleep 0.05; done; : ${mark}`
/** A command that says so when all of its processes are there, and ends when it is asked. */
const polite = (mark: string) => `sleep 600 & echo ready; wait; : ${mark}`

/** Waits until no process is left. A run that is cancelled does not wait for longer than its grace period. */
const gone = async (mark: string) => {
  const end = performance.now() + 5000
  while (processesWith(mark).length > 0 && performance.now() < end) await turn()
  assert.deepStrictEqual(processesWith(mark), [])
}
/** A look at the processes on each turn of the event loop would keep the loop busy. */
const turn = () => new Promise((resolve) => setTimeout(resolve, 20))

/** Far more than a run takes, and less than the time after which its command is stopped and called again. */
const longestRunMs = 60_000

/** Fails with what was seen if a promise takes longer. */
const within = async <A>(ms: number, promise: Promise<A>, seen: () => string): Promise<A> => {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`It did not end within ${ms} ms: ${seen()}`)), ms)
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

const run = (command: string, background = false) => ["run_shell", { command, background }] as const

describe.skipIf(process.platform !== "linux")("a cancelled command", () => {
  it.live(
    "leaves no process, no zombie and no descriptor, a hundred times in a row",
    () =>
      Effect.flatMap(temporaryDirectory, ({ workdir }) =>
        Effect.promise(async () => {
          const mark = `cancelled-${process.pid}`
          const commands = Array.from({ length: 100 }, (_, at) =>
            at % 20 === 0 ? stubborn(mark) : polite(mark)
          )
          let at = 0
          const { fermata, model } = await opened(() => run(commands[at]!), { workdir, policy: "all" })
          await using _ = fermata
          let before: ReadonlyArray<string> = []
          const times: Array<number> = []
          for (; at < commands.length; at++) {
            const controller = new AbortController()
            let cancelledAt = 0
            const seen: Array<string> = []
            const running = drive(fermata, model, {
              signal: controller.signal,
              onUpdate: (update) => {
                seen.push(update._tag === "event" ? update.event._tag : update._tag)
                if (update._tag !== "output") return
                cancelledAt = performance.now()
                controller.abort()
              }
            })
            const { status } = await within(longestRunMs, running, () =>
              [
                `run ${at}:`,
                ...seen,
                controller.signal.aborted ? "(aborted)" : "",
                ...processesWith(mark).map(describeProcess)
              ].join(" ")
            )
            times.push(performance.now() - cancelledAt)
            assert.strictEqual(status, "cancelled")
            await gone(mark)
            // What the first run opens stays open: the parser, the store.
            if (at === 0) before = descriptors()
          }
          assert.deepStrictEqual(childrenOfThis(), [])
          assert.isAtMost(descriptors().length, before.length)
          assert.isBelow(Math.max(...times), 5000)
        })
      ),
    600_000
  )

  it.live("leaves nothing in the background either", () =>
    Effect.flatMap(temporaryDirectory, ({ workdir }) =>
      Effect.promise(async () => {
        const mark = `background-${process.pid}`
        const calls = [run(stubborn(mark), true), run(polite(mark))]
        const { fermata, model } = await opened((results) => calls[results.length]!, {
          workdir,
          policy: "all"
        })
        await using _ = fermata
        const controller = new AbortController()
        const { status } = await drive(fermata, model, {
          signal: controller.signal,
          onUpdate: (update) => {
            if (update._tag === "output") controller.abort()
          }
        })
        assert.strictEqual(status, "cancelled")
        await gone(mark)
      })
    )
  )

  it.live("leaves nothing in the background of a run that was held", () =>
    Effect.flatMap(temporaryDirectory, ({ workdir }) =>
      Effect.promise(async () => {
        const mark = `held-${process.pid}`
        const calls = [run(polite(mark), true), run("true")]
        const { fermata } = await opened((results) => calls[results.length]!, { workdir })
        await using _ = fermata
        const first = await fermata.runPrompt("developer", "Do it")
        assert(first.status === "interrupted" && first.interruptions[0] !== undefined)
        await fermata.decide(first.interruptions[0], approve())
        const second = await fermata.resume(first.runId)
        assert.strictEqual(second.status, "interrupted")
        assert.notDeepEqual(processesWith(mark), [])
        await fermata.cancel(second.runId)
        await gone(mark)
      })
    )
  )

  it.live("leaves what a run has in the background whose id begins with that of the cancelled one", () =>
    Effect.flatMap(temporaryDirectory, ({ workdir }) =>
      Effect.promise(async () => {
        const mark = `other-${process.pid}`
        const { fermata } = await opened(
          (results) => (results.length === 0 ? run(polite(mark), true) : undefined),
          { workdir, policy: "all" }
        )
        await using _ = fermata
        await fermata.runPrompt("developer", "Do it", { runId: "job.2" })
        await fermata.runPrompt("developer", "Do it", { runId: "job" })
        const both = processesWith(mark).length
        assert.isAbove(both, 0)
        await fermata.cancel("job")
        assert.strictEqual(processesWith(mark).length, both / 2)
      })
    )
  )

  it.live("leaves what a completed run of the session has in the background", () =>
    Effect.flatMap(temporaryDirectory, ({ workdir }) =>
      Effect.promise(async () => {
        const mark = `kept-${process.pid}`
        const { fermata, model } = await opened(
          (results) => (results.length === 0 ? run(polite(mark), true) : undefined),
          {
            workdir,
            policy: "all"
          }
        )
        {
          await using _ = fermata
          assert.strictEqual((await drive(fermata, model, {})).status, "completed")
          assert.notDeepEqual(processesWith(mark), [])
        }
        assert.deepStrictEqual(processesWith(mark), [])
      })
    )
  )
})

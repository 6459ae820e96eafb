import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import {
  bubblewrapSandbox,
  type CommandRules,
  localSandbox,
  OptionsInvalid,
  type SandboxProvider,
  shellTools
} from "@fermata/node"
import * as Effect from "effect/Effect"
import { withoutBubblewrap } from "../sandbox/bubblewrap.ts"
import { temporaryDirectory } from "../sandbox/temporaryDirectory.ts"
import { type Call, outputOf, play, type PlayOptions, processesWith } from "./shellRuns.ts"

const listed = readFileSync(join(import.meta.dirname, "../fixtures/security/shell-bypass.jsonl"), "utf8")
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line) as { readonly cmd: string; readonly expect: "gate" | "allow" })

const run = (command: string, args: object = {}): Call => ["run_shell", { command, ...args }]

/** Makes these calls in a new directory. */
const playing = (
  calls: ReadonlyArray<Call> | ((workdir: string) => ReadonlyArray<Call>),
  options: Omit<PlayOptions, "workdir"> = {}
) =>
  Effect.flatMap(temporaryDirectory, ({ workdir }) =>
    Effect.promise(() => play(typeof calls === "function" ? calls(workdir) : calls, { ...options, workdir }))
  )

/** This machine, with a provider that says that it confines commands, for what is asked there. */
const saying =
  (...confinement: ReadonlyArray<"isolated" | "noNetwork">) =>
  (workdir: string): SandboxProvider.Shape => {
    const local = localSandbox({ workdir })
    const capabilities = new Set(confinement)
    const confined = <A extends object>(sandbox: A) => ({ ...sandbox, capabilities })
    return {
      ...local,
      capabilities,
      create: (spec) => Effect.map(local.create(spec), confined),
      attach: (ref) => Effect.map(local.attach(ref), confined)
    }
  }

/** Which of these commands ask, each in a run of its own; none is run. */
const askedOf = (commands: ReadonlyArray<string>, options: Omit<PlayOptions, "workdir"> = {}) =>
  Effect.map(
    Effect.forEach(commands, (command) =>
      Effect.map(playing([run(command)], { ...options, approved: false }), ({ asked }) =>
        asked.length > 0 ? [command] : []
      )
    ),
    (found) => found.flat()
  )

describe("run_shell", () => {
  it.live("returns the exit code and both streams, and publishes the output, the start and the end", () =>
    Effect.gen(function* () {
      const { outcomes, results, updates } = yield* playing([
        run("echo one; echo two >&2; exit 3"),
        run("true"),
        run("cat; pwd")
      ])
      assert.match(results[0]!, /^exit code 3 after [\d.]+ s\nstdout:\none\nstderr:\ntwo\n$/)
      assert.match(results[1]!, /^exit code 0 after [\d.]+ s, no output$/)
      assert.match(results[2]!, /^exit code 0 after [\d.]+ s\nstdout:\n\/.*\/work\n$/)
      assert.deepStrictEqual(outcomes, ["completed", "completed", "completed"])
      const output = updates.flatMap((update) =>
        update._tag === "output" ? [[update.stream, update.chunk] as const] : []
      )
      assert.sameDeepMembers(output.slice(0, 2), [
        ["stdout", "one\n"],
        ["stderr", "two\n"]
      ])
      const progress = updates.flatMap((update) => (update._tag === "progress" ? [update.message] : []))
      assert.strictEqual(progress[0], "$ echo one; echo two >&2; exit 3")
      assert.match(progress[1]!, /^exit code 3 after/)
    })
  )

  it.live("starts in the directory of the call, and refuses one outside", () =>
    Effect.gen(function* () {
      const { outcomes, results } = yield* playing((workdir) => {
        mkdirSync(join(workdir, "sub"))
        return [run("pwd", { cwd: "sub" }), run("pwd", { cwd: ".." }), run("pwd", { cwd: "/" })]
      })
      assert.match(results[0]!, /\/work\/sub\n$/)
      assert.deepStrictEqual(outcomes, ["completed", "failed", "failed"])
      assert.include(results[1]!, "was not started")
    })
  )

  it.live("runs the shell of its options", () =>
    Effect.gen(function* () {
      const { results } = yield* playing([run("[[ a == a ]] && echo ${BASH_VERSION:+bash}")], {
        shell: "bash"
      })
      assert.include(results[0]!, "stdout:\nbash\n")
    })
  )

  it.live("stops a command after its time, and returns what it said until then", () =>
    Effect.gen(function* () {
      const { outcomes, results } = yield* playing([
        run("trap '' TERM; echo begun; while :; do sleep 0.05; done", { timeout: 1 })
      ])
      assert.match(results[0]!, /^stopped after [\d.]+ s, because its time was over \(exit code 124\)/)
      assert.include(results[0]!, "stdout:\nbegun\n")
      assert.deepStrictEqual(outcomes, ["completed"])
    })
  )

  it.live("refuses a time above its limit, and an empty command", () =>
    Effect.gen(function* () {
      const { outcomes, results } = yield* playing([run("true", { timeout: 601 }), run(" \n")])
      assert.deepStrictEqual(outcomes, ["failed", "failed"])
      assert.include(results[0]!, "600")
    })
  )

  it.live("keeps the head and the tail of each stream, and the whole of both can be recalled", () =>
    Effect.gen(function* () {
      const lines = 'i=0; while [ $i -lt 3000 ]; do echo "$i äöü🎵"; i=$((i+1)); done; echo problem >&2'
      const { results, updates } = yield* playing([run(lines)], { maxResultLength: 2000 })
      const [result] = results
      assert.isBelow(result!.length, 2600)
      assert.match(result!, /stdout:\n0 äöü🎵\n/)
      assert.match(result!, /\n2999 äöü🎵\nstderr:\nproblem\n$/)
      assert.match(result!, /characters are missing here; the id of the whole text is [0-9a-f]{16} …\]/)
      assert.strictEqual(outputOf(updates).split("\n").length, 3002)
      const capped = yield* playing([run(lines)], { maxOutputBytes: 1000 })
      assert.match(capped.results[0]!, /\n\[\d+ bytes are missing here\]\n/)
      assert.notInclude(capped.results[0]!, "\ufffd")
    })
  )

  it.live("asks about every command where nothing confines it, and says so", () =>
    Effect.gen(function* () {
      const harmless = listed.filter(({ expect }) => expect === "allow").map(({ cmd }) => cmd)
      assert.lengthOf(yield* askedOf(harmless), 20)
      const { asked } = yield* playing([run("ls\r\u202e", { cwd: "sub" })], { approved: false })
      const { facts, preview, risk } = asked[0]!
      assert.match(
        preview!,
        /^Runs on: this machine, not confined\nStarts in: \/.*\/work\/sub\nIs stopped after 2 min\.\nCommand:\nls\\r\\u\{202e\}$/
      )
      assert.include(risk!, "It is not confined")
      assert.deepInclude(facts, { target: "this machine, not confined", isolated: false })
    })
  )

  it.live("shows a long command with its beginning, its end, and how much is not shown", () =>
    Effect.gen(function* () {
      const { asked } = yield* playing([run(`echo ${"x".repeat(50_000)}; rm -rf important`)], {
        approved: false
      })
      assert.match(asked[0]!.preview!, /\[30\d\d\d of 50\d\d\d characters are not shown here\]/)
      assert.isTrue(asked[0]!.preview!.endsWith("; rm -rf important"))
    })
  )

  it.live("runs a command that only reads without asking where commands are confined", () =>
    Effect.gen(function* () {
      const sandbox = saying("isolated")
      const harmless = listed.filter(({ expect }) => expect === "allow").map(({ cmd }) => cmd)
      assert.deepStrictEqual(yield* askedOf(harmless, { sandbox }), [])
      assert.lengthOf(yield* askedOf(["npm test", "cat ../x", "cat .env", "ls > x"], { sandbox }), 4)
      const { asked } = yield* playing([run("npm test")], { sandbox, approved: false })
      assert.match(asked[0]!.risk!, /"npm" asks.*It is confined: .* over the network/)
    })
  )

  it.live(
    "runs other commands unasked only where they are confined, without network, and as the options say",
    () =>
      Effect.gen(function* () {
        const commands = ["touch a", "echo $(echo b)", "ls\u202e"]
        const none = saying("isolated", "noNetwork")
        assert.lengthOf(yield* askedOf(commands, { sandbox: none }), 3)
        assert.deepStrictEqual(yield* askedOf(commands, { sandbox: none, confined: "run" }), [])
        const network = saying("isolated")
        assert.lengthOf(yield* askedOf(commands, { sandbox: network, confined: "run" }), 3)
        assert.deepStrictEqual(yield* askedOf(commands, { sandbox: network, confined: "runWithNetwork" }), [])
        assert.lengthOf(yield* askedOf(commands, { confined: "runWithNetwork" }), 3)
      })
  )

  it.live("lets rules ask and deny also where commands run unasked", () =>
    Effect.gen(function* () {
      const rules: ReadonlyArray<CommandRules.Rule> = [
        { decision: "deny", argv: ["git", "push", "**"], reason: "it publishes" },
        { decision: "ask", argv: ["touch", "asked"] }
      ]
      const options = { sandbox: saying("isolated", "noNetwork"), confined: "run", rules } as const
      assert.deepStrictEqual(
        yield* askedOf(["touch free", "touch asked", "true; touch asked", "ls\u202e"], options),
        ["touch asked", "true; touch asked", "ls\u202e"]
      )
      for (const policy of ["ask", "all"] as const) {
        const { asked, outcomes, results } = yield* playing([run("true; sudo git push -f")], {
          ...options,
          policy
        })
        assert.deepStrictEqual([asked.length, outcomes[0]], [0, "failed"])
        assert.include(results[0]!, 'was not run. The command "sudo" is refused: it publishes')
      }
    })
  )

  it.live("runs what rules allow unasked on this machine only if the options say so", () =>
    Effect.gen(function* () {
      const rules: ReadonlyArray<CommandRules.Rule> = [{ decision: "allow", argv: ["touch", "*"] }]
      const commands = ["touch a", "touch a && touch b", "touch a && ls", "touch $X"]
      assert.lengthOf(yield* askedOf(commands, { rules }), 4)
      assert.deepStrictEqual(yield* askedOf(commands, { rules, unconfined: "rules" }), [
        "touch a && ls",
        "touch $X"
      ])
    })
  )
})

const started: Call = run("echo $$ first; i=0; while :; do i=$((i+1)); echo tick $i; sleep 0.1; done", {
  background: true
})
const idIn = (results: ReadonlyArray<string>) => results[0]!.split(":")[0]!

describe("commands in the background", () => {
  it.live("go on after their call, give their output from a position, and are stopped", () =>
    Effect.gen(function* () {
      const { outcomes, results } = yield* playing([
        started,
        ["shell_output", (results) => ({ id: idIn(results), since: 0, wait: 10 })],
        [
          "shell_output",
          (results) => ({
            id: idIn(results),
            since: Number(/read on with since (\d+)/.exec(results[1]!)![1]),
            wait: 10
          })
        ],
        ["shell_stop", (results) => ({ id: idIn(results) })],
        ["shell_output", (results) => ({ id: idIn(results), since: 0 })],
        ["shell_stop", (results) => ({ id: idIn(results) })]
      ])
      assert.deepStrictEqual(new Set(outcomes), new Set(["completed"]))
      assert.match(
        results[0]!,
        /: running for [\d.]+ s\noutput, characters 0 to \d+ of \d+:\n\d+ first\ntick 1\n/
      )
      assert.match(results[2]!, /: running.*\noutput, characters \d+ to/)
      assert.notInclude(results[2]!, "first")
      assert.match(results[3]!, /: stopped\n/)
      assert.match(results[4]!, /: stopped\n[^]*first\ntick 1/)
      assert.match(results[5]!, /: stopped\n/)
      const pid = / (\d+) first|\n(\d+) first/.exec(results[0]!)!.slice(1).find(Boolean)!
      assert.throws(() => process.kill(Number(pid), 0))
    })
  )

  it.live("return how they ended if that is at once", () =>
    Effect.gen(function* () {
      const { results } = yield* playing([run("echo broken >&2; exit 7", { background: true })])
      assert.match(results[0]!, /: exit code 7 after [\d.]+ s\noutput, characters 0 to 7 of 7:\nbroken$/)
    })
  )

  it.live("are limited in number, and fail if they are not known", () =>
    Effect.gen(function* () {
      const sleep = run("sleep 600", { background: true })
      const { outcomes, results } = yield* playing(
        [sleep, sleep, sleep, ["shell_output", { id: "run_1.t1.1" }], ["shell_stop", { id: "x" }]],
        { maxBackground: 2 }
      )
      assert.deepStrictEqual(outcomes, ["completed", "completed", "failed", "failed", "failed"])
      assert.include(results[2]!, "2 commands are running in the background already")
      assert.include(results[3]!, 'There is no command "run_1.t1.1" here')
    })
  )

  it.live("keep a bounded part of their output", () =>
    Effect.gen(function* () {
      const { results } = yield* playing(
        [
          run("i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i+1)); done", { background: true }),
          // Beyond every output, so that the call waits for the end.
          ["shell_output", (results) => ({ id: idIn(results), since: 10_000_000, wait: 60 })],
          ["shell_output", (results) => ({ id: idIn(results), since: 0 })],
          ["shell_output", (results) => ({ id: idIn(results) })]
        ],
        { maxOutputBytes: 10_000 }
      )
      assert.match(results[2]!, /\[\d+ characters are missing here\]\n/)
      assert.include(results[3]!, "line 4999")
    })
  )

  it.live("end when the program is closed", () =>
    Effect.gen(function* () {
      const mark = `mark-${process.pid}-closed`
      const { results } = yield* playing([
        run(`echo ${mark}; setsid sh -c 'trap "" TERM; while :; do sleep 0.05; done # ${mark}' & wait`, {
          background: true
        })
      ])
      assert.include(results[0]!, mark)
      assert.deepStrictEqual(processesWith(mark), [])
    })
  )
})

describe.skipIf(withoutBubblewrap !== undefined)(
  `run_shell behind bubblewrap${withoutBubblewrap === undefined ? "" : `: ${withoutBubblewrap}`}`,
  () => {
    const sandbox = (workdir: string) => bubblewrapSandbox({ workdir })

    it.live("runs every listed command that only reads without asking", () =>
      Effect.gen(function* () {
        const harmless = listed.filter(({ expect }) => expect === "allow").map(({ cmd }) => cmd)
        assert.deepStrictEqual(yield* askedOf(harmless, { sandbox }), [])
      })
    )

    it.live(
      "runs other commands unasked with the option, which change nothing outside of the workspace",
      () =>
        Effect.gen(function* () {
          const { top, workdir } = yield* temporaryDirectory
          const secret = join(top, "outside.txt")
          writeFileSync(secret, "kept")
          const line = `echo made > made.txt; rm -rf ${secret}; echo $$ > ${secret}; cat /etc/shadow`
          const played = yield* Effect.promise(() =>
            play([run(line), run("echo x > y", { background: true })], { workdir, sandbox, confined: "run" })
          )
          assert.deepStrictEqual(played.asked, [])
          assert.strictEqual(readFileSync(secret, "utf8"), "kept")
          assert.deepStrictEqual(readdirSync(workdir).sort(), ["made.txt", "y"])
          assert.match(played.results[0]!, /^exit code 1 /)
          const { asked } = yield* Effect.promise(() =>
            play([run(line)], { workdir, sandbox, approved: false })
          )
          assert.match(
            asked[0]!.preview!,
            /^Runs on: this machine, confined to the working directory, without network\n/
          )
        })
    )
  }
)

describe("shellTools", () => {
  it("refuses options that are none", () => {
    const wrong: ReadonlyArray<object> = [
      [],
      { root: "." },
      { confined: "yes" },
      { unconfined: "run" },
      { timeout: 0 },
      { timeout: "8 days" },
      { maxTimeout: "soon" },
      { rules: [{ decision: "deny" }] },
      { rules: [{ decision: "deny", argv: ["a"], why: "x" }] },
      { maxResultLength: 10 },
      { maxBackground: -1 },
      { shell: "bash -l" },
      { cwd: "" }
    ]
    for (const options of wrong)
      assert.throws(
        () => shellTools(options as never),
        OptionsInvalid.OptionsInvalid,
        "",
        JSON.stringify(options)
      )
  })
})

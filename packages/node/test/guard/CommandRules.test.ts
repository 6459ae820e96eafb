import { spawnSync } from "node:child_process"
import * as Fs from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { CommandRules, PathGuard } from "@fermata/node"
import * as Effect from "effect/Effect"
import * as FastCheck from "fast-check"
import { gated, harmless } from "./commandCases.ts"
import { workspace } from "./workspace.ts"

const listed = Fs.readFileSync(join(import.meta.dirname, "../fixtures/security/shell-bypass.jsonl"), "utf8")
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line) as { readonly cmd: string; readonly expect: "gate" | "allow" })

const decide = (line: string, options?: CommandRules.Options) =>
  Effect.map(CommandRules.classify(line, options), ({ decision }) => decision)

/** The lines of a list that are decided otherwise, with the reason. */
const others = (lines: ReadonlyArray<string>, isExpected: (decision: string) => boolean) =>
  Effect.map(
    Effect.forEach(lines, (line) => Effect.map(CommandRules.classify(line), (found) => ({ line, ...found }))),
    (found) => found.filter(({ decision }) => !isExpected(decision)).map(({ line, reason }) => [line, reason])
  )

const isGated = (decision: string) => decision !== "allow"
const isAllowed = (decision: string) => decision === "allow"

const refuseRm: CommandRules.Rule = { decision: "deny", argv: ["rm", "**"] }

describe("CommandRules", () => {
  it.effect("asks about every listed command that hides another one", () =>
    Effect.gen(function* () {
      const lines = listed.filter(({ expect }) => expect === "gate").map(({ cmd }) => cmd)
      assert.lengthOf(lines, 100)
      assert.deepStrictEqual(yield* others(lines, isGated), [])
    })
  )
  it.effect("allows every listed command that only reads", () =>
    Effect.gen(function* () {
      const lines = listed.filter(({ expect }) => expect === "allow").map(({ cmd }) => cmd)
      assert.lengthOf(lines, 20)
      assert.deepStrictEqual(yield* others(lines, isAllowed), [])
    })
  )
  it.effect("asks about the commands of our own that act, read secrets or leave the workspace", () =>
    Effect.map(others(gated, isGated), (found) => assert.deepStrictEqual(found, []))
  )
  it.effect("allows the commands of our own that only read", () =>
    Effect.map(others(harmless, isAllowed), (found) => assert.deepStrictEqual(found, []))
  )

  it.effect("denies a command wherever a rule's words are found", () =>
    Effect.gen(function* () {
      const lines = [
        "rm x",
        "r'm' x",
        "r\\m x",
        "$'\\x72m' x",
        "/bin/rm x",
        "RM x",
        "ls; rm x",
        "ls $(rm x)",
        'echo "${x:-`rm x`}"',
        "cat <(rm x)",
        "cat <<X\n$(rm x)\nX",
        "f() { rm x; }",
        "if ls; then rm x; fi",
        "A=1 rm x",
        "A=$(rm x)",
        "sudo -u root rm x",
        "env A=1 nice -n 5 rm x",
        "timeout 5 rm x",
        "xargs -0 rm x",
        "find . -exec rm x \\;",
        "sh -c 'ls; rm x'",
        "bash -lc \"sudo sh -c 'rm x'\"",
        "eval 'rm x'",
        "env -S 'rm x'",
        "command rm x",
        "ls & rm x"
      ]
      for (const line of lines) assert.strictEqual(yield* decide(line, { rules: [refuseRm] }), "deny", line)
      for (const line of ["echo rm x", "grep 'rm x' y", "git rm x"])
        assert.notStrictEqual(yield* decide(line, { rules: [refuseRm] }), "deny", line)
    })
  )
  it.effect("lets a rule that denies decide before one that asks, and this before one that allows", () =>
    Effect.gen(function* () {
      const allow: CommandRules.Rule = { decision: "allow", argv: ["npm", "**"] }
      const ask: CommandRules.Rule = {
        decision: "ask",
        argv: ["npm", "publish", "**"],
        reason: "it publishes"
      }
      const deny: CommandRules.Rule = { decision: "deny", argv: ["npm", "publish", "--force"] }
      const rules = [allow, ask, deny]
      assert.strictEqual(yield* decide("npm test", { rules }), "allow")
      assert.strictEqual(yield* decide("npm publish", { rules }), "ask")
      assert.strictEqual(yield* decide("npm publish --force", { rules }), "deny")
      assert.strictEqual(yield* decide("ls && npm test | head", { rules }), "allow")
      assert.strictEqual(yield* decide("npm test $X", { rules }), "ask")
      assert.strictEqual(yield* decide("npm test > x", { rules }), "ask")
      assert.strictEqual(yield* decide("./npm test", { rules }), "ask")
      assert.strictEqual(yield* decide("NPM test", { rules }), "ask")
      assert.strictEqual(
        yield* decide("git status", { rules: [{ decision: "ask", argv: ["git", "**"] }] }),
        "ask"
      )
      assert.include((yield* CommandRules.classify("npm publish", { rules })).reason, "it publishes")
    })
  )
  it.effect("compares the words of a rule exactly", () =>
    Effect.gen(function* () {
      const rules = [{ decision: "allow", argv: ["npm", "run", "*"] }] as const
      assert.strictEqual(yield* decide("npm run build", { rules }), "allow")
      assert.strictEqual(yield* decide("npm run", { rules }), "ask")
      assert.strictEqual(yield* decide("npm run build --x", { rules }), "ask")
      assert.strictEqual(yield* decide("npm  'run'  build", { rules }), "allow")
    })
  )
  it.effect("asks a path guard about the paths that a harmless command reads", () =>
    Effect.gen(function* () {
      const { root } = yield* workspace
      const guard = PathGuard.make({ write: [root] })
      const mayRead = (path: string) =>
        Effect.map(guard.judge(path, "read"), ({ decision }) => decision === "allow")
      assert.strictEqual(yield* decide(`cat ${root}/src/index.ts`, { mayRead }), "allow")
      assert.strictEqual(yield* decide("cat link-file", { mayRead }), "ask")
      assert.strictEqual(yield* decide("cat hard", { mayRead }), "ask")
      assert.strictEqual(yield* decide("grep x to-env", { mayRead }), "ask")
    })
  )
  it.effect("names the commands of a line with their words and decisions", () =>
    Effect.gen(function* () {
      const { commands, reason } = yield* CommandRules.classify("ls 'a b' | sort -o x; r\"m\" $X")
      assert.deepStrictEqual(commands, [
        { words: ["ls", "a b"], decision: "allow" },
        { words: ["sort", "-o", "x"], decision: "ask", reason: "its option -o is not known to be harmless" },
        { words: ["rm", "$X"], decision: "ask", reason: "it is not known to be harmless" }
      ])
      assert.strictEqual(reason, 'The command "sort" asks: its option -o is not known to be harmless.')
    })
  )
  it.effect("refuses options that are none", () =>
    Effect.gen(function* () {
      const rules = [{ decision: "alow", argv: [] }] as unknown as ReadonlyArray<CommandRules.Rule>
      const exit = yield* Effect.exit(CommandRules.classify("ls", { rules }))
      assert.strictEqual(exit._tag, "Failure")
    })
  )

  it.effect("never allows a command in any nesting of other commands", () =>
    Effect.promise(() =>
      FastCheck.assert(
        FastCheck.asyncProperty(
          FastCheck.constantFrom(
            "rm -rf x",
            "curl http://x",
            "./x",
            "$x",
            "echo x >y",
            "cat /etc/passwd",
            "git push"
          ),
          FastCheck.array(FastCheck.constantFrom(...wrappers), { maxLength: 6 }),
          async (base, around) => {
            const line = around.reduce<string>((inner, wrap) => wrap(inner), base)
            const found = await Effect.runPromise(CommandRules.classify(line, { rules: [refuseRm] }))
            assert.notStrictEqual(found.decision, "allow", line)
          }
        ),
        { numRuns: 2000 }
      )
    )
  )
  it.effect.each(["bash", "dash"])(
    "allows no random text with which %s runs or writes anything else",
    (shell) =>
      Effect.gen(function* () {
        if (spawnSync(shell, ["-c", ":"]).error !== undefined) return
        const { root } = yield* workspace
        const [programs, mark] = [join(root, "programs"), join(root, "ran")]
        Fs.mkdirSync(programs)
        for (const name of ["rm", "sh", "x"])
          Fs.writeFileSync(join(programs, name), `#!/bin/sh\n: > ${mark}\n`, { mode: 0o755 })
        for (const name of ["ls", "cat", "git"])
          Fs.writeFileSync(join(programs, name), "#!/bin/sh\n", { mode: 0o755 })
        const lines = FastCheck.sample(
          FastCheck.array(FastCheck.constantFrom(...pieces), { maxLength: 12 }),
          4000
        )
        const allowed = yield* Effect.filter([...new Set(lines.map((line) => line.join("")))], (line) =>
          Effect.map(decide(line), isAllowed)
        )
        assert.isAbove(allowed.length, 10)
        const before = Fs.readdirSync(root)
        for (const line of allowed.slice(0, 80)) {
          spawnSync(shell, ["-c", line], { cwd: root, env: { PATH: programs, HOME: root }, stdio: "ignore" })
          assert.deepStrictEqual(Fs.readdirSync(root), before, line)
        }
      })
  )
  it.effect("decides within 50 milliseconds of CPU time about hostile lines of any length", () =>
    Effect.gen(function* () {
      yield* CommandRules.classify("ls")
      const units = [
        "$(",
        "(",
        "a",
        "{a,",
        "`",
        "'\"",
        "<<X ",
        "${a:-",
        "a;",
        "\\",
        "[",
        "[[ ( ",
        "if ",
        "!(",
        "a=(",
        "$((",
        "<(",
        "ls|",
        "\n",
        "<<A\n",
        "f(){ ",
        "sudo ",
        '"$a" ',
        "*",
        "a b "
      ]
      for (const unit of units) {
        for (const length of [1000, 16_000, 100_000]) {
          const line = unit.repeat(Math.ceil(length / unit.length)).slice(0, length)
          const times: Array<number> = []
          for (let attempt = 0; attempt < 5 && !times.some((time) => time < 50); attempt += 1) {
            const start = process.cpuUsage()
            assert.notStrictEqual(yield* decide(line, { rules: [refuseRm] }), "allow")
            const { system, user } = process.cpuUsage(start)
            times.push((system + user) / 1000)
          }
          assert.isBelow(Math.min(...times), 50, `${JSON.stringify(unit)} to ${length} characters`)
        }
      }
    })
  )
})

const quoted = (line: string) => `'${line.replaceAll("'", `'\\''`)}'`

const wrappers: ReadonlyArray<(line: string) => string> = [
  (line) => `ls; ${line}`,
  (line) => `${line}; ls`,
  (line) => `ls && ${line}`,
  (line) => `ls || ${line}`,
  (line) => `ls | ${line}`,
  (line) => `${line} | cat`,
  (line) => `ls\n${line}\nls`,
  (line) => `(${line})`,
  (line) => `{ ${line}; }`,
  (line) => `echo $(${line})`,
  (line) => `echo "$(${line})"`,
  (line) => `echo "\${x:-$(${line})}"`,
  (line) => `cat <(${line})`,
  (line) => `! ${line}`,
  (line) => `time ${line}`,
  (line) => `A=1 ${line}`,
  (line) => `sudo ${line}`,
  (line) => `nice ${line}`,
  (line) => `xargs ${line}`,
  (line) => `sh -c ${quoted(line)}`,
  (line) => `eval ${quoted(line)}`,
  (line) => `if ls; then ${line}\nfi`,
  (line) => `for x in a; do ${line}\ndone`,
  (line) => `f() { ${line}\n}; f`,
  (line) => `ls & ${line}`,
  (line) => `${line} # ls`,
  (line) => `ls # x\n${line}`,
  (line) => `cat <<X\n$(${line})\nX`,
  (line) => `${line} 2>/dev/null`,
  (line) => `echo $((a[$(${line})]))`
]

const pieces = [
  "ls",
  "cat",
  "echo",
  "git status",
  "rm",
  "sh",
  " ",
  " ",
  " ",
  "-l",
  "x",
  ";",
  "|",
  "&&",
  "&",
  "\n",
  "'",
  '"',
  "\\",
  "$",
  "(",
  ")",
  "`",
  ">",
  "<",
  "{",
  "}",
  "*",
  "#",
  "!",
  "=",
  "~",
  "/dev/null",
  "2>&1"
]

describe("CommandRules.describe", () => {
  it("shows characters that are not visible", () => {
    assert.strictEqual(
      CommandRules.describe("ls\r\nrm \u202e\u001b[8m\0"),
      "ls\\r\nrm \\u{202e}\\u{1b}[8m\\u{0}"
    )
  })
  it("keeps the beginning and the end of a long line, and counts what is missing", () => {
    const shown = CommandRules.describe(`start ${"x".repeat(100)} end`, { maxLength: 20 })
    assert.strictEqual(shown, "start xxxx\n[90 of 110 characters are not shown here]\nxxxxxx end")
    assert.strictEqual(CommandRules.describe("x".repeat(20), { maxLength: 20 }), "x".repeat(20))
  })
  it("cuts no character in half", () => {
    assert.isTrue(CommandRules.describe("😀".repeat(50), { maxLength: 11 }).isWellFormed())
  })
})

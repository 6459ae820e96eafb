/**
 * Mutants of the sources: lines that keep a promise, each broken in a copy of the tree, where the campaign or the named tests must fail.
 *
 * `mutants.ts` breaks the store from outside; these break the library itself. A mutant that can lose or repeat something must be found by
 * the campaign; the others by the tests that they name.
 */
import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { stripVTControlCharacters } from "node:util"
import { root, run, type RunResult } from "../internal/run.ts"

interface SourceMutant {
  readonly name: string
  /** A path from `packages/sdk/src`; `../../node/src` is that of another package. */
  readonly file: string
  /** Text that occurs once in the file, and its replacement. */
  readonly line: string
  readonly broken: string
  /** A scenario of the sweep, a meeting of two processes, a number of seeds, or test files below `packages`. */
  readonly finder:
    | { readonly scenario: string }
    | { readonly meeting: string }
    | { readonly seeds: number }
    | { readonly tests: ReadonlyArray<string> }
}

/** All mutants. */
const sourceMutants: ReadonlyArray<SourceMutant> = [
  {
    name: "denies a call that may have run when a policy denies its tool now",
    file: "run/calls/authorize.ts",
    line: "if (mayHaveRun) return lapsed(sentence`A policy denies ${name} now.`)",
    broken: "",
    finder: { tests: ["sdk/test/run/judgedAgain.test.ts"] }
  },
  {
    name: "takes an answer in the words of a prompt for that prompt",
    file: "domain/internal/repeatedPrompt.ts",
    line: 'last?.role === "user"',
    broken: "last !== undefined",
    finder: { tests: ["sdk/test/domain/evolve.test.ts"] }
  },
  {
    name: "reads the mail once for each sub-agent that hears of it",
    file: "run/internal/takeMail.ts",
    line: "(drive.hasMail ? folding(drive) : Effect.succeed(nothing))",
    broken: "folding(drive)",
    finder: { tests: ["sdk/test/durable/promptness.test.ts"] }
  },
  {
    name: "keeps an entry of every run that was ever read",
    file: "promise/internal/RunReaders.ts",
    line: "if (ofRun.size === 0) this.byRun.delete(runId)",
    broken: "",
    finder: { tests: ["sdk/test/promise/internal/RunReaders.test.ts"] }
  },
  {
    name: "accepts a misspelt hook and never calls it",
    file: "agent/RuntimeHooks.ts",
    line: "if (problem !== undefined) throw problem",
    broken: "",
    finder: { tests: ["sdk/test/agent/RuntimeHooks.test.ts"] }
  },
  {
    name: "accepts options of createRuntime in Runtime.make and ignores extensions",
    file: "agent/Runtime.ts",
    line: "if (problems.length > 0) return yield* new RuntimeOptionsInvalid({ problems })",
    broken: "",
    finder: { tests: ["sdk/test/agent/unknownKeys.test.ts"] }
  },
  {
    name: "allows a command in a line that is not plain",
    file: "../../node/src/guard/CommandRules.ts",
    line: "if (tree.problem !== undefined) return asks(tree.problem, commands)",
    broken: "",
    finder: { tests: ["node/test/guard/CommandRules.test.ts"] }
  },
  {
    name: "allows a line with characters that are not visible",
    file: "../../node/src/guard/CommandRules.ts",
    line: "const hidden = hiddenIn(line) ?? unparsable(line)",
    broken: "const hidden = unparsable(line)",
    finder: { tests: ["node/test/guard/CommandRules.test.ts"] }
  },
  {
    name: "lets a rule that asks decide before one that denies",
    file: "../../node/src/guard/CommandRules.ts",
    line: 'for (const decision of ["deny", "ask"] as const)',
    broken: 'for (const decision of ["ask", "deny"] as const)',
    finder: { tests: ["node/test/guard/CommandRules.test.ts"] }
  },
  {
    name: "allows a command to read any path",
    file: "../../node/src/guard/CommandRules.ts",
    line: "if (!(yield* mayRead(path)))",
    broken: "if (false)",
    finder: { tests: ["node/test/guard/CommandRules.test.ts"] }
  },
  {
    name: "parses a line of any length",
    file: "../../node/src/guard/internal/shellTree.ts",
    line: "if (line.length > maxLength)",
    broken: "if (line.length < 0)",
    finder: { tests: ["node/test/guard/CommandRules.test.ts"] }
  },
  {
    name: "allows a line that cannot be parsed",
    file: "../../node/src/guard/internal/shellTree.ts",
    line: 'if (node.type === "Script" && (node as ParsedScript).errors?.length)',
    broken: 'if (node.type === "Script" && false)',
    finder: { tests: ["node/test/guard/CommandRules.test.ts"] }
  },
  {
    name: "allows a command in the background",
    file: "../../node/src/guard/internal/shellTree.ts",
    line: 'if (node.type === "Statement" && node.background === true) return "it runs in the background"',
    broken: "",
    finder: { tests: ["node/test/guard/CommandRules.test.ts"] }
  },
  {
    name: "allows output into any file",
    file: "../../node/src/guard/internal/shellTree.ts",
    line: '&& to === "/dev/null"',
    broken: "",
    finder: { tests: ["node/test/guard/CommandRules.test.ts"] }
  },
  {
    name: "looks for denied commands only at the beginning of a line",
    file: "../../node/src/guard/internal/commandPatterns.ts",
    line: "...args.map((_, at) => args.slice(at)),",
    broken: "",
    finder: { tests: ["node/test/guard/CommandRules.test.ts"] }
  },
  {
    name: "lets a name that a glob finds become an option",
    file: "../../node/src/guard/internal/harmless.ts",
    line: "if (/^[*?[-]/.test(glob) && !anyName)",
    broken: "if (glob === undefined)",
    finder: { tests: ["node/test/guard/CommandRules.test.ts"] }
  },
  {
    name: "allows any option of a harmless command",
    file: "../../node/src/guard/internal/harmless.ts",
    line: "if (!spec.short?.includes(flag)) return flagProblem(`-${flag}`)",
    broken: "",
    finder: { tests: ["node/test/guard/CommandRules.test.ts"] }
  },
  {
    name: "compares a path with the workspace before its links are followed",
    file: "../../node/src/guard/internal/located.ts",
    line: "const real = await realUnless(given, path, keepsLink).catch(",
    broken: "const real = await Promise.resolve(path).catch(",
    finder: { tests: ["node/test/guard/PathGuard.test.ts"] }
  },
  {
    name: "takes a directory whose name begins with that of the workspace for a part of it",
    file: "../../node/src/guard/internal/pathRules.ts",
    line: "path === directory || path.startsWith(directory.endsWith(sep) ? directory : directory + sep)",
    broken: "path === directory || path.startsWith(directory)",
    finder: { tests: ["node/test/guard/paths.test.ts"] }
  },
  {
    name: "trusts the name of a directory that another process swaps",
    file: "../../node/src/guard/internal/pinned.ts",
    line: "placeOf(roots, await readlink(self), (levels)",
    broken: "placeOf(roots, path, (levels)",
    finder: { tests: ["node/test/guard/race.test.ts"] }
  },
  {
    name: "follows a link that another process puts in the place of a file",
    file: "../../node/src/guard/internal/located.ts",
    line: "const handle = await open(path, findOnly | constants.O_NOFOLLOW)",
    broken: "const handle = await open(path, findOnly)",
    finder: { tests: ["node/test/guard/race.test.ts"] }
  },
  {
    name: "opens a pipe",
    file: "../../node/src/guard/internal/located.ts",
    line: 'if (!stats.isFile()) throw denied(given, "special")',
    broken: "",
    finder: { tests: ["node/test/guard/paths.test.ts"] }
  },
  {
    name: "reads a file that has another name outside",
    file: "../../node/src/guard/internal/located.ts",
    line: "if (stats.nlink <= 1n || rules",
    broken: "if (stats.nlink <= 2n || rules",
    finder: { tests: ["node/test/guard/PathGuard.test.ts"] }
  },
  {
    name: "knows the files of Fermata by their names alone",
    file: "../../node/src/guard/internal/located.ts",
    line: 'if (own.inodes.has(inodeOf(stats))) throw denied(given, "own")',
    broken: "",
    finder: { tests: ["node/test/guard/PathGuard.test.ts"] }
  },
  {
    name: "does what is denied once a person has allowed the access",
    file: "../../node/src/guard/internal/located.ts",
    line: 'if (verdict === undefined || (verdict.decision === "ask" && request.approved)) return',
    broken: "if (verdict === undefined || request.approved) return",
    finder: { tests: ["node/test/guard/PathGuard.test.ts"] }
  },
  {
    name: "renames a file with credentials to a name that may be read",
    file: "../../node/src/guard/internal/fileAccess.ts",
    line: 'await readable(context, { ...from, ...whole, access: "read" })',
    broken: "",
    finder: { tests: ["node/test/guard/PathGuard.test.ts"] }
  },
  {
    name: "makes a directory executed by its new name",
    file: "../../node/src/guard/internal/fileAccess.ts",
    line: "const whole = { keepsLink: true, isTree: true }",
    broken: "const whole = { keepsLink: true, isTree: false }",
    finder: { tests: ["node/test/guard/PathGuard.test.ts"] }
  },
  {
    name: "allows a name with one public answer among private ones",
    file: "../../node/src/guard/WebGuard.ts",
    line: "return addresses.every(fits)",
    broken: "return addresses.some(fits)",
    finder: { tests: ["node/test/guard/WebGuard.test.ts"] }
  },
  {
    name: "allows the metadata service to a private host that is a name",
    file: "../../node/src/guard/WebGuard.ts",
    line: '(target.isPrivate ? classOf(address) !== "special" :',
    broken: '(target.isPrivate ? classOf(address) !== "" :',
    finder: { tests: ["node/test/guard/WebGuard.test.ts"] }
  },
  {
    name: "connects to an address literal without a check",
    file: "../../node/src/guard/internal/connector.ts",
    line: 'if (verdict._tag === "refused") throw refusal(origin, verdict.reason)',
    broken: 'if (verdict._tag === "refused") return { url: new URL(origin) } as Target',
    finder: { tests: ["node/test/guard/WebClient.test.ts"] }
  },
  {
    name: "resolves a name again when it connects",
    file: "../../node/src/guard/internal/connector.ts",
    line: "guard.checkAddresses(target, await resolve(target.host))",
    broken: "guard.checkAddresses(target, (await resolve(target.host), await resolve(target.host)))",
    finder: { tests: ["node/test/guard/WebClient.test.ts"] }
  },
  {
    name: "follows a redirect without a check",
    file: "../../node/src/guard/internal/sendGuarded.ts",
    line: "const verdict = guard.checkUrl(target, from)",
    broken:
      'const verdict = redirects > 0 ? ({ _tag: "allowed", target: { url: new URL(String(target)) } } as ReturnType<typeof guard.checkUrl>) : guard.checkUrl(target, from)',
    finder: { tests: ["node/test/guard/WebClient.test.ts"] }
  },
  {
    name: "sends credentials to another origin",
    file: "../../node/src/guard/internal/sendGuarded.ts",
    line: "next.origin !== url.origin",
    broken: "next.origin === undefined",
    finder: { tests: ["node/test/guard/WebClient.test.ts"] }
  },
  {
    name: "does not limit a body after its decompression",
    file: "../../node/src/guard/internal/decodedBody.ts",
    line: "[decoder!(), limited(maxSize)]",
    broken: "[decoder!()]",
    finder: { tests: ["node/test/guard/WebClient.test.ts"] }
  },
  {
    name: "runs a command unasked where nothing confines it",
    file: "../../node/src/tools/internal/shell/judgeCommand.ts",
    line: 'if (!capabilities.has("isolated")) {',
    broken: 'if (capabilities.has("none" as never)) {',
    finder: { tests: ["node/test/tools/shellTools.test.ts"] }
  },
  {
    name: "runs a command that a rule denies",
    file: "../../node/src/tools/internal/shell/runCommand.ts",
    line: 'if (judgement.decision === "deny")',
    broken: "if (judgement.decision === undefined)",
    finder: { tests: ["node/test/tools/shellTools.test.ts"] }
  },
  {
    name: "lets a command with a network run as if it had none",
    file: "../../node/src/tools/internal/shell/judgeCommand.ts",
    line: 'if (confined === "run" && !capabilities.has("noNetwork"))',
    broken: 'if (confined === "ask" && !capabilities.has("noNetwork"))',
    finder: { tests: ["node/test/tools/shellTools.test.ts"] }
  },
  {
    name: "runs a command again that may have had effects",
    file: "../../node/src/tools/internal/shell/runCommand.ts",
    line: 'return isHarmless ? { _tag: "notHappened" } : { _tag: "unknown" }',
    broken: 'return { _tag: "notHappened" }',
    finder: { tests: ["node/test/tools/shellKilled.test.ts"] }
  },
  {
    name: "lets a background command outlive its cancelled run",
    file: "../../node/src/tools/internal/shell/runCommand.ts",
    line: "scope: runScope,",
    broken: "scope: sandbox.scope,",
    finder: { tests: ["node/test/tools/shellStops.test.ts"] }
  },
  {
    name: "fetches from a domain that is not listed without asking",
    file: "../../node/src/tools/fetchUrl.ts",
    line: "!includes(allow, verdict.target.host)",
    broken: "!includes(allow, verdict.target.host) && allow.length === 0",
    finder: { tests: ["node/test/tools/fetchUrl.test.ts"] }
  },
  {
    name: "follows a redirect to a site that was not approved",
    file: "../../node/src/tools/internal/fetchPage.ts",
    line: "isSameSite(from, to) || includes(allow, hostOf(to))",
    broken: "true",
    finder: { tests: ["node/test/tools/fetchUrl.test.ts"] }
  },
  {
    name: "lets a page end the frame that marks it as untrusted",
    file: "../../node/src/tools/internal/untrustedPage.ts",
    line: '"&lt;" : opener',
    broken: "opener : opener",
    finder: { tests: ["node/test/tools/fetchUrl.test.ts"] }
  },
  {
    name: "shows a model the text of a page that a person does not see",
    file: "../../node/src/tools/internal/htmlText.ts",
    line: "(isHidden || unseen.has(tag))",
    broken: "unseen.has(tag)",
    finder: { tests: ["node/test/tools/htmlText.test.ts"] }
  },
  {
    name: "takes an IPv4 address inside an IPv6 address for a public one",
    file: "../../node/src/guard/internal/addresses.ts",
    line: "return classOf4(lastAsIpv4(groups))",
    broken: 'return "public"',
    finder: { tests: ["node/test/guard/WebGuard.test.ts"] }
  },
  {
    name: "sleeps until a wait ends although the clock is set forward",
    file: "durable/internal/dueTimes.ts",
    line: "Math.min(due - now, longestSleepMs)",
    broken: "due - now",
    finder: { tests: ["sdk/test/durable/dueTimes.test.ts"] }
  },
  {
    name: "sleeps through waits that end before the clock is where it was before it was set back",
    file: "durable/internal/dueTimes.ts",
    line: "wokenAt = Math.min(wokenAt, yield* Clock.currentTimeMillis)",
    broken: "yield* Effect.void",
    finder: { tests: ["sdk/test/durable/dueTimes.test.ts"] }
  },
  {
    name: "reads the store again and again for a wait that has ended and that another process owns",
    file: "durable/internal/dueTimes.ts",
    line: "        wokenAt = now\n",
    broken: "",
    finder: { tests: ["sdk/test/durable/dueTimes.test.ts"] }
  },
  {
    name: "does not let a worker read the next due time after a notification",
    file: "durable/Worker.ts",
    line: "Effect.andThen(Queue.offer(changed, undefined), Queue.offer(wake, undefined))",
    broken: "Queue.offer(wake, undefined)",
    finder: { tests: ["sdk/test/durable/dueTimes.test.ts"] }
  },
  {
    name: "does not let a handle sleep until its run is due",
    file: "dispatch/internal/watch/StoreWatch.ts",
    line: "if (watched.dueAt !== undefined) it.onDueTime()",
    broken: "",
    finder: { tests: ["sdk/test/durable/dueTimes.test.ts"] }
  },
  {
    name: "wakes workers for requests that never expire, in SQL",
    file: "store/internal/sql/nextDue.ts",
    line: " AND on_expiry = 'deny'",
    broken: "",
    finder: { tests: ["node/test/SqliteStore.test.ts"] }
  },
  {
    name: "does not notify other processes on Postgres of a request that expires",
    file: "store/internal/sql/journal.ts",
    line: "if (changes.some(isDue)) yield* access.notify",
    broken: "",
    finder: { tests: ["node/test/postgres/changes.test.ts"] }
  },
  {
    name: "deletes a content that a process has stored again and is about to refer to",
    file: "store/internal/memory/blobs.ts",
    line: "if (content.pending === 0 || content.storedAt < now - graceTime) blobs.delete(sha256)",
    broken: "blobs.delete(sha256)",
    finder: { tests: ["sdk/test/store/RunStore.test.ts"] }
  },
  {
    name: "keeps a content whose expected use was never written when its last run is removed",
    file: "store/internal/memory/blobs.ts",
    line: "content.pending === 0 || content.storedAt < now - graceTime",
    broken: "content.pending === 0",
    finder: { tests: ["sdk/test/store/RunStore.test.ts"] }
  },
  {
    name: "counts a repeated reference as the use that another process expects",
    file: "store/internal/memory/blobs.ts",
    line: "content === undefined || content.runs.has(runId)",
    broken: "content === undefined",
    finder: { tests: ["sdk/test/store/RunStore.test.ts"] }
  },
  {
    name: "accepts a reference with another length than that of its content",
    file: "store/internal/memory/blobs.ts",
    line: "blobs.get(sha256)?.bytes.length !== bytes",
    broken: "blobs.get(sha256) === undefined",
    finder: { tests: ["sdk/test/store/RunStore.test.ts"] }
  },
  {
    name: "does not find the contents in the events of sub-agents",
    file: "store/internal/blobs.ts",
    line: "return contentOf(event.event)",
    broken: "return nothing",
    finder: { tests: ["sdk/test/store/RunStore.test.ts"] }
  },
  {
    name: "writes a reference into a store without contents",
    file: "store/internal/blobs.ts",
    line: "if (store.blobs !== undefined) return store",
    broken: "return store",
    finder: { tests: ["sdk/test/store/fromCore.test.ts"] }
  },
  {
    name: "deletes a content that a process is about to refer to, in SQL",
    file: "store/internal/sql/blobs.ts",
    line: "if (isExpected) yield*",
    broken: "if (!isExpected) yield*",
    finder: { tests: ["node/test/SqliteStore.test.ts"] }
  },
  {
    name: "counts a repeated reference as the use that another process expects, in SQL",
    file: "store/internal/sql/blobs.ts",
    line: "if (added === undefined) continue",
    broken: "",
    finder: { tests: ["node/test/SqliteStore.test.ts"] }
  },
  {
    name: "keeps the references of a run that an earlier version removed",
    file: "store/internal/sql/blobs.ts",
    line: "if (isStored) continue",
    broken: "if (!isStored) continue",
    finder: { tests: ["node/test/sqlite/blobs.test.ts"] }
  },
  {
    name: "deletes a content with one of the runs that refer to it, in SQL",
    file: "store/internal/sql/blobs.ts",
    line: "if (row === undefined || (yield* hasUse(sha256))) continue",
    broken: "if (row === undefined) continue",
    finder: { tests: ["node/test/sqlite/blobs.test.ts"] }
  },
  {
    name: "sweeps a content that is still being written",
    file: "store/internal/sql/blobWrites.ts",
    line: "UPDATE fermata_blobs SET touched_at = ${at}\n            WHERE blob",
    broken: "UPDATE fermata_blobs SET touched_at = touched_at\n            WHERE blob",
    finder: { tests: ["node/test/sqlite/blobs.test.ts"] }
  },
  {
    name: "leaves the bytes of a content that was not written to its end",
    file: "store/internal/sql/blobWrites.ts",
    line: 'exit._tag === "Success" ? Effect.void : abandon',
    broken: "Effect.void",
    finder: { tests: ["node/test/sqlite/blobs.test.ts"] }
  },
  {
    name: "takes new memory for all bytes of a content",
    file: "store/internal/sql/pieces.ts",
    line: "length = 0\n    }",
    broken: "length = 0\n      memory = new Uint8Array(windowBytes)\n    }",
    finder: { tests: ["sdk/test/store/pieces.test.ts"] }
  },
  {
    name: "leaves the file of a deleted content",
    file: "store/internal/sql/blobRests.ts",
    line: "yield* files.remove(blob)",
    broken: "",
    finder: { tests: ["node/test/sqlite/contentFiles.test.ts"] }
  },
  {
    name: "writes a file in a transaction of the caller",
    file: "store/internal/sql/blobWrites.ts",
    line: "onFailure: () => undefined, onSuccess: () => files",
    broken: "onFailure: () => files, onSuccess: () => files",
    finder: { tests: ["node/test/sqlite/contentFiles.test.ts"] }
  },
  {
    name: "takes the directory of another store",
    file: "../../node/src/internal/contentFiles.ts",
    line: "if (found !== storeId)",
    broken: 'if (found === "missing" || found === "foreign" || found === "empty")',
    finder: { tests: ["node/test/sqlite/contentFiles.test.ts"] }
  },
  {
    name: "takes an empty directory in the place of the store's own",
    file: "../../node/src/internal/contentFiles.ts",
    line: 'if (hasFiles) return "empty"',
    broken: "",
    finder: { tests: ["node/test/sqlite/contentFiles.test.ts"] }
  },
  {
    name: "leaves the bytes that a killed process left",
    file: "store/internal/sql/blobRests.ts",
    line: "yield* cleanBefore(operation, Math.max(before, longAgo + 1))",
    broken: "",
    finder: { scenario: "contents" }
  },
  {
    name: "reads a content that was deleted and stored again as a damaged one",
    file: "store/internal/sql/blobReads.ts",
    line: "found.blob === at.blob",
    broken: "found.blob !== -1",
    finder: { tests: ["node/test/sqlite/blobs.test.ts"] }
  },
  {
    name: "sends the files of earlier prompts again",
    file: "context/ContextPolicy.ts",
    line: "mapBefore(messages, promptAt,",
    broken: "mapBefore(messages, 0,",
    finder: { tests: ["sdk/test/durable/attachments.test.ts"] }
  },
  {
    name: "takes a message in a run for the prompt that began it",
    file: "domain/evolve.ts",
    line: "...(promptAt === 0 ? {} : { promptAt }),",
    broken: "",
    finder: { tests: ["sdk/test/durable/attachments.test.ts"] }
  },
  {
    name: "stores the files of results in the journal",
    file: "run/internal/Drive.ts",
    line: "contents?.separate(redacted) ?? redacted",
    broken: "redacted",
    finder: { tests: ["sdk/test/durable/attachments.test.ts"] }
  },
  {
    name: "stores the files of prompts in the journal",
    file: "durable/internal/storeParts.ts",
    line: "? contents.separated(part)",
    broken: "? part",
    finder: { tests: ["sdk/test/durable/attachments.test.ts"] }
  },
  {
    name: "publishes an event before the content that it refers to is stored",
    file: "run/internal/Drive.ts",
    line: "isActedOn(event) || contents?.hasUnstored === true",
    broken: "isActedOn(event)",
    finder: { tests: ["sdk/test/durable/attachments.test.ts"] }
  },
  {
    name: "holds events back until the run ends if they refer to a new content",
    file: "run/internal/RunLoop.ts",
    line: "contents?.hasUnstored === true",
    broken: "contents === null",
    finder: { tests: ["sdk/test/durable/attachments.test.ts"] }
  },
  {
    name: "writes a reference before the content that it refers to",
    file: "durable/internal/storeJournal.ts",
    line: "Effect.andThen(checked(events), guarded(contents.flush))",
    broken: "checked(events)",
    finder: { tests: ["sdk/test/durable/attachments.test.ts"] }
  },
  {
    name: "calls the model without a file that the store does not have",
    file: "run/internal/Contents.ts",
    line: 'return Effect.fail(missing(file, sha256, "missing"))',
    broken: 'return Effect.succeed("")',
    finder: { tests: ["sdk/test/durable/attachments.test.ts"] }
  },
  {
    name: "calls the model with a file that is damaged in the store",
    file: "run/internal/Contents.ts",
    line: "if (sha256Of(bytes) !== sha256)",
    broken: "if (false)",
    finder: { tests: ["sdk/test/durable/attachments.test.ts"] }
  },
  {
    name: "lets a model refer to any content of the store",
    file: "run/internal/modelAnswer.ts",
    line: "if (refersToStore(part))",
    broken: "if (false)",
    finder: { tests: ["sdk/test/run/soundAnswer.test.ts"] }
  },
  {
    name: "lets a tool refer to contents that the store does not have",
    file: "run/calls/toolBody.ts",
    line: "stored.length === 0 ? Exit.succeed(out)",
    broken: "stored.length >= 0 ? Exit.succeed(out)",
    finder: { tests: ["sdk/test/durable/attachments.test.ts"] }
  },
  {
    name: "loses what is cut out of a result",
    file: "run/calls/userCalls.ts",
    line: "contents === undefined ? undefined",
    broken: "contents !== undefined ? undefined",
    finder: { tests: ["sdk/test/durable/attachments.test.ts"] }
  },
  {
    name: "reads one of several contents whose ids begin alike",
    file: "run/calls/sessionContents.ts",
    line: "digits.length === wholeLength && found.size > 0",
    broken: "found.size > 0",
    finder: { tests: ["sdk/test/durable/attachments.test.ts"] }
  },
  {
    name: "forgets the contents of the sub-agents of earlier runs",
    file: "durable/internal/references.ts",
    line: "at = head?.parent?.runId",
    broken: "at = undefined",
    finder: { tests: ["sdk/test/durable/attachments.test.ts"] }
  },
  {
    name: "refuses a message that an earlier version sent with its bytes",
    file: "durable/sendMessage.ts",
    line: "message.content === inline.content ? Effect.fail(error)",
    broken: "true ? Effect.fail(error)",
    finder: { tests: ["sdk/test/durable/attachments.test.ts"] }
  },
  {
    name: "repeats a prompt that an earlier version stored with its bytes",
    file: "domain/internal/files.ts",
    line: "(one.length === other.length &&",
    broken: "(false &&",
    finder: { tests: ["sdk/test/durable/attachments.test.ts"] }
  },
  {
    name: "takes a run that an earlier version imported for another one",
    file: "store/internal/journal.ts",
    line: "equal(one, other) || equal(one.map(asReferences), other.map(asReferences))",
    broken: "equal(one, other)",
    finder: { tests: ["sdk/test/durable/attachments.test.ts"] }
  },
  {
    name: "imports the bytes of files into the journal",
    file: "durable/internal/restoreArchive.ts",
    line: "return contents?.separate(event) ?? event",
    broken: "return event",
    finder: { tests: ["sdk/test/durable/attachments.test.ts"] }
  },
  {
    name: "continues a run of a store without the files that are in it",
    file: "run/internal/Contents.ts",
    line: 'if (isStored(part)) return Effect.fail(missing(part, part.source.sha256, "noStore"))',
    broken: "if (isStored(part)) return Effect.succeed(messages)",
    finder: { tests: ["sdk/test/run/unstoredFiles.test.ts"] }
  },
  {
    name: "stores the secrets of an attached text",
    file: "durable/internal/AttachedBytes.ts",
    line: "if (incomplete === undefined || isMedia(this.mediaType))",
    broken: "if (incomplete !== -1)",
    finder: { tests: ["sdk/test/durable/attachFile.test.ts"] }
  },
  {
    name: "changes the bytes of an attached file that is no text",
    file: "durable/internal/AttachedBytes.ts",
    line: 'this.kind === "bytes" ? [] : this.judged(this.rest, utf8In(this.rest) === undefined ? undefined : 0)',
    broken: 'this.kind === "bytes" ? [] : this.judged(this.rest, 0)',
    finder: { tests: ["sdk/test/durable/attachFile.test.ts"] }
  },
  {
    name: "reads the attachments of other runs",
    file: "durable/readAttachment.ts",
    line: "if (found === undefined) return yield* new AttachmentNotFound({ runId, sha256 })",
    broken:
      "if (found === undefined) return attachmentOf(given, 0, (options) => blobs.read(sha256 as never, options))",
    finder: { tests: ["sdk/test/durable/attachFile.test.ts"] }
  },
  {
    name: "exports a run without the files to which it refers",
    file: "durable/archive.ts",
    line: "contents.length === 0 ? archive : { ...archive, contents }",
    broken: "archive",
    finder: { tests: ["sdk/test/durable/attachments.test.ts"] }
  },
  {
    name: "stores the contents of an archive under another SHA-256",
    file: "durable/internal/archivedContents.ts",
    line: "bytes === undefined || sha256Of(bytes) !== sha256",
    broken: "bytes === undefined",
    finder: { tests: ["sdk/test/durable/archiveContents.test.ts"] }
  },
  {
    name: "takes an archive that was cut for a whole one",
    file: "durable/archiveLines.ts",
    line: "if (line.contents !== count)",
    broken: "if (false)",
    finder: { tests: ["sdk/test/durable/archiveContents.test.ts"] }
  },
  {
    name: "stores contents of an archive to which its runs do not refer",
    file: "durable/archiveLines.ts",
    line: "blobs !== undefined && needed.has(sha256)",
    broken: "blobs !== undefined",
    finder: { tests: ["sdk/test/durable/archiveContents.test.ts"] }
  },
  {
    name: "loses what is cut out of a delivered result",
    file: "durable/completeStored.ts",
    line: "isKept ? keep : undefined",
    broken: "undefined",
    finder: { tests: ["sdk/test/durable/attachments.test.ts"] }
  },
  {
    name: "lets a decision of a caller refer to any content",
    file: "domain/internal/given.ts",
    line: '  whole: { elsewhere: "it is added to a result that is shortened" }\n',
    broken: "",
    finder: { tests: ["sdk/test/durable/attachments.test.ts"] }
  },
  {
    name: "records a decision without the reference of its result",
    file: "store/internal/sql/requests.ts",
    line: 'yield* blobs.refer("decide", usesOf(pending.runId, blobsOfDecisions([record])))',
    broken: "",
    finder: { tests: ["node/test/SqliteStore.test.ts"] }
  },
  {
    name: "copies a run without the references of its decisions",
    file: "store/internal/blobs.ts",
    line: "      return wholeOf(event.decision)",
    broken: "      return nothing",
    finder: { tests: ["sdk/test/store/RunStore.test.ts"] }
  },
  {
    name: "finds no call in doubt by its token",
    file: "domain/Interruption.ts",
    line: 'request._tag === "external" || request._tag === "inDoubt" ? request.token : undefined',
    broken: 'request._tag === "external" ? request.token : undefined',
    finder: { tests: ["sdk/test/durable/complete.test.ts"] }
  },
  {
    name: "loses a result that was supplied before the run ended",
    file: "domain/internal/turn.ts",
    line: "if (returned !== undefined) {",
    broken: "if (returned !== undefined && at < 0) {",
    finder: { tests: ["sdk/test/durable/complete.test.ts"] }
  },
  {
    name: "runs a call on hold again when its request is withdrawn",
    file: "domain/internal/decided.ts",
    line: 'call.status === "inDoubt" || isLeftToHold(after, call)',
    broken: 'call.status === "inDoubt"',
    finder: { tests: ["sdk/test/domain/evolve.test.ts"] }
  },
  {
    name: "begins to wait in a turn that was superseded",
    file: "run/calls/openHold.ts",
    line: "if (run.drive.hasMail) yield* hearStops(run)",
    broken: "",
    finder: { tests: ["sdk/test/run/timer.test.ts"] }
  },
  {
    name: "changes the pages of a file that has tables",
    file: "store/internal/sql/filePages.ts",
    line: 'return tables.length === 0 && (yield* setting("page_count")) === 1',
    broken: "return tables.length >= 0",
    finder: { tests: ["node/test/sqlite/pages.test.ts"] }
  },
  {
    name: "copies the log of a file with small pages after a quarter of the bytes",
    file: "store/internal/sql/filePages.ts",
    line: "yield* exec(`PRAGMA wal_autocheckpoint = ${checkpoint}`)",
    broken: "",
    finder: { tests: ["node/test/sqlite/pages.test.ts"] }
  },
  {
    name: "starts a body before its start is committed",
    file: "run/steps/settle.ts",
    line: "for (const { call } of ready) recordStart(run, call)\n  yield* flush(drive)",
    broken: "for (const { call } of ready) recordStart(run, call)",
    finder: { scenario: "act" }
  },
  {
    name: "scrubs each chunk of an output alone",
    file: "run/calls/toolBody.ts",
    line: "this.write(this.#output.push(given))",
    broken: "this.write(this.scrubber.scrub(given))",
    finder: { tests: ["sdk/test/run/streamedTool.test.ts"] }
  },
  {
    name: "drops the output that was held back",
    file: "run/calls/toolBody.ts",
    line: "if (output !== undefined) this.write(output.end())",
    broken: "if (output !== undefined) output.end()",
    finder: { tests: ["sdk/test/run/streamedTool.test.ts"] }
  },
  {
    name: "drops the held output of an abandoned body",
    file: "run/calls/toolBody.ts",
    line: "abandon: () => context.flush()",
    broken: "abandon: () => undefined",
    finder: { tests: ["sdk/test/run/leftBehind.test.ts"] }
  },
  {
    name: "returns a known secret that is not complete",
    file: "tool/internal/scrub/knownValues.ts",
    line: "if (this.#values.mayBegin(text, at)) return at",
    broken: "",
    finder: { tests: ["sdk/test/tool/scrub/properties.test.ts"] }
  },
  {
    name: "shows a secret that is divided over two texts of a result",
    file: "tool/internal/shownResult.ts",
    line: 'whole === each.join("") ? each : [whole]',
    broken: 'whole === "" ? [whole] : each',
    finder: { tests: ["sdk/test/tool/shownResult.test.ts"] }
  },
  {
    name: "takes a generated password for an identifier",
    file: "tool/internal/scrub/values.ts",
    line: "partInWords(text) >= 0.5 &&",
    broken: "partInWords(text) >= 0 &&",
    finder: { tests: ["sdk/test/tool/scrub/places.test.ts"] }
  },
  {
    name: "forgets the names of ids in camel case",
    file: "tool/internal/scrub/entropy.ts",
    line: "if (named.test(before) || namedId.test(before)) continue",
    broken: "if (named.test(before)) continue",
    finder: { tests: ["sdk/test/tool/scrub/places.test.ts"] }
  },
  {
    name: "acknowledges a result that does not fit the schema of its tool",
    file: "run/internal/decisions.ts",
    line: "decision.arguments !== undefined : isCompletion(request, decision)",
    broken: "decision.arguments !== undefined : false",
    finder: { tests: ["sdk/test/durable/complete.test.ts"] }
  },
  {
    name: "settles a call in doubt of any tool by its idempotency key",
    file: "run/calls/openRequest.ts",
    line: "entry?.tool.options.external === true",
    broken: "entry !== undefined",
    finder: { tests: ["sdk/test/durable/complete.test.ts"] }
  },
  {
    name: "imports a run of a time at which no clock has been",
    file: "durable/internal/soundValues.ts",
    line: "!(at >= 0 && at <= latestTime)",
    broken: "false",
    finder: { tests: ["sdk/test/durable/archiveUnsound.test.ts"] }
  },
  {
    name: "imports a request with the digest of other arguments",
    file: "durable/internal/soundValues.ts",
    line: "=== request.digest) continue",
    broken: "!== undefined) continue",
    finder: { tests: ["sdk/test/durable/archiveUnsound.test.ts"] }
  },
  {
    name: "imports names that a database changes",
    file: "durable/internal/soundValues.ts",
    line: 'name !== "" && name.isWellFormed() && !name.includes("\\0")',
    broken: "true",
    finder: { tests: ["sdk/test/durable/archiveUnsound.test.ts"] }
  },
  {
    name: "accepts a rule for a tool that no agent has",
    file: "agent/internal/ruleTools.ts",
    line: 'if (tool.includes("*") || names.has(tool)) continue',
    broken: "if (true as boolean) continue",
    finder: { tests: ["sdk/test/agent/ruleTools.test.ts"] }
  },
  {
    name: "refuses a rule for a tool that an MCP server may add",
    file: "agent/internal/ruleTools.ts",
    line: "if (!isOpen) return problem",
    broken: "if (isOpen || !isOpen) return problem",
    finder: { tests: ["sdk/test/agent/ruleTools.test.ts"] }
  },
  {
    name: "records a grant that has expired",
    file: "store/internal/requests.ts",
    line: "verdict.record === decision ? expiredGrant(entry.request, decision) : undefined",
    broken: "undefined as ReturnType<typeof expiredGrant>",
    finder: { tests: ["sdk/test/store/RunStore.test.ts"] }
  },
  {
    name: "lists the requests of all sub-agents of a run for one of them",
    file: "store/internal/inbox.ts",
    line: "&& isWithin(request.requestId, filter.runId)",
    broken: "&& isWithin(request.requestId, pending.runId)",
    finder: { tests: ["sdk/test/store/RunStore.test.ts"] }
  },
  {
    name: "takes an input without a prompt and a run for the continuation of a run",
    file: "durable/runPromptStored.ts",
    line: '|| !hasKey(given, "runId")',
    broken: "",
    finder: { tests: ["sdk/test/durable/malformedInputs.test.ts"] }
  },
  {
    name: "calls a model with no prompt",
    file: "run/runPrompt.ts",
    line: "!isStart && input.prompt === undefined",
    broken: "input.prompt === undefined",
    finder: { tests: ["sdk/test/durable/malformedInputs.test.ts"] }
  },
  {
    name: "takes a reopening for a repetition of the message without it",
    file: "store/internal/messages.ts",
    line: "canonicalJson(reopens === undefined ? [...said] : [...said, reopening as Schema.Json])",
    broken: "canonicalJson([...said].concat(reopens === undefined ? [] : []))",
    finder: { tests: ["sdk/test/store/RunStore.test.ts"] }
  },
  {
    name: "drops a run of an agent that the program does not have",
    file: "durable/recover.ts",
    line: "{ ...ready, error: notAmong(runtimes, ready.agent) }",
    broken: "ready as Recovered",
    finder: { tests: ["sdk/test/durable/recover.test.ts"] }
  },
  {
    name: "reports a wait that was cancelled as in doubt",
    file: "run/internal/cancellation.ts",
    line: "isRepeatable(call) || isWait(state, call)",
    broken: "isRepeatable(call)",
    finder: { tests: ["sdk/test/run/timer.test.ts"] }
  },
  {
    name: "says that a run waits since a time in the future",
    file: "durable/explain.ts",
    line: "time > now ? instant(time) : when(time, now)",
    broken: "when(time, now)",
    finder: { tests: ["sdk/test/run/timer.test.ts"] }
  },
  {
    name: "does not check the secrets of open calls before a deploy",
    file: "run/checkResume.ts",
    line: "if (value === undefined) found.push",
    broken: "if (false as boolean) found.push",
    finder: { tests: ["sdk/test/durable/checkAll.test.ts"] }
  },
  {
    name: "puts facts of any length into requests",
    file: "run/calls/facts.ts",
    line: "JSON.stringify(json).length > longestFacts",
    broken: "false as boolean",
    finder: { tests: ["sdk/test/run/longTexts.test.ts"] }
  },
  {
    name: "records an author of any length",
    file: "domain/Principal.ts",
    line: 'typeof by === "string" && by.length > longestName',
    broken: "false as boolean",
    finder: { tests: ["sdk/test/run/longTexts.test.ts"] }
  },
  {
    name: "continues a run to ask about the requests of a stopped sub-agent",
    file: "durable/internal/continueStored.ts",
    line: "&& answerable(state).some(",
    broken: "&& interruptions(state).some(",
    finder: { tests: ["sdk/test/run/callbackAgain.test.ts"] }
  },
  {
    name: "decides a call in doubt again that is to run again",
    file: "durable/completeStored.ts",
    line: 'decision?._tag !== "retry"',
    broken: "decision?._tag !== undefined || true",
    finder: { tests: ["sdk/test/durable/complete.test.ts"] }
  },
  {
    name: "refuses a repeated completion after another call wanted its token",
    file: "durable/completeStored.ts",
    line: 'Effect.catchTag(record(requestId), "RequestSuperseded", () => Effect.fail(error))',
    broken:
      'Effect.catchTag(record(requestId).pipe(Effect.andThen(Effect.fail(error))), "RequestSuperseded", () => Effect.fail(error))',
    finder: { tests: ["sdk/test/durable/complete.test.ts"] }
  },
  {
    name: "waits for a token although it is closed",
    file: "promise/internal/work.ts",
    line: "run(Effect.raceFirst(effect, closed))",
    broken: "run(effect)",
    finder: { tests: ["sdk/test/promise/Fermata.test.ts"] }
  },
  {
    name: "gives every decision of the callback the same author",
    file: "promise/internal/settings.ts",
    line: '"by" in decision || !isPlain(decision)',
    broken: "!isPlain(decision)",
    finder: { tests: ["sdk/test/promise/approvalCallback.test.ts"] }
  },
  {
    name: "forgets the name of a list",
    file: "tool/internal/scrub/JsonFields.ts",
    line: "if (name !== undefined || previous === undefined) return name",
    broken: "if (previous === undefined) return undefined",
    finder: { tests: ["sdk/test/tool/scrub/json.test.ts"] }
  },
  {
    name: "returns a value of JSON before it is complete",
    file: "tool/internal/scrub/JsonFields.ts",
    line: "let least = isJudged && at - reading.start <= reading.longest ? reading.start : at",
    broken: "let least = at",
    finder: { tests: ["sdk/test/tool/scrub/json.test.ts"] }
  },
  {
    name: "redacts the strings of JSON without their names",
    file: "run/internal/redact.ts",
    line: "redactStrings(scrubber, withoutNamed(scrubber, value))",
    broken: "redactStrings(scrubber, value)",
    finder: { tests: ["sdk/test/run/redaction.test.ts"] }
  },
  {
    name: "runs a body with a reference instead of the secret",
    file: "run/steps/settle.ts",
    line: "return invoke(this.run, call, entry.tool, resolved)",
    broken: "return invoke(this.run, call, entry.tool, [resolved, this.ready.value][1])",
    finder: { tests: ["sdk/test/run/secrets.test.ts"] }
  },
  {
    name: "tries a body again with the secret of its first try",
    file: "run/steps/settle.ts",
    line: "Effect.flatMap(again, (value) => resolved(run, call, entry, value)),",
    broken: "Effect.map(again, () => [ready.resolved, resolved][0]),",
    finder: { tests: ["sdk/test/run/secrets.test.ts"] }
  },
  {
    name: "runs a body with a reference that only its schema reveals",
    file: "run/calls/secrets.ts",
    line: "return isLeft && !isOfValue ? yield* unfit() : value",
    broken: "return isLeft && isOfValue ? yield* unfit() : value",
    finder: { tests: ["sdk/test/run/secrets.test.ts"] }
  },
  {
    name: "asks the source for an unreadable secret",
    file: "tool/internal/secretReferences.ts",
    line: '!secret.includes(":") && patterns',
    broken: "patterns",
    finder: { tests: ["sdk/test/run/secrets.test.ts"] }
  },
  {
    name: "lets every tool use every secret",
    file: "run/calls/secrets.ts",
    line: "if (!isStated(secrets, secret))",
    broken: 'if (!isStated(secrets, secret) && secret === "")',
    finder: { tests: ["sdk/test/run/secrets.test.ts"] }
  },
  {
    name: "does not remove a secret that it has resolved",
    file: "run/calls/secrets.ts",
    line: "know(secret, value)\n",
    broken: "void know\n",
    finder: { tests: ["sdk/test/run/secrets.test.ts"] }
  },
  {
    name: "fails a call in a program without secrets",
    file: "run/calls/prepareCall.ts",
    line: "if (lacksSecrets(run.drive.runtime, entry, call))",
    broken: "if (mayHaveRun && lacksSecrets(run.drive.runtime, entry, call))",
    finder: { tests: ["sdk/test/run/secrets.test.ts"] }
  },
  {
    name: "asks about a call that may not use its secret",
    file: "run/steps/classify.ts",
    line: "if (unstated !== undefined) return failWithoutSecret(",
    broken: "if (unstated !== undefined && args.shown === null) return failWithoutSecret(",
    finder: { tests: ["sdk/test/run/secrets.test.ts"] }
  },
  {
    name: "calls reconcile with a reference",
    file: "run/steps/reconcile.ts",
    line: "Effect.flatMap(value, (value) => resolved(run, call, entry, value))",
    broken: "Effect.tap(value, () => Effect.sync(() => resolved))",
    finder: { tests: ["sdk/test/run/secrets.test.ts"] }
  },
  {
    name: "resolves a text that was approved as a text",
    file: "agent/BoundAgent.ts",
    line: "secrets === undefined ? parameters : { parameters, secrets: true }",
    broken: "secrets === undefined ? parameters : { ...parameters }",
    finder: { tests: ["sdk/test/run/secrets.test.ts"] }
  },
  {
    name: "takes a reference for a password",
    file: "tool/internal/scrub/scan.ts",
    line: "const text = maskedReferences(given)",
    broken: "const text = [given, maskedReferences][0] as string",
    finder: { tests: ["sdk/test/tool/Scrubber.test.ts"] }
  },
  {
    name: "does not know the key of a client before its first request",
    file: "agent/internal/configuration.ts",
    line: "yield* knowSecretsOf(model)",
    broken: "void knowSecretsOf",
    finder: { tests: ["sdk/test/agent/knownSecrets.test.ts"] }
  },
  {
    name: "keeps the secrets of the process in a streamed output",
    file: "tool/Scrubber.ts",
    line: "push: (chunk) => pushed(stream, known.push(chunk)),",
    broken: "push: (chunk) => pushed(stream, chunk),",
    finder: { tests: ["sdk/test/agent/knownSecrets.test.ts"] }
  },
  {
    name: "publishes the deltas of a response as they are",
    file: "run/steps/callModel.ts",
    line: "shown?.add(part)",
    broken: 'drive.onUpdate?.({ _tag: "delta", runId, agentRunId, agentPath, turn, part })',
    finder: { tests: ["sdk/test/run/shownParts.test.ts"] }
  },
  {
    name: "keeps the end of a text whose stream was cut from subscribers",
    file: "run/steps/callModel.ts",
    line: "shown?.end()",
    broken: "void shown",
    finder: { tests: ["sdk/test/run/shownParts.test.ts"] }
  },
  {
    name: "scrubs each delta of a response by itself",
    file: "run/internal/ShownParts.ts",
    line: "growing.stream.push(part.delta)",
    broken: "this.#scrubber.redact(part.delta)",
    finder: { tests: ["sdk/test/run/shownParts.test.ts"] }
  },
  {
    name: "judges a sentence in quotes by itself",
    file: "tool/internal/scrub/scrubText.ts",
    line: "isUnquoted(text.slice(from, end))",
    broken: "isUnquoted(text.slice(from, from))",
    finder: { tests: ["sdk/test/tool/scrub/properties.test.ts"] }
  },
  {
    name: "shows the causes of an error as they are",
    file: "agent/internal/redactError.ts",
    line: "this.copy(named.get(key) ?? field, depth)",
    broken: "named.get(key) ?? field",
    finder: { tests: ["sdk/test/agent/causes.test.ts"] }
  },
  {
    name: "shows the fields of an error whose keys are symbols",
    file: "agent/internal/redactError.ts",
    line: "const keys = Reflect.ownKeys(value)",
    broken: "const keys = Object.getOwnPropertyNames(value)",
    finder: { tests: ["sdk/test/agent/causes.test.ts"] }
  },
  {
    name: "shows the maps, the headers and the JSON of an error",
    file: "agent/internal/redactError.ts",
    line: "const inPlace = this.copy(shownFor(value), depth)",
    broken: "const inPlace = ((_: unknown): unknown => undefined)(shownFor)",
    finder: { tests: ["sdk/test/agent/causes.test.ts"] }
  },
  {
    name: "calls the getters of an error",
    file: "agent/internal/redactError.ts",
    line: "else if (enumerable) put(shown as PropertyKey, this.#leaveOut(), true)",
    broken: "else if (enumerable) put(shown as PropertyKey, this.copy(Reflect.get(value, key), depth), true)",
    finder: { tests: ["sdk/test/agent/causes.test.ts"] }
  },
  {
    name: "reads an error without bounds",
    file: "agent/internal/redactError.ts",
    line: "if (keys.length > this.#values) return this.#leaveOut()",
    broken: "if (keys.length > this.#values * 1e9) return this.#leaveOut()",
    finder: { tests: ["sdk/test/agent/causes.test.ts"] }
  },
  {
    name: "logs the secrets of a resource that cannot be closed",
    file: "promise/internal/toolResources.ts",
    line: "redactCause(scrubber, cause)",
    broken: "[cause, redactCause, scrubber][0]",
    finder: { tests: ["sdk/test/promise/toolResources.test.ts"] }
  },
  {
    name: "counts a secret again that was removed before",
    file: "tool/internal/scrub/redactions.ts",
    line: "const removed = after - (before.get(type) ?? 0)",
    broken: "const removed = after - (before.get(type) ?? 0) * 0",
    finder: { tests: ["sdk/test/run/redactionCounts.test.ts"] }
  },
  {
    name: "counts no secrets in events",
    file: "run/internal/redact.ts",
    line: "counted(event, cleanEvent(scrubber, event))",
    broken: "cleanEvent(scrubber, event)",
    finder: { tests: ["sdk/test/run/redactionCounts.test.ts"] }
  },
  {
    name: "counts no secrets in the results of tools",
    file: "tool/internal/shownResult.ts",
    line: 'counted(texts.join(""), texts',
    broken: '((_: string, shown: string) => shown)(texts.join(""), texts',
    finder: { tests: ["sdk/test/run/redactionCounts.test.ts"] }
  },
  {
    name: "keeps the address of a file in a result",
    file: "tool/internal/shownResult.ts",
    line: 'if (part.source._tag !== "url") return part',
    broken: "if (part.source._tag !== undefined) return part",
    finder: { tests: ["sdk/test/tool/shownResult.test.ts"] }
  },
  {
    name: "keeps the text of a file in a prompt",
    file: "run/internal/redact.ts",
    line: "isFile(given) ? withCleanText(scrubber, given) : given",
    broken: "isFile({}) ? withCleanText(scrubber, given as never) : given",
    finder: { tests: ["sdk/test/run/redaction.test.ts"] }
  },
  {
    name: "keeps the name of an attached file",
    file: "durable/attachFile.ts",
    line: "{ name: redactText(scrubber, name) }",
    broken: "[{ name }, redactText][0] as { name: string }",
    finder: { tests: ["node/test/canary.test.ts"] }
  },
  {
    name: "keeps the error of a file that cannot be read",
    file: "durable/attachFile.ts",
    line: "${scrubber.scrub(messageOf(cause))}",
    broken: "${messageOf(cause)}",
    finder: { tests: ["node/test/canary.test.ts"] }
  },
  {
    name: "gives causes to hooks as they are",
    file: "run/internal/Drive.ts",
    line: "keepCause(event, redactCause(drive.runtime.scrubber, cause))",
    broken: "keepCause(event, [cause, redactCause][0] as typeof cause)",
    finder: { tests: ["node/test/canary.test.ts"] }
  },
  {
    name: "publishes the name of a tool that a model made up as it is",
    file: "run/internal/ShownParts.ts",
    line: "this.#grow(`${part.index}`, this.#named(part))",
    broken: "this.#grow(`${part.index}`, [part, this.#named(part)][0] as typeof part)",
    finder: { tests: ["sdk/test/run/shownParts.test.ts"] }
  },
  {
    name: "shows an error by its own methods",
    file: "agent/internal/redactError.ts",
    line: "for (const shown of saidBy(value)) this.copy(shown, depth)",
    broken: "for (const shown of [saidBy]) this.copy(typeof shown, depth)",
    finder: { tests: ["sdk/test/agent/causes.test.ts"] }
  },
  {
    name: "removes the words that servers without keys take",
    file: "model/internal/knownSecrets.ts",
    line: "if (!isWords.test(credential) &&",
    broken: "if (isWords.source !== credential &&",
    finder: { tests: ["sdk/test/agent/knownSecrets.test.ts"] }
  },
  {
    name: "keeps all secrets of a process for ever",
    file: "model/internal/knownSecrets.ts",
    line: "if (secrets.size <= mostSecrets) return",
    broken: "if (secrets.size <= mostSecrets * 2) return",
    finder: { tests: ["sdk/test/agent/knownSecrets.test.ts"] }
  },
  {
    name: "repeats a call in doubt",
    file: "run/steps/reconcile.ts",
    line: "if (isRepeatable(found) && mayRepeat) {",
    broken: "if (mayRepeat || found.attempt >= 0) {",
    finder: { scenario: "act" }
  },
  {
    name: "ignores that a request has expired",
    file: "domain/internal/judgeDecision.ts",
    line: "isExpired(request, now) ? expiryDecision",
    broken: "isExpired(request, now - now) ? expiryDecision",
    finder: { meeting: "expires+approves" }
  },
  {
    name: "acknowledges a second decision",
    file: "domain/internal/judgeDecision.ts",
    line: "isRepeated(first, decision) ? { first } : { refusal: decidedFirst(first) }",
    broken: "isRepeated(first, decision) ? { first } : { first: decision }",
    finder: { seeds: 300 }
  },
  {
    name: "commits a transaction in which a statement failed",
    file: "store/internal/sql/access.ts",
    line: "if (failed !== undefined) return",
    broken: "if (failed !== failed) return",
    finder: { tests: ["node/test/postgres/failedStatements.test.ts"] }
  },
  {
    name: "parks past mail",
    file: "store/internal/sql/journal.ts",
    line: "      if (hasMail) return yield* new NotParked()",
    broken: "      if (hasMail && expected < 0) return yield* new NotParked()",
    finder: { seeds: 300 }
  },
  {
    name: "ends a run past a decision",
    file: "store/internal/sql/journal.ts",
    line: "const mayEndUnread = !parking && ",
    broken: "const mayEndUnread = parking && ",
    finder: { tests: ["node/test/SqliteStore.test.ts"] }
  },
  {
    name: "loses a cancellation in a park",
    file: "store/internal/sql/journal.ts",
    line: "sql` AND (${parked} = 0 OR cancel_reason IS NULL)`",
    broken: "sql` AND (${parked} = ${parked})`",
    finder: { meeting: "completes+cancels" }
  },
  {
    name: "trusts a lease for ever",
    file: "durable/internal/storeJournal.ts",
    line: "isStale: () => owned.clock.monotonicTimeNanosUnsafe() >= owned.goodUntil,",
    broken: "isStale: () => owned.goodUntil < 0n,",
    finder: { tests: ["sdk/test/run", "sdk/test/durable", "node/test/race.test.ts"] }
  },
  {
    name: "cancels a stored run when its runtime is closed",
    file: "run/internal/Drive.ts",
    line: "if (!this.isLeft()) this.token.cancel(reason)",
    broken: "this.token.cancel(reason)",
    finder: { tests: ["sdk/test/durable/closedRuntime.test.ts"] }
  },
  {
    name: "stops a held sub-agent without the sub-agents under it",
    file: "run/internal/Tasks.ts",
    line: "isRunWithin(other, name))",
    broken: "other === name)",
    finder: { tests: ["sdk/test/run/endUnder.test.ts"] }
  },
  {
    name: "commits a queued run without its hold",
    file: "run/internal/staging.ts",
    line: "return { state: evolve(state, held), events: [started, held] }",
    broken: "return { state, events: [started] }",
    finder: { scenario: "queue" }
  },
  {
    name: "lets a worker start a queued run",
    file: "durable/recover.ts",
    line: '"~queued": "keep"',
    broken: "",
    finder: { scenario: "queue" }
  },
  {
    name: "resumes a run that failed elsewhere while it was queued",
    file: "durable/internal/continueStored.ts",
    line: 'if (state.status === "error" && dequeued === "start") return state',
    broken: "",
    finder: { tests: ["sdk/test/dispatch/queue.test.ts"] }
  },
  {
    name: "counts the handles of a quorum instead of its runs",
    file: "dispatch/internal/conductor/joins.ts",
    line: "runs.set(handle.runId, before === undefined ? [handle] : [...before, handle])",
    broken:
      "runs.set(before === undefined ? handle.runId : (`${handle.runId}+${runs.size}` as RunId), [handle])",
    finder: { tests: ["sdk/test/dispatch/Conductor.test.ts"] }
  },
  {
    name: "spares a report turn that calls a tool",
    file: "domain/internal/reports.ts",
    line: 'if (response.some((part) => part._tag === "toolCall" && part.name !== waitName)) return false',
    broken: "",
    finder: { tests: ["sdk/test/run/reportTurns.test.ts"] }
  },
  {
    name: "counts a run again that its conductor has already",
    file: "dispatch/internal/conductor/RunPool.ts",
    line: "if (known !== undefined) return known",
    broken: "",
    finder: { tests: ["sdk/test/dispatch/Conductor.test.ts"] }
  },
  {
    name: "does not read back after a lost commit",
    file: "store/internal/sql/access.ts",
    line: "unknown ? resolve(operation, refusal, query(operation, committed)) : Effect.fail(refusal)",
    broken:
      "unknown && operation === '' ? resolve(operation, refusal, query(operation, committed)) : Effect.fail(refusal)",
    finder: { tests: ["node/test/postgres/commitOutcome.test.ts"] }
  },
  {
    name: "takes a message twice",
    file: "store/internal/sql/messages.ts",
    line: "if (waited === undefined && (yield* insert(runId, taken)).length === 0) return false",
    broken: "if (waited === undefined) yield* insert(runId, taken)",
    finder: { tests: ["node/test/SqliteStore.test.ts"] }
  },
  {
    name: "starts a call under a grant that was revoked",
    file: "store/internal/sql/grants.ts",
    line: "if (revokedAt === null) return []",
    broken: "if (revokedAt === null || revokedAt > 0) return []",
    finder: { scenario: "revoke elsewhere" }
  },
  {
    name: "grants a tool by its name alone",
    file: "domain/ToolIdentity.ts",
    line: 'if (!isSame(identity.agent, agent, agentAliases, peers.agents)) return "agent"',
    broken: "",
    finder: { scenario: "handoff" }
  },
  {
    name: "runs stored arguments without comparing them with what was approved",
    file: "run/calls/authorize.ts",
    line: "if (!isShown || !sameJson(shownOf(call), decided)) {",
    broken: "if (!isShown && decided === undefined) {",
    finder: { tests: ["node/test/authority/arguments.test.ts"] }
  },
  {
    name: "decodes arguments again for the body",
    file: "run/calls/prepareCall.ts",
    line: "if (schema !== undefined && rendering === undefined) return Effect.succeed(cloneJson(shownOf(call)))",
    broken: "if (schema !== undefined && rendering === undefined) return decode(call.arguments ?? {})",
    finder: { tests: ["node/test/authority/arguments.test.ts"] }
  },
  {
    name: "forgets the policy of a run's caller at a handoff",
    file: "domain/StartOptions.ts",
    line: "distinct([policy, profilePolicy, agent.policy]",
    broken: "distinct([profilePolicy, agent.policy]",
    finder: { tests: ["sdk/test/run/callerPolicy.test.ts"] }
  },
  {
    name: "begins a body after a stop that was acknowledged before its start",
    file: "run/steps/settle.ts",
    line: "if (drive.hasMail) yield* hearStops(run)",
    broken: "",
    finder: { meeting: "releases+stops" }
  },
  {
    name: "continues under a run that a decision has stopped",
    file: "domain/internal/constraints.ts",
    line: "  state.stop !== undefined || constraints.isStopped === true",
    broken: "  state.stop !== undefined",
    finder: { tests: ["sdk/test/domain/stop.test.ts"] }
  },
  {
    name: "writes without a fence",
    file: "store/internal/sql/lease.ts",
    line: "sql`run_id = ${lease.runId} AND epoch = ${lease.epoch} AND owner = ${lease.owner} AND lease_until > ${now}`",
    broken: "sql`run_id = ${lease.runId} AND ${now} = ${now}`",
    finder: { tests: ["node/test/SqliteStore.test.ts"] }
  },
  {
    name: "claims a run that is leased",
    file: "store/internal/sql/lease.ts",
    line: "access.sql`(lease_until IS NULL OR lease_until <= ${access.now} OR ${isFromFuture(access)})`",
    broken: "access.sql`(1 = 1)`",
    finder: { tests: ["node/test/SqliteStore.test.ts"] }
  },
  {
    name: "gives back the lease of another owner",
    file: "store/internal/sql/runs.ts",
    line: "WHERE run_id = ${lease.runId} AND epoch = ${lease.epoch} AND owner = ${lease.owner} RETURNING run_id`),",
    broken: "WHERE run_id = ${lease.runId} RETURNING run_id`),",
    finder: { tests: ["node/test/SqliteStore.test.ts"] }
  },
  {
    name: "publishes what an abandoned body says",
    file: "run/calls/toolBody.ts",
    line: 'return isThere(run) && findCall(stateOf(run), this.callId)?.status === "started"',
    broken: "return run !== undefined",
    finder: { tests: ["sdk/test/run/leftBehind.test.ts"] }
  },
  {
    name: "resolves a sub-agent in the agent with which the run was started",
    file: "agent/internal/definitions.ts",
    line: "holderOf(first, { name: starterName(child), peers: child.agent.starterPeers })",
    broken: "starterName(child) === '' ? undefined : first",
    finder: { tests: ["sdk/test/run/whoseBody.test.ts"] }
  },
  // Conditions drawn at random.
  {
    name: "sends to a run that is not there",
    file: "store/internal/sql/messages.ts",
    line: "if (head === undefined) return yield* new RunNotFound({ runId })",
    broken: "",
    finder: { tests: ["node/test/SqliteStore.test.ts"] }
  },
  {
    name: "records decisions that are refused among others",
    file: "store/internal/requests.ts",
    line: "if (refusal !== undefined) return Result.fail(refusal)",
    broken: "",
    finder: { tests: ["sdk/test/store/RunStore.test.ts"] }
  },
  {
    name: "does not store the first events of a resumed run",
    file: "durable/internal/continueStored.ts",
    line: "  yield* journal.append(events, after)",
    broken: "",
    finder: { tests: ["sdk/test/run", "sdk/test/durable"] }
  },
  {
    name: "begins sub-agents past the budget",
    file: "run/steps/subAgents.ts",
    line: 'if (room === "room") yield* run.perform(run, step)',
    broken: "yield* run.perform(run, step)",
    finder: { tests: ["sdk/test/run", "sdk/test/durable"] }
  },
  {
    name: "reads a checkpoint that lacks a part",
    file: "store/internal/sql/checkpoints.ts",
    line: "if (found !== Number(row.chunks) || found !== chunks.length) return undefined",
    broken: "",
    finder: { tests: ["node/test/SqliteStore.test.ts"] }
  },
  {
    name: "reports a waiting sub-agent as running",
    file: "dispatch/internal/handle/SubAgentHandle.ts",
    line: 'return open > 0 ? "held" : "running"',
    broken: 'return open < 0 ? "held" : "running"',
    finder: { tests: ["sdk/test/dispatch"] }
  },
  {
    name: "reconciles no call in doubt",
    file: "run/steps/reconcile.ts",
    line: "if (reconcile === undefined) return unknown",
    broken: "if (reconcile !== undefined) return unknown",
    finder: { tests: ["sdk/test/run/reconcile.test.ts"] }
  },
  {
    name: "starts the sub-agents that a rule asks about",
    file: "run/calls/judgeAgentCall.ts",
    line: 'const isApproved = record?.decision?._tag === "approve" && record.decision.arguments === undefined',
    broken: "const isApproved = true",
    finder: { tests: ["sdk/test/run/agentRules.test.ts"] }
  },
  {
    name: "runs calls that need approval",
    file: "run/calls/judgeCall.ts",
    line: 'if (verdict._tag === "run") return classifyTool(run, call, entry, args, { allowedBy: verdict.by })',
    broken:
      'if (verdict._tag !== "deny") return classifyTool(run, call, entry, args, { allowedBy: "policy" })',
    finder: { tests: ["sdk/test/run/askedAbout.test.ts"] }
  },
  {
    name: "stores events that cannot be read back",
    file: "durable/internal/storeJournal.ts",
    line: "if (areReadable(events)) return undefined",
    broken: "if (events.length > 0) return undefined",
    finder: { tests: ["sdk/test/run/defects.test.ts"] }
  },
  {
    name: "queues messages without content",
    file: "store/internal/messages.ts",
    line: 'if (!Array.isArray(content) || content.length === 0) return refuse("it has no content")',
    broken: "",
    finder: { tests: ["sdk/test/store/RunStore.test.ts"] }
  },
  {
    name: "repeats a body whose grant was revoked",
    file: "run/calls/prepareCall.ts",
    line: 'if (standing._tag === "lapsed" && mayHaveRun) return openInDoubt(run, call, standing.reason)',
    broken: 'if (standing._tag === "lapsed" && mayHaveRun) return { call, entry, value: shownOf(call) }',
    finder: { tests: ["sdk/test/run/judgedAgain.test.ts"] }
  },
  {
    name: "forgets an approver's edit at a retry",
    file: "run/calls/prepareCall.ts",
    line: "const json = edit ?? askedFor(call)",
    broken: "const json = askedFor(call)",
    finder: { tests: ["sdk/test/run/redeployed.test.ts"] }
  },
  {
    name: "runs other arguments under the key of a call that may have run",
    file: "run/calls/prepareCall.ts",
    line: "askAgain(judging, judging.mayHaveRun ? undefined : askedFor(judging.call), reason)",
    broken: "askAgain({ ...judging, mayHaveRun: false }, askedFor(judging.call), reason)",
    finder: { tests: ["sdk/test/run/redeployed.test.ts"] }
  },
  {
    name: "waits for the removed tool of a call that may have run",
    file: "domain/next.ts",
    line: '(call) => isOrphan(call) && (call.safety !== "readOnly" || !isUnavailable(call, constraints))',
    broken: "(call) => isOrphan(call) && !isUnavailable(call, constraints)",
    finder: { tests: ["sdk/test/run/redeployed.test.ts"] }
  },
  {
    name: "reconciles with another tool than the one that was started",
    file: "run/steps/reconcile.ts",
    line: 'if (other === "agent" || other === "tool" || other === "identity") return unknown',
    broken: "",
    finder: { tests: ["sdk/test/run/redeployed.test.ts"] }
  },
  {
    name: "runs approved arguments that the current schema refuses",
    file: "run/calls/prepareCall.ts",
    line: "? Effect.andThen(checkShown(run, call, entry), value)",
    broken: "? value",
    finder: { tests: ["sdk/test/run/redeployed.test.ts"] }
  },
  {
    name: "notifies no run at work of a cancellation",
    file: "durable/internal/lease.ts",
    line: "const subscribed = subscribe(store, clock, { runId: lease.runId, onNotice: notice })",
    broken: "const subscribed = subscribe(store, clock, { runId: lease.runId, onNotice: () => {} })",
    finder: { tests: ["sdk/test/durable/promptness.test.ts"] }
  },
  {
    name: "resumes no background sub-agent while its lead is at work",
    file: "run/internal/attending.ts",
    line: "yield* resumeBackground(run)",
    broken: "",
    finder: { tests: ["sdk/test/durable/promptness.test.ts"] }
  },
  {
    name: "calls a model before it reads what was sent",
    file: "run/internal/stops.ts",
    line: "else takeNotice(drive, yield* drive.journal.news)",
    broken: "",
    finder: { tests: ["sdk/test/durable/promptness.test.ts"] }
  },
  {
    name: "starts reads under a grant before their turn",
    file: "run/steps/settle.ts",
    line: "callIds.length > toolConcurrency && mayLapse(run, callIds)",
    broken: "callIds.length < 0",
    finder: { tests: ["node/test/authority/judgedAgain.test.ts"] }
  },
  {
    name: "does not inform the model of an edit",
    file: "domain/internal/turn.ts",
    line: "result: { outcome, content: informed(open, content), at }",
    broken: "result: { outcome, content, at }",
    finder: { tests: ["sdk/test/model/editedCall.test.ts"] }
  },
  {
    name: "rewrites the results of an earlier version",
    file: "domain/internal/decided.ts",
    line: "informs === true ? decision.note : undefined",
    broken: "informs === informs ? decision.note : undefined",
    finder: { tests: ["sdk/test/domain/evolve.test.ts"] }
  },
  {
    name: "asks about a denied call again",
    file: "run/calls/deniedBefore.ts",
    line: "if (!hasDenial(state, tool)) return undefined",
    broken: "if (hasDenial(state, tool) || tool.length >= 0) return undefined",
    finder: { tests: ["sdk/test/scenario/denials.test.ts"] }
  },
  {
    name: "starts an allowed call that was denied since",
    file: "run/calls/factsStanding.ts",
    line: "if ((yield* deniedBefore(run, definition, shownOf(call), facts)) !== undefined)",
    broken: "if ((yield* deniedBefore(run, definition, shownOf(call), facts)) === null)",
    finder: { tests: ["sdk/test/scenario/denials.test.ts"] }
  },
  {
    name: "counts an expiry as a denial that stands",
    file: "domain/internal/denials.ts",
    line: 'decision.by !== "expiry" &&',
    broken: 'decision.by !== "" &&',
    finder: { tests: ["sdk/test/domain/internal/denials.test.ts"] }
  },
  {
    name: "lets a program reopen a denial",
    file: "domain/internal/reopening.ts",
    line: 'if (kind !== "person") {',
    broken: 'if (kind === "policy") {',
    finder: { tests: ["sdk/test/scenario/denials.test.ts"] }
  },
  {
    name: "loses the reopening of a stored message",
    file: "store/internal/sql/rows.ts",
    line: "...(reopens === null ? {} : { reopens })",
    broken: "...(reopens === null || reopens.at >= 0 ? {} : { reopens })",
    finder: { tests: ["node/test/denials.test.ts"] }
  },
  {
    name: "runs a call under an approval of other facts",
    file: "run/calls/factsStanding.ts",
    line: "if (sameJson(shown, facts) ||",
    broken: "if (sameJson(facts, facts) ||",
    finder: { tests: ["sdk/test/scenario/facts.test.ts"] }
  },
  {
    name: "records a decision on a request with other facts",
    file: "run/calls/digest.ts",
    line: "facts === undefined ? shown : [...shown, facts]",
    broken: "facts === facts ? shown : [...shown, facts]",
    finder: { tests: ["sdk/test/run/digest.test.ts"] }
  },
  {
    name: "opens a request without its facts",
    file: "run/calls/facts.ts",
    line: 'if (json === undefined) return Effect.fail("they are not JSON")',
    broken: "if (json === undefined) return Effect.succeed(undefined)",
    finder: { tests: ["sdk/test/scenario/facts.test.ts"] }
  },
  {
    name: "lets a grant cover other facts",
    file: "domain/Grant.ts",
    line: 'granted === "any" || sameJson(granted?.equal, facts)',
    broken: 'granted === "any" || granted === granted || sameJson(granted?.equal, facts)',
    finder: { tests: ["sdk/test/scenario/facts.test.ts"] }
  },
  {
    name: "tries a body again with other facts",
    file: "run/steps/settle.ts",
    line: "onSuccess: (stated) => sameJson(stated, facts),",
    broken: "onSuccess: (stated) => sameJson(stated, stated),",
    finder: { tests: ["sdk/test/run/facts.test.ts"] }
  }
]

/** Makes a copy of this tree whose `@fermata` packages are its own. */
const copyTree = (): string => {
  const tree = Fs.mkdtempSync(Path.join(Os.tmpdir(), "fermata-mutant-"))
  for (const name of ["packages", "scripts"]) {
    Fs.cpSync(Path.join(root, name), Path.join(tree, name), {
      recursive: true,
      filter: (from) => !["node_modules", "dist"].includes(Path.basename(from))
    })
  }
  for (const name of ["package.json", "tsconfig.json", "tsconfig.base.json", "vitest.workspace.ts"]) {
    Fs.copyFileSync(Path.join(root, name), Path.join(tree, name))
  }
  const modules = Path.join(root, "node_modules")
  Fs.mkdirSync(Path.join(tree, "node_modules/@fermata"), { recursive: true })
  for (const name of Fs.readdirSync(modules)) {
    if (name !== "@fermata") Fs.symlinkSync(Path.join(modules, name), Path.join(tree, "node_modules", name))
  }
  for (const name of Fs.readdirSync(Path.join(tree, "packages"))) {
    Fs.symlinkSync(Path.join(tree, "packages", name), Path.join(tree, "node_modules/@fermata", name))
  }
  return tree
}

const commandOf = ({ finder }: SourceMutant): readonly [string, ...ReadonlyArray<string>] => {
  const crash = ["node", "--conditions=@fermata/source", "scripts/crash.ts"] as const
  if ("scenario" in finder) return [...crash, "--only", finder.scenario, "--points", "500", "--first"]
  if ("meeting" in finder) return [...crash, "--only", finder.meeting, "--first"]
  if ("seeds" in finder) return [...crash, "--part", "seeds", "--runs", String(finder.seeds)]
  return ["vitest", "run", "--config=vitest.workspace.ts", ...finder.tests.map((test) => `packages/${test}`)]
}

/** What fails in the output of a finder. */
const failuresOf = ({ ok, output }: RunResult): string | undefined => {
  if (ok) return undefined
  const failed = stripVTControlCharacters(output).match(/^ *FAIL .*|.*violation.*/gim) ?? []
  return [...new Set(failed)].slice(0, 5).join("; ") || output.slice(-500)
}

/** Checks that the finder of a mutant passes on unchanged sources and fails on the broken ones. */
export const findSourceMutants = async (options: {
  readonly only: string | undefined
  readonly progress: (text: string) => void
}): Promise<{ readonly found: ReadonlyArray<string>; readonly violations: ReadonlyArray<string> }> => {
  const tree = copyTree()
  const found: Array<string> = []
  const violations: Array<string> = []
  const reasons = new Map<string, string | undefined>()
  try {
    for (const mutant of sourceMutants) {
      const { broken, file, line, name } = mutant
      if (options.only !== undefined && !name.includes(options.only)) continue
      const path = Path.join(tree, "packages/sdk/src", file)
      const source = Fs.readFileSync(path, "utf8")
      if (source.split(line).length !== 2) {
        violations.push(`${name}: ${file} does not have the line once`)
        continue
      }
      const [program, ...args] = commandOf(mutant)
      const key = [program, ...args].join(" ")
      if (!reasons.has(key)) reasons.set(key, failuresOf(await run(program, args, { cwd: tree })))
      const failures = reasons.get(key)
      if (failures !== undefined) {
        violations.push(`${name}: "${key}" fails without it: ${failures}`)
        continue
      }
      Fs.writeFileSync(
        path,
        source.replace(line, () => broken)
      )
      const result = await run(program, args, { cwd: tree })
      Fs.writeFileSync(path, source)
      if (result.ok) violations.push(`a library that ${name} is not found by "${key}"`)
      else found.push(name)
      options.progress(
        `${result.ok ? "NOT FOUND" : "found"}: ${name} (${Math.round(result.durationMs / 1000)} s)`
      )
    }
  } finally {
    Fs.rmSync(tree, { recursive: true, force: true })
  }
  return { found, violations }
}

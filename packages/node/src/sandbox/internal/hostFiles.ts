/**
 * The path guard of another machine: the rules of {@link PathGuard} about files that scripts of a shell reach.
 *
 * A script resolves a path, the rules decide about the place, and the operation does nothing if the path leads elsewhere by then. Commands in
 * the sandbox could still change a path during an operation: the rules bind paths that a model gives, and confine no command.
 */
import { randomBytes } from "node:crypto"
import { posix } from "node:path"
import * as Effect from "effect/Effect"
import type { FileInfo, FileType } from "../../guard/internal/fileAccess.ts"
import type { AccessError, AccessOptions, PathGuard } from "../../guard/internal/guarded.ts"
import {
  denied,
  FileError,
  type FileProblem,
  PathDenied,
  type Reason
} from "../../guard/internal/pathErrors.ts"
import {
  type Access,
  isSystem,
  judgeNames,
  type ParsedRules,
  parseRules,
  type Root,
  rootOf,
  type Rules
} from "../../guard/internal/pathRules.ts"
import { malformed } from "../../guard/internal/realPath.ts"
import * as Scripts from "./fileScripts.ts"
import type { ScriptOptions, ShellHost } from "./shellHost.ts"

interface Located {
  readonly given: string
  readonly path: string
  readonly real: string
  readonly root: Root
  readonly exists: boolean
  readonly links: number
  readonly info: FileInfo
}

interface Request {
  readonly given: string
  readonly access: Access
  readonly approved: boolean
  readonly keepsLink?: boolean
  readonly isTree?: boolean
}

/** Makes the guard of the files of a machine. The working directory is the first that may be written. */
export const hostGuard = (
  host: ShellHost,
  rules: Rules & { readonly write: ReadonlyArray<string> }
): PathGuard => new HostGuard(host, parseRules(rules))

class HostGuard implements PathGuard {
  private readonly host: ShellHost
  private readonly rules: ParsedRules

  constructor(host: ShellHost, rules: ParsedRules) {
    this.host = host
    this.rules = rules
  }

  readonly judge: PathGuard["judge"] = (path, access) =>
    Effect.match(
      Effect.tap(this.locate({ given: path, access, approved: false }), (file) => {
        if (file.real === file.root.path && access === "write") return this.requireInside(file)
        return file.info.type === "directory" ? Effect.void : this.requireFile(file, undefined)
      }),
      {
        onSuccess: ({ real }) => ({ decision: "allow" as const, place: real }),
        onFailure: (error) =>
          error instanceof PathDenied
            ? { decision: error.isApprovable ? ("ask" as const) : ("deny" as const), denial: error }
            : { decision: "allow" as const, place: undefined }
      }
    )

  readonly openRead: PathGuard["openRead"] = (path, options) =>
    Effect.map(this.readable(path, options), (file) => ({
      info: file.info,
      read: (offset, length) =>
        Effect.catchTag(
          this.perform(file, Scripts.readPart, [file.path, file.real, String(offset), String(length)]),
          "PathDenied",
          () => Effect.fail(new FileError({ path, reason: "failed" }))
        )
    }))

  readonly readFile: PathGuard["readFile"] = (path, options) =>
    Effect.gen({ self: this }, function* () {
      const file = yield* this.readable(path, options)
      const most = options?.maxBytes ?? this.rules.maxBytes
      if (file.info.sizeBytes > most) return yield* Effect.fail(denied(path, "tooLarge"))
      const content = yield* this.perform(file, Scripts.read, [file.path, file.real])
      return content.length > most ? yield* Effect.fail(denied(path, "tooLarge")) : content
    })

  readonly writeFile: PathGuard["writeFile"] = (path, content, options) =>
    Effect.gen({ self: this }, function* () {
      const file = yield* this.locate(requestOf(path, "write", options))
      yield* this.requireFile(file, options)
      const name = `.fermata-${randomBytes(8).toString("hex")}.tmp`
      const bytes = Buffer.from(content)
      const isNew = options?.mustBeNew === true ? "1" : "0"
      const args = [file.path, file.real, isNew, name, String(bytes.length)]
      yield* this.perform(file, Scripts.write, args, bytes)
    })

  readonly makeDirectory: PathGuard["makeDirectory"] = (path, options) =>
    Effect.gen({ self: this }, function* () {
      const file = yield* this.locate({ ...requestOf(path, "write", options), isTree: true })
      yield* this.perform(file, Scripts.makeDirectory, [file.path, file.real])
    })

  readonly list: PathGuard["list"] = (path, options) =>
    Effect.gen({ self: this }, function* () {
      const file = yield* this.locate(requestOf(path, "read", options))
      const most = options?.maxEntries ?? 10_000
      const output = yield* this.perform(file, Scripts.list, [file.path, file.real, String(most + 1)])
      const entries = output
        .toString()
        .split("\0")
        .slice(0, -1)
        .map((line) => ({ type: typeOf(line[0]), name: line.slice(1) }))
        .sort((a, b) => (a.name < b.name ? -1 : 1))
      return { entries: entries.slice(0, most), isComplete: entries.length <= most }
    })

  readonly stat: PathGuard["stat"] = (path, options) =>
    Effect.flatMap(this.locate(requestOf(path, "read", options)), ({ exists, info }) =>
      exists ? Effect.succeed(info) : Effect.fail(new FileError({ path, reason: "notFound" }))
    )

  readonly remove: PathGuard["remove"] = (path, options) =>
    Effect.gen({ self: this }, function* () {
      const request = { ...requestOf(path, "write", options), keepsLink: true, isTree: true }
      const file = yield* this.locate(request)
      yield* this.requireInside(file)
      yield* this.perform(file, Scripts.remove, [
        file.path,
        file.real,
        options?.recursive === true ? "1" : "0"
      ])
    })

  readonly rename: PathGuard["rename"] = (from, to, options) =>
    Effect.gen({ self: this }, function* () {
      const whole = { keepsLink: true, isTree: true }
      const source = yield* this.locate({ ...requestOf(from, "write", options), ...whole })
      // What may not be read under its name must not become readable under another one.
      yield* this.locate({ ...requestOf(from, "read", options), ...whole })
      const target = yield* this.locate({ ...requestOf(to, "write", options), ...whole })
      yield* this.requireInside(source)
      yield* this.requireInside(target)
      const mayReplace = options?.mayReplace === true ? "1" : "0"
      yield* this.perform(target, Scripts.rename, [
        source.path,
        source.real,
        target.path,
        target.real,
        mayReplace
      ])
    })

  /** Where a path leads, after the rules have allowed the access. */
  private readonly locate = Effect.fnUntraced(
    { self: this as HostGuard },
    function* (this: HostGuard, request: Request): Effect.fn.Return<Located, AccessError> {
      const { access, approved, given, isTree = false, keepsLink = false } = request
      const { rules } = this
      const problem = malformed(given)
      if (problem !== undefined) return yield* Effect.fail(problem)
      const path = posix.resolve(rules.base, given)
      if (isSystem(path, rootOf(rules.roots, path))) return yield* Effect.fail(denied(given, "system"))
      const keep = keepsLink && path !== "/"
      const isInside = rootOf(rules.roots, path) !== undefined
      const output = yield* this.script(given, Scripts.locate, { args: [path, keep ? "1" : "0"] }).pipe(
        // The error must not reveal what exists outside.
        Effect.mapError((error) =>
          isInside || error instanceof PathDenied ? error : denied(given, "outside")
        )
      )
      const [real = "", kind, links, size, time, mode] = output.toString().split("\0")
      const root = rootOf(rules.roots, real)
      if (isSystem(real, root)) return yield* Effect.fail(denied(given, "system"))
      if (root === undefined) return yield* Effect.fail(denied(given, "outside"))
      const own = `${posix.relative(root.path, real).toLowerCase()}/`
      if (/(^|\/)(\.fermata\/|fermata\.db[/.-])/.test(own)) return yield* Effect.fail(denied(given, "own"))
      const verdict = judgeNames(rules, given, { root, real, access, isTree })
      if (verdict !== undefined && !(verdict.decision === "ask" && approved))
        return yield* Effect.fail(verdict.denial)
      return {
        given,
        path,
        real,
        root,
        exists: kind !== "n",
        links: Number(links),
        info: {
          type: typeOf(kind),
          sizeBytes: Number(size),
          modifiedAt: Number(time) * 1000,
          mode: Number.parseInt(mode ?? "0", 8)
        }
      }
    }
  )

  private readable(path: string, options: AccessOptions | undefined): Effect.Effect<Located, AccessError> {
    return Effect.gen({ self: this }, function* () {
      const file = yield* this.locate(requestOf(path, "read", options))
      if (!file.exists) return yield* Effect.fail(new FileError({ path, reason: "notFound" }))
      yield* this.requireFile(file, options)
      return file
    })
  }

  /** Refuses everything except regular files, and files with several names (hard links) unless the rules allow them. */
  private requireFile(
    { exists, given, info, links }: Located,
    options: AccessOptions | undefined
  ): Effect.Effect<void, AccessError> {
    if (!exists) return Effect.void
    if (info.type === "directory") return Effect.fail(new FileError({ path: given, reason: "isDirectory" }))
    if (info.type !== "file") return Effect.fail(denied(given, "special"))
    const { hardLinks } = this.rules
    const isAllowed =
      links <= 1 || hardLinks === "allow" || (hardLinks === "ask" && options?.approved === true)
    return isAllowed ? Effect.void : Effect.fail(denied(given, "hardLink", hardLinks === "ask"))
  }

  private requireInside({ given, real, root }: Located): Effect.Effect<void, AccessError> {
    return real === root.path ? Effect.fail(denied(given, "root")) : Effect.void
  }

  private perform(
    { given }: Pick<Located, "given">,
    script: string,
    args: ReadonlyArray<string>,
    input?: Uint8Array
  ) {
    const isBinary = script === Scripts.read || script === Scripts.readPart
    return Effect.uninterruptible(
      this.script(given, script, { args, isBinary, ...(input === undefined ? {} : { input }) })
    )
  }

  private script(given: string, script: string, options: ScriptOptions): Effect.Effect<Buffer, AccessError> {
    return Effect.matchEffect(this.host.run(script, options), {
      onSuccess: ({ exitCode, stdout }) =>
        exitCode === 0 ? Effect.succeed(stdout) : Effect.fail(errorOf(given, exitCode)),
      onFailure: () =>
        Effect.fail(new FileError({ path: given, reason: "failed", systemCode: "EHOSTUNREACH" }))
    })
  }
}

const requestOf = (given: string, access: Access, options?: AccessOptions): Request => ({
  given,
  access,
  approved: options?.approved === true
})

const types: Readonly<Record<string, FileType>> = { f: "file", d: "directory", l: "link" }

const typeOf = (kind: string | undefined): FileType => types[kind ?? ""] ?? "other"

const refusals: ReadonlyMap<number, Reason> = new Map([
  [Scripts.exitCodes.changed, "changed"],
  [Scripts.exitCodes.linkLoop, "linkLoop"]
])

const problems: ReadonlyMap<number, FileProblem> = new Map(
  (["notFound", "exists", "isDirectory", "notDirectory", "notEmpty", "noPermission"] as const).map(
    (problem) => [Scripts.exitCodes[problem], problem]
  )
)

const errorOf = (path: string, exitCode: number): AccessError => {
  const refusal = refusals.get(exitCode)
  return refusal === undefined
    ? new FileError({ path, reason: problems.get(exitCode) ?? "failed", systemCode: `exit ${exitCode}` })
    : denied(path, refusal)
}

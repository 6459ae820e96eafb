/**
 * The path guard of another machine: the rules of {@link PathGuard} about files that scripts of a shell reach.
 *
 * The rules decide about the place where a path leads, and the operation does nothing if the path leads elsewhere. Most paths have no link in
 * them, so an operation first assumes that, which takes one script: it does nothing if it is not so. Otherwise a script resolves the path
 * before. Commands in the sandbox could still change a path during an operation: the rules bind paths that a model gives, and confine no
 * command.
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
import { HostLocator } from "./hostLocator.ts"
import type { ScriptOptions, ShellHost } from "./shellHost.ts"

/** A path whose place the rules allow. */
interface Target {
  readonly given: string
  readonly path: string
  readonly real: string
  readonly root: Root
}

interface Located extends Target {
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
  private readonly locator: HostLocator
  private readonly rules: ParsedRules

  constructor(host: ShellHost, rules: ParsedRules) {
    this.host = host
    this.locator = new HostLocator(host)
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
      const most = options?.maxBytes ?? this.rules.maxBytes
      const target = this.expected(requestOf(path, "read", options))
      if (target !== undefined) {
        const args = [target.path, target.real, String(most), this.mostLinks(options)]
        const content = yield* this.tryTo(target, Scripts.readPlain, args)
        if (content !== undefined && content.length <= most) return content
      }
      const file = yield* this.readable(path, options)
      if (file.info.sizeBytes > most) return yield* Effect.fail(denied(path, "tooLarge"))
      const content = yield* this.perform(file, Scripts.read, [file.path, file.real])
      return content.length > most ? yield* Effect.fail(denied(path, "tooLarge")) : content
    })

  readonly writeFile: PathGuard["writeFile"] = (path, content, options) =>
    Effect.gen({ self: this }, function* () {
      const request = requestOf(path, "write", options)
      const bytes = Buffer.from(content)
      const isNew = options?.mustBeNew === true ? "1" : "0"
      const argsOf = ({ path, real }: Target, mostLinks: string) => {
        const name = `.fermata-${randomBytes(8).toString("hex")}.tmp`
        return [path, real, isNew, name, String(bytes.length), mostLinks]
      }
      const target = this.expected(request)
      if (target !== undefined) {
        const args = argsOf(target, this.mostLinks(options))
        if ((yield* this.tryTo(target, Scripts.write, args, bytes)) !== undefined) return
      }
      const file = yield* this.locate(request)
      yield* this.requireFile(file, options)
      yield* this.perform(file, Scripts.write, argsOf(file, ""), bytes)
    })

  readonly makeDirectory: PathGuard["makeDirectory"] = (path, options) =>
    Effect.gen({ self: this }, function* () {
      const request = { ...requestOf(path, "write", options), isTree: true }
      yield* this.act(request, Scripts.makeDirectory, ({ path, real }) => [path, real])
    })

  readonly list: PathGuard["list"] = (path, options) =>
    Effect.gen({ self: this }, function* () {
      const most = options?.maxEntries ?? 10_000
      const output = yield* this.act(requestOf(path, "read", options), Scripts.list, ({ path, real }) => [
        path,
        real,
        String(most + 1)
      ])
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
      const isRecursive = options?.recursive === true ? "1" : "0"
      yield* this.act(request, Scripts.remove, ({ path, real }) => [path, real, isRecursive], true)
    })

  readonly rename: PathGuard["rename"] = (from, to, options) =>
    Effect.gen({ self: this }, function* () {
      const whole = { keepsLink: true, isTree: true }
      const requests = [
        { ...requestOf(from, "write", options), ...whole },
        // What may not be read under its name must not become readable under another one.
        { ...requestOf(from, "read", options), ...whole },
        { ...requestOf(to, "write", options), ...whole }
      ] as const
      const mayReplace = options?.mayReplace === true ? "1" : "0"
      const argsOf = (source: Target, target: Target) => [
        source.path,
        source.real,
        target.path,
        target.real,
        mayReplace
      ]
      const [direct, readable, into] = requests.map((request) => this.expected(request))
      if (direct !== undefined && readable !== undefined && into !== undefined) {
        yield* this.requireInside(direct)
        yield* this.requireInside(into)
        if ((yield* this.tryTo(into, Scripts.rename, argsOf(direct, into))) !== undefined) return
      }
      const source = yield* this.locate(requests[0])
      yield* this.locate(requests[1])
      const target = yield* this.locate(requests[2])
      yield* this.requireInside(source)
      yield* this.requireInside(target)
      yield* this.perform(target, Scripts.rename, argsOf(source, target))
    })

  /** Where a path leads, after the rules have allowed the access. */
  private readonly locate = Effect.fnUntraced(
    { self: this as HostGuard },
    function* (this: HostGuard, request: Request): Effect.fn.Return<Located, AccessError> {
      const { given, keepsLink = false } = request
      const { rules } = this
      const problem = malformed(given)
      if (problem !== undefined) return yield* Effect.fail(problem)
      const path = posix.resolve(rules.base, given)
      if (isSystem(path, rootOf(rules.roots, path))) return yield* Effect.fail(denied(given, "system"))
      const isInside = rootOf(rules.roots, path) !== undefined
      const place = yield* Effect.mapError(this.locator.locate(path, keepsLink && path !== "/"), () =>
        // The error must not reveal what exists outside.
        isInside ? unreachable(given) : denied(given, "outside")
      )
      if (place === undefined) return yield* Effect.fail(denied(given, "linkLoop"))
      const { kind, links, real, ...info } = place
      const judged = this.judgedAt(request, real)
      if ("_tag" in judged) return yield* Effect.fail(judged)
      return {
        given,
        path,
        real,
        root: judged,
        exists: kind !== "n",
        links,
        info: { type: typeOf(kind), ...info }
      }
    }
  )

  /** What the rules say about a request whose path leads to a place: the directory that it is in, or why not. */
  private judgedAt({ access, approved, given, isTree = false }: Request, real: string): Root | PathDenied {
    const { rules } = this
    const root = rootOf(rules.roots, real)
    if (isSystem(real, root)) return denied(given, "system")
    if (root === undefined) return denied(given, "outside")
    const own = `${posix.relative(root.path, real).toLowerCase()}/`
    if (/(^|\/)(\.fermata\/|fermata\.db[/.-])/.test(own)) return denied(given, "own")
    const verdict = judgeNames(rules, given, { root, real, access, isTree })
    return verdict === undefined || (verdict.decision === "ask" && approved) ? root : verdict.denial
  }

  /** A path that leads where it seems to, if the rules allow that; otherwise it has to be looked at. */
  private expected(request: Request): Target | undefined {
    const { given } = request
    if (malformed(given) !== undefined) return undefined
    const path = posix.resolve(this.rules.base, given)
    const judged = this.judgedAt(request, path)
    return "_tag" in judged ? undefined : { given, path, real: path, root: judged }
  }

  /** Runs a script on a place that is only assumed. Returns `undefined`, and has done nothing, if the place is another one or unusual. */
  private tryTo(target: Target, script: string, args: ReadonlyArray<string>, input?: Uint8Array) {
    return Effect.catch(
      this.perform(target, script, args, input) as Effect.Effect<Buffer | undefined, AccessError>,
      (error) => (isUnexpected(error) ? Effect.succeed(undefined) : Effect.fail(error))
    )
  }

  /** Runs a script on the place of a request. With `isInside`, that may be no directory of the rules itself. */
  private act(
    request: Request,
    script: string,
    argsOf: (target: Target) => ReadonlyArray<string>,
    isInside = false
  ): Effect.Effect<Buffer, AccessError> {
    return Effect.gen({ self: this }, function* () {
      const target = this.expected(request)
      if (target !== undefined && !(isInside && target.real === target.root.path)) {
        const output = yield* this.tryTo(target, script, argsOf(target))
        if (output !== undefined) return output
      }
      const file = yield* this.locate(request)
      if (isInside) yield* this.requireInside(file)
      return yield* this.perform(file, script, argsOf(file))
    })
  }

  /** How many names a file may have. */
  private mostLinks(options: AccessOptions | undefined): string {
    const { hardLinks } = this.rules
    return hardLinks === "allow" || (hardLinks === "ask" && options?.approved === true) ? "1000000" : "1"
  }

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

  private requireInside({ given, real, root }: Target): Effect.Effect<void, AccessError> {
    return real === root.path ? Effect.fail(denied(given, "root")) : Effect.void
  }

  private perform(
    { given }: Pick<Target, "given">,
    script: string,
    args: ReadonlyArray<string>,
    input?: Uint8Array
  ) {
    const isBinary = [Scripts.read, Scripts.readPlain, Scripts.readPart].includes(script)
    return Effect.uninterruptible(
      this.script(given, script, { args, isBinary, ...(input === undefined ? {} : { input }) })
    )
  }

  private script(given: string, script: string, options: ScriptOptions): Effect.Effect<Buffer, AccessError> {
    return Effect.matchEffect(this.host.run(script, options), {
      onSuccess: ({ exitCode, stdout }) =>
        exitCode === 0 ? Effect.succeed(stdout) : Effect.fail(errorOf(given, exitCode)),
      onFailure: () => Effect.fail(unreachable(given))
    })
  }
}

const unreachable = (path: string) => new FileError({ path, reason: "failed", systemCode: "EHOSTUNREACH" })

/** Whether a script found another place than the one that it was given. */
const isUnexpected = (error: AccessError): boolean =>
  error._tag === "PathDenied"
    ? error.reason === "changed" || error.reason === "linkLoop"
    : error.systemCode === `exit ${Scripts.exitCodes.unusual}`

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

/**
 * The files of a sandbox in memory, as a test looks at them and as Effect's `FileSystem`.
 */
import * as ByteSize from "effect/ByteSize"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as PlatformError from "effect/PlatformError"
import * as Stream from "effect/Stream"

type Failure = PlatformError.PlatformError

/** Files and directories below a working directory. */
export class MemoryFiles {
  readonly workdir: string
  /** By absolute path; `undefined` for a directory. */
  private readonly entries = new Map<string, Uint8Array | undefined>()

  constructor(workdir: string, files: Readonly<Record<string, string | Uint8Array>> = {}) {
    this.workdir = normalized(workdir)
    this.entries.set(this.workdir, undefined)
    for (const [path, content] of Object.entries(files)) this.write(path, content)
  }

  /** The absolute path of a path; `undefined` if it leads out of the working directory. */
  resolve(path: string): string | undefined {
    if (path === "" || path.includes("\0")) return undefined
    const place = normalized(path.startsWith("/") ? path : `${this.workdir}/${path}`)
    return place === this.workdir || place.startsWith(`${this.workdir}/`) ? place : undefined
  }

  /** The bytes of a file; `undefined` if there is none. */
  bytes(path: string): Uint8Array | undefined {
    const place = this.resolve(path)
    return place === undefined ? undefined : this.entries.get(place)
  }

  /** The text of a file; `undefined` if there is none. */
  text(path: string): string | undefined {
    const bytes = this.bytes(path)
    return bytes === undefined ? undefined : new TextDecoder().decode(bytes)
  }

  /** Writes a file, with the directories above it. Throws a `RangeError` for a path that leads out, and for a directory. */
  write(path: string, content: string | Uint8Array): void {
    const place = this.resolve(path)
    if (place === undefined || (this.entries.has(place) && this.entries.get(place) === undefined))
      throw new RangeError(`"${path}" is no file of the sandbox: use a path in its working directory`)
    this.makeDirectories(parentOf(place))
    this.entries.set(place, typeof content === "string" ? new TextEncoder().encode(content) : content.slice())
  }

  /** The paths of all files, relative to the working directory and in order. */
  get paths(): ReadonlyArray<string> {
    return [...this.entries]
      .flatMap(([path, content]) => (content === undefined ? [] : [path.slice(this.workdir.length + 1)]))
      .sort()
  }

  /** Whether a path is a directory. */
  isDirectory(path: string): boolean {
    const place = this.resolve(path)
    return place !== undefined && this.entries.has(place) && this.entries.get(place) === undefined
  }

  readonly fileSystem: FileSystem.FileSystem = FileSystem.make({
    ...unsupportedOperations,
    access: (path) => Effect.asVoid(this.entry("access", path)),
    stat: (path) => Effect.map(this.entry("stat", path), ({ content }) => infoOf(content)),
    lstat: (path) => Effect.map(this.entry("lstat", path), ({ content }) => infoOf(content)),
    realPath: (path) => Effect.map(this.entry("realPath", path), ({ place }) => place),
    readFile: (path) =>
      Effect.flatMap(this.entry("readFile", path), ({ content }) =>
        content === undefined
          ? failure("BadResource", "readFile", path, "it is a directory")
          : Effect.succeed(content.slice())
      ),
    writeFile: (path, data, { flag = "w", mode } = {}) =>
      Effect.suspend(() => {
        const before = this.bytes(path)
        if (mode !== undefined || flag.startsWith("r")) return unsupported("writeFile", path)
        if (flag.includes("x") && before !== undefined)
          return failure("AlreadyExists", "writeFile", path, "it exists")
        const all = flag.startsWith("a") && before !== undefined ? [...before, ...data] : data
        return Effect.try({
          try: () => this.write(path, Uint8Array.from(all)),
          catch: () => errorOf("PermissionDenied", "writeFile", path, "it is no file of the sandbox")
        })
      }),
    readDirectory: (path, options) =>
      Effect.map(this.directory("readDirectory", path), (place) =>
        this.below(place, options?.recursive === true).map((each) => each.slice(place.length + 1))
      ),
    readDirectoryEntries: (path) =>
      Effect.map(this.directory("readDirectoryEntries", path), (place) =>
        this.below(place, false).map((each) => ({
          name: each.slice(place.length + 1),
          type: typeOf(this.entries.get(each))
        }))
      ),
    makeDirectory: (path, { mode, recursive = false } = {}) =>
      Effect.suspend(() => {
        const place = this.resolve(path)
        if (place === undefined) return outside("makeDirectory", path)
        if (mode !== undefined) return unsupported("makeDirectory", path)
        if (this.entries.has(place) && !(recursive && this.isDirectory(path)))
          return failure("AlreadyExists", "makeDirectory", path, "it exists")
        this.makeDirectories(place)
        return Effect.void
      }),
    remove: (path, { force = false, recursive = false } = {}) =>
      Effect.suspend(() => {
        const place = this.resolve(path)
        if (place === undefined || place === this.workdir) return outside("remove", path)
        if (!this.entries.has(place))
          return force ? Effect.void : failure("NotFound", "remove", path, "it does not exist")
        const below = this.below(place, true)
        if (below.length > 0 && !recursive) return failure("BadResource", "remove", path, "it is not empty")
        for (const each of [place, ...below]) this.entries.delete(each)
        return Effect.void
      }),
    rename: (from, to) => this.place("rename", from, to, true),
    copyFile: (from, to) => this.place("copyFile", from, to, false),
    copy: (from, to) => this.place("copy", from, to, false)
  })

  private place(method: string, from: string, to: string, isMoved: boolean): Effect.Effect<void, Failure> {
    return Effect.flatMap(this.entry(method, from), ({ place }) => {
      const target = this.resolve(to)
      if (target === undefined || place === this.workdir) return outside(method, to)
      if (target === place || target.startsWith(`${place}/`))
        return failure("BadResource", method, to, "it is in the source")
      const moved = [place, ...this.below(place, true)].map((each) => [each, this.entries.get(each)] as const)
      this.makeDirectories(parentOf(target))
      for (const [each, content] of moved) {
        if (isMoved) this.entries.delete(each)
        this.entries.set(target + each.slice(place.length), content)
      }
      return Effect.void
    })
  }

  private makeDirectories(place: string): void {
    if (this.entries.has(place) || !place.startsWith(`${this.workdir}/`)) return
    this.makeDirectories(parentOf(place))
    this.entries.set(place, undefined)
  }

  private below(place: string, isRecursive: boolean): ReadonlyArray<string> {
    return [...this.entries.keys()]
      .filter((each) => each.startsWith(`${place}/`))
      .filter((each) => isRecursive || !each.slice(place.length + 1).includes("/"))
      .sort()
  }

  private entry(method: string, path: string) {
    return Effect.suspend(() => {
      const place = this.resolve(path)
      if (place === undefined) return outside(method, path)
      return this.entries.has(place)
        ? Effect.succeed({ place, content: this.entries.get(place) })
        : failure("NotFound", method, path, "it does not exist")
    })
  }

  private directory(method: string, path: string): Effect.Effect<string, Failure> {
    return Effect.flatMap(this.entry(method, path), ({ content, place }) =>
      content === undefined
        ? Effect.succeed(place)
        : failure("BadResource", method, path, "it is no directory")
    )
  }
}

/** A path without `.`, `..` and empty names. */
const normalized = (path: string): string => {
  const names: Array<string> = []
  for (const name of path.split("/"))
    if (name === "..") names.pop()
    else if (name !== "" && name !== ".") names.push(name)
  return `/${names.join("/")}`
}

const parentOf = (path: string): string => path.slice(0, path.lastIndexOf("/"))

const typeOf = (content: Uint8Array | undefined): FileSystem.File.Type =>
  content === undefined ? "Directory" : "File"

const infoOf = (content: Uint8Array | undefined): FileSystem.File.Info => ({
  type: typeOf(content),
  mtime: Option.none(),
  atime: Option.none(),
  birthtime: Option.none(),
  dev: 0n,
  ino: Option.none(),
  mode: content === undefined ? 0o755 : 0o644,
  nlink: Option.none(),
  uid: Option.none(),
  gid: Option.none(),
  rdev: Option.none(),
  size: ByteSize.bytes(content?.length ?? 0),
  blksize: Option.none(),
  blocks: Option.none()
})

const errorOf = (
  tag: PlatformError.SystemErrorTag,
  method: string,
  path: string,
  description: string
): Failure =>
  PlatformError.systemError({
    _tag: tag,
    module: "FileSystem",
    method,
    pathOrDescriptor: path,
    description
  })

const failure = (tag: PlatformError.SystemErrorTag, method: string, path: string, description: string) =>
  Effect.fail(errorOf(tag, method, path, description))

const outside = (method: string, path: string) =>
  failure("PermissionDenied", method, path, "it is outside of the working directory")

const unsupported = (method: string, path = ""): Effect.Effect<never, Failure> =>
  Effect.fail(
    PlatformError.badArgument({
      module: "FileSystem",
      method,
      description: `The files of a sandbox in memory do not support ${method}${path === "" ? "" : ` (${path})`}`
    })
  )

const unsupportedOperations = {
  open: (path: string) => unsupported("open", path),
  chmod: (path: string) => unsupported("chmod", path),
  chown: (path: string) => unsupported("chown", path),
  link: (path: string) => unsupported("link", path),
  symlink: (path: string) => unsupported("symlink", path),
  readLink: (path: string) => unsupported("readLink", path),
  truncate: (path: string) => unsupported("truncate", path),
  utimes: (path: string) => unsupported("utimes", path),
  watch: (path: string) => Stream.fromEffect(unsupported("watch", path)),
  makeTempDirectory: () => unsupported("makeTempDirectory"),
  makeTempDirectoryScoped: () => unsupported("makeTempDirectoryScoped"),
  makeTempFile: () => unsupported("makeTempFile"),
  makeTempFileScoped: () => unsupported("makeTempFileScoped")
}

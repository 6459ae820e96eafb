/**
 * A path guard as Effect's `FileSystem`. The guard decides about every path. An operation that the guard lacks fails and does nothing.
 *
 * Errors of the guard are the causes of the errors here: `error.reason.cause` is a `PathDenied` or a `FileError`.
 */
import * as ByteSize from "effect/ByteSize"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as PlatformError from "effect/PlatformError"
import * as Stream from "effect/Stream"
import type { AccessError, FileInfo, OpenFile, PathGuard } from "../../guard/PathGuard.ts"

type Failure = PlatformError.PlatformError

/** How many names a listing may have. */
const maxEntries = 100_000

/** Makes the files of a sandbox. With `approved`, what the guard asks about is allowed. */
export const guardedFiles = (guard: PathGuard, approved: boolean): FileSystem.FileSystem => {
  const allowed = { approved }
  const stat = (method: string, path: string) => refail(method, path, guard.stat(path, allowed))
  const list = (method: string, path: string) =>
    Effect.flatMap(refail(method, path, guard.list(path, { ...allowed, maxEntries })), (listing) =>
      listing.isComplete ? Effect.succeed(listing.entries) : Effect.fail(tooMany(method, path))
    )

  const readFile = (path: string) => refail("readFile", path, guard.readFile(path, allowed))

  const writeFile: FileSystem.FileSystem["writeFile"] = (path, data, { flag = "w", mode } = {}) => {
    if (mode !== undefined) return unsupported("writeFile", path, "with permissions")
    const write = (content: Uint8Array, mustBeNew = false) =>
      refail("writeFile", path, guard.writeFile(path, content, { ...allowed, mustBeNew }))
    switch (flag) {
      case "w":
      case "w+":
        return write(data)
      case "wx":
      case "wx+":
        return write(data, true)
      case "a":
      case "a+":
        return readFile(path).pipe(
          Effect.catchIf(isNotFound, () => Effect.succeed(new Uint8Array())),
          Effect.flatMap((before) => write(Buffer.concat([before, data])))
        )
      default:
        return unsupported("writeFile", path, `with the flag ${flag}`)
    }
  }

  const readBelow = (path: string, prefix: string, names: Array<string>): Effect.Effect<void, Failure> =>
    Effect.gen(function* () {
      for (const { name, type } of yield* list("readDirectory", path)) {
        if (names.length >= maxEntries) return yield* Effect.fail(tooMany("readDirectory", path))
        names.push(prefix + name)
        if (type !== "directory") continue
        // A directory that may not be read has a name and no entries.
        yield* Effect.catchIf(
          readBelow(`${path}/${name}`, `${prefix}${name}/`, names),
          isSkipped,
          () => Effect.void
        )
      }
    })

  const exists = (path: string) =>
    stat("access", path).pipe(
      Effect.as(true),
      Effect.catchIf(isNotFound, () => Effect.succeed(false))
    )

  const makeDirectory: FileSystem.FileSystem["makeDirectory"] = (path, { mode, recursive = false } = {}) =>
    Effect.gen(function* () {
      if (mode !== undefined) return yield* unsupported("makeDirectory", path, "with permissions")
      if (!recursive && (yield* exists(path)))
        return yield* Effect.fail(systemError("AlreadyExists", "makeDirectory", path, "it exists"))
      return yield* refail("makeDirectory", path, guard.makeDirectory(path, allowed))
    })

  const copyFile = (from: string, to: string, mustBeNew = false) =>
    Effect.flatMap(readFile(from), (content) =>
      refail("copyFile", to, guard.writeFile(to, content, { ...allowed, mustBeNew }))
    )

  const copy = (from: string, to: string, overwrite: boolean): Effect.Effect<void, Failure> =>
    Effect.gen(function* () {
      const { type } = yield* stat("copy", from)
      if (type !== "directory") return yield* copyFile(from, to, !overwrite)
      yield* makeDirectory(to, { recursive: true })
      for (const { name, type: kind } of yield* list("copy", from)) {
        if (kind !== "file" && kind !== "directory")
          return yield* unsupported("copy", `${from}/${name}`, "for links and special files")
        yield* copy(`${from}/${name}`, `${to}/${name}`, overwrite)
      }
    })

  return FileSystem.make({
    access: (path, options) =>
      Effect.gen(function* () {
        yield* stat("access", path)
        for (const access of options?.writable === true
          ? (["read", "write"] as const)
          : (["read"] as const)) {
          const judgement = yield* guard.judge(path, access)
          if (judgement.decision === "deny" || (judgement.decision === "ask" && !approved))
            return yield* Effect.fail(failureOf("access", path, judgement.denial))
        }
      }),
    stat: (path) => Effect.map(stat("stat", path), infoOf),
    lstat: (path) =>
      Effect.gen(function* () {
        const cut = path.replace(/\/+$/, "").lastIndexOf("/")
        const parent = cut === -1 ? "." : cut === 0 ? "/" : path.slice(0, cut)
        const name = path.replace(/\/+$/, "").slice(cut + 1)
        const named = ["", ".", ".."].includes(name)
          ? undefined
          : yield* list("lstat", parent).pipe(
              Effect.map((entries) => entries.find((entry) => entry.name === name)),
              Effect.catchIf(isSkipped, () => Effect.succeed(undefined))
            )
        return named?.type === "link" ? linkInfo : infoOf(yield* stat("lstat", path))
      }),
    realPath: (path) =>
      Effect.gen(function* () {
        yield* stat("realPath", path)
        const judgement = yield* guard.judge(path, "read")
        return judgement.decision === "allow" && judgement.place !== undefined
          ? judgement.place
          : yield* unsupported("realPath", path, "for this path")
      }),
    readFile,
    writeFile,
    readDirectory: (path, options) =>
      Effect.gen(function* () {
        const names: Array<string> = []
        if (options?.recursive === true) yield* readBelow(path, "", names)
        else for (const { name } of yield* list("readDirectory", path)) names.push(name)
        return names
      }),
    readDirectoryEntries: (path) =>
      Effect.map(list("readDirectoryEntries", path), (entries) =>
        entries.map(({ name, type }) => ({ name, type: types[type] }))
      ),
    makeDirectory,
    remove: (path, { force = false, recursive = false } = {}) =>
      Effect.catchIf(
        refail("remove", path, guard.remove(path, { ...allowed, recursive })),
        (error) => force && isNotFound(error),
        () => Effect.void
      ),
    rename: (from, to) => refail("rename", from, guard.rename(from, to, { ...allowed, mayReplace: true })),
    copyFile: (from, to) => copyFile(from, to),
    copy: (from, to, options) => copy(from, to, options?.overwrite ?? false),
    open: (path, { flag = "r" } = {}) =>
      flag === "r"
        ? Effect.map(refail("open", path, guard.openRead(path, allowed)), (file) => openedFile(path, file))
        : unsupported("open", path, "for writing"),
    chmod: (path) => unsupported("chmod", path),
    chown: (path) => unsupported("chown", path),
    link: (path) => unsupported("link", path),
    symlink: (path) => unsupported("symlink", path),
    readLink: (path) => unsupported("readLink", path),
    truncate: (path) => unsupported("truncate", path),
    utimes: (path) => unsupported("utimes", path),
    watch: (path) => Stream.fromEffect(unsupported("watch", path)),
    makeTempDirectory: () => unsupported("makeTempDirectory"),
    makeTempDirectoryScoped: () => unsupported("makeTempDirectoryScoped"),
    makeTempFile: () => unsupported("makeTempFile"),
    makeTempFileScoped: () => unsupported("makeTempFileScoped")
  })
}

const systemError = (
  tag: PlatformError.SystemErrorTag,
  method: string,
  path: string,
  description: string,
  cause?: AccessError
): Failure =>
  PlatformError.systemError({
    _tag: tag,
    module: "FileSystem",
    method,
    pathOrDescriptor: path,
    description,
    ...(cause === undefined ? {} : { cause })
  })

const unsupported = (method: string, path = "", how = ""): Effect.Effect<never, Failure> =>
  Effect.fail(
    PlatformError.badArgument({
      module: "FileSystem",
      method,
      description: `The files of a sandbox do not support ${[method, how].filter((part) => part !== "").join(" ")}${path === "" ? "" : ` (${path})`}`
    })
  )

const tooMany = (method: string, path: string): Failure =>
  systemError("BadResource", method, path, `it has more than ${maxEntries} names: list its directories`)

const tags: Readonly<Record<string, PlatformError.SystemErrorTag>> = {
  notFound: "NotFound",
  exists: "AlreadyExists",
  isDirectory: "BadResource",
  notDirectory: "BadResource",
  notEmpty: "BadResource",
  noPermission: "PermissionDenied",
  noSpace: "WriteZero"
}

const failureOf = (method: string, path: string, error: AccessError): Failure =>
  systemError(
    error._tag === "PathDenied" ? "PermissionDenied" : (tags[error.reason] ?? "Unknown"),
    method,
    path,
    error.message,
    error
  )

const refail = <A, R>(
  method: string,
  path: string,
  effect: Effect.Effect<A, AccessError, R>
): Effect.Effect<A, Failure, R> => Effect.mapError(effect, (error) => failureOf(method, path, error))

const isNotFound = ({ reason }: Failure) => reason._tag === "NotFound"

/** Whether a recursive listing leaves a directory out: it is refused, or was removed meanwhile. */
const isSkipped = ({ reason }: Failure) => reason._tag === "PermissionDenied" || reason._tag === "NotFound"

const types = {
  file: "File",
  directory: "Directory",
  link: "SymbolicLink",
  other: "Unknown"
} as const satisfies Record<string, FileSystem.File.Type>

const infoOf = ({ mode, modifiedAt, sizeBytes, type }: FileInfo): FileSystem.File.Info => ({
  ...linkInfo,
  type: types[type],
  mtime: Option.some(new Date(modifiedAt)),
  mode,
  size: ByteSize.bytes(sizeBytes)
})

/** The information about a link that is not followed. */
const linkInfo: FileSystem.File.Info = {
  type: "SymbolicLink",
  mtime: Option.none(),
  atime: Option.none(),
  birthtime: Option.none(),
  dev: 0n,
  ino: Option.none(),
  mode: 0o777,
  nlink: Option.none(),
  uid: Option.none(),
  gid: Option.none(),
  rdev: Option.none(),
  size: ByteSize.zero,
  blksize: Option.none(),
  blocks: Option.none()
}

const openedFile = (path: string, file: OpenFile): FileSystem.File => {
  let position = 0n
  const readAt = (length: number, options?: FileSystem.File.ReadOptions) =>
    Effect.suspend(() => {
      const at = options?.position ?? position
      return Effect.map(refail("read", path, file.read(Number(at), length)), (bytes) => {
        if (options?.position === undefined) position = at + BigInt(bytes.length)
        return bytes
      })
    })
  return {
    [FileSystem.FileTypeId]: FileSystem.FileTypeId,
    stat: Effect.succeed(infoOf(file.info)),
    seek: (offset, from) =>
      Effect.suspend(() => {
        const target = from === "start" ? offset : position + offset
        if (target < 0n) return unsupported("seek", path, "before the start")
        position = target
        return Effect.succeed(position)
      }),
    sync: Effect.void,
    read: (buffer, options) =>
      Effect.map(readAt(buffer.length, options), (bytes) => {
        buffer.set(bytes)
        return bytes.length
      }),
    readAlloc: (size, options) =>
      Effect.map(readAt(size, options), (bytes) => (bytes.length === 0 ? Option.none() : Option.some(bytes))),
    truncate: () => unsupported("truncate", path),
    write: () => unsupported("write", path),
    writeAll: () => unsupported("writeAll", path)
  }
}

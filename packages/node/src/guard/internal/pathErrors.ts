/**
 * Errors of the path guard. They name the path as the caller gave it, never a place that it leads to.
 */
import { Display, TaggedError } from "@fermata/sdk"
import * as Schema from "effect/Schema"

/** Why a path is refused. */
export const Reason = Schema.Literals([
  /** Empty, not valid as a path, with a name of more than 255 bytes, or with more than 200 names. */
  "malformed",
  /** Not in a directory that may be used. */
  "outside",
  /** In a directory that may only be read. */
  "readOnly",
  /** Below `/proc`, `/sys` or `/dev`. */
  "system",
  /** Symbolic links in a circle. */
  "linkLoop",
  /** A file with several names (hard links), one of which may be outside. */
  "hardLink",
  /** A pipe, socket or device. */
  "special",
  "tooLarge",
  /** A file of Fermata itself, such as the store of its runs. */
  "own",
  /** A place with credentials, or another one that the rules name. */
  "sensitive",
  /** A file from which other programs take commands. */
  "executedLater",
  /** Another process changed the path while it was opened. */
  "changed",
  /** The directory of a rule itself, which is neither removed nor renamed. */
  "root"
])
export type Reason = typeof Reason.Type

/** The rules of a path guard refuse a path. Nothing was done. If `isApprovable`, ask a person and repeat the access with `approved`. */
export class PathDenied extends TaggedError.TaggedError<PathDenied>()("PathDenied", {
  /** The path as it was given. */
  path: Schema.String,
  reason: Reason,
  /** Whether the same access succeeds when a person has allowed it. */
  isApprovable: Schema.Boolean
}) {
  override get message() {
    const why = this.isApprovable ? `${sentences[this.reason]} It needs an approval.` : sentences[this.reason]
    return Display.sentence`The path "${this.path}" is refused: ${why}`
  }
}

const sentences: Readonly<Record<Reason, string>> = {
  malformed: "it is not a valid path. Use at most 200 names of at most 255 bytes, without NUL.",
  outside: "it is outside of the workspace. Use a path inside of it.",
  readOnly: "it may be read, but not changed. Write to a path of the workspace.",
  system: "it belongs to the operating system. Use a path of the workspace.",
  linkLoop: "its symbolic links form a circle. Use another path.",
  hardLink:
    "the file has another name, which may be outside of the workspace. Make a copy of it and use that.",
  special: "it is a pipe, a socket or a device. Use a regular file.",
  tooLarge: "the file is too large. Read a part of it.",
  own: "it belongs to the program that runs you. Use another path.",
  sensitive: "it can hold credentials.",
  executedLater: "other programs run what is written there.",
  changed: "it was changed while it was opened. Try again.",
  root: "it is the workspace itself. Use a path inside of it."
}

/** Why the file system refused an operation. */
export const FileProblem = Schema.Literals([
  "notFound",
  "exists",
  "isDirectory",
  "notDirectory",
  "notEmpty",
  "noPermission",
  "noSpace",
  "tooDeep",
  "failed"
])
export type FileProblem = typeof FileProblem.Type

/** The file system refused an operation on a path that the guard allows. */
export class FileError extends TaggedError.TaggedError<FileError>()("FileError", {
  /** The path as it was given. */
  path: Schema.String,
  reason: FileProblem,
  /** The code of the system's error, such as `ENOENT`. */
  systemCode: Schema.optionalKey(Schema.String)
}) {
  override get message() {
    const code = this.systemCode === undefined ? "" : ` (${this.systemCode})`
    return Display.sentence`The path "${this.path}" ${problems[this.reason]}${this.reason === "failed" ? code : ""}.`
  }
}

const problems: Readonly<Record<FileProblem, string>> = {
  notFound: "does not exist: list the directory to see its names",
  exists: "exists already: choose another name, or replace it",
  isDirectory: "is a directory: give the path of a file",
  notDirectory: "has a file where a directory is needed",
  notEmpty: "is a directory with entries: remove them first, or remove it recursively",
  noPermission: "may not be used by this program: use another path",
  noSpace: "cannot be written, because the disk is full or its quota used up",
  tooDeep: "has too many directories below each other",
  failed: "could not be used"
}

const byCode: Readonly<Record<string, FileProblem>> = {
  ENOENT: "notFound",
  EEXIST: "exists",
  EISDIR: "isDirectory",
  ENOTDIR: "notDirectory",
  ENOTEMPTY: "notEmpty",
  EACCES: "noPermission",
  EPERM: "noPermission",
  EROFS: "noPermission",
  ENOSPC: "noSpace",
  EDQUOT: "noSpace"
}

/** The code of an error of the file system. */
export const codeOf = (cause: unknown): string | undefined =>
  cause instanceof Error && "code" in cause && typeof cause.code === "string" ? cause.code : undefined

/** Makes a refusal. By default, no approval lifts it. */
export const denied = (path: string, reason: Reason, isApprovable = false): PathDenied =>
  new PathDenied({ path, reason, isApprovable })

/** Converts the exception of an operation on a path to its error. Throws one that is not of the system, which is a defect. */
export const failureOf = (path: string, cause: unknown): PathDenied | FileError => {
  if (cause instanceof PathDenied || cause instanceof FileError) return cause
  const systemCode = codeOf(cause)
  if (systemCode === undefined) throw cause
  if (systemCode === "ENAMETOOLONG") return denied(path, "malformed")
  // A socket, or a device without a driver.
  if (systemCode === "ENXIO") return denied(path, "special")
  if (systemCode === "ELOOP") return denied(path, "changed")
  return new FileError({ path, reason: byCode[systemCode] ?? "failed", systemCode })
}

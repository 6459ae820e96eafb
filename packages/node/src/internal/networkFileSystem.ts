/**
 * Whether a path lies on a network file system, where SQLite's locks do not work between machines.
 */
import { readFileSync, statfsSync } from "node:fs"
import { dirname, resolve } from "node:path"
import * as Effect from "effect/Effect"

/**
 * The name of the network file system of a path, on which processes cannot share a store; `undefined` on a local one, on one of an unknown
 * kind, on other platforms than Linux, and if it cannot be determined.
 */
export const networkFileSystemOf = (path: string): Effect.Effect<string | undefined> =>
  Effect.sync(() => {
    try {
      // On other platforms the numbers have other meanings.
      if (process.platform !== "linux") return undefined
      const { type } = statfsSync(dirname(path))
      if (type !== fuse) return networkFileSystems.get(type)
      return remoteMount(readFileSync("/proc/self/mounts", "utf8"), resolve(path))
    } catch {
      return undefined
    }
  })

/**
 * Whether the inode of a file surely stays the same while the file is open, so that another inode means that the file was replaced. `false`
 * on network file systems, FUSE and virtual machines' shared folders, and if it cannot be determined. Also `false` on Windows, where an
 * open file can be neither deleted nor replaced.
 */
export const hasSteadyInodes = (path: string): boolean => {
  try {
    if (process.platform !== "linux") return process.platform === "darwin"
    const { type } = statfsSync(dirname(path))
    return type !== fuse && !networkFileSystems.has(type)
  } catch {
    return false
  }
}

/** The numbers of `statfs` on Linux; see `man 2 statfs`. */
const networkFileSystems: ReadonlyMap<number, string> = new Map([
  [0x6969, "NFS"],
  [0x517b, "SMB"],
  [0xfe534d42, "SMB"],
  [0xff534d42, "SMB"],
  [0x01021997, "9p"],
  [0x5346414f, "AFS"],
  [0x00c36400, "Ceph"]
])
const fuse = 0x65735546

/** The kind of remote FUSE mount of a path, from the lines of `/proc/self/mounts`; the longest mount point counts. */
export const remoteMount = (mounts: string, path: string): string | undefined => {
  let best = { length: 0, type: "" }
  for (const line of mounts.split("\n")) {
    const [, point = "", type = ""] = line.split(" ")
    const place = point.replaceAll("\\040", " ")
    const inside = path === place || path.startsWith(place.endsWith("/") ? place : `${place}/`)
    if (place !== "" && inside && place.length >= best.length) best = { length: place.length, type }
  }
  return /^fuse\.(sshfs|rclone|s3fs|gcsfuse|glusterfs|davfs2?|curlftpfs)$/.test(best.type)
    ? best.type.slice("fuse.".length)
    : undefined
}

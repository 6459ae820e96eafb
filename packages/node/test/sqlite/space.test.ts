import { execFileSync } from "node:child_process"
import { rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { remoteMount } from "../../src/internal/networkFileSystem.ts"
import * as SqliteStore from "../../src/SqliteStore.ts"
import { temporaryDirectory, temporaryFile } from "../temporaryStore.ts"
import { run, said, started, withStore } from "./fixtures.ts"
import { writer } from "./writers.ts"

const system = (command: string, ...args: ReadonlyArray<string>) =>
  execFileSync(command, args, { stdio: "ignore" })

/** A disk of 3 MB; undefined where this user may not mount one. */
const smallDisk = Effect.gen(function* () {
  const directory = yield* temporaryDirectory
  return yield* Effect.acquireRelease(
    Effect.sync(() => {
      try {
        system("mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", directory)
        return directory
      } catch {
        return undefined
      }
    }),
    (mounted) => Effect.sync(() => mounted !== undefined && system("umount", mounted))
  )
})

describe("SqliteStore without free space", () => {
  it.live(
    "keeps acknowledged events on a full disk, and appends again when there is space",
    (context) =>
      Effect.gen(function* () {
        const disk = yield* smallDisk
        if (disk === undefined) return context.skip("This user may not mount a disk.")
        const filename = join(disk, "runs.db")
        const ballast = join(disk, "ballast")
        writeFileSync(ballast, Buffer.alloc(1_000_000))
        const { go, json } = yield* writer(filename, "full", "fill")
        yield* go
        const { readable, revision, failures } = yield* json
        assert.deepStrictEqual(failures, ["StorageFull", "StorageFull", "StorageFull"])
        assert.isAbove(Number(revision), 10)
        assert.strictEqual(readable, revision)
        rmSync(ballast)
        yield* go
        // Over the same connection.
        assert.deepStrictEqual(yield* json, {
          revision: Number(revision) + 1,
          readable: Number(revision) + 1
        })
        assert.deepStrictEqual((yield* SqliteStore.check({ filename })).problems, [])
      }),
    300_000
  )

  it.live(
    "keeps acknowledged events when the file must not grow, and appends again when it may",
    (context) =>
      Effect.gen(function* () {
        if (process.platform !== "linux")
          return context.skip("The limit of a running process is raised with prlimit.")
        const filename = yield* temporaryFile
        const { go, json, pid } = yield* writer(filename, "limited", "fill", 1024)
        yield* go
        const { readable, revision, failures } = yield* json
        assert.deepStrictEqual(failures, ["StorageFull", "StorageFull", "StorageFull"])
        assert.isAbove(Number(revision), 5)
        assert.strictEqual(readable, revision)
        system("prlimit", "--pid", String(pid), "--fsize=unlimited")
        yield* go
        assert.deepStrictEqual(yield* json, {
          revision: Number(revision) + 1,
          readable: Number(revision) + 1
        })
        assert.deepStrictEqual((yield* SqliteStore.check({ filename })).problems, [])
      }),
    300_000
  )

  it.live(
    "leaves no partial backup on a full disk",
    (context) =>
      Effect.gen(function* () {
        const disk = yield* smallDisk
        if (disk === undefined) return context.skip("This user may not mount a disk.")
        const filename = yield* temporaryFile
        yield* withStore(filename, (store) => started(store, run(1), said("x".repeat(4_000_000))))
        const to = join(disk, "copy.db")
        const error = yield* Effect.flip(SqliteStore.backup({ filename, to }))
        assert.strictEqual(error._tag === "RunStoreError" ? error.reason._tag : error._tag, "StorageFull")
        // All of the disk is free again.
        writeFileSync(join(disk, "rest"), Buffer.alloc(2_900_000))
      }),
    300_000
  )
})

describe("SqliteStore with a large event", () => {
  it.effect("stores an event of 10 MB and returns it", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      const large = said("é".repeat(5_000_000))
      yield* withStore(filename, (store) =>
        Effect.gen(function* () {
          const lease = yield* started(store, run(1))
          const { revision } = yield* store.head(run(1))
          yield* store.append({ lease, expected: revision, events: [large, said("after")], status: "held" })
        })
      )
      const { events } = yield* withStore(filename, (store) => store.load(run(1)))
      assert.deepStrictEqual(events[2], large)
      assert.deepStrictEqual(events[3], said("after"))
    })
  )
})

describe("the path of a SQLite store", () => {
  it("is remote exactly when its nearest mount is remote", () => {
    const mounts = [
      "/dev/sda1 / ext4 rw 0 0",
      "ana@host:/data /mnt/far\\040away fuse.sshfs rw 0 0",
      "tmpfs /mnt/far\\040away/near tmpfs rw 0 0",
      "portal /run/portal fuse.portal rw 0 0"
    ].join("\n")
    assert.strictEqual(remoteMount(mounts, "/mnt/far away/runs.db"), "sshfs")
    assert.strictEqual(remoteMount(mounts, "/mnt/far away/near/runs.db"), undefined)
    assert.strictEqual(remoteMount(mounts, "/mnt/far awayish/runs.db"), undefined)
    assert.strictEqual(remoteMount(mounts, "/run/portal/runs.db"), undefined)
    assert.strictEqual(remoteMount(mounts, "/home/runs.db"), undefined)
  })
})

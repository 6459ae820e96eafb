/**
 * A backend of sandboxes in memory, for tests of how runs use them. It outlives the providers that are made for it, as a machine outlives
 * programs.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as PlatformError from "effect/PlatformError"
import * as ChildProcessSpawner from "effect/process/ChildProcessSpawner"
import * as Scope from "effect/Scope"
import type { SandboxRef } from "../../src/domain/SandboxRef.ts"
import { makeSandbox } from "../../src/sandbox/makeSandbox.ts"
import { SandboxLost, type SandboxUnavailable } from "../../src/sandbox/SandboxError.ts"
import type { SandboxSpec, Shape } from "../../src/sandbox/SandboxProvider.ts"

/** The machine: the sandboxes that exist, and what programs did with them. */
export class SandboxBackend {
  readonly name: string
  /** The lines that were run in each sandbox, by id. */
  readonly ran = new Map<string, Array<string>>()
  readonly created: Array<SandboxSpec> = []
  readonly attached: Array<string> = []
  readonly released: Array<string> = []
  readonly destroyed: Array<string> = []
  /** Awaited before a sandbox is made or attached to. */
  gate: Effect.Effect<void, SandboxUnavailable> = Effect.void

  constructor(name = "memory") {
    this.name = name
  }

  /** Every line that was run, in any sandbox. */
  get lines(): ReadonlyArray<string> {
    return [...this.ran.values()].flat()
  }

  /** A provider, as a program makes it. */
  provider(options: Partial<Shape> & { readonly screen?: string } = {}): Shape {
    const target = options.target ?? `${this.name}, for tests`
    const open = (ref: SandboxRef) =>
      Effect.gen({ self: this }, function* () {
        yield* Effect.addFinalizer(() => Effect.sync(() => this.released.push(ref.id)))
        return makeSandbox({
          ref,
          target,
          ...(options.screen === undefined ? {} : { screen: Effect.succeed(options.screen) }),
          scope: yield* Scope.Scope,
          spawner: ChildProcessSpawner.make(() => Effect.fail(noProcess)),
          files: FileSystem.makeNoop({}),
          approvedFiles: FileSystem.makeNoop({}),
          judgePath: (path) => Effect.succeed({ decision: "allow", path }),
          exec: (command) =>
            Effect.suspend(() => {
              const lines = this.ran.get(ref.id)
              if (lines === undefined) return Effect.fail(this.lost(ref))
              lines.push(String(command))
              const stdout = `${ref.id}: ${lines.join(" ")}`
              const missing = { stdout: 0, stderr: 0 }
              return Effect.succeed({
                exitCode: 0,
                stdout,
                stderr: "",
                missing,
                durationMs: 1,
                timedOut: false
              })
            })
        })
      })
    return {
      backend: this.name,
      capabilities: new Set(),
      target,
      accepts: () => false,
      create: (spec) =>
        Effect.andThen(
          this.gate,
          Effect.suspend(() => {
            this.created.push(spec)
            const id = `box${this.created.length}`
            this.ran.set(id, [])
            return open({ backend: this.name, id, workdir: spec.workdir ?? "/work" })
          })
        ),
      attach: (ref) =>
        Effect.andThen(
          this.gate,
          Effect.suspend(() => {
            this.attached.push(ref.id)
            return this.ran.has(ref.id) ? open(ref) : Effect.fail(this.lost(ref))
          })
        ),
      destroy: (ref) =>
        Effect.sync(() => {
          this.destroyed.push(ref.id)
          this.ran.delete(ref.id)
        }),
      ...options
    }
  }

  private lost({ backend, id }: SandboxRef): SandboxLost {
    return SandboxLost.make({ backend, id, problem: "it was destroyed" })
  }
}

const noProcess = PlatformError.systemError({ _tag: "NotFound", module: "ChildProcess", method: "spawn" })

/** A gate that tests open, and the promise that something waits at it. */
export const gated = Effect.gen(function* () {
  const reached = yield* Deferred.make<void>()
  const opened = yield* Deferred.make<void>()
  const gate = Effect.andThen(Deferred.succeed(reached, undefined), Deferred.await(opened))
  return { gate, reached: Deferred.await(reached), open: Deferred.succeed(opened, undefined) }
})

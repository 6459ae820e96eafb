/**
 * The open sandboxes of a runtime: each run's sandbox is opened once, and shared by the calls and the sub-agents of the run, by the later
 * runs of its session and by its forks.
 *
 * A sandbox stays open after its run, because commands in the background belong to it. The close of the runtime releases all sandboxes and
 * destroys none. A runtime keeps up to 64 sandboxes that no run uses open, and releases the least recently used ones beyond.
 */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import { messageOf } from "../../domain/Display.ts"
import { isRunWithin, type RunId } from "../../domain/Id.ts"
import { SandboxRef } from "../../domain/SandboxRef.ts"
import type { Shape as Sandbox } from "../../sandbox/Sandbox.ts"
import { type SandboxLost, SandboxUnavailable } from "../../sandbox/SandboxError.ts"
import type { Shape as SandboxProvider } from "../../sandbox/SandboxProvider.ts"
import type { LiveRun, Sandboxes, SandboxUser } from "../RuntimeDefinition.ts"

/** Why a sandbox cannot be opened. */
export type OpenError = SandboxLost | SandboxUnavailable

/** The scope of what a run has left in its sandbox, such as commands in the background. */
interface Left {
  readonly scope: Scope.Closeable
  stopping: Fiber.Fiber<void> | undefined
}

interface Entry {
  readonly opening: Deferred.Deferred<Sandbox, OpenError>
  readonly scope: Scope.Closeable
  readonly users: Set<RunId>
  readonly keys: Set<string>
  /** The scopes of what runs have left in the sandbox; see `runScope`. */
  readonly runScopes: Map<RunId, Left>
  fiber: Fiber.Fiber<unknown, unknown> | undefined
  opened: Sandbox | undefined
}

/** The provider of the sandboxes of a runtime under a capability profile. */
export const providerOf = (
  options: {
    readonly sandbox?: SandboxProvider | undefined
    readonly sandboxes?: Readonly<Record<string, SandboxProvider>>
  },
  profile: string
): SandboxProvider | undefined => {
  const { sandbox, sandboxes = {} } = options
  return Object.hasOwn(sandboxes, profile) ? sandboxes[profile] : sandbox
}

/** Closes the scope of what a run has left, once, and waits until it is closed. */
const stopLeft = (left: Left): Effect.Effect<unknown> =>
  Effect.suspend(() => {
    if (left.stopping !== undefined) return Fiber.await(left.stopping)
    const closing = Effect.ignoreCause(Scope.close(left.scope, Exit.void))
    return Effect.flatMap(Effect.forkDetach(closing, { startImmediately: true }), (fiber) => {
      left.stopping = fiber
      return Fiber.await(fiber)
    })
  })

/** How long a cancellation waits for what a run has left in its sandbox. */
const longestStop = "5 seconds"

/** How many sandboxes that no run uses stay open. */
const mostIdle = 64

const isRef = Schema.is(SandboxRef)

export class OpenSandboxes implements Sandboxes {
  readonly provider: SandboxProvider | undefined
  private readonly workdir: string | undefined
  private readonly runs: ReadonlySet<LiveRun>
  /** By the key of the reference, or of the run while its sandbox is being made. The one used last is the last. */
  private readonly entries = new Map<string, Entry>()
  /** The last failures, by the same keys, until the next attempt. */
  private readonly failures = new Map<string, OpenError>()
  private isClosed = false

  constructor(options: {
    readonly provider: SandboxProvider | undefined
    readonly workdir: string | undefined
    readonly runs: ReadonlySet<LiveRun>
  }) {
    this.provider = options.provider
    this.workdir = options.workdir
    this.runs = options.runs
  }

  accepts(ref: SandboxRef | undefined): boolean {
    const { provider } = this
    if (provider === undefined || ref === undefined) return provider !== undefined
    try {
      return ref.backend === provider.backend || provider.accepts(ref)
    } catch {
      return false
    }
  }

  find({ runId, sandbox }: SandboxUser): Sandbox | undefined {
    return this.entries.get(keyOf(runId, sandbox))?.opened
  }

  failureOf({ runId, sandbox }: SandboxUser): OpenError | undefined {
    return this.failures.get(keyOf(runId, sandbox))
  }

  open(user: SandboxUser): Effect.Effect<Sandbox, OpenError> {
    return Effect.suspend(() => {
      const { provider } = this
      if (provider === undefined || !this.accepts(user.sandbox))
        return Effect.fail(
          unavailable(user.sandbox?.backend ?? "none", "this program has no provider for it")
        )
      if (this.isClosed) return Effect.fail(unavailable(provider.backend, "the runtime was closed", true))
      const key = keyOf(user.runId, user.sandbox)
      const known = this.entries.get(key)
      if (known !== undefined) {
        known.users.add(user.runId)
        this.touch(known)
        return known.opened === undefined ? Deferred.await(known.opening) : Effect.succeed(known.opened)
      }
      return this.begin(provider, key, user)
    })
  }

  runScope(runId: RunId, sandbox: Sandbox): Scope.Scope {
    for (const { opened, runScopes, scope } of this.entries.values()) {
      if (opened !== sandbox) continue
      const known = runScopes.get(runId)
      if (known !== undefined) return known.scope
      const left: Left = { scope: Scope.forkUnsafe(scope), stopping: undefined }
      runScopes.set(runId, left)
      return left.scope
    }
    // The sandbox was released while the call was running: so is the scope.
    return sandbox.scope
  }

  cancelled(runId: RunId): Effect.Effect<void> {
    return Effect.suspend(() => {
      const left = [...new Set(this.entries.values())].flatMap(({ runScopes }) =>
        [...runScopes].filter(([id]) => isRunWithin(id, runId)).map(([, each]) => each)
      )
      // A sandbox that does not answer does not keep the cancellation waiting.
      return left.length === 0
        ? Effect.void
        : Effect.asVoid(
            Effect.timeoutOption(Effect.forEach(left, stopLeft, { concurrency: "unbounded" }), longestStop)
          )
    })
  }

  drop(ref: SandboxRef): Effect.Effect<void> {
    return Effect.suspend(() => {
      const key = keyOf(undefined, ref)
      const entry = this.entries.get(key)
      return entry === undefined ? Effect.void : this.release(entry)
    })
  }

  readonly close: Effect.Effect<void> = Effect.suspend(() => {
    this.isClosed = true
    const entries = new Set(this.entries.values())
    return Effect.forEach(entries, (entry) => this.release(entry), {
      concurrency: "unbounded",
      discard: true
    })
  })

  private begin(
    provider: SandboxProvider,
    key: string,
    user: SandboxUser
  ): Effect.Effect<Sandbox, OpenError> {
    const { runId, sandbox, sessionId } = user
    const entry: Entry = {
      opening: Deferred.makeUnsafe(),
      scope: Scope.makeUnsafe(),
      users: new Set([runId]),
      keys: new Set([key]),
      runScopes: new Map(),
      fiber: undefined,
      opened: undefined
    }
    this.failures.delete(key)
    this.entries.set(key, entry)
    const { workdir } = this
    const opening = Effect.suspend(() =>
      sandbox === undefined
        ? provider.create({ runId, sessionId, ...(workdir === undefined ? {} : { workdir }) })
        : provider.attach(sandbox)
    ).pipe(
      Effect.provideService(Scope.Scope, entry.scope),
      Effect.flatMap((made) =>
        isRef(made.ref)
          ? Effect.succeed(made)
          : Effect.fail(unavailable(provider.backend, "the provider made a sandbox without a reference"))
      ),
      Effect.catchCause((cause) => Effect.fail(failureIn(provider.backend, cause))),
      Effect.onExit((exit) => this.ended(key, entry, exit))
    )
    return Effect.flatMap(Effect.forkDetach(opening, { startImmediately: true }), (fiber) => {
      if (fiber.pollUnsafe() === undefined) entry.fiber = fiber
      return Deferred.await(entry.opening)
    })
  }

  private ended(key: string, entry: Entry, exit: Exit.Exit<Sandbox, OpenError>): Effect.Effect<void> {
    entry.fiber = undefined
    if (Exit.isFailure(exit)) {
      this.forget(entry)
      const error = failureIn(this.provider?.backend ?? "none", exit.cause)
      this.failures.set(key, error)
      return Effect.andThen(
        Deferred.fail(entry.opening, error),
        Effect.ignoreCause(Scope.close(entry.scope, Exit.void))
      )
    }
    entry.opened = exit.value
    // The reference may be new: the sandbox was made, or attaching restored it under another id.
    entry.keys.add(keyOf(undefined, exit.value.ref))
    this.touch(entry)
    return Effect.andThen(Deferred.succeed(entry.opening, exit.value), this.releaseIdle)
  }

  private touch(entry: Entry): void {
    for (const key of entry.keys) {
      this.entries.delete(key)
      this.entries.set(key, entry)
    }
  }

  private release(entry: Entry): Effect.Effect<void> {
    this.forget(entry)
    const stop = entry.fiber === undefined ? Effect.void : Fiber.interrupt(entry.fiber)
    return Effect.andThen(stop, Effect.ignoreCause(Scope.close(entry.scope, Exit.void)))
  }

  private forget(entry: Entry): void {
    for (const key of entry.keys) if (this.entries.get(key) === entry) this.entries.delete(key)
  }

  /** Releases the sandboxes that were used least recently, beyond the number that may be idle. */
  private readonly releaseIdle: Effect.Effect<void> = Effect.suspend(() => {
    const live = new Set([...this.runs].map(({ runId }) => runId))
    const idle = [...new Set(this.entries.values())].filter(
      ({ opened, users }) => opened !== undefined && ![...users].some((runId) => live.has(runId))
    )
    const extra = idle.slice(0, Math.max(0, idle.length - mostIdle))
    return Effect.forEach(extra, (entry) => Effect.forkDetach(this.release(entry)), { discard: true })
  })
}

/** The key of a sandbox, or of the run for which one is made. */
const keyOf = (runId: RunId | undefined, ref: SandboxRef | undefined): string =>
  JSON.stringify(ref === undefined ? [runId] : [ref.backend, ref.id])

const unavailable = (backend: string, problem: string, retryable = false): SandboxUnavailable =>
  SandboxUnavailable.make({ backend, problem, retryable })

/** The error of a failed opening. A provider that throws, or that interrupts itself, cannot open the sandbox now. */
const failureIn = (backend: string, cause: Cause.Cause<unknown>): OpenError => {
  if (Cause.hasInterruptsOnly(cause)) return unavailable(backend, "opening it was interrupted", true)
  const error = Cause.squash(cause)
  return isOpenError(error) ? error : unavailable(backend, `its provider failed: ${messageOf(error)}`)
}

/** By the tag, because a provider may come from another copy of the package. */
const isOpenError = (error: unknown): error is OpenError =>
  error instanceof Error &&
  "_tag" in error &&
  (error._tag === "SandboxLost" || error._tag === "SandboxUnavailable")

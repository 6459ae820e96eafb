/**
 * Opens sandboxes of Daytona: creates and finds them by the name of their run, and makes their files and commands.
 */
import { createHash } from "node:crypto"
import {
  makeSandbox,
  type Sandbox,
  type SandboxError,
  type SandboxProvider,
  type SandboxRef
} from "@fermata/sdk"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import { DaytonaApi, type SandboxInfo } from "./daytonaApi.ts"
import { backend, DaytonaBox, isThere, lost, unavailable, unavailableBy } from "./DaytonaBox.ts"
import { DaytonaCommands } from "./DaytonaCommands.ts"
import { guardedParts } from "./guardedParts.ts"
import { hostGuard } from "./hostFiles.ts"
import { type DaytonaSandboxOptions, isApiUrl, minutesOf } from "./remoteOptions.ts"

type Ref = SandboxRef.SandboxRef
type OpenError = SandboxError.SandboxLost | SandboxError.SandboxUnavailable

/** The options, and where the sandboxes of the provider act. */
export interface Options extends DaytonaSandboxOptions {
  readonly where: string
}

const cloudUrl = "https://app.daytona.io/api"

const defaultAutoStop = 15

/** Creates the sandbox of a run, or opens the existing one. */
export const create = Effect.fnUntraced(function* (
  options: Options,
  spec: SandboxProvider.SandboxSpec
): Effect.fn.Return<Sandbox.Shape, SandboxError.SandboxUnavailable, Scope.Scope> {
  const api = yield* apiOf(options)
  const name = nameOf(spec.runId)
  const found = yield* Effect.mapError(api.find(name), unavailableBy)
  const info = isThere(found) ? found : yield* make(api, options, spec, name)
  return yield* Effect.mapError(open(api, options, info, spec.workdir ?? options.workdir), unavailableBy)
})

/** Attaches to a sandbox, and starts it if it was stopped. */
export const attach = Effect.fnUntraced(function* (
  options: Options,
  ref: Ref
): Effect.fn.Return<Sandbox.Shape, OpenError, Scope.Scope> {
  const api = yield* apiOf(options)
  const info = yield* Effect.mapError(api.find(ref.id), unavailableBy)
  if (!isThere(info)) return yield* Effect.fail(lost(ref.id))
  return yield* open(api, options, info, ref.workdir)
})

/** Deletes a sandbox with its files. */
export const destroy = (options: Options, ref: Ref): Effect.Effect<void, SandboxError.SandboxUnavailable> =>
  Effect.flatMap(apiOf(options), (api) => Effect.mapError(api.remove(ref.id), unavailableBy))

const make = (
  api: DaytonaApi,
  options: Options,
  { runId, sessionId }: SandboxProvider.SandboxSpec,
  name: string
): Effect.Effect<SandboxInfo, SandboxError.SandboxUnavailable> => {
  const { autoDelete, autoStop, labels, snapshot, target, timeToLive } = options
  const [deleted, lived] = [minutesOf(autoDelete), minutesOf(timeToLive)]
  return api
    .create({
      name,
      ...(target === undefined ? {} : { target }),
      ...(snapshot === undefined ? {} : { snapshot }),
      env: {},
      labels: { ...labels, "fermata.run": runId, "fermata.session": sessionId },
      autoStopInterval: minutesOf(autoStop) ?? defaultAutoStop,
      ...(deleted === undefined ? {} : { autoDeleteInterval: deleted }),
      ...(lived === undefined ? {} : { ttlMinutes: lived })
    })
    .pipe(
      Effect.catch((error) =>
        // Another process made it meanwhile, or the response was lost.
        Effect.flatMap(api.find(name), (found) =>
          isThere(found) ? Effect.succeed(found) : Effect.fail(error)
        )
      ),
      Effect.mapError(unavailableBy)
    )
}

const open = Effect.fnUntraced(function* (
  api: DaytonaApi,
  options: Options,
  info: SandboxInfo,
  directory: string | undefined
): Effect.fn.Return<Sandbox.Shape, OpenError, Scope.Scope> {
  const toolbox = yield* Effect.mapError(api.toolbox(info), unavailableBy)
  const box = new DaytonaBox(api, info.id, toolbox)
  yield* box.ensureStarted
  const workdir = yield* Effect.mapError(box.prepare(directory), (error) =>
    error._tag === "SandboxLost" ? error : unavailableBy(error)
  )
  const { env = {}, keepActive = false, onRelease = "keep", rules = {}, where } = options
  if (onRelease !== "keep")
    yield* Effect.addFinalizer(() =>
      Effect.ignore(onRelease === "stop" ? api.stop(box.id) : api.remove(box.id))
    )
  if (keepActive)
    yield* Effect.forkScoped(
      Effect.repeat(Effect.ignore(api.refreshActivity(box.id)), Schedule.spaced(activePause(options)))
    )
  const guard = hostGuard(box.host, { ...rules, write: [workdir, ...(rules.write ?? [])] })
  const guarded = guardedParts(guard, workdir)
  const commands = new DaytonaCommands(box, { directoryOf: guarded.directoryOf, env })
  const parts = {
    ref: { backend, id: box.id, workdir },
    target: where,
    scope: yield* Scope.Scope,
    spawner: commands.spawner,
    ...guarded.parts
  }
  return makeSandbox({
    ...parts,
    exec: commands.exec(parts),
    findCommand: commands.findCommand(parts),
    portUrl: (port) =>
      Number.isInteger(port) && port > 0 && port <= 65_535
        ? Effect.flatMap(Effect.mapError(box.use(api.previewUrl(box.id, port)), unavailableOr), (url) =>
            URL.canParse(url)
              ? Effect.succeed(new URL(url))
              : Effect.fail(unavailable("Daytona gave no address of the port", false))
          )
        : Effect.fail(unavailable("a port is a whole number from 1 to 65535", false))
  })
})

const unavailableOr = (error: Parameters<typeof unavailableBy>[0]): OpenError =>
  error._tag === "SandboxLost" ? error : unavailableBy(error)

/** How often the activity is refreshed: three times in the time after which a sandbox is stopped. */
const activePause = ({ autoStop }: Options): number => {
  const minutes = minutesOf(autoStop) ?? defaultAutoStop
  return Math.max(20_000, ((minutes === 0 ? defaultAutoStop : minutes) * 60_000) / 3)
}

const apiOf = ({
  apiKey,
  apiUrl,
  toolboxHosts = []
}: Options): Effect.Effect<DaytonaApi, SandboxError.SandboxUnavailable> =>
  Effect.suspend(() => {
    const given = apiKey ?? process.env["DAYTONA_API_KEY"]
    if (given === undefined || given === "")
      return Effect.fail(
        unavailable("there is no key: set DAYTONA_API_KEY, or give the option apiKey", false)
      )
    const key = Redacted.isRedacted(given) ? given : Redacted.make(given)
    const address = apiUrl ?? process.env["DAYTONA_API_URL"] ?? cloudUrl
    if (!isApiUrl(address))
      return Effect.fail(
        unavailable("DAYTONA_API_URL is no address: give one that begins with https:// or http://", false)
      )
    return Effect.succeed(new DaytonaApi({ apiUrl: address, apiKey: key, toolboxHosts }))
  })

/** The name of a run's sandbox: what Daytona takes, and the same for every process. */
const nameOf = (runId: string): string =>
  `fermata-${createHash("sha256").update(runId).digest("hex").slice(0, 32)}`

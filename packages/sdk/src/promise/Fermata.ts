/**
 * The Promise API, for programs that do not use Effect: the same runs, results and errors.
 *
 * A `Fermata` combines a store, a model and agents. It starts runs, lists their requests, takes decisions, and resumes runs by their ids,
 * including runs that another process started. Close it, or declare it with `await using`: its unfinished runs are suspended, except the
 * background runs that are cancelled then by their `onClose`, and the store is closed.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Scope from "effect/Scope"
import type { Agent } from "../agent/AgentDefinition.ts"
import * as Cancellation from "../agent/Cancellation.ts"
import { checkOptions } from "../agent/internal/soundOptions.ts"
import type { Configuration } from "../agent/RuntimeHooks.ts"
import type { RunUpdate } from "../agent/RunUpdate.ts"
import type * as Conductor from "../dispatch/Conductor.ts"
import type { Decision, DecisionInput } from "../domain/Decision.ts"
import { messageOf } from "../domain/Display.ts"
import type { GrantId, RunId } from "../domain/Id.ts"
import { withoutUndefined } from "../domain/internal/untyped.ts"
import type { Interruption } from "../domain/Interruption.ts"
import type { FilePart, Message, TextPart } from "../domain/Message.ts"
import { attribute, type Principal } from "../domain/Principal.ts"
import type { RunState } from "../domain/RunState.ts"
import { exportRun, importRun, type RunArchive } from "../durable/archive.ts"
import type { Attachable, FileOptions } from "../durable/attachFile.ts"
import type { BlockedRun, CheckAllOptions } from "../durable/checkAll.ts"
import { checkStoredRun } from "../durable/checkStoredRun.ts"
import { type Compacted, type CompactOptions, compactRun } from "../durable/compactRun.ts"
import { type CompleteOptions, type Completion, completeStored } from "../durable/completeStored.ts"
import { decideAllStored, decideStored } from "../durable/decideStored.ts"
import { explain, type Explanation } from "../durable/explain.ts"
import { forkRun, rewindPoints, type RewindPoint } from "../durable/forkRun.ts"
import { recoverShape } from "../durable/internal/shapes.ts"
import { loadState } from "../durable/loadState.ts"
import { pinMessage } from "../durable/pinMessage.ts"
import type { MessagesPage } from "../durable/readMessages.ts"
import type { StoredResult } from "../durable/readResult.ts"
import { recover, type Recovered } from "../durable/recover.ts"
import { reopenRequest } from "../durable/reopenRequest.ts"
import { revokeGrant } from "../durable/revokeGrant.ts"
import { runPromptStored } from "../durable/runPromptStored.ts"
import { sendMessage, type SendOptions } from "../durable/sendMessage.ts"
import type { RecoverOptions } from "../durable/storedInput.ts"
import { submitPrompt } from "../durable/submitPrompt.ts"
import { layer as memoryLayer, Memory, type MemoryOptions } from "../memory/Memory.ts"
import type { Restored } from "../run/captureState.ts"
import type { ResumeReport } from "../run/checkResume.ts"
import type { Prompt } from "../run/Mail.ts"
import type { RunResult } from "../run/RunResult.ts"
import { type ListFilter, type PendingFilter, RunStore } from "../store/RunStore.ts"
import type {
  DamagedRun,
  PendingRequest,
  RunHead,
  SessionFilter,
  SessionHead
} from "../store/RunStorePort.ts"
import type { Receipt } from "../store/SentMessage.ts"
import type { GrantFilter, StoredGrant } from "../store/StoredGrant.ts"
import type { DecisionBody } from "./decisions.ts"
import { makeArchives } from "./internal/archives.ts"
import { type Attachment, makeAttachments } from "./internal/attachments.ts"
import { makeBackground } from "./internal/background.ts"
import { bindAgents, requireDistinct } from "./internal/bindAgents.ts"
import { makeCapturing } from "./internal/capturing.ts"
import { type ControlPlaneOptions, makeControlling, type RunControlPlane } from "./internal/controlling.ts"
import { makeWatch } from "./internal/events.ts"
import { makeEventsResponse } from "./internal/eventsResponse.ts"
import { continueOf, forkOf, startOf } from "./internal/inputs.ts"
import type {
  AttachOptions,
  BackgroundOptions,
  DamagedRunsOptions,
  DecideOptions,
  DecisionOn,
  EventsOptions,
  EventsResponseOptions,
  FermataChange,
  FermataOptions,
  ForkOptions,
  OfAgent,
  PlainIds,
  PromptOptions,
  ResumeOptions,
  SubmitOptions,
  WorkOptions
} from "./internal/options.ts"
import { makeReading } from "./internal/reading.ts"
import { makeReconfigure } from "./internal/reconfiguring.ts"
import { makeRemembering, type RunMemory } from "./internal/remembering.ts"
import { settingsOf } from "./internal/settings.ts"
import {
  cancelShape,
  compactShape,
  dispatchShape,
  eventsShape,
  fermataShape,
  filterShapes,
  forkShape,
  pinShape,
  promptShape,
  pruneShape,
  requireKnown,
  resumeShape,
  revokeShape,
  sendMessageShape,
  submitShape,
  workShape
} from "./internal/shapes.ts"
import { makeResumeStream, makeTextStream, type RunStream } from "./internal/textStream.ts"
import { makeWork } from "./internal/work.ts"
import {
  decisionOf,
  decisionOn,
  reopeningOf,
  requestIdOf,
  type RunConductor,
  type RunHandle
} from "./RunHandle.ts"

export { FermataClosed } from "./internal/FermataClosed.ts"
export type { Attachment } from "./internal/attachments.ts"
export type * from "./internal/options.ts"
export type { ControlPlaneOptions, PlaneEventsOptions, RunControlPlane } from "./internal/controlling.ts"
export type { RunMemory } from "./internal/remembering.ts"
export type { RunStream } from "./internal/textStream.ts"

/**
 * Runs agents, whose runs can be held and released. Made by {@link make}. The errors of its methods and iterations have a `_tag`. There are
 * guards for the common ones, such as `isRunBusy`. After `close`, methods reject with `FermataClosed`, and iterations throw it.
 *
 * @category models
 * @since 0.1.0
 */
export interface Fermata extends AsyncDisposable {
  /**
   * Runs a prompt until the run is held or has ended. `agent` is an agent of this Fermata, or its name or alias. If the run fails, the
   * result has the status `error`. Rejects with the errors of `runPromptStored`, such as `RunSuspended` if the Fermata is closed meanwhile.
   */
  readonly runPrompt: <Output = unknown>(
    agent: string | Agent<never, Output>,
    prompt: Prompt,
    options?: PromptOptions
  ) => Promise<RunResult<Output>>
  /**
   * Runs a prompt and streams its text: `for await (const text of fermata.stream(agent, prompt))`. The iteration ends when the run is held
   * or has ended, and throws the error of a run that failed or was refused. The run continues if the iteration is left, and `result` still
   * resolves. To cancel the run, pass a `signal` or call `cancel`.
   */
  readonly stream: <Output = unknown>(
    agent: string | Agent<never, Output>,
    prompt: Prompt,
    options?: PromptOptions
  ) => RunStream<Output>
  /**
   * Runs a prompt in the background. Resolves to a handle once the run is stored. A held run continues when a request of it is decided,
   * through the handle, `decide`, `complete` or another process, or expires.
   */
  readonly dispatch: <Output = unknown>(
    agent: string | Agent<never, Output>,
    prompt: Prompt,
    options?: BackgroundOptions
  ) => Promise<RunHandle<Output>>
  /**
   * Stores a run without driving it, and resolves to the run's head. `work`, `recover`, `resume` or `attach` drives the run, in any process
   * that has the agent. `agent` is an agent of this Fermata, too, or its name or alias. A repeated call with the same `runId` rejects with
   * `RunExists`.
   */
  readonly submit: (
    agent: string | Agent<never, unknown>,
    prompt: Prompt,
    options?: SubmitOptions
  ) => Promise<RunHead>
  /**
   * Creates a handle for a stored run by its id, for example after a restart or in another process. Accepts a sub-agent's run, too. If no
   * process drives the run and the run can continue, this Fermata drives it. An `agent` types the output.
   */
  readonly attach: <Output = unknown>(
    runId: string,
    options?: AttachOptions<Output>
  ) => Promise<RunHandle<Output>>
  /**
   * Makes a conductor, which runs many prompts under one concurrency limit, shared budgets and one inbox. Dispose of it after use; closing
   * the Fermata does so, too.
   */
  readonly conductor: (options?: Conductor.ConductorOptions) => Promise<RunConductor>
  /**
   * Makes a control plane, by which any number of front ends drive and watch the agents with commands and events alone. Dispose of it after
   * use; closing the Fermata does so, too.
   */
  readonly controlPlane: (options?: ControlPlaneOptions) => Promise<RunControlPlane>
  /**
   * Changes the agents, and the profile, mode, tools and model of one agent or of all, in this process; either the whole change is made or
   * nothing. Runs use the new tools, model and mode from their next turn on, and keep the policy and the limits of the profile under which
   * they started. Rejects with `RuntimeBusy` while a run of an agent whose settings change is in the middle of a turn. Resolves to the
   * configuration of each agent, by its name.
   */
  readonly reconfigure: (change: FermataChange) => Promise<Readonly<Record<string, Configuration>>>
  /**
   * Resumes a held, failed or orphaned run by its id, and drives it until it is held again or has ended. A completed or cancelled run is
   * not driven, and its result is returned. A held run that still waits for decisions stays held, unless the approval callback decides.
   * With a `prompt`, a run that has ended is followed by the session's next run. Rejects with `RunBusy` while another process drives the
   * run. An `agent` types the output.
   */
  readonly resume: <Output = unknown>(
    runId: string,
    options?: ResumeOptions<Output>
  ) => Promise<RunResult<Output>>
  /**
   * Resumes a run, as `resume` does, and streams the text that its agent writes from then on; see `stream`. The text from before is in
   * `messages`.
   */
  readonly resumeStream: <Output = unknown>(
    runId: string,
    options?: ResumeOptions<Output>
  ) => RunStream<Output>
  /**
   * Reads how a run or a sub-agent's run has ended, or stands, and drives nothing: `completed`, `interrupted`, `cancelled`, `error`, or
   * `running`. An `agent` types the output.
   */
  readonly result: <Output = unknown>(
    run: string | RunHandle<Output>,
    options?: OfAgent<Output>
  ) => Promise<StoredResult<Output>>
  /**
   * Sends a message to a run or to a sub-agent's run, regardless of the process that drives it. Resolves when the message is stored. The
   * model receives it with the run's next turn, which begins when the open calls are settled. A handle, a worker or the next `resume`
   * continues a held run for it. A repeated call with the same `messageId` sends it once. Rejects with `RunEnded` if the run has ended, and
   * with `MessageInvalid` if another message has the `messageId`.
   */
  readonly send: (runId: string, prompt: Prompt, options?: SendOptions) => Promise<Receipt>
  /**
   * Stores a file, and resolves to the part with which a prompt, a message or a tool's result refers to it. A stream is stored piece by
   * piece and is never in memory as a whole. `prune` deletes a file to which no run refers an hour after it was stored. Rejects with
   * `FileUnreadable` if reading the file fails.
   */
  readonly attachFile: (content: Attachable, options?: FileOptions) => Promise<FilePart>
  /**
   * Reads an attachment of a run, by a part of one of its messages or events, or by its SHA-256: a file, or the whole text of a result that
   * was cut (`whole`). Rejects with `AttachmentNotFound` if neither the run nor a run that it builds on refers to it. Send a file of an
   * unknown sender as a download: its media type is the one that the sender stated.
   */
  readonly readAttachment: (runId: string, attachment: FilePart | TextPart | string) => Promise<Attachment>
  /**
   * Starts a run in a session of its own from an earlier revision of another run, and drives the new run until it is held or has ended. The
   * other run, which may not be a sub-agent's, does not change. Side effects of tools are not undone.
   */
  readonly fork: <Output = unknown>(
    runId: string,
    prompt: Prompt,
    options?: ForkOptions<Output>
  ) => Promise<RunResult<Output>>
  /** Returns the rewind points of a run, oldest first: the revisions at which a turn ended, which are good starts for a fork. */
  readonly rewindPoints: (runId: string) => Promise<ReadonlyArray<RewindPoint>>
  /**
   * Lists the open requests of all runs of the store, or those that `filter` selects, oldest first: of a run or of a sub-agent's run (`runId`),
   * of a kind or of several (`kind`), for example. A page has 100 unless `limit` is given (at most 1,000), and starts behind the request
   * `after`. Expired requests are left out, unless `expiresBefore` selects them. So are requests that cannot be read; see `damagedRuns`.
   */
  readonly pending: (filter?: PlainIds<PendingFilter>) => Promise<ReadonlyArray<PendingRequest>>
  /**
   * Records the decision on a request; the first one counts, and another one rejects with `AlreadyDecided`, except a repetition of the
   * first with its `idempotencyKey`. The run is not driven by this call: its handle, a worker or `resume` continues it. Pass the request
   * itself, unchanged, to bind an approval to the arguments and the facts that it showed. The request and the decision may come from the
   * body of an HTTP request as they are: both are checked completely, and a wrong one is refused with `DecisionMalformed` or
   * `ArgumentsChanged`. `note` and `idempotencyKey` may be in the decision or in the options, which win.
   */
  readonly decide: (
    request: string | Interruption | PendingRequest,
    decision: DecisionBody,
    options?: DecideOptions
  ) => Promise<Decision>
  /**
   * Records several decisions on requests of any runs as `decide` does: if one is refused, none is recorded. Resolves to the recorded
   * decisions in the given order.
   */
  readonly decideAll: (decisions: ReadonlyArray<DecisionOn>) => Promise<ReadonlyArray<Decision>>
  /**
   * Delivers how the work has ended for which a call waits by its `token` (`pending`), once, for example from a webhook. Resolves to the
   * recorded decision; a repeated delivery of the same completion resolves to the same. The run is not driven by this call: its handle, a
   * worker or `resume` continues it. Rejects with `TokenNotFound` if no call waits for the token, or not yet: answer so that the sender
   * delivers again later. Rejects with `AlreadyDecided` if another result, a person, the expiry or a superseding message was first, and with
   * `SuppliedResultInvalid` if this Fermata has the tool and its `success` schema does not accept the result; the token then stays open.
   */
  readonly complete: (token: string, completion: Completion, options?: CompleteOptions) => Promise<Decision>
  /**
   * Iterates over the updates of a run or of a sub-agent's run, until the run is held or has ended: first the stored events, then the live
   * updates. With `until: "end"`, a hold does not end the iteration. Of a run that another process drives, live text is included only if
   * the store has a broadcast, as Postgres has. A slow reader misses no event; the text that it misses is counted in `omitted`. When the
   * Fermata is closed, the iteration ends or throws `FermataClosed`.
   */
  readonly events: (runId: string, options?: EventsOptions) => AsyncIterable<RunUpdate>
  /**
   * Responds to a request with the updates of a run or of a sub-agent's run, until it has ended, as server-sent events: each `data` is an
   * update as JSON, without the data that only the provider reads (`payload` of a part). The id of an event is its revision. Pass the
   * `request`, so that a client that reconnects misses no event. The last message is of the type `end`; its `data` has the run's `status`,
   * or the status `removed`. A client that reconnects and has every event of a run that has ended gets a response with the HTTP status 204,
   * which stops it. If the events cannot be read, the last message is of the type `error`, and its `data` has a `message` and, if the store
   * failed, the `code` of the error. A response that ends because the Fermata is closed has no such message, so that the client reconnects.
   * Rejects with `RunNotFound`, also after the run was removed.
   */
  readonly eventsResponse: (runId: string, options?: EventsResponseOptions) => Promise<Response>
  /**
   * Drives the ready runs of this Fermata's agents once, up to `limit` (default: 100): runs that are orphaned, and held runs with a
   * decision, a message, a cancellation request, or a request that has expired or soon will. Resolves to the outcome of each. A run that
   * cannot be driven has an `error` in its outcome, and does not count towards `limit`.
   */
  readonly recover: (options?: RecoverOptions) => Promise<ReadonlyArray<Recovered>>
  /**
   * Runs a worker, which drives the runs of this Fermata's agents as soon as they are ready, until the signal is aborted or the Fermata is
   * closed. The worker then suspends the runs that it drives, so that another process can resume them, and the promise resolves.
   */
  readonly work: (options?: WorkOptions) => Promise<void>
  /** Explains what a run or a sub-agent's run waits for: since when, for which agent, until when, and what resuming it would do. */
  readonly explain: (runId: string) => Promise<Explanation>
  /**
   * Cancels a run, regardless of the process that drives it. A sub-agent's run is cancelled with the runs under it, and not its root.
   * Resolves when the cancellation is stored. A root that no process drives has usually ended then. Otherwise the process that drives it is
   * notified: at once in this process and by Postgres, within about 40 ms by SQLite. It interrupts what is running, and ends the run. A
   * sub-agent's run under a held root ends when the root continues. A failed run is cancelled if it is resumed. A completed or cancelled
   * run does not change.
   */
  readonly cancel: (runId: string, reason?: string) => Promise<void>
  /**
   * Lists the heads of the store's runs, newest first. A page has 100 unless `limit` is given (at most 1,000), and starts behind the run
   * `after`. Heads that cannot be read are left out, with a warning in the log; see `damagedRuns`.
   */
  readonly runs: (filter?: PlainIds<ListFilter>) => Promise<ReadonlyArray<RunHead>>
  /**
   * Lists sessions with their last runs, the one with the newest last run first. A page has 100 unless `limit` is given (at most 1,000),
   * and starts behind the session whose last run is or was `after`. The status, the agent and the time of the last change are those of
   * `last`. Sessions whose last run cannot be read are left out; see `damagedRuns`.
   */
  readonly sessions: (filter?: PlainIds<SessionFilter>) => Promise<ReadonlyArray<SessionHead>>
  /**
   * Reads the messages of a session across its runs, oldest first: the last 100, unless `limit` is given (at most 1,000). Pass the sequence
   * number of the first one as `before` to read the page before it, or that of the last one as `after` to read the first messages that were
   * added since. A session without runs has no messages.
   */
  readonly messages: (sessionId: string, page?: MessagesPage) => Promise<ReadonlyArray<Message>>
  /**
   * Lists the entries that `runs`, `sessions`, `pending` and `grants` leave out because they cannot be read, at most 1,000, with what to do
   * about each. Reads the heads, requests and grants of all runs. With `journals`, it also loads every run, and adds those whose journal,
   * messages or ancestors cannot be read, again at most 1,000.
   */
  readonly damagedRuns: (options?: DamagedRunsOptions) => Promise<ReadonlyArray<DamagedRun>>
  /**
   * Returns one text with the state of a run, and with the profile, the mode and the chosen model profile that the run's agent has in this
   * process. With `restoreState`, another process gives these to its own agent. Tools and a model client that `reconfigure` has set are not
   * in the text. The text is not signed: keep it where only trusted programs can write.
   */
  readonly captureState: (runId: string) => Promise<string>
  /**
   * Reads a text of `captureState`, and gives the run's agent in this process the profile, mode and model profile in it, for all its runs.
   * Resolves to the state, with what has changed since the run started and what prevents resuming it. The run itself is resumed from the
   * store, with `resume`.
   */
  readonly restoreState: (capture: string) => Promise<Restored>
  /** Loads the complete state of a run or of a sub-agent's run. It lacks decisions and messages that the journal does not contain yet. */
  readonly state: (runId: string) => Promise<RunState>
  /**
   * Reports what has changed in this program's agents since the run recorded them (`changes`), and which agents and tools keep the run or a
   * part of it from continuing (`blocking`). Rejects with `RunNotFound` for the id of a sub-agent's run.
   */
  readonly checkResume: (runId: string) => Promise<ResumeReport>
  /**
   * Compacts the context of a run, or of a session's last run, which may be held or have ended: a model writes a summary that replaces the
   * oldest messages in later model calls. With `dryRun`, resolves to the plan and its cost instead. Rejects with `RunBusy` while a process
   * drives the run, and with `NotCompacted` if no compaction was made.
   */
  readonly compact: (id: string, options?: CompactOptions) => Promise<Compacted>
  /**
   * Pins a message of a run's session by its sequence number: models see it unchanged even if its place is summarized. `pinned: false`
   * unpins it. Rejects with `MessageNotPinnable`, and with `RunBusy` while a process drives the run.
   */
  readonly pin: (
    runId: string,
    sequence: number,
    options?: { readonly by?: string | Principal | undefined; readonly pinned?: boolean | undefined }
  ) => Promise<void>
  /**
   * Iterates over the runs of the store that have not ended and that this program could not resume, or not in all their parts, each with the
   * reasons (`blocking`) and a `text`: for a check before a deploy. It reads a page at a time, writes nothing and starts no work. Name the
   * agents of other programs that share the store in `otherAgents`.
   */
  readonly checkAll: (options?: CheckAllOptions) => AsyncIterable<BlockedRun>
  /** Memory: facts that were remembered, and the messages of sessions, found by their words. See the option `memory`. */
  readonly memory: RunMemory
  /**
   * Lists the grants of the store, oldest first, including revoked ones. A page has 100 unless `limit` is given (at most 1,000), and starts
   * behind the grant `after`. Grants that cannot be read are left out; see `damagedRuns`.
   */
  readonly grants: (filter?: PlainIds<GrantFilter>) => Promise<ReadonlyArray<StoredGrant>>
  /**
   * Revokes a grant of a run or its session. Afterwards no call starts under it, in any run, fork or process. `by` is the author of the
   * revocation. Rejects with `GrantNotFound` if neither has the grant.
   */
  readonly revokeGrant: (
    runId: string,
    grantId: string,
    options?: Pick<DecideOptions, "by">
  ) => Promise<StoredGrant>
  /**
   * Reopens a denied approval request: the run asks about the next equal call, instead of denying it like the first one, and receives a
   * message that says so. `by` is a person; `note` is for the model, too. Rejects with `RequestNotDenied` if no denial stands, and with
   * `RunEnded` if the run has ended.
   */
  readonly reopen: (
    request: string | Interruption | PendingRequest,
    options?: Pick<DecideOptions, "by" | "note">
  ) => Promise<void>
  /**
   * Copies a run and the runs that it builds on, with their mail and their files, as one JSON value. The copy of a running run cannot be
   * imported. Rejects with `ArchiveTooLarge` if the files have more than 64 MiB.
   */
  readonly exportRun: (runId: string) => Promise<RunArchive>
  /**
   * Stores the runs of an archive and resolves to the id of the exported run. To move runs, remove the originals before the copies are
   * resumed; a fork is copied together with the run that it builds on. Trust an archive as much as the database: it contains approvals. The
   * revocations of an archive are stored even if the import rejects with `RunExists` or `SessionBusy`, which list them in `revoked`.
   */
  readonly importRun: (archive: unknown) => Promise<string>
  /** Copies a run as `exportRun` does, in lines of JSON, for files of any size: it never has a whole file in memory. */
  readonly exportRunLines: (runId: string) => AsyncIterable<string>
  /** Stores the runs of an archive in lines, which may arrive in pieces of any length, as text or as UTF-8; see `importRun`. */
  readonly importRunLines: (text: AsyncIterable<string | Uint8Array>) => Promise<string>
  /**
   * Deletes a run and what belongs to it; only the ids and the revocation times of its revoked grants stay. Rejects with `RunBusy` while a
   * process owns the run's lease, and with `RunContinued` if a later run or a fork builds on the run.
   */
  readonly remove: (runId: string) => Promise<void>
  /**
   * Deletes the runs that completed, failed or were cancelled before a time (milliseconds since 1970), unless a process owns them or a run
   * that stays builds on them. Resolves to the number of deleted runs.
   */
  readonly prune: (options: { readonly endedBefore: number }) => Promise<number>
  /**
   * Suspends the runs of this Fermata, then closes the extensions and the store; background runs with `onClose: "cancel"` are cancelled
   * instead. No new operation starts; running ones may finish within `drainTimeout`, and, after they were interrupted, within the grace
   * period (`cancelGrace`). Promises of runs that are neither held nor ended by then reject with `RunSuspended`; another process can resume
   * these runs.
   */
  readonly close: () => Promise<void>
}

/**
 * Makes a Fermata with the layer of a store, and opens the store. `createFermata` of `@fermata/node` makes one with a SQLite file.
 *
 * **Errors**
 *
 * - `OptionsInvalid`, `RuntimeOptionsInvalid`, `PrincipalInvalid` — an option is unknown or has an invalid value.
 * - `RunStoreError` — the store cannot be opened; see its `reason`.
 * - `CapabilityProfileNotFound`, `ModelProfileNotFound` — name the existing profiles.
 * - `ExtensionFailed`, `RuntimeClosed` — an extension failed to make its tools or to start, or closed its runtime while it started.
 * - `ToolNameTaken`, `ToolDefinitionError`, `AgentDefinitionError` — correct the definition of the agent.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = async (options: FermataOptions): Promise<Fermata> => {
  requireKnown("createFermata", options ?? null, fermataShape)
  const {
    agents: definitions,
    store: storeLayer,
    by = "unnamed",
    drainTimeout = "2 seconds",
    memory = false,
    ...settings
  } = options
  await Effect.runPromise(checkOptions(options, { drainTimeout: "duration" }))
  const decider = attribute(by)
  if (Result.isFailure(decider)) throw decider.failure
  requireDistinct(definitions)
  const { runtimeOptions, services } = settingsOf(settings, by)
  const stored = Layer.merge(storeLayer, services)
  const managed = ManagedRuntime.make(memory === false ? stored : withMemory(stored, memory))
  // Opens the store now, so that its errors are reported before the first run.
  const opening = Effect.all({
    store: RunStore,
    context: Effect.context<never>(),
    own: Effect.serviceOption(Memory),
    agents: bindAgents(definitions, runtimeOptions)
  }).pipe(Scope.provide(managed.scope))
  const { agents, context, own, store } = await managed.runPromise(opening).catch(async (error: unknown) => {
    await managed.dispose()
    throw error
  })
  const runtimes = agents.all
  const suspension = { soon: Cancellation.make(), now: Cancellation.make() }
  // The subscription to the store is shared with other users of the store, which may outlive this Fermata. So it is forked outside the
  // managed runtime.
  const fork = Effect.runForkWith(context)
  const watching = makeWatch({ store, fork, closed: suspension.soon })
  const work = makeWork({ managed, runtimes, suspension, drainTimeout, publish: watching.publish })
  const { run, runOptions } = work
  const background = makeBackground({ ...work, agents, by, drainTimeout, isStored: true })
  const controlling = makeControlling({ agents, by, run, drainTimeout })
  const capturing = makeCapturing({ agents, run })
  const reading = makeReading({ run, agents })
  const agentOf = async (runId: string) => (await run(store.head(runId as RunId))).agent

  const start: Fermata["runPrompt"] = async (agent, prompt, given = {}) => {
    requireKnown("runPrompt", given, promptShape)
    return run(runPromptStored(agents.of(agent), startOf(prompt, given), runOptions(given)))
  }

  const resume: Fermata["resume"] = async <Output>(runId: string, given: ResumeOptions<Output> = {}) => {
    requireKnown("resume", given, resumeShape)
    // `runPromptStored` refuses a run of another agent, so that with a single one there is nothing to choose.
    const [only, ...others] = runtimes
    const isOnly = only !== undefined && others.length === 0
    const agent = given.agent === undefined ? (isOnly ? only.agent : await agentOf(runId)) : given.agent
    return run(
      runPromptStored<Output>(
        agents.of(agent as string | Agent<never, Output>),
        continueOf(runId, given, by),
        runOptions(given)
      )
    )
  }

  const fermata: Omit<Fermata, typeof Symbol.asyncDispose> = {
    runPrompt: start,
    stream: makeTextStream({ agents, shape: promptShape, runPrompt: start }),
    eventsResponse: makeEventsResponse({
      events: watching.events,
      standing: reading.standing,
      report: (runId, error) =>
        fork(Effect.logWarning(`The events of the run ${runId} cannot be sent: ${messageOf(error)}`))
    }),
    dispatch: async (agent, prompt, given) => {
      requireKnown("dispatch", given, dispatchShape)
      return background.dispatch(agents.of(agent), prompt, given)
    },
    submit: async (agent, prompt, given = {}) => {
      requireKnown("submit", given, submitShape)
      return run(submitPrompt(agents.of(agent), startOf(prompt, given)))
    },
    attach: background.attach,
    conductor: background.conductor,
    controlPlane: controlling.controlPlane,
    captureState: async (runId) => capturing.capture(await run(loadState(runId as RunId))),
    restoreState: async (text) => capturing.restore(text),
    reconfigure: makeReconfigure({ agents, options: runtimeOptions, scope: managed.scope, run }),
    resume,
    resumeStream: makeResumeStream({ idOf: (runId: string) => runId, resume }),
    result: reading.result,
    sessions: reading.sessions,
    messages: reading.messages,
    send: async (runId, prompt, given) => {
      requireKnown("send", given, sendMessageShape)
      return run(sendMessage(runId as RunId, prompt, given))
    },
    ...makeAttachments({ context, run, runUntilClosed: work.runUntilClosed }),
    fork: async (runId, prompt, given = {}) => {
      requireKnown("fork", given, forkShape)
      const runtime = agents.of(given.agent === undefined ? await agentOf(runId) : given.agent)
      return run(forkRun(runtime, forkOf(runId, prompt, given), runOptions(given)))
    },
    rewindPoints: (runId) => run(rewindPoints(runId as RunId)),
    pending: async (filter) => {
      requireKnown("pending", filter, filterShapes.pending)
      return run(store.pending(filter as PendingFilter | undefined))
    },
    decide: async (given, body, options) => run(decideStored(runtimes, decisionOf(given, body, options, by))),
    decideAll: async (given) => {
      const inputs = Array.isArray(given) ? given.map((one: DecisionOn) => decisionOn(one, by)) : given
      return run(decideAllStored(runtimes, inputs as ReadonlyArray<DecisionInput>))
    },
    complete: async (token, completion, options) =>
      work.runUntilClosed(completeStored(runtimes, token, completion, options)),
    events: (runId, given) => {
      requireKnown("events", given, eventsShape)
      return watching.events(runId as RunId, given)
    },
    recover: async (given = {}) => {
      requireKnown("recover", given, recoverShape)
      return run(
        Effect.andThen(
          checkOptions(given, { limit: "number", concurrency: "number" }),
          Effect.suspend(() => recover(runtimes, { suspension, ...given, onUpdate: work.publishing(given) }))
        )
      )
    },
    work: async (given = {}) => {
      requireKnown("work", given, workShape)
      const numbers = { concurrency: "number", pollInterval: "duration", drainTimeout: "duration" } as const
      await Effect.runPromise(checkOptions(given, numbers))
      return work.work(given)
    },
    explain: (runId) => run(explain(runId as RunId, { runtimes })),
    cancel: async (runId, reason = "cancelled by the caller") => {
      requireKnown("cancel", { reason }, cancelShape)
      await work.cancel(runId, reason)
      watching.poke(runId as RunId)
    },
    runs: async (filter) => {
      requireKnown("runs", filter, filterShapes.runs)
      return run(store.list(filter as ListFilter | undefined))
    },
    damagedRuns: reading.damagedRuns,
    state: (runId) => run(loadState(runId as RunId)),
    checkResume: async (runId) => {
      const agent = await agentOf(runId)
      const runtime = agents.find(agent)
      return runtime === undefined
        ? { changes: [], blocking: [agents.notFound(agent)] }
        : run(checkStoredRun(runId as RunId, runtime))
    },
    compact: async (id, given = {}) => {
      requireKnown("compact", given, compactShape)
      const name = typeof by === "string" ? by : by.id
      return run(compactRun(runtimes, id, { by: name, ...withoutUndefined(given) }))
    },
    pin: async (runId, sequence, given = {}) => {
      requireKnown("pin", given, pinShape)
      return run(pinMessage(runId, sequence, { by, ...withoutUndefined(given) }))
    },
    checkAll: reading.checkAll,
    memory: makeRemembering({ own: Option.getOrUndefined(own), run, store }),
    grants: async (filter) => {
      requireKnown("grants", filter, filterShapes.grants)
      return run(store.grants(filter as GrantFilter | undefined))
    },
    revokeGrant: async (runId, grantId, options) => {
      requireKnown("revokeGrant", options, revokeShape)
      const revoker = options?.by === undefined ? by : options.by
      return run(revokeGrant(runId as RunId, grantId as GrantId, revoker))
    },
    reopen: async (given, options) => run(reopenRequest(requestIdOf(given), reopeningOf(options, by))),
    exportRun: (runId) => run(exportRun(runId as RunId)),
    importRun: (archive) => run(importRun(archive)),
    ...makeArchives({ context, run, store }),
    remove: async (runId) => {
      await run(store.remove(runId as RunId))
      watching.poke(runId as RunId)
    },
    prune: async (given) => {
      requireKnown("prune", given ?? null, pruneShape)
      return run(store.prune(given))
    },
    close: () => work.close(async () => void (await Promise.all([controlling.close(), background.close()])))
  }

  return { ...fermata, [Symbol.asyncDispose]: fermata.close }
}

/** Adds memory to the services of a store. */
const withMemory = <Services, E>(
  stored: Layer.Layer<Services | RunStore, E>,
  options: true | MemoryOptions
) => Layer.provideMerge(memoryLayer(options === true ? {} : options), stored)

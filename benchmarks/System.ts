/**
 * The work of a system in each workload, the same for all: the adapters under `systems` and `peers` implement {@link Adapter}, each in
 * terms of one system's public API.
 *
 * The harness owns the work: it scripts the model and the tools, repeats and times the work, and counts what was done. An adapter
 * translates and returns the result. It throws when the system reports that something went wrong.
 */

/** A task, or a sentence with the reason why the system cannot do it. */
export type Offer<Task> = Task | { readonly cannot: string }

/** A call in the model's answer. */
export interface Call {
  /** Unique in a run. */
  readonly id: string
  readonly name: string
  /** JSON text of an object. */
  readonly arguments: string
}

/** The model's answer to one call: text, or calls. */
export interface Answer {
  readonly text?: string
  readonly calls?: ReadonlyArray<Call>
}

/** A tool. Its arguments are an object of numbers. */
export interface Tool {
  readonly name: string
  readonly description: string
  /** The names of its arguments. */
  readonly parameters: ReadonlyArray<string>
  /** Whether each call needs approval. A tool that is not gated is read-only. */
  readonly gated: boolean
  /** Its body; the harness counts its calls. */
  readonly run: (args: Readonly<Record<string, number>>) => string | Promise<string>
}

/** A run: its prompt, the model's answers, and its tools. */
export interface Script {
  readonly prompt: string
  readonly tools: ReadonlyArray<Tool>
  /**
   * The model's n-th answer (from 1) after the run's prompt. To know n, count from the length of the history, or with a counter; do not
   * read the whole history for every call, which would be charged to the system.
   */
  readonly answer: (turn: number) => Answer
  /** If set, the model awaits this before each answer. */
  readonly pause?: () => Promise<void>
}

/** Makes one new run and returns its final text. May be called again while others are going on. */
export type Run = () => Promise<string>

/** A resource that has to be closed. Opening and closing are not timed. */
export interface Opened {
  readonly close: () => Promise<void>
}

/** Runs that are on disk at every step. */
export interface StoredRuns extends Opened {
  readonly run: Run
}

/** A message of an earlier conversation. */
export interface PastMessage {
  readonly role: "user" | "assistant"
  readonly text: string
}

/** A client of a store with one conversation in it. */
export interface Holder extends Opened {
  /** Sends the script's prompt on top of the conversation. Returns when the run is held and on disk. */
  readonly start: () => Promise<void>
  /**
   * Called on new objects, which know nothing of `start`: finds the held run in the store, approves it, resumes it, and returns the final
   * text when that is on disk.
   */
  readonly finish: () => Promise<string>
}

/** A hold: prepared once, opened twice. */
export interface HoldTask {
  /** Puts a conversation on disk. Not timed. The folder may be copied afterwards, so everything must be closed and in it. */
  readonly prepare: (folder: string, history: ReadonlyArray<PastMessage>) => Promise<void>
  /** Makes new objects on the folder: store, agent, client. */
  readonly open: (folder: string, script: Script) => Promise<Holder>
}

/** The parts that the consumer of a stream received. */
export interface Streamed {
  readonly deltas: number
  readonly characters: number
}

/** A streamed answer. */
export interface StreamScript {
  readonly prompt: string
  /** The pieces, in order, which the model yields one by one. */
  readonly deltas: ReadonlyArray<string>
}

/** A conversation that grows. */
export interface Conversation extends Opened {
  /** Makes one more exchange, with all earlier ones in the model's view: takes the user's text, returns the answer. On disk when it returns. */
  readonly say: (text: string) => Promise<string>
}

/** Many runs that are held at the same time. */
export interface Inbox extends Opened {
  /** Starts one more run, which is held. On disk when it returns. */
  readonly hold: () => Promise<void>
  /** The first page, of at most this many: handles of held runs. */
  readonly list: (limit: number) => Promise<ReadonlyArray<Held>>
}

/** One run in an inbox. */
export interface Held {
  /** Approves. On disk when it returns. */
  readonly approve: () => Promise<void>
  /** Resumes the approved run to its final text. On disk when it returns. */
  readonly resume: () => Promise<string>
}

/** One system. */
export interface Adapter {
  /** Turns of one model call and one tool call, in memory. */
  readonly step: Offer<(script: Script) => Promise<Run>>
  /** The same in a folder, on disk at every step, and one run that grows long. */
  readonly stored: Offer<(folder: string, script: Script) => Promise<StoredRuns>>
  /** Held, and released by new objects. */
  readonly hold: Offer<HoldTask>
  /** Many runs at a time, in memory; the model pauses. */
  readonly fanOut: Offer<(script: Script) => Promise<Run>>
  /** One consumer of one streamed answer. */
  readonly stream: Offer<(script: StreamScript) => Promise<() => Promise<Streamed>>>
  /** Many calls in one turn, in memory. */
  readonly parallel: Offer<(script: Script) => Promise<Run>>
  /** A conversation that grows, in a folder. `answer` is the model's answer to each prompt. */
  readonly conversation: Offer<(folder: string, answer: string) => Promise<Conversation>>
  /** Many held runs in one store. */
  readonly inbox: Offer<(folder: string, script: Script) => Promise<Inbox>>
}

/** Facts about a system that need not load it. */
export interface System {
  /** Its name for `--systems`. */
  readonly name: string
  readonly title: string
  /** The adapter's module, from this folder. It exports `adapter`. */
  readonly module: string
  /** Where it is installed: with this workspace, or by this folder's own `package.json`. `none`: it needs no installation. */
  readonly installed: "workspace" | "benchmarks" | "none"
  /** The modules that a program imports, the main entry first. */
  readonly entries: ReadonlyArray<string>
  /** The packages that a program installs for this system; the report lists their versions and sizes. */
  readonly packages: ReadonlyArray<string>
  /** The documented switch that turns tracing and telemetry off, or a note that there is none. */
  readonly quiet: string
  /** Environment variables that are set before anything is loaded; switches among them. */
  readonly environment?: Readonly<Record<string, string>>
  /** How its store is made as durable as the others (WAL, `synchronous=FULL`), or why it could not be. */
  readonly durability: string
}

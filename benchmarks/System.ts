/**
 * What a system is asked to do in each workload, the same for all: the adapters under `systems` and `peers` implement
 * {@link Adapter}, each in terms of one system's public API.
 *
 * The harness owns the work: it says what the model answers, what the tools do and how often anything is repeated, it takes the
 * times, and it counts what was really done. An adapter translates and returns what came out. It throws when the system said that
 * something went wrong.
 */

/** What can be done, or the sentence that says why it cannot. */
export type Offer<Task> = Task | { readonly cannot: string }

/** A call in the model's answer. */
export interface Call {
  /** Unique in a run. */
  readonly id: string
  readonly name: string
  /** JSON text of an object. */
  readonly arguments: string
}

/** What the model says in one call: text, or calls. */
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
  /** Its body, which the harness counts. */
  readonly run: (args: Readonly<Record<string, number>>) => string | Promise<string>
}

/** A run: what is asked, what the model answers, and which tools there are. */
export interface Script {
  readonly prompt: string
  readonly tools: ReadonlyArray<Tool>
  /**
   * What the model answers in its n-th call (from 1) after the run's prompt. To know n, count from the length of the history it is
   * given, or with a counter; do not read all of it for every call, which would be booked on the system.
   */
  readonly answer: (turn: number) => Answer
  /** Where it is given, the model awaits this before each answer. */
  readonly pause?: () => Promise<void>
}

/** Makes one new run and gives its final text. May be called again while others are going on. */
export type Run = () => Promise<string>

/** Something that is open and has to be closed; neither is timed. */
export interface Opened {
  readonly close: () => Promise<void>
}

/** Runs that are on disk at every step. */
export interface StoredRuns extends Opened {
  readonly run: Run
}

/** A message of a conversation that took place before. */
export interface PastMessage {
  readonly role: "user" | "assistant"
  readonly text: string
}

/** A client of a store with one conversation in it. */
export interface Holder extends Opened {
  /** Sends the script's prompt on top of the conversation. Returns when the run is held, and is on disk. */
  readonly start: () => Promise<void>
  /**
   * Given new objects, which know nothing of `start`: finds what is held in the store, approves it, goes on, and returns the final
   * text when that is on disk.
   */
  readonly finish: () => Promise<string>
}

/** A hold: prepared once, opened twice. */
export interface HoldTask {
  /** Puts a conversation on disk. Not timed; the folder may be copied afterwards, so that everything is closed and in it. */
  readonly prepare: (folder: string, history: ReadonlyArray<PastMessage>) => Promise<void>
  /** Makes new objects on what is in the folder: store, agent, client. */
  readonly open: (folder: string, script: Script) => Promise<Holder>
}

/** What came through to the consumer of a stream. */
export interface Streamed {
  readonly deltas: number
  readonly characters: number
}

/** A streamed answer. */
export interface StreamScript {
  readonly prompt: string
  /** The pieces, in order, which the model hands out one by one. */
  readonly deltas: ReadonlyArray<string>
}

/** A conversation that grows. */
export interface Conversation extends Opened {
  /** One more exchange, with all earlier ones in the model's view: what the user says; gives the answer. On disk when it returns. */
  readonly say: (text: string) => Promise<string>
}

/** Many runs that are held at the same time. */
export interface Inbox extends Opened {
  /** Starts one more run, which is held, and is on disk. */
  readonly hold: () => Promise<void>
  /** The first page, of at most so many: returns handles on what waits. */
  readonly list: (limit: number) => Promise<ReadonlyArray<Held>>
}

/** One run in an inbox. */
export interface Held {
  /** Approves. On disk when it returns. */
  readonly approve: () => Promise<void>
  /** Goes on with the approved run to its final text. On disk when it returns. */
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
  /** A conversation that grows, in a folder. `answer` is what the model says each time. */
  readonly conversation: Offer<(folder: string, answer: string) => Promise<Conversation>>
  /** Many held runs in one store. */
  readonly inbox: Offer<(folder: string, script: Script) => Promise<Inbox>>
}

/** What is known of a system without loading it. */
export interface System {
  /** What `--systems` calls it. */
  readonly name: string
  readonly title: string
  /** The adapter's module, from this folder. It exports `adapter`. */
  readonly module: string
  /** Where it is installed: with this workspace, or by this folder's own `package.json`. `none`: nothing has to be. */
  readonly installed: "workspace" | "benchmarks" | "none"
  /** What a program imports, the main entry first. */
  readonly entries: ReadonlyArray<string>
  /** The packages that a program installs for this system; the report lists their versions and sizes. */
  readonly packages: ReadonlyArray<string>
  /** The documented switch with which tracing and telemetry are off, or that there is none. */
  readonly quiet: string
  /** Set before anything is loaded; switches among them. */
  readonly environment?: Readonly<Record<string, string>>
  /** How its store is made as durable as the others (WAL, `synchronous=FULL`), or why it could not be. */
  readonly durability: string
}

/**
 * The place where tools act: this machine, a confined part of it, a container, or another machine.
 *
 * A sandbox provides Effect's `ChildProcessSpawner` and `FileSystem`, so that code for them runs in every sandbox, and `exec`, which runs one
 * command to its end with limited output. Its reference is stored with the run, and a later process attaches to the same sandbox. What a
 * sandbox cannot do is absent from `capabilities` and fails with `CapabilityMissing`.
 *
 * @since 0.2.0
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type * as ChildProcessSpawner from "effect/process/ChildProcessSpawner"
import type * as Scope from "effect/Scope"
import type { SandboxRef } from "../domain/SandboxRef.ts"
import type {
  Capability,
  CapabilityMissing,
  CommandFailed,
  SandboxError,
  SandboxLost,
  SandboxUnavailable
} from "./SandboxError.ts"

/** A command: a line for the sandbox's shell, or a program with its arguments, which no shell interprets. */
export type Command = string | readonly [program: string, ...args: ReadonlyArray<string>]

/** The options of `exec`. */
export interface ExecOptions {
  /** The directory in which the command starts, relative to the working directory. Default: the working directory. */
  readonly cwd?: string
  /** Variables beside those of the sandbox's own environment. */
  readonly env?: Readonly<Record<string, string>>
  /** The time after which the command is stopped: by SIGTERM, and by SIGKILL half a second later. Default: no timeout. */
  readonly timeout?: Duration.Input
  /** How many bytes of each stream the result keeps: the first and the last half. Default: 65,536. */
  readonly maxOutputBytes?: number
  /** Receives the output while the command runs, cut at characters, not at lines. It must not throw. */
  readonly onOutput?: (chunk: OutputChunk) => void
  /**
   * The id of the command's session: at most 200 characters. In a sandbox with the capability `sessions`, a command with the id of an earlier
   * one is not run again: the result is that of the first. Other sandboxes ignore it.
   */
  readonly session?: string
}

/** A piece of a command's output. */
export interface OutputChunk {
  readonly stream: "stdout" | "stderr"
  readonly chunk: string
}

/** The outcome of a command that has ended or was stopped. */
export interface ExecResult {
  /** The exit code; 128 plus the signal's number if a signal ended the command, and 124 if its timeout did. */
  readonly exitCode: number
  /** The output, with a marker in the place of missing bytes. Bytes that are not UTF-8 are replaced by U+FFFD. */
  readonly stdout: string
  readonly stderr: string
  /** How many bytes of each stream the result lacks. */
  readonly missing: { readonly stdout: number; readonly stderr: number }
  /** How long the command ran; 0 in a result of `findCommand`. */
  readonly durationMs: number
  /** Whether the command was stopped by its timeout. */
  readonly timedOut: boolean
}

/** What the sandbox knows of the command of a session. `unknown`: no command with this id was started, or its record is gone. */
export type CommandStatus =
  | { readonly _tag: "unknown" }
  | { readonly _tag: "running" }
  | { readonly _tag: "ended"; readonly result: ExecResult }

/** The judgement about a path: it may be used (`allow`), may be used once a person has approved it (`ask`), or may not be used (`deny`). */
export interface PathJudgement {
  readonly decision: "allow" | "ask" | "deny"
  /** The path as commands in the sandbox see it, without links. */
  readonly path: string
  /** Why the path is not allowed, in a sentence. Absent for `allow`. */
  readonly reason?: string
}

/** The operations of a sandbox. */
export interface Shape {
  /** The stored identity, with which a later process attaches. */
  readonly ref: SandboxRef
  readonly capabilities: ReadonlySet<Capability>
  /** Where the sandbox acts, in words for a person who approves a command, such as `this machine, not confined`. */
  readonly target: string
  /** The working directory, as commands in the sandbox see it. */
  readonly workdir: string
  /** Lives until the sandbox is released. What belongs to one run uses the `runScope` of the tool's context. */
  readonly scope: Scope.Scope
  /** Starts processes in the sandbox. Without `cwd`, a command starts in the working directory. */
  readonly spawner: ChildProcessSpawner.ChildProcessSpawner["Service"]
  /** The sandbox's files. Relative paths start at the working directory. What `judgePath` denies or asks about is refused. */
  readonly files: FileSystem.FileSystem
  /** As `files`, without refusing what `judgePath` asks about. Use it only after a person has approved the path. */
  readonly approvedFiles: FileSystem.FileSystem
  /** Decides whether a path may be read or written. */
  readonly judgePath: (path: string, access: "read" | "write") => Effect.Effect<PathJudgement>
  /** Runs a command to its end. Interrupting it stops the command with all its descendants. */
  readonly exec: (command: Command, options?: ExecOptions) => Effect.Effect<ExecResult, SandboxError>
  /** Finds the command of a session: whether it runs, or its result. Needs the capability `sessions`. */
  readonly findCommand: (session: string) => Effect.Effect<CommandStatus, SandboxError>
  /** Stores the files, and returns the reference of a sandbox that has them. Needs the capability `snapshot`. */
  readonly snapshot: Effect.Effect<SandboxRef, SandboxError>
  /** The address at which a port of the sandbox is reached. Needs the capability `ports`. */
  readonly portUrl: (port: number) => Effect.Effect<URL, SandboxError>
  /** The visible text of the terminal in which the commands run. Needs the capability `screen`. */
  readonly screen: Effect.Effect<string, SandboxError>
}

/** The place where the tools of a run act. */
export class Sandbox extends Context.Service<Sandbox, Shape>()("@fermata/sdk/Sandbox") {}

export type { Capability, CapabilityMissing, CommandFailed, SandboxError, SandboxLost, SandboxUnavailable }

/**
 * The messages to the actor of a control plane, which it takes one after the other: commands, and the ends of tasks and compactions.
 */
import type * as Deferred from "effect/Deferred"
import type { SessionId } from "../../domain/Id.ts"
import type { Principal } from "../../domain/Principal.ts"
import type { Acknowledgement } from "../Acknowledgement.ts"
import type { CommandRejection } from "../CommandRejection.ts"
import type { ActiveTask } from "./ActiveTask.ts"

/** A message for the actor. */
export type Submission =
  | {
      readonly _tag: "command"
      readonly command: unknown
      readonly by: string | Principal | undefined
      readonly reply: Deferred.Deferred<Acknowledgement, CommandRejection>
    }
  | { readonly _tag: "taskDone"; readonly task: ActiveTask }
  | { readonly _tag: "compactionDone"; readonly sessionId: SessionId }

type Without<A, K extends PropertyKey> = A extends unknown ? Omit<A, K> : never

/** An acknowledgement before the actor adds the command's id and the number of the last event. */
export type Answer = Without<Acknowledgement, "commandId" | "seq" | "repeated">

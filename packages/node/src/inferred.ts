/**
 * The types that a program's exports often infer, under names of their own.
 *
 * A compiler that writes declarations must name an inferred type by a direct export of a package that the program depends on. With pnpm, a
 * program that depends on `@fermata/node` alone cannot name a type of `@fermata/sdk` that is only in a namespace, such as `Tool.Tool`.
 * In your own code, use the types of the namespaces: `Tool.Tool` and `ToolType` are one type.
 *
 * @since 0.1.0
 */
export type { Agent as AgentType } from "@fermata/sdk/agent/AgentDefinition"
export type { Configuration as ConfigurationType } from "@fermata/sdk/agent/RuntimeHooks"
export type { RunUpdate as RunUpdateType } from "@fermata/sdk/agent/RunUpdate"
export type { Decision as DecisionType } from "@fermata/sdk/domain/Decision"
export type { Interruption as InterruptionType } from "@fermata/sdk/domain/Interruption"
export type { RunState as RunStateType } from "@fermata/sdk/domain/RunState"
export type { Fermata as FermataType } from "@fermata/sdk/promise/Fermata"
export type {
  RunConductor as RunConductorType,
  RunHandle as RunHandleType
} from "@fermata/sdk/promise/RunHandle"
export type { Storeless as StorelessType } from "@fermata/sdk/promise/Storeless"
export type { RunResult as RunResultType } from "@fermata/sdk/run/RunResult"
export type {
  PendingRequest as PendingRequestType,
  RunHead as RunHeadType
} from "@fermata/sdk/store/RunStorePort"
export type { StoredGrant as StoredGrantType } from "@fermata/sdk/store/StoredGrant"
export type { Tool as ToolType } from "@fermata/sdk/tool/Tool"
export type { Brand as BrandType } from "effect/Brand"

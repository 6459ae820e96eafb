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
export type {
  HandleSendOptions as HandleSendOptionsType,
  HandleStatus as HandleStatusType,
  HandleUpdate as HandleUpdateType
} from "@fermata/sdk/dispatch/AgentHandle"
export type { ContextUsage as ContextUsageType } from "@fermata/sdk/context/ContextUsage"
export type { Acknowledgement as AcknowledgementType } from "@fermata/sdk/control/Acknowledgement"
export type { RuntimeCommand as RuntimeCommandType } from "@fermata/sdk/control/RuntimeCommand"
export type { RuntimeEvent as RuntimeEventType } from "@fermata/sdk/control/RuntimeEvent"
export type { RuntimeEventEnvelope as RuntimeEventEnvelopeType } from "@fermata/sdk/control/RuntimeEventEnvelope"
export type { RuntimeSnapshot as RuntimeSnapshotType } from "@fermata/sdk/control/RuntimeSnapshot"
export type { Spending as SpendingType } from "@fermata/sdk/dispatch/Conductor"
export type {
  ConductorUpdate as ConductorUpdateType,
  Drained as DrainedType,
  InboxEntry as InboxEntryType
} from "@fermata/sdk/dispatch/ConductorUpdate"
export type { Decision as DecisionType } from "@fermata/sdk/domain/Decision"
export type { Interruption as InterruptionType } from "@fermata/sdk/domain/Interruption"
export type {
  AgentNotFound as AgentNotFoundType,
  RunError as RunErrorType,
  ToolUnavailable as ToolUnavailableType
} from "@fermata/sdk/domain/RunError"
export type { RunEvent as RunEventType } from "@fermata/sdk/domain/RunEvent"
export type {
  BackgroundRun as BackgroundRunType,
  RunState as RunStateType,
  ToolCall as ToolCallType
} from "@fermata/sdk/domain/RunState"
export type { MemoryItem as MemoryItemType } from "@fermata/sdk/domain/MemoryItem"
export type { Found as FoundType, MemoryOperations as MemoryOperationsType } from "@fermata/sdk/memory/Memory"
export type { ModelError as ModelErrorType } from "@fermata/sdk/model/ModelError"
export type {
  ModelPart as ModelPartType,
  ModelResponse as ModelResponseType
} from "@fermata/sdk/model/ModelPart"
export type { Prices as PricesType } from "@fermata/sdk/model/ModelProfile"
export type { ModelRequest as ModelRequestType } from "@fermata/sdk/model/ModelRequest"
export type {
  Attachment as AttachmentType,
  AttachOptions as AttachOptionsType,
  BackgroundOptions as BackgroundOptionsType,
  DamagedRunsOptions as DamagedRunsOptionsType,
  DecideOptions as DecideOptionsType,
  EventsOptions as EventsOptionsType,
  EventsResponseOptions as EventsResponseOptionsType,
  Fermata as FermataType,
  FermataChange as FermataChangeType,
  ForkOptions as ForkOptionsType,
  OfAgent as OfAgentType,
  PlainIds as PlainIdsType,
  PromptOptions as PromptOptionsType,
  ResumeOptions as ResumeOptionsType,
  RunMemory as RunMemoryType,
  RunStream as RunStreamType,
  SubmitOptions as SubmitOptionsType,
  WorkOptions as WorkOptionsType,
  ControlPlaneOptions as ControlPlaneOptionsType,
  RunControlPlane as RunControlPlaneType
} from "@fermata/sdk/promise/Fermata"
export type {
  ConductorDispatchOptions as ConductorDispatchOptionsType,
  Decidable as DecidableType,
  DecisionOn as DecisionOnType,
  ReadOptions as ReadOptionsType,
  RunConductor as RunConductorType,
  RunHandle as RunHandleType
} from "@fermata/sdk/promise/RunHandle"
export type { Storeless as StorelessType } from "@fermata/sdk/promise/Storeless"
export type { Completed as CompletedType, RunResult as RunResultType } from "@fermata/sdk/run/RunResult"
export type { RunStore as RunStoreType } from "@fermata/sdk/store/RunStore"
export type { RunStoreError as RunStoreErrorType } from "@fermata/sdk/store/RunStoreError"
export type {
  DamagedRun as DamagedRunType,
  ListFilter as ListFilterType,
  PendingFilter as PendingFilterType,
  PendingRequest as PendingRequestType,
  RunHead as RunHeadType,
  SessionFilter as SessionFilterType,
  SessionHead as SessionHeadType
} from "@fermata/sdk/store/RunStorePort"
export type { Receipt as ReceiptType } from "@fermata/sdk/store/SentMessage"
export type {
  GrantFilter as GrantFilterType,
  StoredGrant as StoredGrantType
} from "@fermata/sdk/store/StoredGrant"
export type { Tool as ToolType } from "@fermata/sdk/tool/Tool"
export type { Brand as BrandType } from "effect/Brand"
export type { Effect as EffectType } from "effect/Effect"
export type { Layer as LayerType } from "effect/Layer"
export type { Stream as StreamType } from "effect/Stream"
export type { Redacted as RedactedType } from "effect/Redacted"

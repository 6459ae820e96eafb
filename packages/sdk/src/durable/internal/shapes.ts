/**
 * The keys that the inputs and options of stored runs may have: each shape names every key of its type.
 */
import { atLeastOne, atLeastZero, callable, flag, shapeOf } from "../../domain/internal/misfits.ts"
import { givenShape, newRunShape, watchShape } from "../../run/internal/shapes.ts"
import type {
  ForkInput,
  RecoverOptions,
  StoredContinueInput,
  StoredRunOptions,
  StoredStartInput
} from "../storedInput.ts"

export const storedStartShape = shapeOf<StoredStartInput>({
  ...newRunShape,
  mayRepeat: flag,
  "~conductor": "anything"
})

export const storedContinueShape = shapeOf<StoredContinueInput>({
  ...givenShape,
  runId: "anything",
  decisions: "anything",
  message: "anything",
  "~queued": "anything"
})

export const forkShape = shapeOf<ForkInput>({
  ...givenShape,
  runId: "anything",
  revision: "anything",
  prompt: "anything",
  newRunId: "anything",
  sessionId: "anything",
  "~conductor": "anything"
})

export const storedRunShape = shapeOf<StoredRunOptions>({
  ...watchShape,
  suspension: "anything",
  leaving: "anything"
})

export const recoverShape = shapeOf<RecoverOptions>({
  onUpdate: callable,
  limit: atLeastZero,
  concurrency: atLeastOne,
  suspension: "anything",
  leaving: "anything"
})

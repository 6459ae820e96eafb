/**
 * The workloads, in the order in which they are run and shown.
 */
import type { Workload } from "./harness/Workload.ts"
import { decode } from "./workloads/decode.ts"
import { fanOut } from "./workloads/fanOut.ts"
import { growth } from "./workloads/growth.ts"
import { hold } from "./workloads/hold.ts"
import { imports } from "./workloads/import.ts"
import { parallel } from "./workloads/parallel.ts"
import { semantics } from "./workloads/semantics.ts"
import { step } from "./workloads/step.ts"
import { stored } from "./workloads/stored.ts"
import { stream } from "./workloads/stream.ts"

export const workloads: ReadonlyArray<Workload> = [
  step,
  stored,
  hold,
  fanOut,
  stream,
  imports,
  parallel,
  growth,
  semantics,
  decode
]

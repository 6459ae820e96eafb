/**
 * Whether tests with bubblewrap can run on this machine.
 */
import { problemOfMachine } from "../../src/sandbox/internal/findBubblewrap.ts"

/** Why they cannot; `undefined` if they can. */
export const withoutBubblewrap = problemOfMachine([process.cwd()])

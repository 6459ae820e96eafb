/**
 * The problems that the check of a store has found so far.
 */
import { Display } from "@fermata/sdk"
import type { CheckReport } from "../../SqliteStore.ts"

/** The first hundred sentences, and the number of further ones. */
export class Findings {
  runs = 0
  events = 0
  requests = 0
  readonly problems: Array<string> = []
  #more = 0

  problem(sentence: string): void {
    if (this.problems.length >= mostProblems) this.#more += 1
    else this.problems.push(Display.line(sentence.charAt(0).toUpperCase() + sentence.slice(1)))
  }

  report(): CheckReport {
    const { events, problems, requests, runs } = this
    const rest = this.#more === 0 ? [] : [`There are ${this.#more} more problems.`]
    return { ok: problems.length === 0, runs, events, requests, problems: [...problems, ...rest] }
  }
}

const mostProblems = 100

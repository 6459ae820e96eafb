/**
 * The scripted runs that several workloads share, with a count of the calls of their tools.
 */
import type { Answer, Script, Tool } from "../System.ts"

/** The answer that ends a run. */
export const done = "done"

/** A script and how often its tool's body has run. */
export interface Counted {
  readonly script: Script
  readonly calls: () => number
}

const counted = (
  tool: Omit<Tool, "run">,
  answers: ReadonlyArray<Answer>,
  run: Tool["run"],
  pause?: () => Promise<void>
): Counted => {
  let count = 0
  const end: Answer = { text: done }
  return {
    calls: () => count,
    script: {
      prompt: "Do what is to be done.",
      tools: [
        {
          ...tool,
          run: (args) => {
            count += 1
            return run(args)
          }
        }
      ],
      answer: (turn) => answers[turn - 1] ?? end,
      ...(pause === undefined ? {} : { pause })
    }
  }
}

const adding = { name: "add", description: "Adds two numbers.", parameters: ["a", "b"], gated: false }

/** This many turns with one call each, then the end. */
export const adds = (
  turns: number,
  pause?: () => Promise<void>,
  result: Tool["run"] = ({ a = 0, b = 0 }) => String(a + b)
): Counted =>
  counted(
    adding,
    Array.from({ length: turns }, (_, turn) => ({
      calls: [{ id: `call_${turn}`, name: "add", arguments: '{"a":1,"b":2}' }]
    })),
    result,
    pause
  )

/** One turn with this many calls that wait for a while, then the end. */
export const waits = (calls: number, ms: number): Counted =>
  counted(
    { name: "look", description: "Looks something up.", parameters: ["at"], gated: false },
    [
      {
        calls: Array.from({ length: calls }, (_, at) => ({
          id: `call_${at}`,
          name: "look",
          arguments: `{"at":${at}}`
        }))
      }
    ],
    async ({ at }) => {
      await new Promise((resolve) => setTimeout(resolve, ms))
      return `seen ${at}`
    }
  )

/** One call that needs approval, then the final text. */
export const gated = (): Counted =>
  counted(
    { name: "deploy", description: "Deploys a build.", parameters: ["build"], gated: true },
    [{ calls: [{ id: "call_deploy", name: "deploy", arguments: '{"build":7}' }] }],
    ({ build }) => `deployed ${build}`
  )

/** A text of about this many characters, never twice the same. */
export const prose = (seed: number, characters: number): string => {
  let text = `Note ${seed}:`
  for (let word = 0; text.length < characters; word++)
    text += ` ${words[(seed * 31 + word * 7 + ((seed * word) % 11)) % words.length]}`
  return text
}

const words =
  "the of store run hold table paper river answer number week quiet light turn small open letter stone before after window".split(
    " "
  )

/**
 * `effect/ai`: the run is the exported chat, which the program writes when the model has answered, as its documentation does.
 */
import * as Chat from "effect/ai/Chat"
import type * as Prompt from "effect/ai/Prompt"
import * as Effect from "effect/Effect"
import * as Ref from "effect/Ref"
import { openBlobs } from "../peers/blobs.ts"
import { bindWith } from "../systems/effectAi.ts"
import type { OpenHolding, Outcome, Waiting } from "./Holding.ts"

const partsIn = ({ content }: Prompt.Prompt) =>
  content.flatMap((message) =>
    message.role === "assistant" || message.role === "tool" ? [...message.content] : []
  )

const openIn = (prompt: Prompt.Prompt): number => {
  let open = 0
  for (const { type } of partsIn(prompt)) open += type === "tool-call" ? 1 : type === "tool-result" ? -1 : 0
  return open
}

const waitingIn = (prompt: Prompt.Prompt): ReadonlyArray<Waiting> => {
  const parts = partsIn(prompt)
  const builds = new Map(
    parts.flatMap((part) =>
      part.type === "tool-call" ? [[part.id, (part.params as { readonly build: number }).build]] : []
    )
  )
  const answered = new Set(
    parts.flatMap((part) => (part.type === "tool-approval-response" ? [part.approvalId] : []))
  )
  return parts.flatMap((part) =>
    part.type === "tool-approval-request" && !answered.has(part.approvalId)
      ? [{ build: builds.get(part.toolCallId)!, handle: part.approvalId }]
      : []
  )
}

export const open: OpenHolding = async (folder, script) => {
  const blobs = openBlobs(folder)
  const ask = await bindWith(script.tools, (prompt) => script.ask(prompt, openIn(prompt)))
  const chat = Effect.suspend(() => {
    const text = blobs.read("run")
    return text === undefined ? Chat.empty : Chat.fromJson(text)
  })
  const goOn = (prompt: Prompt.RawInput): Promise<Outcome> =>
    Effect.gen(function* () {
      const current = yield* chat
      const { asked, text } = yield* ask(current, prompt)
      blobs.write("run", yield* current.exportJson)
      if (asked.length > 0) return { status: "held" } as const
      blobs.write("ended", text)
      return { status: "finished", text } as const
    }).pipe(Effect.runPromise)
  const waiting = () =>
    Effect.runPromise(
      Effect.map(
        Effect.flatMap(chat, ({ history }) => Ref.get(history)),
        waitingIn
      )
    )
  return {
    start: async () => {
      await goOn(script.prompt)
    },
    waiting,
    approve: (these) =>
      goOn([
        {
          role: "tool",
          content: these.map(
            ({ handle }) =>
              ({
                type: "tool-approval-response",
                approvalId: handle as string,
                approved: true
              }) as const
          )
        }
      ]),
    say: goOn,
    recover: async () => ((await waiting()).length > 0 ? { status: "held" } : goOn([])),
    ended: async () => ((await waiting()).length > 0 ? undefined : blobs.read("ended")),
    close: blobs.close
  }
}

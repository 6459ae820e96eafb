/**
 * ADK: the run is a session. A confirmation is a message with the result of the call that asks for it.
 */
import { getFunctionResponses, isFinalResponse, REQUEST_CONFIRMATION_FUNCTION_CALL_NAME } from "@google/adk"
import type { OpenHolding, Outcome } from "../../semantics/Holding.ts"
import {
  close,
  confirming,
  type Contents,
  create,
  drive,
  runnerOf,
  saying,
  Scripted,
  sessionIn,
  storeIn,
  unanswered
} from "../adk.ts"

const id = "run"

const openIn = (contents: Contents): number => {
  let open = 0
  for (const { functionCall, functionResponse } of contents.flatMap(({ parts = [] }) => parts)) {
    if (functionCall !== undefined) open += 1
    if (functionResponse !== undefined) open -= 1
  }
  return open
}

export const open: OpenHolding = async (folder, script) => {
  const service = storeIn(folder)
  await service.init()
  const model = new Scripted((contents) => script.ask(contents, openIn(contents)))
  const runner = runnerOf(script, model, service)
  const goOn = async (message: Parameters<typeof drive>[2]): Promise<Outcome> => {
    const { text } = await drive(runner, id, message)
    return (await unanswered(service, id)).length > 0 ? { status: "held" } : { status: "finished", text }
  }
  return {
    start: async () => {
      await create(service, id)
      await goOn(saying(script.prompt))
    },
    waiting: async () =>
      (await unanswered(service, id)).map(({ args, id: handle }) => ({
        build: (args as { readonly build: number }).build,
        handle
      })),
    approve: (these) => goOn(confirming(these.map(({ handle }) => handle as string))),
    say: (text) => goOn(saying(text)),
    recover: async () => {
      if ((await unanswered(service, id)).length > 0) return { status: "held" }
      // The only way to continue is to send the confirmation again.
      const given = (await sessionIn(service, id))
        .flatMap(getFunctionResponses)
        .filter(({ name }) => name === REQUEST_CONFIRMATION_FUNCTION_CALL_NAME)
      return goOn(confirming(given.map((response) => response.id!)))
    },
    ended: async () => {
      if ((await unanswered(service, id)).length > 0) return undefined
      const last = (await sessionIn(service, id)).at(-1)
      return last !== undefined && isFinalResponse(last) ? last.content?.parts?.[0]?.text : undefined
    },
    close: () => close(service)
  }
}

/**
 * What a run promises about files and long results, on any store.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Base64 from "effect/encoding/Base64"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as Agent from "../../src/agent/Agent.ts"
import type { RunUpdate } from "../../src/agent/RunUpdate.ts"
import {
  ContextPolicy,
  everything,
  make as makePolicy,
  withoutEarlierFiles
} from "../../src/context/ContextPolicy.ts"
import type { Sha256 } from "../../src/domain/Blob.ts"
import type { SessionId } from "../../src/domain/Id.ts"
import { sha256Of } from "../../src/domain/internal/sha256.ts"
import { type FilePart, type Message, text, textOf, type UserPart } from "../../src/domain/Message.ts"
import { messages } from "../../src/domain/RunState.ts"
import { exportRun, importRun } from "../../src/durable/archive.ts"
import { exportRunLines, importRunLines } from "../../src/durable/archiveLines.ts"
import { attachFile } from "../../src/durable/attachFile.ts"
import { cancelRun } from "../../src/durable/cancelRun.ts"
import { completeStored } from "../../src/durable/completeStored.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { forkRun } from "../../src/durable/forkRun.ts"
import { loadState } from "../../src/durable/loadState.ts"
import { readAttachment } from "../../src/durable/readAttachment.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { sendMessage } from "../../src/durable/sendMessage.ts"
import { InvalidRequest, StreamUnsupported } from "../../src/model/ModelError.ts"
import type { BlobPort } from "../../src/store/BlobPort.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import { BlobMissing, RunStoreError } from "../../src/store/RunStoreError.ts"
import * as FaultyRunStore from "../../src/testing/FaultyRunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Hold from "../../src/tool/Hold.ts"
import * as RecallTool from "../../src/tool/RecallTool.ts"
import * as Tool from "../../src/tool/Tool.ts"
import { ToolFailure } from "../../src/tool/ToolError.ts"
import { approve, bind, call, expect, only, probe, rebind, results, safe } from "../helpers/Fixture.ts"

/** Bytes that are no text. */
export const imageOf = (length: number, seed = 1): Uint8Array =>
  Uint8Array.from({ length }, (_, at) => (at === 0 ? 0x89 : (at * 31 + seed * 7 + (at >> 8)) % 251))

export const fileOf = (bytes: Uint8Array, fields: Partial<FilePart> = {}): FilePart => ({
  _tag: "file",
  mediaType: "image/png",
  source: { _tag: "bytes", base64: Base64.encode(bytes) },
  ...fields
})

export const stored = (bytes: Uint8Array, fields: Partial<FilePart> = {}): FilePart =>
  fileOf(bytes, { source: { _tag: "stored", sha256: sha256Of(bytes), bytes: bytes.length }, ...fields })

const isFile = (part: { readonly _tag: string }): part is FilePart => part._tag === "file"

/** The files of messages, in order. */
export const filesIn = (sent: ReadonlyArray<Message> = []): ReadonlyArray<FilePart> =>
  sent.flatMap(({ content }): ReadonlyArray<{ readonly _tag: string }> => content).filter(isFile)

const textIn = ({ content }: Message): string => textOf(content as ReadonlyArray<UserPart>)

const recallCall = (bytes: Uint8Array | string, more: object = {}): ScriptedModel.ScriptedCall => ({
  tool: "recall",
  arguments: { id: sha256Of(bytes).slice(0, 16), ...more }
})

/** A text in pieces of 1,000 characters. */
const exportText = (text: string): Stream.Stream<string> =>
  Stream.fromIterable(text.match(/[^]{1,1000}/g) ?? [])

/** Two contents whose SHA-256 begin with the same 8 digits. */
const collision = (): readonly [Uint8Array, Uint8Array] => {
  const seen = new Map<string, number>()
  const bytes = (at: number) => new TextEncoder().encode(String(at).padStart(2000))
  for (let at = 0; ; at += 1) {
    const digits = sha256Of(bytes(at)).slice(0, 8)
    const other = seen.get(digits)
    if (other !== undefined) return [bytes(other), bytes(at)]
    seen.set(digits, at)
  }
}

/** A store whose contents are read in this way. */
const readingBy = (store: RunStore["Service"], read: BlobPort["read"]): RunStore["Service"] => ({
  ...store,
  blobs: { ...store.blobs!, read }
})

export const attachmentsSuite = (name: string, layer: Layer.Layer<RunStore, RunStoreError>): void =>
  void describe(`attachments (${name})`, () => {
    const test = (
      title: string,
      body: (store: RunStore["Service"], blobs: BlobPort) => Effect.fn.Return<unknown, unknown, RunStore>
    ) =>
      it.effect(title, () =>
        Effect.flatMap(RunStore, (store) => Effect.gen(() => body(store, store.blobs!))).pipe(
          Effect.provide(Layer.fresh(layer))
        )
      )

    test("an image of 5 MB in a prompt is stored once, and the journal has its reference", function* (store, blobs) {
      const image = imageOf(5 * 1024 * 1024)
      const { model, runtime } = yield* bind(Agent.make("eye"), ["A cat.", "The cat again."])
      const prompt = [text("What is it?"), fileOf(image, { name: "cat.png" })]
      const first = yield* runPromptStored(runtime, { prompt })
      const second = yield* runPromptStored(runtime, { prompt })
      assert.deepStrictEqual(filesIn(model.requests[0]?.messages), [fileOf(image, { name: "cat.png" })])
      for (const { runId } of [first, second]) {
        const { events } = yield* store.load(runId)
        assert.isBelow(JSON.stringify(events).length, 5000)
        assert.deepStrictEqual(filesIn(messages(yield* loadState(runId))), [
          stored(image, { name: "cat.png" })
        ])
      }
      const ref = { sha256: sha256Of(image), bytes: image.length }
      assert.deepStrictEqual(
        (yield* blobs.uses([first.runId, second.runId].sort())).map((use) => use.ref),
        [ref, ref]
      )
      assert.strictEqual(
        yield* Stream.runFold(
          blobs.read(ref.sha256),
          () => 0,
          (sum, piece) => sum + piece.length
        ),
        ref.bytes
      )
    })

    test("a file of less than 1 KiB stays in the journal", function* (_, blobs) {
      const { runtime } = yield* bind(Agent.make("eye"), ["A dot.", "A line."])
      const small = yield* runPromptStored(runtime, { prompt: [fileOf(imageOf(1023))] })
      const large = yield* runPromptStored(runtime, { prompt: [fileOf(imageOf(1024))] })
      assert.deepStrictEqual(filesIn(messages(small.state)), [fileOf(imageOf(1023))])
      assert.deepStrictEqual(filesIn(messages(large.state)), [stored(imageOf(1024))])
      assert.deepStrictEqual(yield* blobs.uses([small.runId]), [])
    })

    test("a file is sent in each step of its prompt, and not with the next prompts of the session", function* () {
      const image = imageOf(3000)
      const look = safe("look")
      const { model, runtime } = yield* bind(Agent.make("eye", { tools: [look.tool, RecallTool.make()] }), [
        { calls: [call("look", "1")] },
        "A cat.",
        "Still a cat."
      ])
      const sessionId = "session_cat" as SessionId
      yield* runPromptStored(runtime, { sessionId, prompt: [fileOf(image, { name: "cat.png" })] })
      yield* runPromptStored(runtime, { sessionId, prompt: "And now?" })
      assert.deepStrictEqual(
        model.requests.map((request) => filesIn(request.messages).length),
        [1, 1, 0]
      )
      assert.strictEqual(
        textIn(model.requests[2]!.messages[0]!),
        `[The file cat.png (image/png, 3,000 bytes, SHA-256 ${sha256Of(image)}) came with an earlier prompt and is not sent again. To read it again, call recall with the id ${sha256Of(image).slice(0, 16)}.]`
      )
    })

    test("the policy everything sends the files of all prompts, also in another process", function* (store) {
      const image = imageOf(3000)
      const agent = Agent.make("eye")
      const model = ScriptedModel.make(["A cat.", "Still a cat."])
      const sessionId = "session_cat" as SessionId
      const { runtime } = yield* Effect.provideService(rebind(agent, model), ContextPolicy, everything)
      yield* runPromptStored(runtime, { sessionId, prompt: [fileOf(image)] })
      // Another object of the same contents has no cache.
      const elsewhere = readingBy(store, store.blobs!.read)
      const other = yield* Effect.provideService(rebind(agent, model), ContextPolicy, everything)
      yield* Effect.provideService(
        runPromptStored(other.runtime, { sessionId, prompt: "And now?" }),
        RunStore,
        elsewhere
      )
      assert.deepStrictEqual(filesIn(model.requests[1]?.messages), [fileOf(image)])
    })

    test("a policy of the program may keep the files of earlier prompts out as the default does", function* () {
      const seen: Array<number> = []
      const policy = makePolicy(({ instructions, messages }) => {
        seen.push(filesIn(messages).length)
        return { instructions, messages }
      })
      const { runtime } = yield* Effect.provideService(
        bind(Agent.make("eye"), ["A cat.", "Still a cat."]),
        ContextPolicy,
        withoutEarlierFiles(policy)
      )
      const sessionId = "session_cat" as SessionId
      yield* runPromptStored(runtime, { sessionId, prompt: [fileOf(imageOf(3000))] })
      yield* runPromptStored(runtime, { sessionId, prompt: "And now?" })
      assert.deepStrictEqual(seen, [1, 0])
    })

    test("a file in a tool's result, in the model's answer and in a message is stored beside the journal", function* (store, blobs) {
      const [shot, drawn, sent] = [imageOf(2000, 1), imageOf(2000, 2), imageOf(2000, 3)]
      const screenshot = Tool.make("screenshot", {
        safety: "readOnly",
        handler: () => Tool.content([text("here"), fileOf(shot)])
      })
      const pay = probe("pay")
      const { model, runtime } = yield* bind(Agent.make("eye", { tools: [screenshot, pay.tool] }), [
        { calls: [{ tool: "screenshot" }] },
        { content: [fileOf(drawn)], calls: [call("pay", "1")] },
        "Done."
      ])
      const held = yield* runPromptStored(runtime, { prompt: "Draw it" })
      yield* sendMessage(held.runId, [text("Like this"), fileOf(sent)])
      yield* decideStored([runtime], approve(only(held, "approval")))
      const { state } = expect(yield* runPromptStored(runtime, { runId: held.runId }), "completed")
      assert.deepStrictEqual(filesIn(messages(state)), [stored(shot), stored(drawn), stored(sent)])
      assert.deepStrictEqual(filesIn(model.requests.at(-1)?.messages), [
        fileOf(shot),
        fileOf(drawn),
        fileOf(sent)
      ])
      assert.sameMembers(
        (yield* blobs.uses([held.runId])).map(({ ref }) => ref.sha256),
        [shot, drawn, sent].map(sha256Of)
      )
      const { events } = yield* store.load(held.runId)
      assert.notInclude(JSON.stringify(events), Base64.encode(shot).slice(0, 100))
    })

    test("an event that refers to a content is published after the commit that stored the content", function* (store) {
      const happened: Array<string> = []
      const screenshot = Tool.make("screenshot", {
        safety: "readOnly",
        handler: () => Tool.content([fileOf(imageOf(2000))])
      })
      const long = safe("long", { maxResultLength: 10, handler: () => "x".repeat(100) })
      const { runtime } = yield* bind(Agent.make("eye", { tools: [screenshot, long.tool] }), [
        { calls: [{ tool: "screenshot" }] },
        { calls: [call("long", "1")] },
        "Done."
      ])
      const observed = FaultyRunStore.make(store, {
        after: (operation) => Effect.sync(() => void happened.push(operation))
      })
      const onUpdate = (update: RunUpdate) => {
        if (update._tag === "event" && update.event._tag === "tool.completed") happened.push("published")
      }
      yield* Effect.provideService(
        runPromptStored(runtime, { prompt: "Look" }, { onUpdate }),
        RunStore,
        observed
      )
      const order = happened.filter((one) => ["blobs.putAll", "append", "published"].includes(one))
      const once = ["blobs.putAll", "append", "published"]
      assert.deepStrictEqual(order.slice(order.indexOf("blobs.putAll")).slice(0, 3), once)
      assert.deepStrictEqual(order.slice(order.lastIndexOf("blobs.putAll")).slice(0, 3), once)
      assert.strictEqual(order.filter((one) => one === "published").length, 2)
    })

    for (const [problem, read] of [
      [
        "missing",
        (sha256: Sha256) =>
          Stream.fail(new RunStoreError({ operation: "blobs.read", reason: new BlobMissing({ sha256 }) }))
      ],
      ["changed", () => Stream.make(new Uint8Array(3000))]
    ] as const) {
      test(`a file that is ${problem} in the store fails the run before the model is called, and the run can be resumed`, function* (store) {
        const image = imageOf(3000)
        const pay = probe("pay")
        const agent = Agent.make("eye", { tools: [pay.tool] })
        const model = ScriptedModel.make([{ calls: [call("pay", "1")] }, "A cat."])
        const held = yield* runPromptStored((yield* rebind(agent, model)).runtime, {
          prompt: [fileOf(image, { name: "cat.png" })]
        })
        const { runtime } = yield* rebind(agent, model)
        yield* decideStored([runtime], approve(only(held, "approval")))
        const resumed = runPromptStored(runtime, { runId: held.runId })
        const failed = expect(
          yield* Effect.provideService(resumed, RunStore, readingBy(store, read)),
          "error"
        )
        assert.deepInclude(failed.error, {
          _tag: "ContentMissing",
          file: "cat.png",
          sha256: sha256Of(image),
          problem
        })
        assert.strictEqual(model.requests.length, 1)
        expect(yield* resumed, "completed")
        assert.deepStrictEqual(pay.ran, ["1"])
        assert.deepStrictEqual(filesIn(model.requests[1]?.messages), [fileOf(image, { name: "cat.png" })])
      })
    }

    test("a prompt may refer to a content of the store, and is refused if the store does not have it", function* (_, blobs) {
      const image = imageOf(3000)
      const { model, runtime } = yield* bind(Agent.make("eye"), ["A cat."])
      const prompt = [stored(image)]
      const refused = yield* Effect.flip(runPromptStored(runtime, { prompt }))
      assert.deepInclude(refused, { _tag: "RunStoreError", operation: "find" })
      yield* blobs.put(Stream.make(image))
      expect(yield* runPromptStored(runtime, { prompt }), "completed")
      assert.deepStrictEqual(filesIn(model.requests[0]?.messages), [fileOf(image)])
    })

    test("a tool's result that refers to a content which the store does not have fails the call", function* (_, blobs) {
      const image = imageOf(3000)
      const read = Tool.make("read", { safety: "readOnly", handler: () => Tool.content([stored(image)]) })
      const { runtime } = yield* bind(Agent.make("eye", { tools: [read] }), [
        { calls: [{ tool: "read" }] },
        { calls: [{ tool: "read" }] },
        "Done."
      ])
      const first = runPromptStored(runtime, { prompt: "Read" })
      yield* blobs.put(Stream.make(imageOf(3000, 2)))
      const { state } = expect(yield* first, "completed")
      assert.deepStrictEqual(
        results(state),
        ["read failed", "read failed"].map(
          (said) =>
            `${said}: ${said}: its result refers to a file that is not in the run's store (SHA-256 ${sha256Of(image)})`
        )
      )
    })

    const longText = Array.from({ length: 3000 }, (_, line) => `line ${line}: größer`).join("\n")

    const otherText = Array.from({ length: 1000 }, (_, line) => `other ${line}`).join("\n")

    /** An agent with a tool whose result is too long, and with `recall`. */
    const reader = () =>
      Agent.make("reader", {
        tools: [
          safe("log", { maxResultLength: 200, handler: () => longText }).tool,
          RecallTool.make({ maxLength: 1000 })
        ]
      })

    const recalled = (sent: ReadonlyArray<Message> | undefined): string => textIn(sent!.at(-1)!)

    test("a result that is cut keeps its whole text, which the model reads in pieces by the id in the mark", function* (store) {
      const { model, runtime } = yield* bind(reader(), [
        { calls: [call("log", "1")] },
        { calls: [recallCall(longText)] },
        { calls: [recallCall(longText, { from: 1000 })] },
        { calls: [recallCall(longText, { from: 30_000, length: 20 })] },
        "Read."
      ])
      const { runId, state } = expect(yield* runPromptStored(runtime, { prompt: "Read" }), "completed")
      const bytes = new TextEncoder().encode(longText)
      const ref = { sha256: sha256Of(longText), bytes: bytes.length }
      assert.deepInclude(messages(state).find(({ role }) => role === "tool")?.content[0], { whole: ref })
      assert.include(
        recalled(model.requests[1]?.messages),
        `the id of the whole text is ${ref.sha256.slice(0, 16)} …]`
      )
      let read = ""
      for (const request of [model.requests[2], model.requests[3]]) {
        const [, piece = "", from, to] =
          /^([^]*)\n\[bytes (\d+) to (\d+) of \d+; it goes on from \d+\]$/.exec(
            recalled(request?.messages)
          ) ?? []
        read += piece
        assert.deepStrictEqual(new TextEncoder().encode(piece), bytes.slice(Number(from), Number(to)))
      }
      assert.isTrue(longText.startsWith(read))
      assert.isAbove(new TextEncoder().encode(read).length, 1900)
      assert.include(recalled(model.requests[4]?.messages), "[bytes 300")
      const { events } = yield* store.load(runId)
      assert.isBelow(JSON.stringify(events).length, 12_000)
    })

    test("a whole text is read again in the next prompt, in a fork, and after a compaction", function* () {
      const script = [{ calls: [recallCall(longText, { length: 30 })] }, "Read."]
      const model = ScriptedModel.make([
        { calls: [call("log", "1")] },
        "Read.",
        ...script,
        ...script,
        ...script
      ])
      const { runtime } = yield* rebind(reader(), model)
      const sessionId = "session_log" as SessionId
      const first = yield* runPromptStored(runtime, { sessionId, prompt: "Read" })
      yield* runPromptStored(runtime, { sessionId, prompt: "Again" })
      yield* forkRun(runtime, { runId: first.runId, prompt: "Again" })
      const compacting = yield* Effect.provideService(
        rebind(reader(), model),
        ContextPolicy,
        makePolicy(({ instructions, messages }) => ({
          instructions,
          messages: messages.slice(messages.findLastIndex(({ role }) => role === "user"))
        }))
      )
      yield* runPromptStored(compacting.runtime, { sessionId, prompt: "And again" })
      for (const request of [model.requests[3], model.requests[5], model.requests[7]])
        assert.isTrue(recalled(request?.messages).startsWith("line 0: größer\nline 1"))
    })

    test("an agent reads what its sub-agent has read by its id, and a sub-agent what the agent above it has", function* () {
      const helper = reader()
      const lead = Agent.make("lead", {
        tools: [RecallTool.make(), safe("log", { maxResultLength: 200, handler: () => otherText }).tool],
        subAgents: [helper]
      })
      const model = ScriptedModel.make([
        { calls: [call("log", "1")] },
        { calls: [{ tool: "reader", arguments: { prompt: "Read the log" } }] },
        { calls: [call("log", "1")] },
        "Read.",
        { calls: [recallCall(longText, { length: 30 })] },
        { calls: [{ tool: "reader", arguments: { prompt: "Read it again" } }] },
        { calls: [recallCall(otherText, { length: 30 })] },
        "Read.",
        "Done.",
        { calls: [recallCall(longText, { length: 30 })] },
        "Done."
      ])
      const { runtime } = yield* rebind(lead, model)
      const sessionId = "session_help" as SessionId
      expect(yield* runPromptStored(runtime, { sessionId, prompt: "Help" }), "completed")
      expect(yield* runPromptStored(runtime, { sessionId, prompt: "Again" }), "completed")
      for (const request of [model.requests[5], model.requests[10]])
        assert.isTrue(recalled(request?.messages).startsWith("line 0: größer\nline 1"))
      assert.isTrue(recalled(model.requests[7]?.messages).startsWith("other 0\nother 1"))
    })

    test("a long result that is delivered for a token, and a long failure, keep their whole texts", function* () {
      const render = Tool.make("render", {
        maxResultLength: 200,
        needsApproval: false,
        handler: () => Hold.pending({ token: "job" })
      })
      const broken = safe("broken", {
        maxResultLength: 200,
        handler: () => Effect.fail(new ToolFailure({ description: otherText })) as never
      })
      const { model, runtime } = yield* bind(
        Agent.make("studio", { tools: [render, broken.tool, RecallTool.make()] }),
        [
          { calls: [{ tool: "render" }] },
          { calls: [call("broken", "1")] },
          { calls: [recallCall(longText, { length: 30 }), recallCall(otherText, { length: 30 })] },
          "Done."
        ]
      )
      const held = yield* runPromptStored(runtime, { prompt: "Render" })
      yield* completeStored([runtime], "job", { result: longText })
      expect(yield* runPromptStored(runtime, { runId: held.runId }), "completed")
      const [, failed] = model.requests[2]!.messages.filter(({ role }) => role === "tool")
      assert.include(textIn(failed!), `the id of the whole text is ${sha256Of(otherText).slice(0, 16)} …]`)
      const read = model.requests[3]!.messages.slice(-2).map(textIn)
      assert.isTrue(read[0]?.startsWith("line 0: größer\nline 1"))
      assert.isTrue(read[1]?.startsWith("other 0\nother 1"))
    })

    test("the whole of a delivered result of more than a million characters is kept once, also in an archive before the run goes on", function* (store, blobs) {
      const huge = `${"huge ".repeat(400_000)}end`
      const ref = { sha256: sha256Of(huge), bytes: huge.length }
      const render = Tool.make("render", {
        needsApproval: false,
        handler: () => Hold.pending({ token: "job" })
      })
      const { model, runtime } = yield* bind(Agent.make("studio", { tools: [render, RecallTool.make()] }), [
        { calls: [{ tool: "render" }] },
        { calls: [recallCall(huge, { from: 1_999_998 })] },
        "Done."
      ])
      const held = yield* runPromptStored(runtime, { prompt: "Render" })
      const forged = {
        _tag: "supply",
        requestId: only(held, "external").requestId,
        by: "ann",
        result: 1,
        whole: ref
      }
      assert.strictEqual(
        (yield* Effect.flip(decideStored([runtime], forged as never)))._tag,
        "DecisionMalformed"
      )
      const recorded = yield* completeStored([runtime], "job", { result: huge })
      assert.deepInclude(recorded, { whole: ref })
      assert.deepStrictEqual(yield* completeStored([runtime], "job", { result: huge }), recorded)
      assert.deepStrictEqual(yield* blobs.uses([held.runId]), [{ runId: held.runId, ref }])
      const archive = yield* exportRun(held.runId)
      yield* Effect.provide(importRun(archive), Layer.fresh(layerMemory))
      const { state } = expect(yield* runPromptStored(runtime, { runId: held.runId }), "completed")
      assert.deepInclude(messages(state).find(({ role }) => role === "tool")?.content[0], { whole: ref })
      assert.include(textIn(model.requests[2]!.messages.at(-1)!), " end")
      const { events } = yield* store.load(held.runId)
      assert.isBelow(JSON.stringify(events).length, 2_100_000)
      yield* store.remove(held.runId)
    })

    test("the files of a cancelled run stay with it, and a later prompt of the session leaves them out", function* (_, blobs) {
      const image = imageOf(3000)
      const pay = probe("pay")
      const { model, runtime } = yield* bind(Agent.make("eye", { tools: [pay.tool] }), [
        { calls: [call("pay", "1")] },
        "No cat."
      ])
      const sessionId = "session_cancelled" as SessionId
      const held = yield* runPromptStored(runtime, { sessionId, prompt: [fileOf(image)] })
      yield* cancelRun(held.runId, "do not")
      yield* runPromptStored(runtime, { sessionId, prompt: "And now?" })
      assert.deepStrictEqual(filesIn(model.requests[1]?.messages), [])
      assert.strictEqual((yield* blobs.uses([held.runId])).length, 1)
    })

    test("a complete call after a failed stream, and a call that is repeated by a resume, receive the file", function* () {
      const image = imageOf(3000)
      const cut = new StreamUnsupported({ description: "no stream" })
      const { model, runtime } = yield* bind(Agent.make("eye"), [
        { error: cut, errorOnlyStreaming: true, text: "A cat." },
        { error: new InvalidRequest({ description: "no" }) },
        "A cat."
      ])
      expect(yield* runPromptStored(runtime, { prompt: [fileOf(image)] }), "completed")
      const failed = expect(yield* runPromptStored(runtime, { prompt: [fileOf(image)] }), "error")
      expect(yield* runPromptStored(runtime, { runId: failed.runId }), "completed")
      assert.deepStrictEqual(
        model.requests.map((request) => filesIn(request.messages)),
        Array.from({ length: 4 }, () => [fileOf(image)])
      )
    })

    test("an agent to which the conversation is handed over receives the files of the prompt", function* () {
      const image = imageOf(3000)
      const vet = Agent.make("vet", { description: "Knows cats" })
      const { model, runtime } = yield* bind(Agent.make("desk", { handoffs: [vet] }), [
        { calls: [{ tool: "transfer_to_vet" }] },
        "A cat."
      ])
      expect(yield* runPromptStored(runtime, { prompt: [fileOf(image)] }), "completed")
      assert.deepStrictEqual(filesIn(model.requests[1]?.messages), [fileOf(image)])
    })

    test("the model reads an image of an earlier prompt again as an attachment", function* () {
      const image = imageOf(3000)
      const { model, runtime } = yield* bind(reader(), ["A cat.", { calls: [recallCall(image)] }, "A cat."])
      const sessionId = "session_cat" as SessionId
      yield* runPromptStored(runtime, { sessionId, prompt: [fileOf(image, { name: "cat.png" })] })
      const { state } = yield* runPromptStored(runtime, { sessionId, prompt: "And now?" })
      assert.deepStrictEqual(filesIn(model.requests[2]?.messages), [fileOf(image, { name: "cat.png" })])
      assert.deepStrictEqual(filesIn(messages(state)).length, 2)
    })

    test("a run reads no content of another session, and the refusal is that of an unknown id", function* (_, blobs) {
      const image = imageOf(3000)
      const { runtime } = yield* bind(reader(), [
        "A cat.",
        {
          calls: [
            recallCall(image),
            { tool: "recall", arguments: { id: "0".repeat(16) } },
            { tool: "recall", arguments: { id: "00" } }
          ]
        },
        "Unknown."
      ])
      yield* runPromptStored(runtime, { prompt: [fileOf(image)] })
      const { state } = yield* runPromptStored(runtime, { prompt: "Recall" })
      assert.strictEqual((yield* blobs.find([sha256Of(image)])).length, 1)
      const id = sha256Of(image).slice(0, 16)
      assert.deepStrictEqual(results(state), [
        `recall failed: recall failed: this session has nothing with the id ${id}`,
        `recall failed: recall failed: this session has nothing with the id ${"0".repeat(16)}`,
        "recall failed: recall failed: give at least the first 8 digits of the id"
      ])
    })

    test("digits with which several ids of the session begin read none of them", function* () {
      const [one, other] = collision()
      const id = sha256Of(one).slice(0, 8)
      const shot = Tool.make("shot", { safety: "readOnly", handler: () => Tool.content([fileOf(other)]) })
      const helper = Agent.make("helper", { tools: [shot] })
      const { runtime } = yield* bind(
        Agent.make("lead", { tools: [RecallTool.make()], subAgents: [helper] }),
        [
          { calls: [{ tool: "helper", arguments: { prompt: "Look" } }] },
          { calls: [{ tool: "shot" }] },
          "Seen.",
          { calls: [{ tool: "recall", arguments: { id } }] },
          "Several."
        ]
      )
      // One of them is in the lead's messages, the other one in those of its sub-agent.
      const { state } = yield* runPromptStored(runtime, { prompt: [fileOf(one)] })
      assert.include(results(state)[1], `several ids of this session begin with ${id}: give more digits`)
    })

    test("a file in the journal of an earlier version is sent, left out and read again as a stored one", function* (store) {
      const image = imageOf(3000)
      const agent = reader()
      const model = ScriptedModel.make(["A cat.", "Still.", { calls: [recallCall(image)] }, "A cat."])
      const sessionId = "session_old" as SessionId
      // A store without contents writes the journal as an earlier version did.
      const { blobs: _, ...earlier } = store
      const { runtime } = yield* rebind(agent, model)
      const first = yield* Effect.provideService(
        runPromptStored(runtime, { sessionId, prompt: [fileOf(image)] }),
        RunStore,
        earlier
      )
      assert.deepStrictEqual(filesIn(messages(first.state)), [fileOf(image)])
      const later = yield* rebind(agent, model)
      yield* runPromptStored(later.runtime, { sessionId, prompt: "And now?" })
      yield* runPromptStored(later.runtime, { sessionId, prompt: "Read it again" })
      assert.deepStrictEqual(
        model.requests.map((request) => filesIn(request.messages).length),
        [1, 0, 0, 1]
      )
      assert.include(textIn(model.requests[1]!.messages[0]!), `SHA-256 ${sha256Of(image)}`)
      assert.deepStrictEqual(filesIn(model.requests[3]?.messages), [fileOf(image)])
    })

    test("a message that an earlier version sent with its bytes is the same one when it is sent again", function* (store) {
      const { blobs: _, ...earlier } = store
      const pay = probe("pay")
      const { runtime } = yield* bind(Agent.make("a", { tools: [pay.tool] }), [{ calls: [call("pay", "1")] }])
      const held = yield* runPromptStored(runtime, { prompt: "Pay" })
      const message = (bytes: Uint8Array) => sendMessage(held.runId, [fileOf(bytes)], { messageId: "m1" })
      const first = yield* Effect.provideService(message(imageOf(3000)), RunStore, earlier)
      assert.deepStrictEqual(yield* message(imageOf(3000)), first)
      const other = yield* Effect.flip(message(imageOf(3000, 2)))
      assert.strictEqual(other._tag, "MessageInvalid")
      assert.strictEqual((yield* store.messages(held.runId)).length, 1)
    })

    test("a prompt that is repeated after a failure is in the session once, also if an earlier version began", function* (store) {
      const { blobs: _, ...earlier } = store
      const { model, runtime } = yield* bind(Agent.make("eye"), [
        { error: new InvalidRequest({ description: "no" }) },
        "A cat."
      ])
      const sessionId = "session_retry" as SessionId
      const prompt = [fileOf(imageOf(3000))]
      expect(
        yield* Effect.provideService(runPromptStored(runtime, { sessionId, prompt }), RunStore, earlier),
        "error"
      )
      const { state } = expect(yield* runPromptStored(runtime, { sessionId, prompt }), "completed")
      assert.strictEqual(messages(state).length, 2)
      assert.strictEqual(filesIn(model.requests[1]?.messages).length, 1)
    })

    test("an archive of an earlier version is imported with references to its files, and is the run of an earlier import", function* (store, blobs) {
      const image = imageOf(3000)
      const { blobs: _, ...earlier } = store
      const pay = probe("pay")
      const { runtime } = yield* bind(Agent.make("eye", { tools: [pay.tool] }), [
        { calls: [call("pay", "1")] },
        "A cat."
      ])
      const { archive, held } = yield* Effect.gen(function* () {
        const { blobs: _, ...source } = yield* RunStore
        const old = Effect.provideService(RunStore, source)
        const held = yield* old(runPromptStored(runtime, { prompt: [fileOf(image)] }))
        yield* old(sendMessage(held.runId, [fileOf(imageOf(3000, 2))]))
        return { held, archive: yield* old(exportRun(held.runId)) }
      }).pipe(Effect.provide(Layer.fresh(layerMemory)))
      yield* Effect.provideService(importRun(archive), RunStore, earlier)
      assert.strictEqual(yield* importRun(archive), held.runId)
      assert.deepStrictEqual(filesIn(messages(yield* loadState(held.runId))), [fileOf(image)])
      yield* store.remove(held.runId)
      yield* importRun(archive)
      yield* importRun(archive)
      assert.deepStrictEqual(filesIn(messages(yield* loadState(held.runId))), [stored(image)])
      assert.strictEqual((yield* blobs.uses([held.runId])).length, 2)
      yield* decideStored([runtime], approve(only(held, "approval")))
      const { state } = expect(yield* runPromptStored(runtime, { runId: held.runId }), "completed")
      assert.deepStrictEqual(filesIn(messages(state)), [stored(image), stored(imageOf(3000, 2))])
    })

    test("a file that was attached as a stream is sent with each prompt that has it, and is read back in pieces", function* () {
      const image = imageOf(2_000_000)
      const part = yield* attachFile(new Blob([image.slice()]).stream(), { mediaType: "image/png" })
      assert.deepStrictEqual(part, stored(image))
      const { model, runtime } = yield* bind(Agent.make("eye"), ["A cat.", "The cat."])
      const first = yield* runPromptStored(runtime, { prompt: [part] })
      yield* runPromptStored(runtime, { sessionId: first.state.sessionId, prompt: [part] })
      for (const request of model.requests) assert.deepStrictEqual(filesIn(request.messages), [fileOf(image)])
      const { size, stream } = yield* readAttachment(first.runId, part)
      const pieces = yield* Stream.runCollect(stream())
      assert.isTrue(Buffer.concat(pieces).equals(image))
      assert.strictEqual(size, image.length)
      assert.isAtMost(Math.max(...pieces.map(({ length }) => length)), 256 * 1024)
    })

    for (const form of ["one value", "lines"] as const) {
      test(`an archive in the form of ${form} contains the files of its runs, and another store takes them over`, function* (store, blobs) {
        const [image, sent] = [imageOf(600_000), imageOf(3000, 2)]
        const pay = probe("pay")
        const { model, runtime } = yield* bind(
          Agent.make("reader", {
            tools: [safe("log", { maxResultLength: 200, handler: () => longText }).tool, pay.tool]
          }),
          [{ calls: [call("log", "1")] }, "Read.", { calls: [call("pay", "1")] }, "A cat."]
        )
        const sessionId = "session_moved" as SessionId
        yield* runPromptStored(runtime, { sessionId, prompt: [fileOf(image)] })
        const held = yield* runPromptStored(runtime, { sessionId, prompt: "Pay" })
        yield* sendMessage(held.runId, [fileOf(sent)])
        const moved =
          form === "lines"
            ? importRunLines(
                Stream.rechunk(exportText(yield* Stream.mkString(exportRunLines(held.runId))), 1)
              )
            : importRun(JSON.parse(JSON.stringify(yield* exportRun(held.runId))))
        const digests = [sha256Of(image), sha256Of(sent), sha256Of(longText)].sort()
        const there = yield* Effect.gen(function* () {
          const other = yield* RunStore
          yield* moved
          const found = (yield* other.blobs!.find(digests)).map(({ sha256 }) => sha256)
          assert.deepStrictEqual(found, digests)
          return {
            value: yield* exportRun(held.runId),
            lines: yield* Stream.mkString(exportRunLines(held.runId))
          }
        }).pipe(Effect.provide(Layer.fresh(layerMemory)))
        // Back again, where the runs were removed.
        yield* store.prune({ endedBefore: 0 })
        yield* store.remove(held.runId)
        yield* store.remove((yield* store.list())[0]!.runId)
        assert.deepStrictEqual(yield* blobs.find(digests), [])
        yield* form === "lines" ? importRunLines(exportText(there.lines)) : importRun(there.value)
        yield* decideStored([runtime], approve(only(held, "approval")))
        expect(yield* runPromptStored(runtime, { runId: held.runId }), "completed")
        assert.deepStrictEqual(filesIn(model.requests.at(-1)?.messages), [fileOf(sent)])
        const { stream } = yield* readAttachment(held.runId, sha256Of(image))
        assert.isTrue(Buffer.concat(yield* Stream.runCollect(stream())).equals(image))
      })
    }

    test("a content is deleted with the last run that refers to it, and a fork keeps what it builds on", function* (store, blobs) {
      const [image, own] = [imageOf(3000), imageOf(3000, 2)]
      const digests = [image, own].map(sha256Of)
      const left = () => Effect.map(blobs.find(digests), (found) => found.map(({ sha256 }) => sha256))
      const { runtime } = yield* bind(Agent.make("eye"), ["A cat.", "A dog.", "Another cat."])
      const first = yield* runPromptStored(runtime, { prompt: [fileOf(image)] })
      const fork = yield* forkRun(runtime, { runId: first.runId, prompt: [fileOf(own)] })
      const other = yield* runPromptStored(runtime, { prompt: [fileOf(image)] })
      assert.strictEqual((yield* Effect.flip(store.remove(first.runId)))._tag, "RunContinued")
      yield* store.remove(fork.runId)
      assert.deepStrictEqual(yield* left(), [digests[0]!])
      yield* store.remove(first.runId)
      assert.deepStrictEqual(yield* left(), [digests[0]!])
      yield* store.remove(other.runId)
      assert.deepStrictEqual(yield* left(), [])
    })
  })

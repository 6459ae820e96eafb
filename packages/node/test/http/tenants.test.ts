import { assert, describe, it } from "@effect/vitest"
import { type ConnectedFermata, connectFermata, type TokenHolder } from "@fermata/node/http"
import { raw, served, statusOf } from "./serving.ts"

const token = (name: string) => name.repeat(40)

const principals: ReadonlyArray<TokenHolder> = [
  { token: token("a"), principal: { id: "ana", kind: "person", authenticated: "test" }, tenant: "acme" },
  { token: token("b"), principal: "bo", tenant: "bolt" },
  { token: token("r"), principal: "rita", tenant: "acme", readOnly: true },
  { token: token("o"), principal: "operator" }
]

const tagOf = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => "resolved",
    (error: { readonly _tag?: string }) => error._tag ?? String(error)
  )

/** Submits a prompt, and returns its session, its task and the request that it is held on. */
const held = async (client: ConnectedFermata, commandId: string) => {
  const answer = await client.submit({ _tag: "SubmitPrompt", prompt: "Pay the invoice.", commandId })
  if (answer._tag !== "TaskStarted") return assert.fail(answer._tag)
  for await (const { event } of client.events())
    if (event._tag === "tool.approvalRequired" && event.taskId === answer.taskId)
      return { ...answer, requestId: event.request.requestId }
  return assert.fail("The events ended")
}

const tenants = async () => {
  const at = await served({ principals })
  const connect = (name: string) => connectFermata({ url: at.server.url, token: token(name) })
  return { at, connect, acme: await connect("a"), bolt: await connect("b") }
}

describe("a caller with a tenant", () => {
  it("sees the runs, sessions and requests of the tenant alone, and finds no others by their ids", async () => {
    const { acme, at, bolt } = await tenants()
    await using _ = at
    const own = await held(acme, "c1")
    assert.deepStrictEqual(await bolt.runs(), [])
    assert.deepStrictEqual(await bolt.sessions(), [])
    assert.deepStrictEqual(await bolt.inbox(), [])
    assert.deepStrictEqual(await bolt.inbox({ runId: own.taskId }), [])
    assert.deepStrictEqual(await bolt.runs({ sessionId: own.sessionId }), [])
    assert.deepStrictEqual(await bolt.sessionMessages(own.sessionId), [])
    assert.strictEqual(await tagOf(bolt.run(own.taskId)), "RunNotFound")
    assert.strictEqual(await tagOf(bolt.messages(own.taskId)), "RunNotFound")
    assert.strictEqual(await tagOf(bolt.cancel(own.taskId)), "RunNotFound")
    assert.strictEqual(await tagOf(bolt.fork(own.taskId, { prompt: "Mine" })), "RunNotFound")
    assert.strictEqual(await tagOf(bolt.send(own.taskId, { prompt: "Mine" })), "RunNotFound")
    assert.strictEqual(
      await tagOf(bolt.decide(own.requestId, { decision: { _tag: "approve" } })),
      "RequestNotFound"
    )
    const all = [{ requestId: own.requestId, decision: { _tag: "approve" } as const }]
    assert.strictEqual(await tagOf(bolt.decideAll(all)), "RequestNotFound")
    assert.strictEqual((await acme.inbox()).length, 1)
    assert.deepStrictEqual(
      (await acme.runs()).map(({ runId }) => runId),
      [own.taskId]
    )
    assert.deepStrictEqual(at.paid, [])
  })

  it("has commands and events of the tenant alone", async () => {
    const { acme, at, bolt } = await tenants()
    await using _ = at
    const own = await held(acme, "c1")
    const { sessionId, taskId } = own
    assert.notStrictEqual(acme.epoch, bolt.epoch)
    assert.strictEqual(await tagOf(bolt.submit({ _tag: "SessionResume", sessionId })), "SessionNotFound")
    assert.strictEqual(await tagOf(bolt.submit({ _tag: "SessionResumeLast" })), "SessionNotFound")
    assert.strictEqual(await tagOf(bolt.submit({ _tag: "SessionDelete", sessionId })), "SessionNotFound")
    assert.strictEqual(await tagOf(bolt.submit({ _tag: "CancelTask", taskId })), "TaskNotActive")
    const approve = {
      _tag: "Approve",
      approvalId: own.requestId,
      decision: { _tag: "approve" }
    } as const
    assert.strictEqual(await tagOf(bolt.submit(approve)), "RequestNotFound")
    const list = await bolt.submit({ _tag: "SessionList" })
    assert.deepStrictEqual(list._tag === "SessionsListed" && list.sessions, [])
    // A cursor names the task of the other tenant, as one from before a restart.
    const from = { epoch: "elsewhere", seq: 0, revisions: { [taskId]: 0 } }
    const seen: Array<string> = []
    for await (const envelope of bolt.events({ from })) {
      seen.push(JSON.stringify(envelope))
      if (envelope.event._tag === "lifecycle.started") break
    }
    assert.strictEqual(seen.length, 1)
    assert.deepStrictEqual((await bolt.snapshot()).sessions, [])
  })

  it("shares no ids of commands with another tenant", async () => {
    const { acme, at, bolt } = await tenants()
    await using _ = at
    const one = await held(acme, "same")
    const other = await held(bolt, "same")
    assert.notStrictEqual(one.taskId, other.taskId)
    assert.deepStrictEqual(
      (await bolt.runs()).map(({ runId }) => runId),
      [other.taskId]
    )
    await using operator = await connectFermata({ url: at.server.url, token: token("o") })
    assert.strictEqual((await operator.runs()).length, 2)
    assert.strictEqual((await operator.inbox()).length, 2)
  })

  it("cannot give a prompt the context of another tenant", async () => {
    const { at, bolt } = await tenants()
    await using _ = at
    const prompt = { _tag: "SubmitPrompt", prompt: "Pay the invoice." } as const
    assert.strictEqual(await tagOf(bolt.submit({ ...prompt, context: { tenant: "acme" } })), "CommandInvalid")
    const answer = await bolt.submit({ ...prompt, context: { invoice: 7 } })
    if (answer._tag !== "TaskStarted") return assert.fail()
    const { startedWith } = await at.fermata.state(answer.taskId)
    assert.deepStrictEqual(startedWith?.context, { invoice: 7, tenant: "bolt" })
  })

  it("is the author of its decisions, also if a body names another one", async () => {
    const { acme, at } = await tenants()
    await using _ = at
    const { requestId } = await held(acme, "c1")
    const decision = await acme.decide(requestId, { decision: { _tag: "approve" } })
    assert.deepStrictEqual(decision.principal, { id: "ana", kind: "person", authenticated: "test" })
  })

  it("does not stop the runtime of the others, and changes nothing if it may only read", async () => {
    const { acme, at, connect } = await tenants()
    await using _ = at
    assert.strictEqual(await tagOf(acme.submit({ _tag: "Shutdown" })), "RequestRefused")
    const { requestId } = await held(acme, "c1")
    await using reader = await connect("r")
    assert.strictEqual((await reader.inbox()).length, 1)
    assert.strictEqual(
      await tagOf(reader.decide(requestId, { decision: { _tag: "approve" } })),
      "RequestRefused"
    )
    assert.strictEqual(await tagOf(reader.submit({ _tag: "SessionNew" })), "RequestRefused")
    assert.strictEqual((await acme.inbox()).length, 1)
  })

  it("reads pages of its own entries, however many there are of others", async () => {
    const { acme, at, bolt } = await tenants()
    await using _ = at
    for (let index = 0; index < 3; index += 1) {
      await acme.submit({ _tag: "SessionNew" })
      await held(acme, `a${index}`)
      await bolt.submit({ _tag: "SessionNew" })
      await held(bolt, `b${index}`)
    }
    const first = await acme.runs({ limit: 2 })
    const rest = await acme.runs({ limit: 2, after: first[1]!.runId })
    assert.deepStrictEqual([first.length, rest.length], [2, 1])
    assert.deepStrictEqual(
      [...first, ...rest].map(({ runId }) => runId),
      (await acme.runs()).map(({ runId }) => runId)
    )
    assert.strictEqual((await acme.inbox({ limit: 1 })).length, 1)
    assert.strictEqual((await acme.inbox()).length, 3)
    assert.strictEqual((await acme.sessions()).length, 3)
  })
})

describe("authenticate", () => {
  it("finds the caller of a token that the program knows", async () => {
    await using at = await served({
      authenticate: async (given) => (given === "sesame" ? { principal: "ana", tenant: "acme" } : undefined)
    })
    assert.isUndefined(at.server.token)
    await using client = await connectFermata({ url: at.server.url, token: "sesame" })
    await held(client, "c1")
    assert.strictEqual(await tagOf(connectFermata({ url: at.server.url, token: "open" })), "RequestRefused")
  })

  it("refuses the request if it returns half a caller or fails", async () => {
    const problems: Array<string> = []
    await using at = await served({
      authenticate: (given) => {
        if (given === "boom") throw new Error("no directory")
        return { principal: "ana", tenant: 7 } as never
      },
      onProblem: (problem) => problems.push(problem)
    })
    for (const token of ["boom", "half"]) {
      const response = await fetch(`${at.server.url}/v1/runs`, {
        headers: { authorization: `Bearer ${token}` }
      })
      assert.strictEqual(response.status, 500)
      assert.notMatch(await response.text(), /directory|principal/)
    }
    assert.strictEqual(problems.length, 2)
  })
})

describe("the options of serveHttp", () => {
  const refused = async (options: object, says: RegExp) => {
    const error = await served(options).then(
      () => assert.fail("was not refused"),
      (error: Error) => error
    )
    assert.match(error.message, says)
  }

  it("refuse what would make the server unsafe, and unknown keys", async () => {
    await refused({ host: "0.0.0.0" }, /publicUrl/)
    await refused({ host: "0.0.0.0", publicUrl: "https://agents.example.com" }, /principals/)
    await refused({ host: "0.0.0.0", principals }, /publicUrl/)
    await refused({ publicUrl: "http://agents.example.com", principals }, /https/)
    await refused({ token: "short" }, /32/)
    await refused({ principals: [{ token: token("a"), principal: "" }] }, /callers/)
    await refused({ principals: [...principals, principals[0]] }, /different tokens/)
    await refused({ principals, authenticate: () => undefined }, /exclude/)
    await refused({ tokn: token("a") }, /tokn/)
  })

  it("let a proxy with a public address reach the server, and no other name", async () => {
    await using at = await served({ publicUrl: "https://agents.example.com", principals })
    assert.strictEqual(at.server.url, "https://agents.example.com")
    const get = (host: string) =>
      raw(
        at.port,
        `GET /v1/runs HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${token("o")}\r\nconnection: close\r\n\r\n`
      )
    assert.strictEqual(statusOf(await get("agents.example.com")), 200)
    assert.strictEqual(statusOf(await get(`127.0.0.1:${at.port}`)), 403)
  })
})

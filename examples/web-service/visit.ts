/**
 * Starts the service and its worker as processes, and uses them over HTTP: Bo asks and watches, Ana decides.
 */
import assert from "node:assert/strict"
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"

const users = { "token-bo": { id: "bo" }, "token-ana": { id: "ana", decides: true } }
type User = keyof typeof users

/** A decision for each kind of request. */
const decisions: Readonly<Record<string, object>> = {
  question: { _tag: "answer", answer: "Mr. Olsen" },
  approval: { _tag: "approve", arguments: { customer: "Mr. Olsen", euros: 50 } },
  inDoubt: { _tag: "supply", result: "The post office has the letter." },
  login: { _tag: "retry" },
  limit: { _tag: "topUp", limit: 8 }
}

const stop = async (child: ChildProcess) => {
  child.kill("SIGTERM")
  assert.deepEqual(await once(child, "exit"), [0, null])
}

export const visit = async (program: string) => {
  const env = { ...process.env, PORT: "0", USERS: JSON.stringify(users) }
  const start = (role: string) => {
    const args = [...process.execArgv, program, role]
    const child = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "inherit"] })
    process.on("exit", () => child.kill("SIGKILL"))
    return child
  }
  const server = start("serve")
  const [line] = (await once(server.stdout.setEncoding("utf8"), "data")) as [string]
  const at = (path: string) => `http://127.0.0.1:${/\d+/.exec(line)?.[0]}${path}`

  const send = (user: User, path: string, body?: object, key?: string) =>
    fetch(at(path), {
      headers: {
        authorization: `Bearer ${user}`,
        "content-type": "application/json",
        ...(key === undefined ? {} : { "idempotency-key": key })
      },
      ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) })
    })
  const refused = async (status: number, says: RegExp, ...request: Parameters<typeof send>) => {
    const response = await send(...request)
    assert.equal(response.status, status)
    assert.match(await response.text(), says)
  }

  const question = { agent: "clerk", prompt: "A customer wants money back." }
  await refused(401, /Log in/, "nobody" as User, "/inbox")
  await refused(400, /prompt cannot be used/, "token-bo", "/runs", { agent: "clerk" })
  await refused(404, /no agent .*clerk/, "token-bo", "/runs", { ...question, agent: "cleric" })
  const [first, again] = [
    await send("token-bo", "/runs", question, "olsen"),
    await send("token-bo", "/runs", question, "olsen")
  ]
  assert.deepEqual([first.status, again.status], [201, 200])
  const { runId } = (await first.json()) as { readonly runId: string }
  assert.deepEqual(await again.json(), { runId })

  let worker = start("worker")
  const ids: Array<number> = []
  const kinds: Array<string> = []

  /** Decides the open request, once: a repeated click has the same result, and another decision is refused. */
  const decide = async () => {
    const [request] = (await (await send("token-ana", "/inbox")).json()) as [{ request: { _tag: string } }]
    const kind = request.request._tag
    const decision = decisions[kind]
    await refused(404, /404/, "token-bo", "/inbox", { request, decision })
    const misspelt = { ...decision, thn: "stop" }
    await refused(400, /there is no .*thn/, "token-ana", "/inbox", { request, decision: misspelt })
    for (const _click of [1, 2]) {
      const { status } = await send("token-ana", "/inbox", { request, decision, note: "by phone" }, kind)
      assert.equal(status, 200)
    }
    await refused(409, /ana/, "token-ana", "/inbox", { request, decision })
    kinds.push(kind)
  }

  /** Watches the run until a request is decided, or the run has ended, as a browser that connects again. */
  const watch = async () => {
    const headers = { authorization: "Bearer token-bo", "last-event-id": String(ids.at(-1) ?? 0) }
    const response = await fetch(at(`/runs/${runId}/events`), { headers })
    let text = ""
    for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
      const messages = (text + chunk).split("\n\n")
      text = messages.pop() ?? ""
      for (const message of messages) {
        const [, id] = /^id: (\d+)$/m.exec(message) ?? []
        if (id !== undefined) ids.push(Number(id))
        if (message.includes('"_tag":"tool.started"') && message.includes(`"${runId}.t3.1"`)) {
          await stop(worker) // A deploy, while the post office does not answer.
          worker = start("worker")
        }
        if (message.includes('"_tag":"request.opened"')) return decide()
        if (message.startsWith("event: end")) return message
      }
    }
  }
  let end: string | void
  while ((end = await watch()) === undefined) console.log(`decided: ${kinds.at(-1)}`)
  console.log(end)
  assert.deepEqual(kinds, ["question", "approval", "inDoubt", "login", "limit"])
  assert.deepEqual(
    ids,
    [...ids.keys()].map((index) => index + 1)
  )

  const result = await (await send("token-bo", `/runs/${runId}`)).json()
  console.log(result)
  await refused(404, /404/, "token-bo", "/runs/ana:1")
  await refused(404, /no run/, "token-ana", "/runs/ana:1")
  await stop(worker)
  await stop(server)
}

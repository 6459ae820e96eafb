/**
 * @title A web service: ask, inbox, decide, watch and result over HTTP, with a worker in a second process
 *
 * `serve` starts the server, and `worker` a process that drives the runs. They share a store: SQLite, or Postgres with
 * `STORE=postgres://…`. To use it, copy this file, put your agents in place of `web-service/agents.ts`, and your login in place of `users`.
 * Without an argument, `web-service/visit.ts` starts both and uses them over HTTP. The model is scripted. The guide explains each route:
 * `docs/guides/web-service.md`.
 */
import { closeOnSignal, createFermata, type Fermata, isRunExists } from "@fermata/node"
import { serve } from "@hono/node-server"
import { Hono } from "hono"
import { validator } from "hono/validator"
import { agents, model } from "./web-service/agents.ts"
import { visit } from "./web-service/visit.ts"

const open = () => createFermata({ agents, model, store: process.env["STORE"] ?? "service.db" })

/** The users by their tokens: `{ "a-token": { "id": "ana", "decides": true } }`. */
interface User {
  readonly id: string
  readonly decides?: boolean
}
const users = new Map<string, User>(Object.entries(JSON.parse(process.env["USERS"] ?? "{}")))

/** The errors that clients cause or can wait for. Their sentences say what to do. Any other error is a fault of the service. */
const statuses = [
  [400, /^(DecisionMalformed|DecisionNotApplicable|EmptyPrompt|GrantRefused|.+Invalid)$/],
  [404, /^(Agent|Request|Run)NotFound$/],
  [
    409,
    /^(AlreadyDecided|ArgumentsChanged|RequestNotDenied|RequestSuperseded|RunBusy|RunEnded|RunExists|SessionBusy)$/
  ],
  [503, /^(FermataClosed|RunStoreError)$/]
] as const

/** The kinds of request that people decide. Timers and calls that end elsewhere need no person. */
const forPeople = ["approval", "question", "inDoubt", "limit", "login"] as const

/** The body, an object. Fermata refuses what is wrong in it. */
const json = validator("json", (body: any) => (typeof body === "object" && body !== null ? body : {}))

const routes = (fermata: Fermata.Fermata) =>
  new Hono<{ Variables: { user: User } }>()
    .use(async (c, next) => {
      const user = users.get(c.req.header("authorization")?.replace("Bearer ", "") ?? "")
      if (user === undefined) return c.json({ message: "Log in first." }, 401)
      c.set("user", user)
      return next()
    })
    .post("/runs", json, async (c) => {
      const { agent, prompt, session } = c.req.valid("json")
      const own = (id: string) => `${c.var.user.id}:${id}`
      const runId = own(c.req.header("idempotency-key") || crypto.randomUUID())
      const sessionId = session === undefined ? undefined : own(session)
      try {
        await fermata.submit(agent, prompt, { runId, sessionId })
        return c.json({ runId }, 201)
      } catch (error) {
        if (!isRunExists(error)) throw error
        return c.json({ runId }, 200)
      }
    })
    .use("/runs/:runId/*", async (c, next) => {
      const { decides = false, id } = c.var.user
      return decides || c.req.param("runId").startsWith(`${id}:`) ? next() : c.notFound()
    })
    .get("/runs/:runId", async (c) => {
      const { state: _, ...result } = await fermata.result(c.req.param("runId"))
      return c.json(result)
    })
    .get("/runs/:runId/events", (c) => fermata.eventsResponse(c.req.param("runId"), { request: c.req.raw }))
    .use("/inbox", (c, next) => (c.var.user.decides ? next() : Promise.resolve(c.notFound())))
    .get("/inbox", async (c) =>
      c.json(await fermata.pending({ kind: forPeople, after: c.req.query("after") }))
    )
    .post("/inbox", json, async (c) => {
      const { decision, note, request } = c.req.valid("json")
      const by = { id: c.var.user.id, kind: "person", authenticated: "token" } as const
      const idempotencyKey = c.req.header("idempotency-key")
      return c.json(await fermata.decide(request, decision, { by, note, idempotencyKey }))
    })
    .onError((error, c) => {
      if ("getResponse" in error) return error.getResponse()
      const { code, message } = error as { readonly code?: string; readonly message: string }
      const [status] = statuses.find(([, codes]) => codes.test(code ?? "")) ?? []
      if (status === undefined) console.error(error)
      return c.json(
        status === undefined ? { message: "The service failed." } : { code, message },
        status ?? 500
      )
    })

const listen = async () => {
  const fermata = await open()
  const port = Number(process.env["PORT"] ?? 3000)
  const options = { fetch: routes(fermata).fetch, hostname: "127.0.0.1", port }
  const server = serve(options, (address) => console.log(`port ${address.port}`))
  closeOnSignal([fermata, server]) // Fermata first: closing it ends the event streams, for which the server would wait.
}

const work = async () => {
  const fermata = await open()
  closeOnSignal([fermata])
  await fermata.work()
}

export const main = () => visit(import.meta.filename)

if (import.meta.main) await ({ serve: listen, worker: work }[process.argv[2] ?? ""] ?? main)()

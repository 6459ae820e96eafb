/**
 * The least that each workload can cost: a hand-written loop, one fenced append of what is new, an async generator.
 *
 * It gives up nothing that the workload asks for: with a store, every write is compared with the head's revision and epoch, a
 * decision is taken once, and a call that was started is written down before its body runs.
 */
import * as Path from "node:path"
import { DatabaseSync, type StatementSync } from "node:sqlite"
import type { Adapter, Answer, Held, Script } from "../System.ts"

type Message =
  | { readonly role: "user"; readonly text: string }
  | { readonly role: "assistant"; readonly text?: string; readonly calls?: Answer["calls"] }
  | { readonly role: "tool"; readonly callId: string; readonly text: string }

/** One answer of the model. */
const ask = async (script: Script, turn: number): Promise<Answer> => {
  if (script.pause !== undefined) await script.pause()
  return script.answer(turn)
}

const bodies = (script: Script) => new Map(script.tools.map((tool) => [tool.name, tool]))

/** Turns until the model says something; `onTurn` is told what each added. */
const loop = async (
  script: Script,
  tools: ReturnType<typeof bodies>,
  messages: Array<Message>,
  onTurn: (added: ReadonlyArray<Message>) => void
): Promise<string> => {
  for (let turn = 1; ; turn++) {
    const { calls = [], text } = await ask(script, turn)
    if (calls.length === 0) {
      const said: Message = { role: "assistant", text: text ?? "" }
      messages.push(said)
      onTurn([said])
      return text ?? ""
    }
    const results = await Promise.all(
      calls.map(async ({ arguments: json, id, name }): Promise<Message> => {
        const args = JSON.parse(json) as Readonly<Record<string, number>>
        return { role: "tool", callId: id, text: await tools.get(name)!.run(args) }
      })
    )
    const added: ReadonlyArray<Message> = [{ role: "assistant", calls }, ...results]
    messages.push(...added)
    onTurn(added)
  }
}

const inMemory = async (script: Script) => {
  const tools = bodies(script)
  return () => loop(script, tools, [{ role: "user", text: script.prompt }], () => {})
}

/** The tables, and one statement for each thing that is done to them. */
const openStore = (folder: string) => {
  const database = new DatabaseSync(Path.join(folder, "floor.db"))
  database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 1000")
  database.exec(`
    CREATE TABLE IF NOT EXISTS head (id TEXT PRIMARY KEY, revision INT, epoch INT, status TEXT) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS journal (id TEXT, revision INT, added TEXT, PRIMARY KEY (id, revision)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS requests (at INTEGER PRIMARY KEY, id TEXT, call TEXT, status TEXT);
    CREATE INDEX IF NOT EXISTS open ON requests (at) WHERE status = 'open'`)
  const create = database.prepare("INSERT INTO head VALUES (?, 0, 1, 'running')")
  const head = database.prepare("SELECT revision FROM head WHERE id = ?")
  const fence = database.prepare(
    "UPDATE head SET revision = revision + 1, status = ? WHERE id = ? AND revision = ? AND epoch = 1"
  )
  const append = database.prepare("INSERT INTO journal VALUES (?, ?, ?)")
  const load = database.prepare("SELECT added FROM journal WHERE id = ? ORDER BY revision")
  const request = database.prepare("INSERT INTO requests (id, call, status) VALUES (?, ?, 'open')")
  const pending = database.prepare(
    "SELECT at, id, call FROM requests WHERE status = 'open' ORDER BY at LIMIT ?"
  )
  const decide = database.prepare("UPDATE requests SET status = 'approved' WHERE at = ? AND status = 'open'")
  const once = (statement: StatementSync, ...values: ReadonlyArray<string | number>): void => {
    if (statement.run(...values).changes !== 1) throw new Error("Somebody else was first.")
  }
  const commit = (work: () => void): void => {
    database.exec("BEGIN IMMEDIATE")
    work()
    database.exec("COMMIT")
  }
  return {
    commit,
    create: (id: string) => once(create, id),
    revision: (id: string) => (head.get(id) as { readonly revision: number } | undefined)?.revision,
    /** Compare-and-set on the head, and one row. */
    append: (id: string, revision: number, status: string, added: ReadonlyArray<Message>) => {
      once(fence, status, id, revision)
      once(append, id, revision, JSON.stringify(added))
    },
    load: (id: string): Array<Message> => {
      const messages: Array<Message> = []
      for (const { added } of load.all(id) as unknown as ReadonlyArray<{ readonly added: string }>)
        for (const message of JSON.parse(added) as ReadonlyArray<Message>) messages.push(message)
      return messages
    },
    request: (id: string, call: string) => once(request, id, call),
    pending: (limit: number) =>
      pending.all(limit) as unknown as ReadonlyArray<{
        readonly at: number
        readonly id: string
        readonly call: string
      }>,
    decide: (at: number) => once(decide, at),
    close: async () => database.close()
  }
}

/** In the order of time, so that a new run is written beside the last one. */
const newId = (run: number): string => `run-${String(run).padStart(8, "0")}`

type Store = ReturnType<typeof openStore>

const newRun = (store: Store, id: string, prompt: string): void =>
  store.commit(() => {
    store.create(id)
    store.append(id, 0, "running", [{ role: "user", text: prompt }])
  })

/** The prompt, the model's call, and the request to approve it, in one commit. */
const hold = async (store: Store, id: string, script: Script): Promise<void> => {
  const revision = store.revision(id)
  const { calls } = await ask(script, 1)
  store.commit(() => {
    if (revision === undefined) store.create(id)
    store.append(id, revision ?? 0, "held", [
      { role: "user", text: script.prompt },
      { role: "assistant", calls }
    ])
    store.request(id, JSON.stringify(calls![0]))
  })
}

/** Says that the call is begun, runs it, asks the model, and writes both results. */
const release = async (store: Store, id: string, callText: string, script: Script): Promise<string> => {
  const messages = store.load(id)
  const call = JSON.parse(callText) as NonNullable<Answer["calls"]>[number]
  const revision = store.revision(id)!
  store.commit(() => store.append(id, revision, "running", []))
  const tool = script.tools.find(({ name }) => name === call.name)!
  const text = await tool.run(JSON.parse(call.arguments) as Readonly<Record<string, number>>)
  const result: Message = { role: "tool", callId: call.id, text }
  messages.push(result)
  const { text: said = "" } = await ask(script, 2)
  store.commit(() => store.append(id, revision + 1, "completed", [result, { role: "assistant", text: said }]))
  return said
}

export const adapter: Adapter = {
  step: inMemory,
  fanOut: inMemory,
  parallel: inMemory,
  stored: async (folder, script) => {
    const store = openStore(folder)
    const tools = bodies(script)
    let runs = 0
    return {
      run: () => {
        const id = newId(++runs)
        newRun(store, id, script.prompt)
        let revision = 1
        return loop(script, tools, [{ role: "user", text: script.prompt }], (added) =>
          store.commit(() => store.append(id, revision++, "running", added))
        )
      },
      close: store.close
    }
  },
  hold: {
    prepare: async (folder, history) => {
      const store = openStore(folder)
      store.commit(() => {
        store.create("conversation")
        for (let at = 0; at < history.length; at += 2)
          store.append("conversation", at / 2, "completed", history.slice(at, at + 2))
      })
      await store.close()
    },
    open: async (folder, script) => {
      const store = openStore(folder)
      return {
        start: async () => {
          const messages = store.load("conversation")
          if (messages.length === 0) throw new Error("The conversation is empty.")
          await hold(store, "conversation", script)
        },
        finish: async () => {
          const [waiting] = store.pending(1)
          if (waiting === undefined) throw new Error("Nothing is held.")
          store.commit(() => store.decide(waiting.at))
          return release(store, waiting.id, waiting.call, script)
        },
        close: store.close
      }
    }
  },
  stream:
    async ({ deltas }) =>
    async () => {
      const model = async function* () {
        for (const delta of deltas) yield { type: "text-delta", delta }
      }
      let count = 0
      let characters = 0
      for await (const { delta } of model()) {
        count += 1
        characters += delta.length
      }
      return { deltas: count, characters }
    },
  conversation: async (folder, answer) => {
    const store = openStore(folder)
    newRun(store, "conversation", "Hello")
    return {
      say: async (text) => {
        store.load("conversation")
        const revision = store.revision("conversation")!
        const said = await Promise.resolve(answer)
        store.commit(() =>
          store.append("conversation", revision, "completed", [
            { role: "user", text },
            { role: "assistant", text: said }
          ])
        )
        return said
      },
      close: store.close
    }
  },
  inbox: async (folder, script) => {
    const store = openStore(folder)
    let runs = 0
    return {
      hold: () => hold(store, newId(++runs), script),
      list: async (limit) =>
        store.pending(limit).map(({ at, call, id }): Held => ({
          approve: async () => store.commit(() => store.decide(at)),
          resume: () => release(store, id, call, script)
        })),
      close: store.close
    }
  }
}

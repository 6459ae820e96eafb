import { readFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import type {
  AgentDefinition,
  Conductor,
  CreateFermataOptions,
  Fermata,
  Limits,
  McpProgram,
  McpUrl,
  ServeStdioOptions,
  ShellOptions,
  ToolOptions
} from "@fermata/node"
import type { ServeHttpOptions } from "@fermata/node/http"
import type * as McpTools from "@fermata/sdk/mcp"

/** The keys of a type. The compiler refuses a list that lacks one. */
const keys = <T>(all: { readonly [Key in keyof Required<T>]: true }): ReadonlyArray<string> =>
  Object.keys(all)

const prompt = {
  sessionId: true,
  runId: true,
  limits: true,
  policy: true,
  context: true,
  answeredBy: true,
  mayRepeat: true,
  signal: true,
  onUpdate: true
} as const

const known: Readonly<Record<string, ReadonlyArray<string>>> = {
  createFermata: keys<CreateFermataOptions>({
    agents: true,
    model: true,
    store: true,
    modelProfile: true,
    by: true,
    approvalCallback: true,
    interactive: true,
    profile: true,
    profiles: true,
    mode: true,
    extensions: true,
    hooks: true,
    contextPolicy: true,
    memory: true,
    tokenizer: true,
    scrubber: true,
    secrets: true,
    web: true,
    sandbox: true,
    sandboxes: true,
    workingDirectory: true,
    maxResultLength: true,
    owner: true,
    leaseTtl: true,
    cancelGrace: true,
    drainTimeout: true,
    closeTimeout: true
  }),
  agent: keys<AgentDefinition.AgentOptions<never, unknown>>({
    instructions: true,
    sections: true,
    tools: true,
    subAgents: true,
    delegation: true,
    handoffs: true,
    output: true,
    context: true,
    limits: true,
    policy: true,
    description: true,
    profile: true,
    settings: true,
    aliases: true
  }),
  tool: keys<ToolOptions.ToolOptions<unknown, unknown>>({
    handler: true,
    description: true,
    parameters: true,
    context: true,
    safety: true,
    untrusted: true,
    effects: true,
    needsApproval: true,
    idempotent: true,
    external: true,
    reconcile: true,
    timeout: true,
    retry: true,
    approval: true,
    facts: true,
    secrets: true,
    sandbox: true,
    risk: true,
    preview: true,
    success: true,
    failure: true,
    maxResultLength: true,
    aliases: true,
    identity: true,
    otherNames: true
  }),
  runPrompt: keys<Fermata.PromptOptions>(prompt),
  resume: keys<Fermata.ResumeOptions>({
    agent: true,
    decisions: true,
    prompt: true,
    limits: true,
    policy: true,
    context: true,
    answeredBy: true,
    signal: true,
    onUpdate: true
  }),
  dispatch: keys<Omit<Fermata.BackgroundOptions, keyof Fermata.PromptOptions>>({
    name: true,
    restart: true,
    onClose: true
  }),
  fork: keys<Fermata.ForkOptions>({
    revision: true,
    agent: true,
    newRunId: true,
    sessionId: true,
    limits: true,
    policy: true,
    context: true,
    answeredBy: true,
    signal: true,
    onUpdate: true
  }),
  conductor: keys<Conductor.ConductorOptions>({
    name: true,
    concurrency: true,
    overflow: true,
    maxQueued: true,
    limits: true,
    restart: true,
    drainTimeout: true
  }),
  controlPlane: keys<Fermata.ControlPlaneOptions>({
    agents: true,
    by: true,
    policy: true,
    context: true,
    maxQueued: true,
    keepEvents: true,
    keepText: true
  }),
  serveHttp: keys<ServeHttpOptions>({
    host: true,
    port: true,
    publicUrl: true,
    token: true,
    by: true,
    principals: true,
    authenticate: true,
    tenantKey: true,
    allowShutdown: true,
    maxBodyBytes: true,
    rateLimit: true,
    maxStreams: true,
    heartbeat: true,
    requestTimeout: true,
    plane: true,
    onProblem: true
  }),
  serveStdio: keys<ServeStdioOptions>({ by: true, input: true, output: true, maxLineBytes: true }),
  work: keys<Fermata.WorkOptions>({
    concurrency: true,
    pollInterval: true,
    drainTimeout: true,
    signal: true,
    onUpdate: true,
    onTakingUp: true,
    onTakenUp: true
  }),
  events: keys<Fermata.EventsOptions>({ from: true, until: true, signal: true }),
  decide: keys<Fermata.DecideOptions>({ by: true, note: true, idempotencyKey: true }),
  reconfigure: keys<Fermata.FermataChange>({
    agents: true,
    agent: true,
    profile: true,
    mode: true,
    tools: true,
    model: true,
    modelProfile: true
  }),
  mcpTools: keys<
    Record<keyof McpProgram | keyof McpUrl | keyof McpTools.Options | keyof McpTools.ConnectOptions, unknown>
  >({
    secrets: true,
    command: true,
    args: true,
    env: true,
    cwd: true,
    url: true,
    headers: true,
    prefix: true,
    server: true,
    safety: true,
    untrusted: true,
    effects: true,
    trustHints: true,
    needsApproval: true,
    include: true,
    maxResultLength: true,
    timeout: true,
    protocols: true,
    client: true
  }),
  shellTools: keys<ShellOptions>({
    rules: true,
    confined: true,
    unconfined: true,
    timeout: true,
    maxTimeout: true,
    maxResultLength: true,
    maxOutputBytes: true,
    maxBackground: true,
    shell: true,
    cwd: true
  }),
  Limits: keys<Limits.Limits>({
    maxTurns: true,
    maxToolCalls: true,
    maxTreeTurns: true,
    maxTreeToolCalls: true,
    maxTokens: true,
    maxCostUsd: true,
    maxWallMs: true,
    maxContextTokens: true,
    warnAt: true,
    wrapUp: true,
    modelTimeoutMs: true,
    toolTimeoutMs: true,
    maxRecoveries: true,
    toolConcurrency: true,
    agentConcurrency: true
  })
}

const page = readFileSync(join(import.meta.dirname, "../../../docs/guides/options.md"), "utf8")

/** The first column of the table under each heading. */
const tables = Object.fromEntries(
  page.split(/^## /m).flatMap((section) => {
    const name = /^`?(\w+)/.exec(section)?.[1] ?? ""
    const options = [...section.matchAll(/^\| `(\w+)`/gm)].map(([, option = ""]) => option)
    return options.length === 0 ? [] : [[name, options]]
  })
)

describe("docs/guides/options.md", () => {
  it("has a table for each function, and for no other", () => {
    assert.deepStrictEqual(Object.keys(tables).sort(), Object.keys(known).sort())
  })
  for (const [name, options] of Object.entries(known)) {
    it(`lists every option of ${name}, each once, and no other`, () => {
      assert.deepStrictEqual([...(tables[name] ?? [])].sort(), [...options].sort())
    })
  }
})

/**
 * A process with a run that makes calls of the tools for commands, and that kills itself. Arguments: the store, the working directory, the
 * kind of the sandbox and its socket, the calls as JSON, and what an update has to contain for the kill.
 */
import { localSandbox, tmuxSandbox } from "@fermata/node"
import { drive, opened } from "../tools/shellRuns.ts"

const [store, workdir, kind, socket, calls, fatal] = process.argv.slice(2) as [
  string,
  string,
  "local" | "tmux",
  string,
  string,
  string
]

const { fermata, model } = await opened(JSON.parse(calls), {
  workdir,
  store,
  policy: "all",
  leaseTtl: "1 minute",
  sandbox: () => (kind === "tmux" ? tmuxSandbox({ socket, workdir }) : localSandbox({ workdir }))
})
await drive(fermata, model, {
  onUpdate: (update) => {
    const said = update._tag === "output" ? update.chunk : update._tag === "progress" ? update.message : ""
    if (said.includes(fatal)) process.kill(process.pid, "SIGKILL")
  }
})

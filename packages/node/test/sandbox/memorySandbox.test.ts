import { MemorySandbox } from "@fermata/node/testing"
import * as Effect from "effect/Effect"
import { sandboxContract } from "./contract.ts"

const noShell = "its lines are one program with its arguments"
const noSignals = "its commands are functions, which get no signals"
const noProcesses = "its commands are no processes"

const subject = Effect.sync(() => {
  const { provider } = MemorySandbox.make({
    commands: {
      printf: ({ args: [format = "", ...args], write }) => {
        for (const arg of args)
          write(
            "stdout",
            format.replace("%s", () => arg)
          )
        return 0
      }
    }
  })
  return {
    provider,
    workdir: "/work",
    lose: (ref: Parameters<typeof provider.destroy>[0]) => Effect.orDie(provider.destroy(ref))
  }
})

sandboxContract("memory", subject, {
  cancels: 100,
  except: {
    "gives the exit code of a command": noShell,
    "gives 128 plus the number of the signal that ended a command": noSignals,
    "keeps the two streams apart": noShell,
    "gives 1 MB of output whole, or its head and its tail": noShell,
    "starts no command outside of the working directory": "it has no links",
    "gives a command its variables, and none of the process that could hold a secret": noShell,
    "runs commands at the same time": noShell,
    "publishes output while the command runs": noShell,
    "does not wait for a process in the background": noProcesses,
    "stops a command when its time is over, with SIGTERM first": noSignals,
    "stops a command that ignores SIGTERM when its time is over": noSignals,
    "stops a command that is interrupted, before the interruption returns": noShell,
    "stops a process that has left the session of its command and ignores SIGTERM": noProcesses,
    "leaves no process, no zombie and no file handle after 100 commands in a row that are interrupted":
      noProcesses,
    "leaves no process when it is released": noProcesses,
    "keeps every byte of a file": noShell,
    "sees in its files what commands did": noShell,
    "refuses paths that lead out of the working directory": "it has no links",
    "uses a path that asks only after an approval": "it has no rules about credentials"
  }
})

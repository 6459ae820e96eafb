/**
 * Makes the scrubbers know the credentials with which a program connects to an MCP server: headers, parts of the URL, and environment
 * variables and arguments of a process.
 */
import type * as ChildProcess from "effect/process/ChildProcess"
import * as Redacted from "effect/Redacted"
import { credentialsIn, credentialsOf, know, knowCredential } from "../../model/internal/knownSecrets.ts"
import { kindOf } from "./scrub/keys.ts"

/** Knows the credentials among headers and in a URL: its password, and the query's parameters with the name of a credential. */
export const knowConnection = (url: string | URL, headers: Readonly<Record<string, string>> = {}): void => {
  for (const value of [...credentialsIn(headers), ...credentialsOf(url)]) knowCredential("mcp", value)
}

/** Knows the variables of a process with the name of a secret, and what its program has marked as `Redacted`. */
export const knowCommand = (command: ChildProcess.Command): void => {
  if (command._tag === "PipedCommand") {
    knowCommand(command.left)
    knowCommand(command.right)
    return
  }
  const { args, options } = command
  for (const [name, value] of Object.entries(options.env ?? {})) {
    if (Redacted.isRedacted(value)) know(name, value)
    else if (typeof value === "string" && kindOf(name) !== undefined && !isPlace.test(value))
      knowCredential(name, value)
  }
  for (const arg of args) if (Redacted.isRedacted(arg)) know("mcp", arg as Redacted.Redacted<string>)
}

/** Whether a value is where a secret is: the path of a file, or an address. */
const isPlace = /^(?:[/~]|\.{1,2}\/|https?:)/

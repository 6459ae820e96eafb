/**
 * Takes the lock of a login, prints `locked`, and holds it until the process is killed or its input ends. Argument: the file with the
 * tokens.
 */
import * as Effect from "effect/Effect"
import * as FileTokenStore from "../../src/FileTokenStore.ts"

const hold = Effect.andThen(
  Effect.sync(() => process.stdout.write("locked\n")),
  Effect.never
)
process.stdin.resume().once("end", () => process.exit())
await Effect.runPromise(FileTokenStore.make(process.argv[2]!).locked(hold))

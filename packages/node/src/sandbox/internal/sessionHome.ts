/**
 * The directory on a machine in which the command sessions of a sandbox are: only its user can use it, and it is the same for every process.
 */
import { stopFunctions } from "./stopScript.ts"

const home = String.raw`
umask 077
state_directory() {
  for base in "\${XDG_STATE_HOME:-}" "\${HOME:+$HOME/.local/state}"; do
    [ -n "$base" ] && mkdir -p "$base/fermata/$1" 2>/dev/null && [ -w "$base/fermata/$1" ] && { S=$base/fermata/$1; return 0; }
  done
  base=\${TMPDIR:-/tmp}/fermata-$(id -u)
  mkdir -m 700 "$base" 2>/dev/null
  [ -d "$base" ] && [ ! -L "$base" ] && [ -O "$base" ] && mkdir -p "$base/$1" && S=$base/$1
}
`.replaceAll("\\${", "${")

const stopEach = String.raw`
${stopFunctions}
for each in "$S"/*; do
  [ -d "$each/started" ] && [ ! -f "$each/code" ] || continue
  stop_all "$(basename "$each")" "$(cat "$each/pid" 2>/dev/null)" 5
done
`

export const homeScripts = {
  /** The exit code of `open` without the working directory. */
  noDirectory: 64,
  /**
   * `DIRECTORY NAME`: prints the working directory without symbolic links and the directory of the sessions, each ended by NUL. The output of
   * sessions that ended two weeks ago is removed. Their directories stay: a run may be resumed later, and its command must not run twice.
   */
  open: String.raw`
${home}
workdir=$(CDPATH= cd -- "$1" 2>/dev/null && pwd -P) || exit 64
state_directory "$2" || exit 70
printf '%s\0%s\0' "$workdir" "$S"
find "$S" -name code -mtime +14 2>/dev/null | while read -r old; do
  old=\${old%/code}
  [ ! -e "$old/out" ] || rm -rf "$old/out" "$old/err" "$old/command" "$old/o" "$old/e"
done
exit 0
`.replaceAll("\\${", "${"),
  /** `NAME`: stops the commands of all sessions, and removes them. */
  remove: String.raw`
${home}
state_directory "$1" || exit 0
${stopEach}
rm -rf "$S"
`,
  /** `DIRECTORY`: stops the commands of all sessions in it. */
  stopAll: `S=$1\n${stopEach}`
}

/**
 * The scripts of command sessions, for a POSIX shell on the machine of a sandbox.
 *
 * A session is a directory with the command's text, its output, its process and its exit code. The command runs detached: it goes on while
 * no process is attached, and is found again by the directory. The process that starts it makes the directory `started` first, so that it
 * starts once.
 */
import { stopFunctions } from "./stopScript.ts"

/** How many blocks of 512 bytes of each stream are stored: 64 MiB. */
const maxBlocks = 131_072

/**
 * Runs the command of a session to its end: `keep DIRECTORY TERMINAL`. With a terminal, the output is copied to it, and
 * the command has no variable of the terminal. Several calls at once start the command once.
 */
export const keeper = String.raw`
keep() {
  J=$1; T=$2
  mkdir "$J/started" 2>/dev/null || return 0
  trap '' HUP
  cat /proc/sys/kernel/random/boot_id > "$J/boot" 2>/dev/null
  sh -c 'echo $PPID' > "$J/keeper"
  : > "$J/out"; : > "$J/err"
  mkfifo "$J/o" "$J/e" || return 1
  store() { (ulimit -f ${maxBlocks}; trap '' 25; exec tee "$J/$1" $T 2>/dev/null) < "$J/$2" | wc -c > "$J/$1.bytes"; }
  store out o &
  store err e &
  (
    trap - HUP
    set -- sh "$J/command"
    # A shell without job control lets its background ignore SIGINT and SIGQUIT.
    if env --default-signal=INT,QUIT true 2>/dev/null; then set -- env --default-signal=INT,QUIT "$@"; fi
    if command -v setsid >/dev/null 2>&1; then set -- setsid "$@"
    elif command -v perl >/dev/null 2>&1; then set -- perl -e 'use POSIX; POSIX::setsid(); exec @ARGV' "$@"; fi
    if [ -n "$T" ]; then set -- env -i "PATH=$PATH" "$@"; fi
    exec "$@"
  ) > "$J/o" 2> "$J/e" < /dev/null &
  P=$!; echo $P > "$J/pid"
  wait $P; C=$?
  if [ -n "$T" ] && [ "$C" != 0 ]; then
    # The terminal shows the exit code after the output, unless a process that was left behind keeps the output open.
    n=0
    while { [ ! -s "$J/out.bytes" ] || [ ! -s "$J/err.bytes" ]; } && [ $n -lt 10 ]; do
      n=$((n + 1)); sleep 0.02 2>/dev/null || sleep 1
    done
    printf '[exit code %d]\r\n' "$C" > "$T"
  fi
  echo $C > "$J/code.new"; mv -f "$J/code.new" "$J/code"
  wait
  rm -f "$J/o" "$J/e"
}
`

const make = String.raw`
umask 077
J=$1
mkdir -p "$J" || exit 70
if [ -e "$J/command" ]; then cat > /dev/null
else
  # A connection that is lost ends the text early.
  cat > "$J/command.$$" && [ "$(($(wc -c < "$J/command.$$")))" = "$LENGTH" ] || { rm -f "$J/command.$$"; exit 70; }
  ln "$J/command.$$" "$J/command" 2>/dev/null
  rm -f "$J/command.$$"
  [ -e "$J/command" ] || exit 70
fi
`

/** Makes a session with the command on the standard input, unless it exists: `DIRECTORY LENGTH`. */
export const begin = `LENGTH=$2
${make}exit 0`

/**
 * Prints the output of a session from two offsets on, and its end, in frames: `DIRECTORY OUT ERR`. A frame is a line, and the bytes that it
 * announces: `o N` and `e N` of output, `.` for nothing new, `x CODE OUT ERR` at the end with the bytes that were not stored, `g` if the
 * process that waits for the command is gone. `u` stands for a command that did not start within about 10 seconds. With `once` as the
 * fourth argument, it does not wait, and prints `r` for a running command and `u` for one that has not started. With `forget` as the fifth,
 * it removes the session at the end.
 */
export const follow = String.raw`
J=$1; O=$2; E=$3; once=$4; forget=$5
nap() { sleep "$1" 2>/dev/null || sleep 1; }
size() { n=$(wc -c < "$1" 2>/dev/null) || n=0; n=$((\${n:-0} + 0)); }
emit() {
  n=$(($2 - $3)); [ $n -gt 65536 ] && n=65536
  printf '%s %d\n' "$1" $n
  tail -c +$(($3 + 1)) "$J/$4" | head -c $n
}
missing() { size "$J/$1"; m=0; if [ -s "$J/$1.bytes" ]; then m=$(($(cat "$J/$1.bytes") - n)); [ $m -lt 0 ] && m=0; fi; }
# After a restart of the machine, the number of the keeper may be that of another process.
gone() {
  [ -s "$J/keeper" ] && [ ! -f "$J/code" ] || return 1
  kill -0 "$(cat "$J/keeper")" 2>/dev/null || return 0
  [ -s "$J/boot" ] && [ "$(cat "$J/boot")" != "$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)" ]
}
# Whether a process of the command may keep its output open. Otherwise the programs that store it are slow, and are waited for.
left_behind() { [ ! -r /proc/self/environ ] || grep -q -s -a -F -e "\${J##*/}" /proc/[0-9]*/environ 2>/dev/null; }
n=0
while [ ! -d "$J/started" ]; do
  n=$((n + 1))
  if [ -n "$once" ] || [ $n -gt 200 ]; then echo u; exit 0; fi
  nap 0.05
done
idle=0; drained=0
while :; do
  # Looked at before the sizes: what is written in between is read in the next round.
  ended=; [ -f "$J/code" ] && ended=1
  closed=; [ -s "$J/out.bytes" ] && [ -s "$J/err.bytes" ] && closed=1
  more=
  size "$J/out"; a=$n; size "$J/err"; b=$n
  if [ $a -gt $O ]; then emit o $a $O out; O=$((O + n)); more=1; fi
  if [ $b -gt $E ]; then emit e $b $E err; E=$((E + n)); more=1; fi
  if [ -n "$more" ]; then idle=0; continue; fi
  if [ -n "$ended" ]; then
    if [ -n "$closed" ] || { [ $drained -ge 4 ] && left_behind; } || [ $drained -ge 200 ]; then
      missing out; a=$m; missing err
      printf 'x %d %d %d\n' "$(cat "$J/code")" $a $m
      [ -n "$forget" ] && rm -rf "$J"
      exit 0
    fi
    drained=$((drained + 1)); nap 0.05; continue
  fi
  if [ $((idle % 10)) = 9 ] || [ -n "$once" ]; then if gone && [ ! -f "$J/code" ]; then echo g; exit 0; fi; fi
  if [ -n "$once" ]; then echo r; exit 0; fi
  idle=$((idle + 1))
  [ $((idle % 20)) = 0 ] && echo .
  if [ $idle -lt 50 ]; then nap 0.02; else nap 0.05; fi
done
`.replaceAll("\\${", "${")

/**
 * Makes a session, starts its command, and continues like {@link follow}. It takes the arguments of `follow`, and as the sixth the length
 * of the command in bytes. The frame `b` says that the command was started.
 */
export const launch = `LENGTH=$6
${make}
${keeper}
if [ ! -d "$J/started" ]; then ( keep "$J" "" ) < /dev/null > /dev/null 2>&1 & fi
echo b
${follow}
`

/** Stops the command of a session: `DIRECTORY ID TICKS`. */
export const stop = String.raw`
${stopFunctions}
J=$1
[ -d "$J/started" ] || exit 0
n=0; while [ ! -s "$J/pid" ] && [ $n -lt 20 ]; do n=$((n + 1)); nap; done
P=; [ -f "$J/code" ] || P=$(cat "$J/pid" 2>/dev/null)
stop_all "$2" "$P" "$3"
left=$?
# The script that follows the command may have removed the session with its exit code.
n=0; while [ -d "$J" ] && [ ! -f "$J/code" ] && [ $n -lt 20 ]; do n=$((n + 1)); nap; done
exit $left
`

/** Removes a session: `DIRECTORY`. */
export const forget = `rm -rf -- "$1"`

/** Stops the processes of a command that has no session: `ID TICKS`. */
export const stopMarked = String.raw`
${stopFunctions}
stop_all "$1" "" "$2"
`

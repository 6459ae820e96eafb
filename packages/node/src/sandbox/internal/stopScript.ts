/**
 * A script that stops the processes of a command on the machine where it runs, also those that left its process group.
 *
 * Every process of a command inherits a variable that names the command. On Linux, `/proc` shows it, with the parent, the group and the
 * session of each process. On other systems, the process group is stopped.
 */

/** The variable that names the command of a process. */
export const markerName = "FERMATA_SANDBOX"

/**
 * The script, as a function of a shell: `stop_all ID PID TICKS` sends SIGTERM, waits for at most TICKS times 100 ms, and sends SIGKILL
 * until no process is left, for at most 3 seconds. PID is the first process, or empty if it has ended. It fails if a process is left.
 */
export const stopFunctions = String.raw`
nap() { sleep 0.1 2>/dev/null || sleep 1; }
members() {
  live=
  if [ -r /proc/self/stat ]; then
    seeds=$(grep -l -s -a -F -e "$1" /proc/[0-9]*/environ 2>/dev/null | tr -c '0-9\n' ' ')
    live=$(cat /proc/[0-9]*/stat 2>/dev/null | awk -v seeds="$(echo $seeds)" -v leader="$2" -v self=$$ '
      BEGIN { n = split(seeds, each, " "); for (i = 1; i <= n; i++) known[each[i]] = 1 }
      {
        pid = $1; sub(/^.*\) /, "")
        state[pid] = $1; parent[pid] = $2
        if (leader != "" && ($3 == leader || $4 == leader)) known[pid] = 1
      }
      END {
        do {
          grown = 0
          for (pid in parent) if (!(pid in known) && (parent[pid] in known)) { known[pid] = 1; grown = 1 }
        } while (grown)
        for (pid in known) if (pid in state && state[pid] !~ /^[ZX]/ && pid != self) printf "%s ", pid
      }')
  elif [ -n "$2" ] && kill -0 -- "-$2" 2>/dev/null; then
    live="-$2"
  fi
  [ -n "$live" ]
}
send() { for pid in $live; do kill -s "$1" -- "$pid" 2>/dev/null; done; }
stop_all() {
  ticks=$3
  members "$1" "$2" || return 0
  if [ "$ticks" -gt 0 ]; then
    send TERM
    while members "$1" "$2" && [ "$ticks" -gt 0 ]; do ticks=$((ticks - 1)); nap; done
  fi
  ticks=30
  while members "$1" "$2"; do
    [ "$ticks" -gt 0 ] || return 1
    send KILL; ticks=$((ticks - 1)); nap
  done
  return 0
}
`

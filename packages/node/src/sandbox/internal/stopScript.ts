/**
 * A script that stops the processes of a command on the machine where it runs, also those that left its process group.
 *
 * Every process of a command inherits a variable that names the command. On Linux, `/proc` shows it, with the parent, the group and the
 * session of each process. On other systems, the process group is stopped.
 */

/** The variable that names the command of a process. */
export const markerName = "FERMATA_SANDBOX"

/**
 * The script, as a function of a shell: `stop_all ID PID TICKS` sends SIGTERM, waits for at most as many ticks of 50 ms, and sends SIGKILL
 * until no process is left, for at most 3 seconds. PID is the first process, or empty if it has ended. It fails if a process is left.
 */
export const stopFunctions = String.raw`
nap() { sleep 0.05 2>/dev/null || sleep 1; }
members() {
  live=
  if [ -r /proc/self/stat ]; then
    known=" "
    for each in $(grep -l -s -a -F -e "$1" /proc/[0-9]*/environ 2>/dev/null); do
      each=\${each#/proc/}; known="$known\${each%/environ} "
    done
    grown=1
    while [ -n "$grown" ]; do
      grown=
      for stat in /proc/[0-9]*/stat; do
        pid=\${stat#/proc/}; pid=\${pid%/stat}
        { read -r line < "$stat"; } 2>/dev/null || continue
        set -- "$1" "$2" \${line##*") "}
        case "$known" in *" $pid "*) is=1;; *) is=;; esac
        if [ -z "$is" ]; then
          case "$known" in *" $4 "*) is=1;; esac
          if [ -n "$2" ] && { [ "$5" = "$2" ] || [ "$6" = "$2" ]; }; then is=1; fi
          [ -n "$is" ] && { known="$known$pid "; grown=1; }
        fi
      done
    done
    for pid in $known; do
      { read -r line < /proc/$pid/stat; } 2>/dev/null || continue
      case "\${line##*") "}" in Z*|X*) ;; *) [ "$pid" = "$$" ] || live="$live $pid";; esac
    done
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
  ticks=60
  while members "$1" "$2"; do
    [ "$ticks" -gt 0 ] || return 1
    send KILL; ticks=$((ticks - 1)); nap
  done
  return 0
}
`.replaceAll("\\${", "${")

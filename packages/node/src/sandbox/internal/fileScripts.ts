/**
 * Scripts for the files of another machine, for a POSIX shell with the programs of every Unix system.
 *
 * A path is resolved first, so that the rules decide about the place where it leads. Each operation resolves it again, and does nothing if it
 * leads elsewhere by then (exit code 75). Exit codes below 75 say what the file system refused.
 */

/** The exit codes of the operations, by their meaning. */
export const exitCodes = {
  notFound: 64,
  exists: 65,
  isDirectory: 66,
  notDirectory: 67,
  notEmpty: 68,
  noPermission: 69,
  changed: 75,
  linkLoop: 76,
  unusual: 78
} as const

/**
 * `real PATH KEEP` sets R to the path without symbolic links, also of a file that does not exist. With KEEP, a link at its end stays.
 */
const real = String.raw`
resolve() {
  links=0; todo=\${1#/}; R=
  while [ -n "$todo" ]; do
    case $todo in */*) name=\${todo%%/*}; todo=\${todo#*/};; *) name=$todo; todo=;; esac
    case $name in ''|.) continue;; ..) R=\${R%/*}; continue;; esac
    if [ -L "$R/$name" ]; then
      links=$((links + 1)); [ $links -le 40 ] || return 1
      to=$(readlink "$R/$name" && echo x) || return 1
      to=\${to%?x}
      case $to in /*) R=; todo=\${to#/}/$todo;; *) todo=$to/$todo;; esac
    else R=$R/$name; fi
  done
  R=\${R:-/}
}
real() {
  case $2 in
    1) last=\${1##*/}; resolve "\${1%/*}/" || return 1; case $R in /) R=/$last;; *) R=$R/$last;; esac;;
    *) resolve "$1";;
  esac
}
details() { stat -c '%h %s %Y %a' "$1" 2>/dev/null || stat -f '%l %z %m %Lp' "$1" 2>/dev/null || echo 1 0 0 0; }
kind() { if [ -L "$1" ]; then k=l; elif [ -d "$1" ]; then k=d; elif [ -f "$1" ]; then k=f; elif [ -e "$1" ]; then k=o; else k=n; fi; }
# A regular file with at most as many names.
plain() { [ -f "$1" ] || return 1; D=$(details "$1"); [ "\${D%% *}" -le "$2" ]; }
same() { real "$1" "$3" || exit 76; [ "$R" = "$2" ] || exit 75; }
`.replaceAll("\\${", "${")

/**
 * `PATH KEEP …`: prints for each path the real one, its kind, and its links, size, time and permissions, each ended by NUL. They are empty
 * and 0 for a path whose links lead to no end.
 */
export const locate = String.raw`
${real}
while [ $# -gt 1 ]; do
  if real "$1" "$2"; then
    kind "$R"
    printf '%s\0%s\0' "$R" $k
    printf '%s\0' $(details "$R")
  else printf '%s\0' '' n 0 0 0 0; fi
  shift 2
done
`

/** `PATH REAL`: prints the content. */
export const read = String.raw`
${real}
same "$1" "$2" 0
[ -f "$R" ] || exit 64
[ -r "$R" ] || exit 69
exec cat "$R"
`

/** `PATH REAL MOST LINKS`: prints the content of a regular file with at most as many bytes and names, and exits with 78 for another one. */
export const readPlain = String.raw`
${real}
same "$1" "$2" 0
[ -e "$R" ] || exit 64
plain "$R" "$4" || exit 78
size=\${D#* }
[ "\${size%% *}" -le "$3" ] || exit 78
[ -r "$R" ] || exit 69
exec cat "$R"
`.replaceAll("\\${", "${")

/** `PATH REAL OFFSET LENGTH`: prints a part of the content. */
export const readPart = String.raw`
${real}
same "$1" "$2" 0
[ -f "$R" ] || exit 64
[ -r "$R" ] || exit 69
tail -c +$(($3 + 1)) "$R" | head -c "$4"
`

const makeParent = String.raw`
parent=\${R%/*}; parent=\${parent:-/}
mkdir -p "$parent" 2>/dev/null || {
  while [ ! -e "$parent" ]; do parent=\${parent%/*}; done
  [ -d "$parent" ] && exit 69
  exit 67
}
real "$parent" 0 && [ "$R" = "$parent" ] || exit 75
`.replaceAll("\\${", "${")

/**
 * `PATH REAL NEW NAME LENGTH LINKS`: writes the standard input of this length, by way of a new file of this name. With NEW, a file that exists
 * is refused. With LINKS, what exists has to be a regular file with at most as many names: otherwise, it exits with 78.
 */
export const write = String.raw`
${real}
same "$1" "$2" 0
[ -d "$R" ] && exit 66
[ -z "$6" ] || [ ! -e "$R" ] || plain "$R" "$6" || exit 78
[ "$3" = 1 ] && [ -e "$R" ] && exit 65
[ -e "$R" ] && [ ! -w "$R" ] && exit 69
${makeParent}
T=$parent/$4
trap 'rm -f "$T"' EXIT
(set -C; umask 077; : > "$T") 2>/dev/null || exit 69
cat > "$T" || exit 70
# A connection that is lost ends the content early.
[ "$(($(wc -c < "$T")))" = "$5" ] || exit 70
mode=666
[ -e "$2" ] && { mode=$(details "$2"); mode=\${mode##* }; chmod "$mode" "$T"; } || chmod "$(printf '%o' $((0666 & ~$(umask))))" "$T"
real "$1" 0; [ "$R" = "$2" ] || exit 75
if [ "$3" = 1 ]; then ln "$T" "$2" 2>/dev/null || exit 65; else mv -f "$T" "$2" || exit 69; fi
`.replaceAll("\\${", "${")

/** `PATH REAL`: makes a directory and those above it. */
export const makeDirectory = String.raw`
${real}
same "$1" "$2" 0
[ -e "$R" ] && [ ! -d "$R" ] && exit 65
mkdir -p "$R" 2>/dev/null || exit 69
`

/** `PATH REAL MOST`: prints the kind and the name of each entry, each ended by NUL, and stops after as many. */
export const list = String.raw`
${real}
same "$1" "$2" 0
[ -d "$R" ] || { [ -e "$R" ] && exit 67; exit 64; }
cd "$R" 2>/dev/null && [ -r . ] || exit 69
n=0
for each in * .[!.]* ..?*; do
  kind "./$each"
  [ $k = n ] && continue
  n=$((n + 1)); [ $n -gt "$3" ] && break
  printf '%s%s\0' $k "$each"
done
exit 0
`

/** `PATH REAL RECURSIVE`: removes a name. */
export const remove = String.raw`
${real}
same "$1" "$2" 1
kind "$R"
case $k in
  n) exit 64;;
  d) if [ "$3" = 1 ]; then rm -rf "$R"; else
       [ -z "$(ls -A "$R" | head -n 1)" ] || exit 68
       rmdir "$R"
     fi 2>/dev/null || exit 69;;
  *) rm -f "$R" 2>/dev/null || exit 69;;
esac
`

/** `PATH REAL TO REALTO REPLACE`: gives a name another one. */
export const rename = String.raw`
${real}
same "$3" "$4" 1
same "$1" "$2" 1
from=$2; to=$4
kind "$from"; source=$k
[ $source = n ] && exit 64
kind "$to"
[ $k != n ] && [ "$5" != 1 ] && exit 65
if [ $k = d ]; then
  [ $source = d ] || exit 66
  rmdir "$to" 2>/dev/null || exit 68
elif [ $k != n ] && [ $source = d ]; then exit 67
elif [ $k = l ]; then rm -f "$to"
fi
R=$to
${makeParent}
mv -f "$from" "$to" 2>/dev/null || exit 69
`

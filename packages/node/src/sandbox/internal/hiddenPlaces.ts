/**
 * The places of a machine that commands in a confined sandbox do not see, beside the working directory's own credentials, and the names in a
 * working directory that they may not change.
 */
import { realpathSync } from "node:fs"
import { homedir, tmpdir } from "node:os"
import { isAbsolute } from "node:path"

/**
 * Directories that are empty and writable for each command. Their content stays hidden, and what a command writes there is discarded with
 * it. They hold homes, temporary files, and the sockets of services, which a read-only mount does not protect.
 */
const emptied = ["/tmp", "/var/tmp", "/run", "/var/run", "/home", "/root", "/mnt", "/media"]

/** Files and directories with credentials, or with the data of services. */
const hidden = [
  "/etc/shadow",
  "/etc/shadow-",
  "/etc/gshadow",
  "/etc/gshadow-",
  "/etc/sudoers",
  "/etc/sudoers.d",
  "/etc/master.passwd",
  "/etc/krb5.keytab",
  "/etc/ssl/private",
  "/etc/pki/tls/private",
  "/etc/letsencrypt",
  "/etc/wireguard",
  "/etc/kubernetes",
  "/etc/rancher",
  "/etc/NetworkManager/system-connections",
  "/etc/ssh/ssh_host_rsa_key",
  "/etc/ssh/ssh_host_ecdsa_key",
  "/etc/ssh/ssh_host_ed25519_key",
  "/var/backups",
  "/var/log",
  "/var/mail",
  "/var/spool",
  "/var/snap",
  "/var/lib/cloud",
  "/var/lib/containerd",
  "/var/lib/containers",
  "/var/lib/docker",
  "/var/lib/kubelet",
  "/var/lib/lxd",
  "/var/lib/mysql",
  "/var/lib/NetworkManager",
  "/var/lib/postgresql",
  "/var/lib/private",
  "/var/lib/rancher",
  "/var/lib/redis",
  "/proc/kcore",
  "/proc/keys",
  "/proc/kmsg"
]

/** Places below `/proc` that the administrator could change, because a new mount of `/proc` is writable. */
const readOnlyInProc = [
  "/proc/sys",
  "/proc/sysrq-trigger",
  "/proc/irq",
  "/proc/bus",
  "/proc/fs",
  "/proc/acpi"
]

/** Variables that name a file or a directory with credentials. */
const namingCredentials = [
  "AWS_CONFIG_FILE",
  "AWS_SHARED_CREDENTIALS_FILE",
  "CLOUDSDK_CONFIG",
  "DOCKER_CONFIG",
  "GH_CONFIG_DIR",
  "GNUPGHOME",
  "GOOGLE_APPLICATION_CREDENTIALS",
  "KUBECONFIG",
  "NETRC",
  "NPM_CONFIG_USERCONFIG",
  "PGPASSFILE",
  "SSH_AUTH_SOCK",
  "XDG_CONFIG_HOME",
  "XDG_DATA_HOME",
  "XDG_RUNTIME_DIR",
  "XDG_STATE_HOME"
]

/** Places in emptied directories that commands need: the programs of NixOS, and the resolver's configuration. */
const keptInEmptied = ["/run/current-system", "/run/systemd/resolve", "/run/resolvconf"]

/** The appearance of a place of the machine to commands: an empty writable directory, hidden, read-only or writable. */
export type Shown = "empty" | "hidden" | "readOnly" | "writable"

/** The places that exist on this machine, without symbolic links. Later ones take precedence over the same earlier place. */
export const placesOfMachine = (
  further: ReadonlyArray<string>,
  env: NodeJS.ProcessEnv = process.env
): ReadonlyArray<readonly [path: string, shown: Shown]> => {
  const places = new Map<string, Shown>()
  const add = (path: string, shown: Shown) => {
    const real = isAbsolute(path) ? realOf(path) : undefined
    if (real !== undefined && real !== "/") places.set(real, shown)
  }
  for (const name of namingCredentials)
    for (const path of env[name]?.split(":") ?? []) if (path !== "") add(path, "hidden")
  for (const path of hidden) add(path, "hidden")
  for (const path of [...emptied, tmpdir(), homedir()]) add(path, "empty")
  for (const path of keptInEmptied) add(path, "readOnly")
  for (const path of readOnlyInProc) add(path, "readOnly")
  for (const path of further) add(path, "hidden")
  return [...places]
}

const realOf = (path: string): string | undefined => {
  try {
    return realpathSync(path)
  } catch {
    return undefined
  }
}

/**
 * Names in a working directory from which other programs take commands without asking a person: when a shell enters the directory, git uses
 * the repository, or an editor opens the folder.
 */
export const protectedNames: ReadonlyArray<string> = [
  ".git",
  ".hg",
  ".svn",
  ".jj",
  ".husky",
  ".githooks",
  ".github",
  ".gitlab",
  ".circleci",
  ".vscode",
  ".idea",
  ".zed",
  ".devcontainer",
  ".direnv",
  ".envrc",
  ".fermata",
  ".agents",
  ".claude",
  ".codex",
  ".cursor",
  ".gemini",
  ".mcp.json"
]

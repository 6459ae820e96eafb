/**
 * Finds credentials by the syntax around them: the password of an address, the flags of programs, the lines of credential files.
 */
import { entropyOf, isPlaceholder } from "./looks.ts"
import type { Span } from "./span.ts"
import { isMixedLetters } from "./values.ts"

/** Adds the credentials of a text. */
export const findCredentials = (text: string, spans: Array<Span>): void => {
  if (text.includes("://")) {
    add(text, spans, address, "password", isAddressPassword)
    add(text, spans, addressUser, "password", isRandomUser)
  }
  if (text.includes(" -u") || text.includes("--user") || text.includes(" -U"))
    add(text, spans, userFlag, "password", isFlagPassword)
  if (programs.test(text)) add(text, spans, passwordFlag, "password", isFlagPassword)
  if (otherPrograms.test(text)) add(text, spans, otherFlag, "password", isFlagPassword)
  if (/\b(?:echo|printf)\b/.test(text) && /password-stdin|sudo -S|passwd|cryptsetup/.test(text))
    add(text, spans, echoed, "password", isFlagPassword)
  if (text.includes("code="))
    add(text, spans, oauthCode, "authorization", (value) => entropyOf(value) >= 3.4 && /[0-9]/.test(value))
  if (text.includes("BUNDLE_")) add(text, spans, bundler, "password", (value) => /[0-9]/.test(value))
  if (text.includes("openssl")) add(text, spans, opensslFlag, "password", isFlagPassword)
  if (/bearer/i.test(text)) add(text, spans, bearer, "authorization", (value) => /[0-9]/.test(value))
  if (/password|requirepass|bindpw|rootpw/.test(text))
    add(text, spans, credentialLine, "password", (value) => /[0-9]/.test(value) || isMixedLetters(value))
  if (/identified/i.test(text)) add(text, spans, identified, "password", isFlagPassword)
  if (text.includes("SecureString") || text.includes("AUTH "))
    add(text, spans, commands, "password", isFlagPassword)
  if (/phrase|mnemonic/i.test(text)) add(text, spans, seedPhrase, "seed-phrase", () => true)
  if (/:(?:543[0-9]|6432|\*):/.test(text)) add(text, spans, passwordFile, "password", isFlagPassword)
  if (/ -b |--cookie/.test(text)) add(text, spans, cookieFlag, "cookie", (value) => value.includes("="))
  if (text.includes("LS0tLS1CRUdJTi")) add(text, spans, encodedPem, "private-key", isPrivateKey)
}

/** `scheme://user:password@host`. The group is the password. */
const address = /(?<=:\/\/[^\s/:@"'`<>]{0,200}:)((?:[^\s/"'`<>]|'(?![,;)\]}:\s])){1,300})@(?=[\w[.%$-])/g

/** The user of an address, which may be a token itself. */
const addressUser = /(?<=:\/\/)([\w.~%+-]{8,300})(?=(?::[^\s/"'`<>@]{0,300})?@[\w[.-])/g

const isRandomUser = (value: string): boolean =>
  value.length >= 20
    ? entropyOf(value) >= 3.2 && /[0-9]/.test(value) && !/[.]/.test(value)
    : /^[0-9a-f]{8,19}$/.test(value)

/** `-u user:password` of curl and its relatives. */
const userFlag =
  /(?<=\s(?:-[uU]|--(?:proxy-)?user)(?:=|[ \t]{0,4})(?:["'][^"'\s:]{0,100}:|[^"'\s:]{1,100}:))([^"'\s]{1,200})(?=["']|\s|$)|(?<=\s(?:-u|--user)[ \t=]{1,4}["'])([^"'\s:]{6,100})(?=:["'])/g

/**
 * `-p secret` of sshpass and the like, and `-psecret` of programs that take it in one word, such as mysql, whose `-p` alone asks for the
 * password.
 */
const passwordFlag =
  /(?<=\b(?:mysql|mysqldump|mysqladmin|mariadb|sshpass|7z|7za)\b[^|;&\n]{0,200}\s-p["']?)([^\s"'-][^\s"']{3,200})|(?<=\b(?:sshpass|smbclient|docker login|podman login|az login|mongo|mongosh|mongodump|influx|unzip|zip|htpasswd)\b[^|;&\n]{0,200}\s-[pPU][ \t]["']?)([^\s"'-][^\s"']{3,200})|(?<=\bredis-cli\b[^|;&\n]{0,200}\s-a[ \t]["']?)([^\s"'-][^\s"']{3,200})|(?<=\b(?:ssh-keygen)\b[^|;&\n]{0,200}\s-[NP][ \t]["']?)([^\s"'-][^\s"']{3,200})/g

/** Programs with flags, parameters or standard input of their own for the password. */
const otherFlag =
  /(?<=\bldap(?:search|modify|add|passwd|delete|whoami|compare)\b[^|;&\n]{0,200}\s-w[ \t]["']?)([^\s"'-][^\s"']{3,200})|(?<=\bhttps?\b[^|;&\n]{0,200}\s(?:-a|--auth)[ \t=]["']?[^\s:"']{1,100}:)([^\s"']{4,200})|(?<=\bnet use\b[^|;&\n]{0,200}\s\/user:\S{1,100}[ \t])([^\s"'*/][^\s"']{3,200})|(?<=\bhtpasswd\b[^|;&\n]{0,40}\s-\w{0,4}b\w{0,4}[ \t]\S{1,100}[ \t]\S{1,100}[ \t]["']?)([^\s"'-][^\s"']{3,200})|(?<=\bwpa_passphrase[ \t]\S{1,100}[ \t]["']?)([^\s"']{8,63})|(?<=\bsnmp\w{2,10}\b[^|;&\n]{0,200}\s-[AX][ \t]["']?)([^\s"'-][^\s"']{3,200})|(?<=\bsmbclient\b[^|;&\n]{0,200}\s-U[ \t]{0,2}["']?[^\s%"']{1,60}%)([^\s"']{4,200})/g

/** What `echo` writes to a program that reads a password. */
const echoed =
  /(?<=\b(?:echo|printf)[ \t](?:-\w+[ \t])?["']?(?:[\w.-]{1,60}:)?)([^\s"':|$][^\s"'|]{3,200})(?=["']?[ \t]{0,4}\|[^\n|]{0,200}(?:--password-stdin|\bsudo -S|\bchpasswd|passwd --stdin|\bcryptsetup))/g

/** The code that a service returns to a client of OAuth. */
const oauthCode = /(?<=[?&]code=)([\w.~%/-]{20,2000})(?=[&\s"'<#]|$)/g

/** `BUNDLE_HOST__COM` of Bundler. */
const bundler =
  /(?<=\bBUNDLE_[A-Z0-9]{1,40}(?:_{1,3}[A-Z0-9]{1,40}){1,8}["']?[ \t]{0,3}[:=][ \t]{0,3}["']?)([\w.-]{3,80}:[^\s"']{6,200})/g

/** `-passin pass:secret` and `-k secret` of openssl. */
const opensslFlag =
  /(?<=\bopenssl\b[^|;&\n]{0,400}\s["']?pass:)([^\s"']{4,200})|(?<=\bopenssl\b[^|;&\n]{0,200}\s-k[ \t]["']?)([^\s"'-][^\s"']{3,200})/g

const otherPrograms =
  /\bldap[a-z]{3,8} |\bhttps? |\bnet use |\bhtpasswd |\bwpa_passphrase |\bsnmp[a-z]{2,10} |\bsmbclient /

const programs =
  /\b(?:sshpass|mysql|mysqldump|mysqladmin|mariadb|smbclient|docker login|podman login|az login|redis-cli|mongo|mongosh|mongodump|influx|htpasswd|unzip|7za?|zip|ssh-keygen)\b/

const bearer = /(?<=\bbearer[ \t]{1,4})([\w.~+/=-]{16,8000})/gi

/** `machine x login y password z` of netrc, `requirepass z` of Redis. */
const credentialLine =
  /(?<=\b(?:login|machine|account|default)[ \t]\S{0,200}(?:[ \t]\S{0,200}){0,3}[ \t]password[ \t]|^[ \t]{0,20}(?:password|requirepass|masterauth|bindpw|rootpw)[ \t])([^\s"'(=:<[{][^\s"'(]{3,200})(?=\s|$)/gm

/** `identified by 'password'` of SQL. */
const identified = /(?<=\bidentified[ \t]{1,4}(?:with[ \t]\S{1,40}[ \t])?by[ \t]{1,4}["'])([^"'\n]{4,200})/gi

/** The argument of a PowerShell command, and the credentials of SMTP. */
const commands =
  /(?<=\bConvertTo-SecureString[ \t]{1,4}(?:-String[ \t]{1,4})?["'])([^"'\n]{4,200})(?=["'])|(?<=\bAUTH (?:PLAIN|LOGIN) )([A-Za-z0-9+/]{8,400}={0,2})/g

/** The cookies that curl sends. */
const cookieFlag = /(?<=\s(?:-b|--cookie)[ \t=]{1,4}["'])([^"'\n]{8,4000})(?=["'])/g

/** The words of a wallet. */
const seedPhrase =
  /(?<=\b(?:mnemonic|(?:seed|recovery|secret)[-_ ]?phrase)["']?[ \t]{0,3}[:=][ \t]{0,3}["']?)((?:[a-z]{3,8} ){11,23}[a-z]{3,8})\b/gi

/** A line of Postgres' password file: `host:port:database:user:password`. */
const passwordFile = /(?<=^[\w.*-]{1,100}:(?:543[0-9]|6432|\*):[^:\s]{1,60}:[^:\s]{1,60}:)(\S{4,200})$/gm

/** The base64 of a PEM block. */
const encodedPem = /(LS0tLS1CRUdJTi[A-Za-z0-9+/=]{40,20000})/g

const add = (
  text: string,
  spans: Array<Span>,
  pattern: RegExp,
  type: string,
  accepts: (value: string, before: string) => boolean
): void => {
  for (const found of text.matchAll(pattern)) {
    const value = found.slice(1).find((group) => group !== undefined)
    if (value === undefined || reference.test(value) || isPlaceholder(value)) continue
    if (!accepts(value, text.slice(Math.max(0, found.index - 200), found.index))) continue
    spans.push({ start: found.index, end: found.index + value.length, type })
  }
}

const reference = /^(?:\[[A-Z]|\$[\w{(]|%[\w.]+%|\{|<|#\{)/

const isAddressPassword = (value: string, before: string): boolean =>
  value.length >= 4 &&
  !/^(?:(?:my|your|the|user)?[-_]?pass(?:word|wd|phrase)?|pwd|secret|token|\*+)$/i.test(value) &&
  // A second address follows, or the host has a port.
  !(value.includes("@") && /[,;?&#=]|^\d{1,5}$/.test(value)) &&
  !isUser(value, before)

/** Whether a password is the name of its user, as in `postgres:postgres@localhost`. */
const isUser = (value: string, before: string): boolean =>
  /^[a-z]+$/.test(value) && before.endsWith(`/${value}:`)

const isFlagPassword = (value: string, before: string): boolean =>
  !/<[\w-]{1,40}:?$/.test(before) &&
  !isSameName(value, before) &&
  !/^\d{1,6}$/.test(value) &&
  !/^(?:password|passwd|secret|prompt|stdin|-)$/i.test(value)

/** Whether the user and the password of a flag are one short word, as in `-u test:test`. */
const isSameName = (value: string, before: string): boolean =>
  /^[a-z]{1,8}$/.test(value) && new RegExp(`[\\s"'=]${value}:$`).test(before)

const isPrivateKey = (value: string): boolean => {
  try {
    return atob(value.slice(0, 80)).includes("PRIVATE KEY")
  } catch {
    return false
  }
}

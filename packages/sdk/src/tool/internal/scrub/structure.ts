/**
 * Finds credentials by the syntax around them: the password of an address, the flags of programs, the lines of credential files.
 */
import { entropyOf, isPlaceholder } from "./looks.ts"
import type { Span } from "./span.ts"

/** Adds the credentials of a text. */
export const findCredentials = (text: string, spans: Array<Span>): void => {
  if (text.includes("://")) {
    add(text, spans, address, "password", isAddressPassword)
    add(text, spans, addressUser, "password", isRandomUser)
  }
  if (text.includes(" -u") || text.includes("--user") || text.includes(" -U"))
    add(text, spans, userFlag, "password", isFlagPassword)
  if (programs.test(text)) add(text, spans, passwordFlag, "password", isFlagPassword)
  if (/bearer/i.test(text)) add(text, spans, bearer, "authorization", (value) => /[0-9]/.test(value))
  if (text.includes("password") || text.includes("requirepass"))
    add(text, spans, credentialLine, "password", (value) => /[0-9]/.test(value))
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

/** `-p secret` of sshpass and the like, and `-psecret` of mysql, whose `-p` alone asks for the password. */
const passwordFlag =
  /(?<=\b(?:mysql|mysqldump|mysqladmin|mariadb)\b[^|;&\n]{0,200}\s-p["']?)([^\s"'-][^\s"']{3,200})|(?<=\b(?:sshpass|smbclient|docker login|az login|redis-cli|mongo|mongosh|htpasswd|openssl|unzip|7z|zip|ssh-keygen)\b[^|;&\n]{0,200}\s-{1,2}(?:p|a|P|N|passin pass:|passout pass:)[ \t]?["']?)([^\s"'-][^\s"']{3,200})/g

const programs =
  /\b(?:sshpass|mysql|mysqldump|mysqladmin|mariadb|smbclient|docker login|az login|redis-cli|mongo|mongosh|htpasswd|openssl|unzip|7z|zip|ssh-keygen)\b/

const bearer = /(?<=\bbearer[ \t]{1,4})([\w.~+/=-]{16,8000})/gi

/** `machine x login y password z` of netrc, `requirepass z` of Redis. */
const credentialLine =
  /(?<=\b(?:login|machine|account|default)[ \t]\S{0,200}(?:[ \t]\S{0,200}){0,3}[ \t]password[ \t]|^[ \t]{0,20}(?:password|requirepass|masterauth)[ \t])([^\s"'(=:<[{][^\s"'(]{3,200})(?=\s|$)/gm

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
  accepts: (value: string) => boolean
): void => {
  for (const found of text.matchAll(pattern)) {
    const value = found.slice(1).find((group) => group !== undefined)
    if (value === undefined || reference.test(value) || isPlaceholder(value) || !accepts(value)) continue
    spans.push({ start: found.index, end: found.index + value.length, type })
  }
}

const reference = /^(?:\[[A-Z]|\$[A-Za-z_{(]|%[\w.]+%|\{|<|#\{)/

const isAddressPassword = (value: string): boolean =>
  !/^(?:pass(?:word|wd)?|pwd|secret|token|\*+)$/i.test(value) && !value.includes("@")

const isFlagPassword = (value: string): boolean =>
  !/^\d{1,6}$/.test(value) && !/^(?:password|passwd|secret|prompt|stdin|-)$/i.test(value)

const isPrivateKey = (value: string): boolean => {
  try {
    return atob(value.slice(0, 80)).includes("PRIVATE KEY")
  } catch {
    return false
  }
}

/**
 * Which names name a secret.
 */

/** The kind of secret that a name announces. */
export type KeyKind = "password" | "token" | "weak" | "signature" | "authorization" | "cookie" | "vendor"

/** A part of each name that names a secret. */
export const secretWords =
  /pass(?:w|ph|code|(?![a-z]))|mot de passe|pwd|(?<![a-z])pw(?![a-z])|(?:bind|root|db|user|admin)pw|(?<![a-z])pin(?![a-z])|psk|contrase|motdepasse|kennwort|senha|пароль|密码|密碼|パスワード|비밀번호|secret|token|cred(?:s|ential)|key|auth|cookie|bearer|sig(?=nature|[=%])|jwt|art-api|webhook|connection[-_]?string|hmac|salt/gi

/** The same, and the vendors whose names say that a long value is a secret. */
export const secretWordsAndVendors = new RegExp(
  `${secretWords.source}|adafruit|adobe|algolia|asana|atlassian|beamer|bitbucket|bittrex|cloudflare|codecov|cohere|coinbase|confluent|contentful|datadog|discord|droneci|dropbox|etsy|facebook|fastly|finicity|finnhub|flickr|freshbooks|gitter|gocardless|heroku|hubspot|intercom|jfrog|artifactory|kraken|kucoin|launchdarkly|linkedin|looker|mailchimp|mailgun|mapbox|mattermost|meraki|message-?_?bird|netlify|new-?_?relic|nytimes|okta|plaid|privateai|rapidapi|sendbird|sentry|snyk|sonar|sourcegraph|squarespace|sumo|travis|twitch|twitter|typeform|yandex|zendesk`,
  "gi"
)

const vendors = new Set(
  "adafruit adobe algolia asana atlassian beamer bitbucket bittrex cloudflare codecov cohere coinbase confluent contentful datadog discord droneci dropbox etsy facebook fastly finicity finnhub flickr freshbooks gitter gocardless heroku hubspot intercom jfrog artifactory kraken kucoin launchdarkly linkedin looker mailchimp mailchimpe mailgun mapbox mattermost meraki messagebird netlify newrelic nytimes okta plaid privateai rapidapi sendbird sentry snyk sonar sourcegraph squarespace sumo sumologic travis twitch twitter typeform yandex zendesk".split(
    " "
  )
)

/** The last word of a name whose value is no secret, although the name has a word for one. */
const harmlessEnds = new Set(
  "id ids name names type types size sizes length len count counts counter url urls uri uris arn ref refs reference path paths file files filename filepath dir directory hash hashes hashed digest fingerprint expiry expires expiration expired ttl timeout at in kind scope scopes algorithm alg algo version policy policies rule rules regex pattern field fields label labels prefix suffix index idx header headers param params format min max limit limits usage used enabled disabled required optional provider providers manager store storage service services endpoint host source reset prompt hint placeholder tokens tokenizer word words board pair pairs chain chains set sets map list env var variable class error errors exception message messages text title description help link handler callback event events state status strength valid validator validation validate verification verify check confirm confirmation match mismatch changed change update updated created rotation rotate age column columns table schema model input output inputs outputs position budget code codes char chars alphabet bits bytes st url2 eq ne page cursor next previous prev start end offset left right up down press pressed down code event public pub usage stats price cost cache bucket group role user username login email owner issuer encryption hashing hasher mechanism method strategy mode complexity lifetime history attempts retries delay interval window factory builder generator getter setter function exists present audience subject".split(
    " "
  )
)

/** Words that name a password wherever they stand. */
const passwordWords =
  /passw(?:or)?d|passwort|passphrase|passcode|contrase|motdepasse|kennwort|senha|pwd$|пароль|密码|密碼|パスワード|비밀번호/

const passwordEnds = new Set(["pass", "passe", "pw", "pin"])

/** Names of passwords in one word: `storepass`, `bindpw`. */
const passwordCompound =
  /^(?:db|user|root|admin|ssh|smtp|mail|ftp|auth|bind|store|key|trust|proxy|http|sql|mysql|pg|redis|login|sudo|become|cert|pfx|jks|wifi|ldap|bot|my)(?:pass|pw)$/

const tokenWords =
  /^(?:secrets?|token|apikey|apitoken|apisecret|authtoken|accesstoken|refreshtoken|idtoken|sessiontoken|accesskey|secretkey|privatekey|authkey|clientsecret|credentials?|creds|psk|jwt|bearer|hmac|webhooksecret)$|(?:secret|token|apikey|accesskey|secretkey|privatekey)$/

/** Words after the word for a secret that leave it one: `token_prod`, `secretValue`. */
const modifiers = new Set(
  "value val base base64 b64 plain plaintext string raw default old new current prev production prod development dev testing test staging stage live sandbox local primary secondary backup main global key keys v a b c x y super secure rw ro readonly readwrite admin root internal external".split(
    " "
  )
)

/** Words that make a secret of the word `key` after them. */
const keyOwners = new Set(
  "api access secret private preshared auth authentication authorization encryption encrypt decryption signing sign master session service license account admin storage shared subscription deploy webhook client app application consumer crypt crypto cipher hmac ssh rsa root sas server security integration project registration personal user function host functions write read rest team bot management activation recovery fernet aes jwt vapid paseto blowfish aws gcp azure openai anthropic gemini mistral groq deepseek stripe twilio sendgrid github gitlab slack maps weather".split(
    " "
  )
)

/** Words before `token` in the names of what a service wants back for the next page or with a form, and of parts of programs. */
const pagingWords = new Set(
  "next page nextpage paging pagination continuation continue sync delta skip cursor resume cancellation syntax lexer start end client request idempotency csrf xsrf authenticity antiforgery".split(
    " "
  )
)

const publicWords = new Set(["public", "pub", "publishable", "anon"])

/** The words of a name, in lower case, without digits at their end. */
const wordsOf = (name: string): ReadonlyArray<string> =>
  name
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .replace(/([A-Z]+)([A-Z][a-z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^a-z0-9\u00c0-\uffff]+/)
    .map((word) => word.replace(/\d+$/, ""))
    .filter((word) => word !== "")

/** The kinds of the names that were judged last. */
const judged = new Map<string, KeyKind | undefined>()
const mostJudged = 1000

/** The kind of secret that a name announces; `undefined` if it announces none. */
export const kindOf = (name: string): KeyKind | undefined => {
  const found = judged.get(name)
  if (found !== undefined || judged.has(name)) return found
  const kind = judge(name)
  if (judged.size >= mostJudged) judged.clear()
  judged.set(name, kind)
  return kind
}

const judge = (name: string): KeyKind | undefined => {
  const words = wordsOf(name)
  const last = words.at(-1)
  if (last === undefined) return undefined
  if (last === "authorization" || (last === "auth" && words.at(-2) === "proxy")) return "authorization"
  if (last === "cookie") return "cookie"
  const vendor = words.some((word) => vendors.has(word)) || (words[0] === "message" && words[1] === "bird")
  if (vendor && last !== "url" && !words.some((word) => publicWords.has(word))) {
    if (harmlessEnds.has(last) && last !== "id" && last !== "login") return undefined
    return passwordWords.test(last)
      ? "password"
      : tokenWords.test(last) || last === "key"
        ? "token"
        : "vendor"
  }
  if (harmlessEnds.has(last)) return undefined
  if (last === "token" && pagingWords.has(words.at(-2) ?? "")) return undefined
  if (words.some((word) => publicWords.has(word)) && !words.includes("secret")) return undefined
  if (words.some((word) => passwordWords.test(word)) || passwordEnds.has(last) || passwordCompound.test(last))
    return "password"
  const named = words.findLastIndex((word) => tokenWords.test(word))
  if (named !== -1 && words.slice(named + 1).every((word) => modifiers.has(word))) return "token"
  if (last === "key" || last === "keys") {
    const before = words.at(-2)
    if (before === undefined) return undefined
    return keyOwners.has(before) ? "token" : undefined
  }
  if (last === "api" && words.at(-2) === "art") return "token"
  if (last === "string" && words.at(-2) === "connection") return "token"
  if (last === "signature") return "signature"
  if (last === "auth" || last === "sig" || last === "salt" || last === "webhook") return "weak"
  return undefined
}

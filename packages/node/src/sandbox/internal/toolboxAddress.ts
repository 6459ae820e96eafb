/**
 * Decides whether the key of the API may be sent to the toolbox whose address the API gives with a sandbox.
 */

/** The hosts to which the key may be sent. */
export interface KeyHolders {
  /** The address of the API, which gets the key with each request. */
  readonly apiUrl: string
  /** Further hosts, by name or address, without a port. */
  readonly hosts: ReadonlyArray<string>
}

/** The address of a toolbox, or why the key is not sent there. */
export type ToolboxAddress =
  | { readonly _tag: "trusted"; readonly base: string }
  | { readonly _tag: "refused"; readonly problem: string }

/**
 * Checks the address of a toolbox. The host is that of the API, that of Daytona's proxy for it (`proxy.` before the API's host), or a
 * listed one. Other hosts below the API's are not trusted, because Daytona serves the ports of sandboxes there. If the API is reached over
 * https, the toolbox has to be, too.
 *
 * The problem contains nothing that the server sent.
 */
export const toolboxAddress = (given: string, { apiUrl, hosts }: KeyHolders): ToolboxAddress => {
  const url = URL.canParse(given) ? new URL(given) : undefined
  const isPlain = url !== undefined && url.username + url.password + url.search + url.hash === ""
  if (!isPlain || (url.protocol !== "https:" && url.protocol !== "http:"))
    return refused("Daytona gave an address of the sandbox that this version does not know")
  const api = new URL(apiUrl)
  if (api.protocol === "https:" && url.protocol !== "https:")
    return refused("Daytona gave an address of the sandbox without https, to which the key is not sent")
  const trusted = [api.hostname, `proxy.${api.hostname}`, ...hosts.map(hostnameOf)]
  if (!trusted.includes(url.hostname))
    return refused(
      "Daytona gave a sandbox on another host than that of the API, to which the key is not sent: if the host is yours, list it in the option toolboxHosts"
    )
  return { _tag: "trusted", base: `${url.origin}${url.pathname.replace(/\/+$/, "")}` }
}

/** A host as `URL` writes it; `undefined` if the text is not a host, or has a port or a path. */
export const hostnameOf = (host: string): string | undefined => {
  const address = `https://${host}/`
  if (!/^[^\s/?#@\\]+$/.test(host) || !URL.canParse(address)) return undefined
  const url = new URL(address)
  return url.port === "" && !/:\d*$/.test(host.replace(/\[.*\]/, "")) ? url.hostname : undefined
}

const refused = (problem: string): ToolboxAddress => ({ _tag: "refused", problem })

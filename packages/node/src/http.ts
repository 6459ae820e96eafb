/**
 * Fermata over HTTP: the server, the typed client and the contract of the interface. An entry of its own, so that programs without a server load
 * none of it.
 *
 * @since 0.2.0
 */
export * as ApiModel from "./http/ApiModel.ts"
export type * from "./http/Caller.ts"
export * from "./http/connectFermata.ts"
export * as FermataApi from "./http/FermataApi.ts"
export * as FermataClient from "./http/FermataClient.ts"
export * as FermataServer from "./http/FermataServer.ts"
export type * from "./http/HttpOptions.ts"
export * from "./http/RequestRefused.ts"
export * from "./http/serveHttp.ts"

/**
 * Any model of the Vercel AI SDK as a model of Fermata.
 *
 * @since 0.1.0
 */
export * as AiSdkModel from "./AiSdkModel.ts"

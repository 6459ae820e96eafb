/**
 * Defining tools and agents in plain TypeScript: the constructors of `Tool` and `Agent` under the names that read well without
 * a namespace.
 *
 * @since 0.1.0
 */
export { make as agent } from "../agent/Agent.ts"
export { askUser, content, make as tool } from "../tool/Tool.ts"

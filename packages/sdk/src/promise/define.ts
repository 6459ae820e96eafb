/**
 * The constructors of `Tool` and `Agent` under names for use without a namespace: `tool` and `agent`. Also `askUser` and `content` of
 * `Tool`, and `wait` and `waitTool` of `Hold`.
 *
 * @since 0.1.0
 */
export { make as agent } from "../agent/Agent.ts"
export { wait, waitTool } from "../tool/Hold.ts"
export { askUser, content, make as tool } from "../tool/Tool.ts"

/**
 * The constructors of `Tool` and `Agent` under names for use without a namespace: `tool` and `agent`. Also `askUser` and `content` of
 * `Tool`, `pending` and `wait` of `Hold`, `planTool`, `recallTool`, `rememberTool` and `waitTool`.
 *
 * @since 0.1.0
 */
export { make as agent } from "../agent/Agent.ts"
export { pending, wait } from "../tool/Hold.ts"
export { askUser, content, make as tool } from "../tool/Tool.ts"
export { make as recallTool } from "../tool/RecallTool.ts"
export { make as rememberTool } from "../tool/RememberTool.ts"
export { make as planTool } from "../tool/PlanTool.ts"
export { make as waitTool } from "../tool/WaitTool.ts"

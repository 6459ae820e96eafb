import * as fc from "fast-check"
import { simulate, tape } from "/work/main/packages/sdk/test/domain/Simulation.ts"
let tags: Record<string, number> = {}, steps: Record<string,number> = {}, rej: Record<string,number> = {}, ends: Record<string,number>={}, ev=0, n=0, maxDepth=0
const t=Date.now()
fc.assert(fc.property(tape(), (t) => { const tr = simulate(t); n++; ev+=tr.events.length
 for (const e of tr.events) { let x: any = e, d=0; while(x._tag==="child.advanced"){x=x.event;d++}; maxDepth=Math.max(d,maxDepth); tags[x._tag]=(tags[x._tag]??0)+1 
  if (x._tag==="request.decided") { const k="d:"+x.decision._tag; tags[k]=(tags[k]??0)+1}
  if (x._tag==="request.opened") { const k="o:"+x.request._tag+d; tags[k]=(tags[k]??0)+1} }
 for (const a of tr.asked) steps[a.step._tag]=(steps[a.step._tag]??0)+1
 for (const a of tr.attempts) { const k=(a.result as any)._tag==="Success"?"ok":(a.result as any).failure._tag; rej[k]=(rej[k]??0)+1 }
 ends[tr.end.status]=(ends[tr.end.status]??0)+1
}), {numRuns: 500})
console.log(tags, steps, rej, ends, "events/run", ev/n, "ms", Date.now()-t, "depth", maxDepth)

/**
 * How often tests repeat what depends on chance or on the moment: `FERMATA_EFFORT=10` repeats it ten times as often as CI does.
 */
const factor = Number(process.env["FERMATA_EFFORT"] ?? 1)

/** The number of repetitions of a test that repeats this often in CI. */
export const repeats = (count: number): number => Math.max(1, Math.round(count * factor))

/** The step through positions of which CI tests every `step`-th. From an effort of `step` on, all are tested. */
export const stepOf = (step: number): number => Math.max(1, Math.round(step / factor))

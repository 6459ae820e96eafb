/**
 * A tape of numbers that makes all choices of a simulation. An exhausted tape always makes the quiet choice, 0.
 */
import * as fc from "fast-check"

/** A tape for `simulate`. */
export const tape = (length = 600): fc.Arbitrary<ReadonlyArray<number>> =>
  fc.noBias(fc.array(fc.nat(0xffff), { maxLength: length, size: "max" }))

/** Reads a tape. */
export class Reader {
  readonly tape: ReadonlyArray<number>
  position = 0
  constructor(tape: ReadonlyArray<number>) {
    this.tape = tape
  }
  /** A number below `count`; 0 for an exhausted tape. */
  below(count: number): number {
    const value = this.tape[this.position++]
    return value === undefined ? 0 : value % count
  }
  /** True with this probability; false for an exhausted tape. */
  happens(percent: number): boolean {
    return this.below(100) >= 100 - percent
  }
  one<A>(items: ReadonlyArray<A>): A {
    return items[this.below(items.length)]!
  }
  get isOver() {
    return this.position >= this.tape.length
  }
}

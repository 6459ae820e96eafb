/**
 * Values that a program gives, as they are at that moment: a getter or a later change cannot make what is used differ from what was
 * checked.
 */
import { maxGivenDepth } from "./json.ts"
import { isPlain } from "./misfits.ts"

/** A copy with each key read once, `levels` deep. What is no list and no plain object is the value itself: the check refuses it. */
export const readOnce = <A>(given: A, levels: number = maxGivenDepth): A => read(given, levels) as A

const read = (value: unknown, levels: number): unknown => {
  if (typeof value !== "object" || value === null || levels <= 0) return value
  if (Array.isArray(value)) return Array.from(value, (item: unknown) => read(item, levels - 1))
  if (!isPlain(value)) return value
  const copy = {}
  // With the keys that no copy by spreading has, so that they are refused.
  for (const key of Reflect.ownKeys(value)) {
    Object.defineProperty(copy, key, {
      value: read(Reflect.get(value, key), levels - 1),
      enumerable: Object.prototype.propertyIsEnumerable.call(value, key),
      configurable: true,
      writable: true
    })
  }
  return copy
}

/** Numbers from 0 to 1 that are the same for the same seed (a multiplicative congruential generator). */
export const generator = (seed: number): (() => number) => {
  let state = (Math.abs(Math.trunc(seed)) % 2147483646) + 1
  const next = () => (state = (state * 16807) % 2147483647) / 2147483647
  // The first numbers of neighbouring seeds are alike.
  for (let i = 0; i < 3; i++) next()
  return next
}

/** A whole number below the count. */
export const below = (random: () => number, count: number): number => Math.floor(random() * count)

/** Makes a generator of numbers from 0 to 1, which are the same for the same seed (multiplicative congruential). */
export const generator = (seed: number): (() => number) => {
  let state = (Math.abs(Math.trunc(seed)) % 2147483646) + 1
  const next = () => (state = (state * 16807) % 2147483647) / 2147483647
  // Skips the first numbers, which are similar for neighboring seeds.
  for (let i = 0; i < 3; i++) next()
  return next
}

/** Returns a random integer from 0 to `count - 1`. */
export const below = (random: () => number, count: number): number => Math.floor(random() * count)

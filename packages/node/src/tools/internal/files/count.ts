/** A number with what it counts, such as `1,024 bytes`. */
export const count = (number: number, one: string, several = `${one}s`): string =>
  `${number.toLocaleString("en-US")} ${number === 1 ? one : several}`

/**
 * Omits optional fields without a value, as stored JSON and exact optional types require.
 */

type Defined<A> = { readonly [K in keyof A as undefined extends A[K] ? never : K]: A[K] } & {
  readonly [K in keyof A as undefined extends A[K] ? K : never]?: Exclude<A[K], undefined>
}

/** Copies the fields that are not `undefined`. */
export const defined = <A extends object>(fields: A): Defined<A> => {
  const out: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(fields)) if (value !== undefined) out[name] = value
  return out as Defined<A>
}

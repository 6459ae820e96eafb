/**
 * Values that user code may throw, reject with or return, and that break code that only inspects them.
 */

/** A proxy in which every operation throws. */
export const untouchable = <A extends object>(target: A): A =>
  new Proxy(
    target,
    new Proxy(
      {},
      {
        get: () => () => {
          throw new Error("Do not touch.")
        }
      }
    )
  )

const withMessage = (message: PropertyDescriptor): Error =>
  Object.defineProperty(new Error("unheard"), "message", message)

/** Made anew each time, so that tests do not affect each other. */
export const thrown: Readonly<Record<string, () => unknown>> = {
  "an error": () => new Error("boom"),
  "an error whose message throws": () =>
    withMessage({
      get: () => {
        throw new Error("getter")
      }
    }),
  "an error whose message is a symbol": () => withMessage({ value: Symbol("s") }),
  "an error whose name throws": () =>
    Object.defineProperty(new Error(""), "name", {
      get: () => {
        throw new Error("getter")
      }
    }),
  "a proxy that throws on everything": () => untouchable(new Error("unheard")),
  "a function proxy that throws on everything": () => untouchable(() => {}),
  "an object that cannot become text": () =>
    Object.assign(Object.create(null) as object, {
      toString: () => {
        throw new Error("text")
      }
    }),
  "a symbol": () => Symbol("s"),
  nothing: () => undefined
}

/** The ways in which a user function can fail. */
export const failing: Readonly<Record<string, (cause: unknown) => unknown>> = {
  throws: (cause) => {
    throw cause
  },
  rejects: (cause) => Promise.reject(cause)
}

/** Return values of the wrong type. */
export const returned: Readonly<Record<string, () => unknown>> = {
  "a proxy that throws on everything": () => untouchable({}),
  "a function proxy that throws on everything": () => untouchable(() => {}),
  nothing: () => undefined,
  null: () => null,
  "a number that is none": () => Number.NaN,
  "a symbol": () => Symbol("s"),
  "a bigint": () => 5n,
  "an object without a prototype": () => Object.create(null) as unknown,
  "a list that holds itself": () => {
    const list: Array<unknown> = []
    list.push(list)
    return list
  }
}

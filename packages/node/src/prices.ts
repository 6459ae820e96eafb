/**
 * List prices of models, for cost budgets. They have their own entry point, `@fermata/node/prices`, because the table takes 60 ms to load.
 *
 * The table is that of the installed `@pydantic/genai-prices`; nothing is fetched. If a provider reports the cost of a call, that cost is
 * used instead.
 *
 * @since 0.1.0
 */
import type { ModelProfile } from "@fermata/sdk/model"
import { calcPrice, findProvider, type ModelPrice } from "@pydantic/genai-prices"

type Prices = ModelProfile.Prices

/**
 * Returns the prices of a model in US dollars per million tokens, or `undefined` if the table does not have the provider, the model, its
 * input price or its output price.
 *
 * **Details**
 *
 * `provider` is a provider's name in the table (`openai`, `anthropic`, `google`, `x-ai`, `openrouter`, …) or its base URL. `at` is
 * the time of the prices (default: now); a few models are cheaper at some hours, and the returned prices do not change with the hour.
 * `tiers` has the prices for long contexts. The prices do not include batches, images, audio, searches and caching for longer than five
 * minutes, so a cost that is computed from them does not either.
 *
 * **Example** (Giving a model its prices)
 *
 * ```ts run
 * import { openAi } from "@fermata/node"
 * import { pricesOf } from "@fermata/node/prices"
 *
 * const prices = pricesOf("openai", "gpt-5.5")
 * const model = openAi({ model: "gpt-5.5", ...(prices === undefined ? {} : { prices }) })
 * ```
 */
export const pricesOf = (provider: string, model: string, at: Date = new Date()): Prices | undefined => {
  const known = findProvider(
    provider.includes("://") ? { providerApiUrl: provider } : { providerId: provider.toLowerCase() }
  )
  if (known === undefined) return undefined
  const price = calcPrice({}, model, { provider: known, timestamp: at })?.model_price
  return price === undefined ? undefined : pricesIn(price)
}

const fields = {
  input: "input_mtok",
  cachedInput: "cache_read_mtok",
  cacheWrite: "cache_write_mtok",
  output: "output_mtok"
} as const

type Price = ModelPrice[string]

const pricesIn = (price: ModelPrice): Prices | undefined => {
  const rates = ratesAt(price, 0)
  if (rates === undefined) return undefined
  const starts = new Set(Object.values(fields).flatMap((field) => startsIn(price[field])))
  const tiers = [...starts]
    .sort((a, b) => a - b)
    .flatMap((start) => {
      const above = ratesAt(price, start + 1)
      return above === undefined ? [] : [{ above: start, ...above }]
    })
  return tiers.length === 0 ? rates : { ...rates, tiers }
}

/** The rates of a call with this many input tokens. */
const ratesAt = (price: ModelPrice, inputTokens: number): Omit<Prices, "tiers"> | undefined => {
  const input = rateAt(price[fields.input], inputTokens)
  const output = rateAt(price[fields.output], inputTokens)
  if (input === undefined || output === undefined) return undefined
  const cachedInput = rateAt(price[fields.cachedInput], inputTokens)
  const cacheWrite = rateAt(price[fields.cacheWrite], inputTokens)
  return {
    input,
    output,
    ...(cachedInput === undefined ? {} : { cachedInput }),
    ...(cacheWrite === undefined ? {} : { cacheWrite })
  }
}

const rateAt = (price: Price, inputTokens: number): number | undefined => {
  if (price === undefined || typeof price === "number") return price
  let rate = price.base
  for (const { price: above, start } of price.tiers) if (inputTokens > start) rate = above
  return rate
}

const startsIn = (price: Price): ReadonlyArray<number> =>
  price === undefined || typeof price === "number" ? [] : price.tiers.map(({ start }) => start)

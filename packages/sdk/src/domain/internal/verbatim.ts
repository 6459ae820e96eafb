/**
 * Checks, much faster than decoding, that a schema would decode a value to itself.
 *
 * Nearly all stored data is read back in the form in which it was written. `verbatim` compiles a schema's syntax tree to a check that
 * allocates nothing. The check accepts a value only if it is certain. A value that it does not accept (an additional field, an
 * unsupported kind of schema, deep nesting) must be decoded, which converts it or reports the problem.
 */
import * as Schema from "effect/Schema"
import type * as AST from "effect/SchemaAST"

/** Checks a value that has at most `levels` levels of nesting. The bound keeps this check, and recursive readers of the value, safe. */
type Check = (value: unknown, levels: number) => boolean

/** The most levels of nesting of an accepted value. */
const maxLevels = 200

/**
 * Compiles a schema to a check of parsed JSON values. `true` means that decoding the value would succeed and return an equal value;
 * `false` means that it has to be decoded to find out. An accepted value has at most 200 levels of nesting.
 */
export const verbatim = <A>(schema: Schema.Codec<A, unknown>): ((value: unknown) => value is A) => {
  let check: Check | undefined
  // Compiled at the first use, so that importing costs nothing.
  return (value): value is A => (check ??= compile(schema.ast, new Map()))(value, maxLevels)
}

const never: Check = () => false

const compile = (ast: AST.AST, known: Map<AST.AST, Check>): Check => {
  const found = known.get(ast)
  if (found !== undefined) return found
  const made = ast.encoding === undefined ? checked(ast, known) : never
  known.set(ast, made)
  return made
}

/** The check of a schema's shape and of its filters. */
const checked = (ast: AST.AST, known: Map<AST.AST, Check>): Check => {
  const shape = shapeOf(ast, known)
  if (ast.checks === undefined || shape === never) return shape
  const passes = ast.checks.flatMap(filtersOf)
  return (value, levels) => {
    if (!shape(value, levels)) return false
    for (const filter of passes) if (filter.run(value, ast, defaults) !== undefined) return false
    return true
  }
}

const defaults: AST.ParseOptions = {}

const filtersOf = (check: AST.Check<unknown>): ReadonlyArray<AST.Filter<unknown>> =>
  check._tag === "Filter" ? [check] : check.checks.flatMap(filtersOf)

const shapeOf = (ast: AST.AST, known: Map<AST.AST, Check>): Check => {
  switch (ast._tag) {
    case "String":
      return (value) => typeof value === "string"
    case "Number":
      return (value) => typeof value === "number"
    case "Boolean":
      return (value) => typeof value === "boolean"
    case "Null":
      return (value) => value === null
    case "Literal": {
      const { literal } = ast
      return (value) => value === literal
    }
    case "Arrays":
      return listOf(ast, known)
    case "Objects":
      return ast.indexSignatures.length === 0 ? struct(ast, known) : record(ast, known)
    case "Union":
      return nullable(ast.types, known)
    case "Suspend": {
      let check: Check | undefined
      return (value, levels) => (check ??= compile(ast.thunk(), known))(value, levels)
    }
    case "Declaration":
      return anyJson._tag === "Declaration" && ast.run === anyJson.run ? json : never
    default:
      return never
  }
}

const listOf = (ast: AST.Arrays, known: Map<AST.AST, Check>): Check => {
  const [rest] = ast.rest
  // A non-empty array's schema consists of its first elements and a rest of the same schema.
  const isAlike = ast.elements.every((element) => element === rest && element.context?.isOptional !== true)
  if (rest === undefined || ast.rest.length > 1 || !isAlike) return never
  const item = compile(rest, known)
  const least = ast.elements.length
  return (value, levels) => {
    if (!Array.isArray(value) || value.length < least || levels <= 0) return false
    for (let index = 0; index < value.length; index += 1) if (!item(value[index], levels - 1)) return false
    return true
  }
}

const anyJson: AST.AST = Schema.Json.ast

const json: Check = (value, levels) => {
  switch (typeof value) {
    case "string":
    case "boolean":
      return true
    case "number":
      return Number.isFinite(value)
    case "object":
      return value === null || (levels > 0 && jsonWithin(value, levels - 1))
    default:
      return false
  }
}

const jsonWithin = (value: object, levels: number): boolean => {
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index += 1) if (!json(value[index], levels)) return false
    return true
  }
  if (Object.getPrototypeOf(value) !== Object.prototype) return false
  for (const name in value) {
    if (!json((value as Readonly<Record<string, unknown>>)[name], levels)) return false
  }
  return true
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const struct = (ast: AST.Objects, known: Map<AST.AST, Check>): Check => {
  const names: Array<string> = []
  const checks: Array<Check> = []
  const optional: Array<boolean> = []
  for (const { name, type } of ast.propertySignatures) {
    if (typeof name !== "string") return never
    names.push(name)
    checks.push(compile(type, known))
    optional.push(type.context?.isOptional === true)
  }
  // An empty struct accepts any value that is not null or undefined.
  if (names.length === 0) return never
  return (value, levels) => {
    if (!isRecord(value) || levels <= 0) return false
    let fields = 0
    for (let index = 0; index < names.length; index += 1) {
      const field = value[names[index]!]
      if (field === undefined) {
        if (!optional[index]!) return false
      } else {
        if (!checks[index]!(field, levels - 1)) return false
        fields += 1
      }
    }
    // Decoding would drop an unknown field. A field that is `undefined` or inherited is left to the schema.
    for (const _ in value) fields -= 1
    return fields === 0
  }
}

const record = (ast: AST.Objects, known: Map<AST.AST, Check>): Check => {
  const [index] = ast.indexSignatures
  if (index === undefined || ast.indexSignatures.length > 1 || ast.propertySignatures.length > 0) return never
  const { parameter, type } = index
  if (parameter._tag !== "String" || parameter.checks !== undefined || parameter.encoding !== undefined) {
    return never
  }
  const check = compile(type, known)
  return (value, levels) => {
    if (!isRecord(value) || levels <= 0) return false
    for (const name in value) if (!check(value[name], levels - 1)) return false
    return true
  }
}

/** The check of a union that may contain `null`. No other member accepts `null`, so it can be tested first. */
const nullable = (types: ReadonlyArray<AST.AST>, known: Map<AST.AST, Check>): Check => {
  const others = types.filter((type) => type._tag !== "Null" || !plain(type))
  const [other] = others
  const check = others.length === 1 && other !== undefined ? compile(other, known) : union(others, known)
  if (others.length === types.length || check === never) return check
  return (value, levels) => value === null || check(value, levels)
}

/** The check of a union of literals, or of structs with a distinct tag. In other unions members may overlap, and the first match decodes. */
const union = (types: ReadonlyArray<AST.AST>, known: Map<AST.AST, Check>): Check => {
  if (types.every((type) => type._tag === "Literal" && plain(type))) {
    const literals = new Set<unknown>(types.map((type) => (type as AST.Literal).literal))
    return (value) => literals.has(value)
  }
  const name = ["_tag", "role"].find((name) => types.every((type) => tagOf(type, name) !== undefined))
  if (name === undefined) return never
  const members = new Map<unknown, Check>()
  for (const type of types) members.set(tagOf(type, name), compile(type, known))
  if (members.size < types.length) return never
  return (value, levels) => {
    if (!isRecord(value)) return false
    const member = members.get(value[name])
    return member !== undefined && member(value, levels)
  }
}

const plain = (ast: AST.AST) => ast.encoding === undefined && ast.checks === undefined

const tagOf = (ast: AST.AST, name: string): unknown => {
  if (ast._tag !== "Objects" || ast.encoding !== undefined) return undefined
  const type = ast.propertySignatures.find((property) => property.name === name)?.type
  return type?._tag === "Literal" && plain(type) && type.context?.isOptional !== true
    ? type.literal
    : undefined
}

/**
 * The run store in a Postgres database, as an entry of its own: importing `@fermata/node` loads no driver.
 *
 * @since 0.1.0
 */
export * as PostgresStore from "./PostgresStore.ts"

/**
 * The run store in a Postgres database, apart from the rest so that a program without one loads no driver.
 *
 * @since 0.1.0
 */
export * as PostgresStore from "./PostgresStore.ts"

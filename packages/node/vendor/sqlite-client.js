/*
From @effect/sql-sqlite-node 4.0.0-beta.102, with module paths changed.

MIT License

Copyright (c) 2023-present The Contributors

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.
*/
/**
 * Connects Effect SQL to SQLite on Node.js using `node:sqlite`.
 *
 * This module opens a SQLite database and exposes it as both `SqliteClient` and
 * the generic Effect SQL client. It serializes access through one connection,
 * caches prepared statements, enables WAL mode unless disabled, and supports
 * database backup, and extension loading. Streaming queries and
 * `updateValues` are not supported by this driver.
 *
 * @since 4.0.0
 */
import * as Cache from "effect/Cache";
import * as Config from "effect/Config";
import * as Context from "effect/Context";
import * as Duration from "effect/Duration";
import * as Effect from "effect/Effect";
import * as Fiber from "effect/Fiber";
import { identity } from "effect/Function";
import * as Layer from "effect/Layer";
import * as Scope from "effect/Scope";
import * as Semaphore from "effect/Semaphore";
import * as Stream from "effect/Stream";
import * as Reactivity from "effect/reactivity/Reactivity";
import * as Client from "effect/sql/SqlClient";
import { classifySqliteError, SqlError } from "effect/sql/SqlError";
import * as Statement from "effect/sql/Statement";
import { backup as backupDatabase, DatabaseSync } from "node:sqlite";
const ATTR_DB_SYSTEM_NAME = "db.system.name";
/**
 * Runtime type identifier used to mark Node `SqliteClient` values.
 *
 * @category type IDs
 * @since 4.0.0
 */
export const TypeId = "~@effect/sql-sqlite-node/SqliteClient";
/**
 * Service tag for the node SQLite client implementation.
 *
 * @category services
 * @since 4.0.0
 */
export const SqliteClient = /*#__PURE__*/Context.Service("@effect/sql-sqlite-node/SqliteClient");
/**
 * Creates a scoped node SQLite client from the supplied configuration, using a single serialized connection with WAL enabled by default and exposing SQLite-specific `export`, `backup`, and `loadExtension` operations.
 *
 * @category constructors
 * @since 4.0.0
 */
export const make = options => Effect.gen(function* () {
  const compiler = Statement.makeCompilerSqlite(options.transformQueryNames);
  const transformRows = options.transformResultNames ? Statement.defaultTransforms(options.transformResultNames).array : undefined;
  const makeConnection = Effect.gen(function* () {
    const scope = yield* Effect.scope;
    const db = new DatabaseSync(options.filename, {
      readOnly: options.readonly ?? false,
      allowExtension: true
    });
    yield* Scope.addFinalizer(scope, Effect.sync(() => db.close()));
    db.enableLoadExtension(false);
    if (options.disableWAL !== true) {
      db.exec("PRAGMA journal_mode = WAL");
    }
    const prepareCache = yield* Cache.make({
      capacity: options.prepareCacheSize ?? 200,
      timeToLive: options.prepareCacheTTL ?? Duration.minutes(10),
      lookup: sql => Effect.try({
        try: () => db.prepare(sql),
        catch: cause => new SqlError({
          reason: classifyError(cause, "Failed to prepare statement", "prepare")
        })
      })
    });
    const runStatement = (statement, params, raw) => Effect.withFiber(fiber => {
      const useSafeIntegers = Context.get(fiber.context, Client.SafeIntegers);
      return Effect.try({
        try: () => {
          statement.setReadBigInts(useSafeIntegers);
          if (statement.columns().length > 0) {
            return statement.all(...params);
          }
          const result = statement.run(...params);
          return raw ? {
            changes: result.changes,
            lastInsertRowid: result.lastInsertRowid
          } : [];
        },
        catch: cause => new SqlError({
          reason: classifyError(cause, "Failed to execute statement", "execute")
        })
      });
    });
    const runStatementValues = (statement, params) => Effect.withFiber(fiber => {
      const useSafeIntegers = Context.get(fiber.context, Client.SafeIntegers);
      return Effect.try({
        try: () => {
          statement.setReadBigInts(useSafeIntegers);
          if (statement.columns().length > 0) {
            return statement.all(...params);
          }
          statement.run(...params);
          return [];
        },
        catch: cause => new SqlError({
          reason: classifyError(cause, "Failed to execute statement", "execute")
        })
      });
    });
    const runStatementValuesUnprepared = (statement, params) => Effect.withFiber(fiber => {
      const useSafeIntegers = Context.get(fiber.context, Client.SafeIntegers);
      return Effect.try({
        try: () => {
          statement.setReadBigInts(useSafeIntegers);
          statement.setReturnArrays(true);
          if (statement.columns().length > 0) {
            return statement.all(...params);
          }
          statement.run(...params);
          return [];
        },
        catch: cause => new SqlError({
          reason: classifyError(cause, "Failed to execute statement", "execute")
        })
      });
    });
    const run = (sql, params, raw = false) => Effect.flatMap(Cache.get(prepareCache, sql), s => runStatement(s, params, raw));
    const runValues = (sql, params) => Effect.acquireUseRelease(Cache.get(prepareCache, sql), statement => {
      statement.setReturnArrays(true);
      return runStatementValues(statement, params);
    }, statement => Effect.sync(() => statement.setReturnArrays(false)));
    const runValuesUnprepared = (sql, params) => runStatementValuesUnprepared(db.prepare(sql), params);
    return identity({
      execute(sql, params, transformRows) {
        return transformRows ? Effect.map(run(sql, params), transformRows) : run(sql, params);
      },
      executeRaw(sql, params) {
        return run(sql, params, true);
      },
      executeValues(sql, params) {
        return runValues(sql, params);
      },
      executeValuesUnprepared(sql, params) {
        return runValuesUnprepared(sql, params);
      },
      executeUnprepared(sql, params, transformRows) {
        const effect = runStatement(db.prepare(sql), params ?? [], false);
        return transformRows ? Effect.map(effect, transformRows) : effect;
      },
      executeStream(_sql, _params) {
        return Stream.die("executeStream not implemented");
      },
      backup(destination) {
        return Effect.suspend(() => {
          let totalPages = 0;
          return Effect.tryPromise({
            try: () => backupDatabase(db, destination, {
              progress: progress => {
                totalPages = progress.totalPages;
              }
            }).then(pages => ({
              totalPages: totalPages || pages,
              remainingPages: 0
            })),
            catch: cause => new SqlError({
              reason: classifyError(cause, "Failed to backup database", "backup")
            })
          });
        });
      },
      loadExtension(path) {
        return Effect.acquireUseRelease(Effect.sync(() => db.enableLoadExtension(true)), () => Effect.try({
          try: () => db.loadExtension(path),
          catch: cause => new SqlError({
            reason: classifyError(cause, "Failed to load extension", "loadExtension")
          })
        }), () => Effect.sync(() => db.enableLoadExtension(false)));
      }
    });
  });
  const semaphore = yield* Semaphore.make(1);
  const connection = yield* makeConnection;
  const acquirer = semaphore.withPermits(1)(Effect.succeed(connection));
  const transactionAcquirer = Effect.uninterruptibleMask(restore => {
    const fiber = Fiber.getCurrent();
    const scope = Context.getUnsafe(fiber.context, Scope.Scope);
    return Effect.as(Effect.tap(restore(semaphore.take(1)), () => Scope.addFinalizer(scope, semaphore.release(1))), connection);
  });
  return Object.assign(yield* Client.make({
    acquirer,
    compiler,
    transactionAcquirer,
    spanAttributes: [...(options.spanAttributes ? Object.entries(options.spanAttributes) : []), [ATTR_DB_SYSTEM_NAME, "sqlite"]],
    transformRows
  }), {
    [TypeId]: TypeId,
    config: options,
    backup: destination => Effect.flatMap(acquirer, _ => _.backup(destination)),
    loadExtension: path => Effect.flatMap(acquirer, _ => _.loadExtension(path))
  });
});
/**
 * Builds a layer from an Effect `Config` value, providing both the node `SqliteClient` service and the generic `SqlClient` service.
 *
 * @category layers
 * @since 4.0.0
 */
export const layerConfig = config => Layer.effectContext(Config.unwrap(config).pipe(Effect.flatMap(make), Effect.map(client => Context.make(SqliteClient, client).pipe(Context.add(Client.SqlClient, client))))).pipe(Layer.provide(Reactivity.layer));
/**
 * Builds a layer from a node SQLite client configuration, providing both `SqliteClient` and the generic `SqlClient` service.
 *
 * @category layers
 * @since 4.0.0
 */
export const layer = config => Layer.effectContext(Effect.map(make(config), client => Context.make(SqliteClient, client).pipe(Context.add(Client.SqlClient, client)))).pipe(Layer.provide(Reactivity.layer));
// internal
const classifyError = (cause, message, operation) => classifySqliteError(sqliteCauseWithErrno(cause), {
  message,
  operation
});
const sqliteCauseWithErrno = cause => {
  if (typeof cause !== "object" || cause === null || !("errcode" in cause) || "errno" in cause) {
    return cause;
  }
  const errcode = cause.errcode;
  if (typeof errcode !== "number") {
    return cause;
  }
  return Object.assign(cause, {
    errno: errcode
  });
};

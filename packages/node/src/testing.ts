/**
 * A scripted model and the contract of stores, so that a program's tests need no second package.
 *
 * @since 0.1.0
 */
export * from "@fermata/sdk/testing"

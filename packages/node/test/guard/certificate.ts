/**
 * A self-signed certificate for tests, made anew so that no private key is stored.
 */
import { generateKeyPairSync, sign } from "node:crypto"

const der = (tag: number, ...contents: ReadonlyArray<Uint8Array>): Buffer => {
  const content = Buffer.concat(contents)
  const size = content.length
  const length = size < 128 ? [size] : size < 256 ? [0x81, size] : [0x82, size >> 8, size & 255]
  return Buffer.concat([Buffer.from([tag, ...length]), content])
}
const sequence = (...contents: ReadonlyArray<Uint8Array>) => der(0x30, ...contents)
const oid = (hex: string) => der(0x06, Buffer.from(hex, "hex"))
const utcTime = (text: string) => der(0x17, Buffer.from(text))

/** A key and a certificate of this name, which is its own authority. */
export const certificateOf = (name: string): { readonly key: string; readonly cert: string } => {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" })
  const ecdsaWithSha256 = sequence(oid("2a8648ce3d040302"))
  const subject = sequence(der(0x31, sequence(oid("550403"), der(0x0c, Buffer.from(name)))))
  const alternativeNames = sequence(oid("551d11"), der(0x04, sequence(der(0x82, Buffer.from(name)))))
  const isAuthority = sequence(oid("551d13"), der(0x04, sequence(der(0x01, Buffer.from([255])))))
  const certificate = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, Buffer.from([1])),
    ecdsaWithSha256,
    subject,
    sequence(utcTime("250101000000Z"), utcTime("491231235959Z")),
    subject,
    publicKey.export({ type: "spki", format: "der" }),
    der(0xa3, sequence(isAuthority, alternativeNames))
  )
  const signature = der(0x03, Buffer.from([0]), sign("sha256", certificate, privateKey))
  const whole = sequence(certificate, ecdsaWithSha256, signature).toString("base64")
  return {
    key: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    cert: `-----BEGIN CERTIFICATE-----\n${whole.replaceAll(/.{64}/g, "$&\n")}\n-----END CERTIFICATE-----\n`
  }
}

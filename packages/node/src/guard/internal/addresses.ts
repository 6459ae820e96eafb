/**
 * Classes of IP addresses, after the special-purpose registries of IANA (RFC 6890) and the metadata services of clouds.
 */
import { BlockList, isIP } from "node:net"

/**
 * `public`: an address of the public internet. `private`: an address of this machine or a private network, which a program can allow with
 * `privateHosts`. `special`: an address that is never allowed: link-local, metadata of a cloud, multicast, documentation, and every range
 * of IPv6 that is not known to be public.
 */
export type AddressClass = "public" | "private" | "special"

/** The class of an address as the system's resolver or a URL writes it. Anything else is `special`. */
export const classOf = (address: string): AddressClass => {
  const family = isIP(address)
  if (family === 4) return classOf4(address)
  // A zone id, as in `fe80::1%eth0`, is of a link.
  if (family !== 6 || address.includes("%")) return "special"
  const groups = groupsOf(address)
  if (embedsIpv4.some((prefix) => prefix.every((group, index) => group === groups[index])))
    return classOf4(lastAsIpv4(groups))
  if (special6.check(address, "ipv6")) return "special"
  if (private6.check(address, "ipv6")) return "private"
  return public6.check(address, "ipv6") ? "public" : "special"
}

const classOf4 = (address: string): AddressClass => {
  if (special4.check(address, "ipv4")) return "special"
  return private4.check(address, "ipv4") ? "private" : "public"
}

type Subnet = readonly [network: string, prefix: number]

const subnets = (family: "ipv4" | "ipv6", list: ReadonlyArray<Subnet>): BlockList => {
  const block = new BlockList()
  for (const [network, prefix] of list) block.addSubnet(network, prefix, family)
  return block
}

const private4 = subnets("ipv4", [
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["172.16.0.0", 12],
  ["192.168.0.0", 16]
])

const special4 = subnets("ipv4", [
  ["0.0.0.0", 8],
  // Metadata of Alibaba Cloud, inside the range that carriers share.
  ["100.100.100.200", 32],
  // The wire server of Azure, which is a public address.
  ["168.63.129.16", 32],
  ["169.254.0.0", 16],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 4],
  ["240.0.0.0", 4]
])

const public6 = subnets("ipv6", [["2000::", 3]])

const private6 = subnets("ipv6", [
  ["::1", 128],
  ["fc00::", 7]
])

const special6 = subnets("ipv6", [
  // Protocol assignments: Teredo, benchmarking, ORCHID.
  ["2001::", 23],
  ["2001:db8::", 32],
  // 6to4.
  ["2002::", 16],
  ["3fff::", 20],
  ["2620:4f:8000::", 48],
  // Metadata of AWS and of Google Cloud, inside the range of private addresses.
  ["fd00:ec2::", 32],
  ["fd20:ce::", 32]
])

/** The first six groups of addresses that stand for an IPv4 address: mapped ones, and NAT64 with its well-known prefix. */
const embedsIpv4: ReadonlyArray<ReadonlyArray<number>> = [
  [0, 0, 0, 0, 0, 0xffff],
  [0x64, 0xff9b, 0, 0, 0, 0]
]

/** The eight groups of an IPv6 address. `URL` writes an embedded IPv4 address as two groups, and in short what may be zero. */
const groupsOf = (address: string): ReadonlyArray<number> => {
  const [head = "", tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split("::")
  const first = numbersOf(head)
  if (tail === undefined) return first
  const last = numbersOf(tail)
  return [...first, ...Array<number>(8 - first.length - last.length).fill(0), ...last]
}

const numbersOf = (groups: string): ReadonlyArray<number> =>
  groups === "" ? [] : groups.split(":").map((group) => Number.parseInt(group, 16))

const lastAsIpv4 = (groups: ReadonlyArray<number>): string =>
  groups
    .slice(-2)
    .flatMap((group) => [group >> 8, group & 255])
    .join(".")

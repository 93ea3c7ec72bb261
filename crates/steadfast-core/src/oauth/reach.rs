//! How far discovery may lead: a server in the open must not send us to addresses that only this machine or its
//! network can reach (2026-07-28 docs, "Security Best Practices", server-side request forgery).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where requests that a server's metadata asks for may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Anywhere: the server itself is on such an address, or the operator allows it.
    Anywhere,
    /// To public addresses by https only.
    Public,
}

/// Whether only this machine, or its own network, can be at an address (RFC 6890 and its registries).
#[must_use]
pub const fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_private_v4(v4),
        IpAddr::V6(v6) => is_private_v6(v6),
    }
}

const fn is_private_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast()
        // "This network", shared address space (RFC 6598), protocol assignments, benchmarking (RFC 2544),
        // and what is reserved (RFC 1112).
        || a == 0
        || (a == 100 && b & 0xc0 == 64)
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && b & 0xfe == 18)
        || a >= 240
}

const fn is_private_v6(address: Ipv6Addr) -> bool {
    // An IPv4 address in the clothes of an IPv6 one is judged as what it is.
    if let Some(v4) = address.to_ipv4_mapped() {
        return is_private_v4(v4);
    }
    match address.segments() {
        // NAT64 (RFC 6052) and 6to4 (RFC 3056).
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            let [a, b] = high.to_be_bytes();
            let [c, d] = low.to_be_bytes();
            is_private_v4(Ipv4Addr::new(a, b, c, d))
        }
        [first, second, ..] => {
            address.is_loopback()
                || address.is_unspecified()
                || address.is_multicast()
                // Unique local (RFC 4193), link-local, site-local, documentation, discard-only.
                || first & 0xfe00 == 0xfc00
                || first & 0xffc0 == 0xfe80
                || first & 0xffc0 == 0xfec0
                || (first == 0x2001 && second == 0x0db8)
                || first == 0x0100
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_we_can_reach_is_private_in_every_spelling() {
        for private in [
            "127.0.0.1",
            "127.9.9.9",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "100.127.255.255",
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "198.18.0.1",
            "192.0.0.8",
            "240.0.0.1",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "fec0::1",
            "ff02::1",
            "2001:db8::1",
            "::ffff:127.0.0.1",
            "::ffff:10.1.2.3",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
        ] {
            assert!(is_private(private.parse().unwrap()), "{private}");
        }
        for public in [
            "1.1.1.1",
            "100.63.0.1",
            "100.128.0.1",
            "172.32.0.1",
            "198.20.0.1",
            "2606:4700::1111",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::",
        ] {
            assert!(!is_private(public.parse().unwrap()), "{public}");
        }
    }
}

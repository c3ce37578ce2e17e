//! The address of a replica, in the form that sealed texts have it in.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Appends an address: the number of bytes of the IP address, these bytes, and the port. No address is one zero byte.
pub(super) fn write(replica: Option<SocketAddr>, bytes: &mut Vec<u8>) {
    let Some(replica) = replica else { return bytes.push(0) };
    match replica.ip() {
        IpAddr::V4(ip) => {
            bytes.push(4);
            bytes.extend(ip.octets());
        }
        IpAddr::V6(ip) => {
            bytes.push(16);
            bytes.extend(ip.octets());
        }
    }
    bytes.extend(replica.port().to_be_bytes());
}

/// Reads an address, and returns the bytes after it. `None` if it is none.
pub(super) fn read(bytes: &[u8]) -> Option<(Option<SocketAddr>, &[u8])> {
    let (length, rest) = bytes.split_first()?;
    let (ip, rest): (IpAddr, _) = match length {
        0 => return Some((None, rest)),
        4 => {
            let (ip, rest) = rest.split_first_chunk::<4>()?;
            (Ipv4Addr::from(*ip).into(), rest)
        }
        16 => {
            let (ip, rest) = rest.split_first_chunk::<16>()?;
            (Ipv6Addr::from(*ip).into(), rest)
        }
        _ => return None,
    };
    let (port, rest) = rest.split_first_chunk::<2>()?;
    Some((Some(SocketAddr::new(ip, u16::from_be_bytes(*port))), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_was_written() {
        for replica in [None, Some("10.0.0.1:80"), Some("[fd00::1:2]:65535")] {
            let (replica, mut bytes) = (replica.map(|replica| replica.parse().unwrap()), Vec::new());
            write(replica, &mut bytes);
            bytes.push(7);
            assert_eq!(read(&bytes), Some((replica, &[7][..])));
            let cut = bytes.len() - 2;
            assert_eq!(read(&bytes[..cut]).is_some_and(|(read, _)| read == replica), replica.is_none() && cut > 0);
        }
        assert_eq!(read(&[5, 0, 0, 0, 0, 0, 0, 0]), None);
    }
}

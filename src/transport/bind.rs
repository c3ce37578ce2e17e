//! Binds addresses to listen on.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::io::Errno;
use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpSocket};

/// Number of connections that wait to be accepted at most, the default of the standard library.
const BACKLOG: u32 = 128;

/// All addresses of this machine. See [`bind`].
pub const EVERYWHERE: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// Binds an address. `[::]` stands for all IPv6 and IPv4 addresses, on a machine without IPv6 too. The error names `setting` as
/// the way to choose another address.
///
/// # Errors
/// If the address is in use or not available on this machine.
pub async fn bind(address: SocketAddr, setting: &str) -> io::Result<TcpListener> {
    let bound = match address.ip() == EVERYWHERE {
        true => or_ipv4(both(address), address.port()).await,
        false => TcpListener::bind(address).await,
    };
    bound.map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::AddrInUse => "Another program uses the port, or another listener of this one: ",
            io::ErrorKind::AddrNotAvailable => "This machine does not have the address: ",
            _ => "",
        };
        io::Error::new(error.kind(), format!("cannot listen on {address}: {error}. {why}give another with {setting}"))
    })
}

/// Binds an IPv6 address so that IPv4 clients reach it too, whatever the default of the system is (`bindv6only`).
fn both(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v6()?;
    socket.set_reuseaddr(true)?;
    sockopt::set_ipv6_v6only(&socket, false)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// If the machine has no IPv6, binds all its IPv4 addresses instead.
async fn or_ipv4(bound: io::Result<TcpListener>, port: u16) -> io::Result<TcpListener> {
    let is_absent = |error: &io::Error| {
        let absent = [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL].map(Errno::raw_os_error);
        error.raw_os_error().is_some_and(|code| absent.contains(&code))
    };
    match bound {
        Err(error) if is_absent(&error) => {
            tracing::info!(port, "this machine has no IPv6: listening on IPv4 alone");
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn all_addresses_are_those_of_both_versions_of_ip_as_far_as_the_machine_has_them() {
        let everywhere = SocketAddr::new(EVERYWHERE, 0);
        let bound = bind(everywhere, "--listen ADDR").await.unwrap();
        let port = bound.local_addr().unwrap().port();
        let reach = async |ip: IpAddr| TcpStream::connect((ip, port)).await;
        reach(Ipv4Addr::LOCALHOST.into()).await.unwrap();
        let has_ipv6 = std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
        assert_eq!(reach(Ipv6Addr::LOCALHOST.into()).await.is_ok(), has_ipv6);
        let taken = bind(SocketAddr::new(EVERYWHERE, port), "--listen ADDR").await.unwrap_err();
        assert!(taken.to_string().contains("--listen ADDR"), "{taken}");
    }

    #[tokio::test]
    async fn a_machine_without_ipv6_listens_on_ipv4() {
        for absent in [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL] {
            let bound = or_ipv4(Err(absent.into()), 0).await.unwrap();
            assert_eq!(bound.local_addr().unwrap().ip(), Ipv4Addr::UNSPECIFIED);
        }
        assert!(or_ipv4(Err(Errno::ADDRINUSE.into()), 0).await.is_err());
    }
}

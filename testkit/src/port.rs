//! A port that stays ours while nobody listens on it.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;

/// An address with its port, held by a socket that is bound and never listens: connections are refused, and no other
/// test is given the port in the meantime. Whoever sets `SO_REUSEADDR` may listen on it.
#[derive(Debug)]
pub(crate) struct Port {
    address: SocketAddr,
    _held: Socket,
}

impl Port {
    /// The port of the address, or a free one where that is 0.
    pub(crate) fn reserve(address: SocketAddr) -> io::Result<Self> {
        let held = bind(address)?;
        let address = held.local_addr()?.as_socket();
        let address = address.ok_or_else(|| io::Error::other("not an internet address"))?;
        Ok(Self {
            address,
            _held: held,
        })
    }

    /// A free port of 127.0.0.1.
    pub(crate) fn on_loopback() -> io::Result<Self> {
        Self::reserve(SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Listens on it; again and again, one listener at a time.
    pub(crate) fn listen(&self) -> io::Result<TcpListener> {
        let socket = bind(self.address)?;
        socket.set_nonblocking(true)?;
        socket.listen(1024)?;
        TcpListener::from_std(socket.into())
    }
}

fn bind(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn a_held_port_refuses_until_it_is_listened_on_and_again_afterwards() {
        let port = Port::on_loopback().unwrap();
        for _ in 0..2 {
            let refused = TcpStream::connect(port.address()).await;
            let error = refused.expect_err("nobody listens");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
            let listener = port.listen().unwrap();
            TcpStream::connect(port.address()).await.unwrap();
            drop(listener);
        }
    }
}

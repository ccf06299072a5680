//! A connection from the machine to the data network, where addresses of guests are.

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use crate::settings::Settings;
use embedded_node::addresses::{Addresses, Network};
use embedded_node::error::{Error, Result};
use embedded_node::names::Names;
use embedded_node::netns;

const PATIENCE: Duration = Duration::from_secs(10);

/// The network where floating addresses are, and the fabric's own address on it.
pub fn data_network(names: Names, state: &Path) -> Result<(Network, Ipv4Addr)> {
    let (_, settings) = Settings::existing(names, state)?;
    let addresses = settings.addresses;
    Ok((addresses.data_network(), addresses.data_gateway()))
}

/// Connects to an address of the data network, from inside the fabric: the machine's own network is not
/// involved.
pub fn connect(names: Names, state: &Path, address: Ipv4Addr, port: u16) -> Result<TcpStream> {
    let (layout, settings) = Settings::existing(names, state)?;
    check(&settings.addresses, address)?;
    let fabric = layout.fabric();
    if !fabric.exists() {
        return Err(Error::said(format!(
            "the cluster is not running: start it with `{} up`",
            names.program
        )));
    }
    netns::dial(&fabric, SocketAddr::from((address, port)), PATIENCE)
}

fn check(addresses: &Addresses, address: Ipv4Addr) -> Result<()> {
    let network = addresses.data_network();
    if network.contains(address) {
        Ok(())
    } else {
        Err(Error::Refused(format!(
            "{address} is not on the data network {network}, where floating addresses are"
        )))
    }
}

/// Joins the connection with standard input and output until the other side closes it.
pub fn pipe(stream: TcpStream) -> io::Result<()> {
    let mut from = stream.try_clone()?;
    let mut to = stream;
    // Ends with the process: a read from a terminal cannot be broken off.
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    let mut out = Unbuffered(io::stdout());
    io::copy(&mut from, &mut out).map(drop)
}

/// What was read is seen at once: the other side may wait for an answer to half a line.
struct Unbuffered(io::Stdout);

impl io::Write for Unbuffered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut out = self.0.lock();
        out.write_all(bytes)?;
        out.flush()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_data_network_is_reached_this_way() {
        let addresses = Addresses::default();
        check(&addresses, Ipv4Addr::new(10, 194, 0, 77)).unwrap();
        for other in [[10, 190, 0, 1], [127, 0, 0, 1], [10, 194, 1, 1]] {
            let said = check(&addresses, other.into()).unwrap_err();
            assert!(matches!(said, Error::Refused(_)), "{said}");
        }
    }
}

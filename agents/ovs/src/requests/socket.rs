//! Packets of one network device as the kernel sees them, in both directions.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd};

use jiff::Timestamp;
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::sockopt::ReceiveTimestampns;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, bind, recvmsg,
    setsockopt, socket,
};
use nix::sys::time::TimeSpec;
use tokio::io::unix::AsyncFd;

pub(crate) struct Tap {
    socket: AsyncFd<OwnedFd>,
    device: usize,
}

/// A packet whose beginning is in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub at: Timestamp,
    /// Of the whole packet.
    pub length: usize,
}

impl Tap {
    pub(crate) fn open(port: &str) -> Result<Self, String> {
        let address = address(port).map_err(|error| format!("devices: {error}"))?;
        let address = address.ok_or_else(|| {
            format!(
                "port {port} has no network device that this agent sees: ports of DPDK have none; for all others the \
                 agent has to be in the host's network (ovsAgent.capture of the chart)"
            )
        })?;
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket =
            socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll).map_err(|error| {
                match error {
                    Errno::EPERM => {
                        "this agent may not capture: set ovsAgent.capture of the chart".to_owned()
                    }
                    error => format!("a socket for packets: {error}"),
                }
            })?;
        let listens = || -> nix::Result<()> {
            setsockopt(&socket, ReceiveTimestampns, &true)?;
            bind(socket.as_raw_fd(), &address)
        };
        listens().map_err(|error| format!("port {port}: {error}"))?;
        // SAFETY: an OwnedFd stays open and the same as long as the AsyncFd owns it.
        #[allow(unsafe_code)]
        let socket = unsafe { AsyncFd::register(socket) }.map_err(|error| error.to_string())?;
        Ok(Tap {
            socket,
            device: address.ifindex(),
        })
    }

    /// The next packet.
    pub(crate) async fn receive(&self, buffer: &mut [u8]) -> io::Result<Packet> {
        loop {
            let mut ready = self.socket.readable().await?;
            let received = ready.try_io(|socket| Ok(read(socket.get_ref(), buffer)?));
            match received {
                // Before it was bound the socket heard all devices.
                Ok(Ok((packet, device))) if device == self.device => return Ok(packet),
                Ok(Err(error)) => return Err(error),
                Ok(Ok(_)) | Err(_) => {}
            }
        }
    }
}

/// What a socket is bound to for this device.
fn address(device: &str) -> nix::Result<Option<LinkAddr>> {
    let mut all = getifaddrs()?.filter(|one| one.interface_name == device);
    Ok(all.find_map(|one| one.address?.as_link_addr().copied()))
}

fn read(socket: &OwnedFd, buffer: &mut [u8]) -> nix::Result<(Packet, usize)> {
    let mut notes = nix::cmsg_space!(TimeSpec);
    let mut into = [IoSliceMut::new(buffer)];
    // With this flag the length is that of the packet, not of what has place.
    let flags = MsgFlags::MSG_TRUNC | MsgFlags::MSG_DONTWAIT;
    let message = recvmsg::<LinkAddr>(socket.as_raw_fd(), &mut into, Some(&mut notes), flags)?;
    let stamp = message.cmsgs()?.find_map(|note| match note {
        ControlMessageOwned::ScmTimestampns(time) => time_of(time),
        _ => None,
    });
    let packet = Packet {
        at: stamp.unwrap_or_else(Timestamp::now),
        length: message.bytes,
    };
    Ok((packet, message.address.map_or(0, |address| address.ifindex())))
}

fn time_of(time: TimeSpec) -> Option<Timestamp> {
    let nanoseconds = i32::try_from(time.tv_nsec()).ok()?;
    Timestamp::new(time.tv_sec(), nanoseconds).ok()
}

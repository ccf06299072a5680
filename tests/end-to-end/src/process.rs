//! What tests need of the machine.

use std::net::TcpListener;

/// A port that was free a moment ago.
pub fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// A number by which all of these ports can be moved to free ones.
pub fn free_offset(ports: &[u16]) -> anyhow::Result<u16> {
    for _ in 0..100 {
        let Some(offset) = free_port()?.checked_sub(ports.iter().copied().min().unwrap_or(0)) else {
            continue;
        };
        let free = |port: &u16| {
            port.checked_add(offset)
                .is_some_and(|port| TcpListener::bind(("127.0.0.1", port)).is_ok())
        };
        if offset > 0 && ports.iter().all(free) {
            return Ok(offset);
        }
    }
    anyhow::bail!("no free ports")
}

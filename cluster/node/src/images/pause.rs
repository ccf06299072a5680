//! The sandbox image: one program of a few bytes that holds a pod's namespaces.

use std::path::Path;

use super::{store, tiny};
use crate::containerd::PAUSE;
use crate::error::{Error, Result};

/// Ignores SIGCHLD, so that the kernel reaps in shared process namespaces, and sleeps.
#[rustfmt::skip]
const X86_64: &[u8] = &[
    0x6a, 0x00, 0x6a, 0x00, 0x6a, 0x00, // push 0, three times: mask, restorer, flags
    0x6a, 0x01,                         // push SIG_IGN
    0xbf, 17, 0, 0, 0,                  // mov edi, SIGCHLD
    0x48, 0x89, 0xe6,                   // mov rsi, rsp
    0x31, 0xd2,                         // xor edx, edx
    0x41, 0xba, 8, 0, 0, 0,             // mov r10d, size of the mask
    0xb8, 13, 0, 0, 0,                  // mov eax, rt_sigaction
    0x0f, 0x05,                         // syscall
    0xb8, 34, 0, 0, 0,                  // mov eax, pause
    0x0f, 0x05,                         // syscall
    0xeb, 0xf7,                         // jump back to mov eax, pause
];

/// A static ELF program with the given code.
fn elf(machine: u16, code: &[u8]) -> Vec<u8> {
    const BASE: u64 = 0x40_0000;
    const HEADERS: u64 = 64 + 56;
    let mut file = Vec::new();
    file.extend_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    file.extend_from_slice(&2u16.to_le_bytes());
    file.extend_from_slice(&machine.to_le_bytes());
    file.extend_from_slice(&1u32.to_le_bytes());
    file.extend_from_slice(&(BASE + HEADERS).to_le_bytes());
    file.extend_from_slice(&64u64.to_le_bytes());
    file.extend_from_slice(&0u64.to_le_bytes());
    file.extend_from_slice(&0u32.to_le_bytes());
    for half in [64u16, 56, 1, 0, 0, 0] {
        file.extend_from_slice(&half.to_le_bytes());
    }
    let size = HEADERS + code.len() as u64;
    file.extend_from_slice(&1u32.to_le_bytes());
    file.extend_from_slice(&5u32.to_le_bytes());
    for word in [0, BASE, BASE, size, size, 0x1000] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    file.extend_from_slice(code);
    file
}

/// Writes the sandbox image into an OCI layout.
pub fn write_pause(directory: &Path) -> Result<()> {
    let program = match std::env::consts::ARCH {
        "x86_64" => elf(62, X86_64),
        other => {
            return Err(Error::said(format!(
                "embedded nodes run on x86_64 only, this machine is {other}"
            )));
        }
    };
    let layer = tiny::layer(&[tiny::Entry::program("pause", &program)])?;
    let config = serde_json::json!({ "Entrypoint": ["/pause"] });
    store::add(directory, PAUSE, &layer, config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_program_sleeps() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pause");
        std::fs::write(&path, elf(62, X86_64)).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut child = std::process::Command::new(&path).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(100));
        assert!(child.try_wait().unwrap().is_none(), "it runs");
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(status.contains("State:\tS"), "it sleeps: {status}");
        let ignored = status.lines().find_map(|l| l.strip_prefix("SigIgn:\t")).unwrap();
        let ignored = u64::from_str_radix(ignored, 16).unwrap();
        assert_ne!(ignored & (1 << 16), 0, "SIGCHLD is ignored");
    }
}

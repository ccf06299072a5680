//! The sandbox image: one program of some 230 bytes that holds a pod's namespaces, written out
//! here so that no compiler or C library is needed for it.
//!
//! It blocks SIGINT, SIGTERM and SIGCHLD and waits for them: on SIGCHLD it reaps, on the others it
//! exits. Blocked signals reach process 1 as well, without a handler. With an argument it tells its
//! version.

use std::path::Path;

use super::{store, tiny};
use crate::error::{Error, Result};
use crate::names::Names;

/// x86-64:
/// ```text
///         mov  (%rsp),%edi            argc
///         dec  %edi
///         jne  version
///         push $0x14002               the set: SIGINT, SIGTERM, SIGCHLD
///         rt_sigprocmask(SIG_BLOCK, %rsp, 0, 8)
/// wait:   rt_sigtimedwait(%rsp, 0, 0, 8)
///         test %eax,%eax
///         jle  wait                   interrupted
///         cmp  $17,%eax               SIGCHLD
///         jne  quit
/// reap:   wait4(-1, 0, WNOHANG, 0)
///         test %eax,%eax
///         jg   reap
///         jmp  wait
/// version: write(1, text, 10)
/// quit:   exit(0)
/// text:   "pause 1.0\n"
/// ```
const X86_64: &[u8] = &[
    0x8b, 0x3c, 0x24, 0xff, 0xcf, 0x75, 0x46, 0x68, 0x02, 0x40, 0x01, 0x00, 0x6a, 0x0e, 0x58, 0x31, 0xff,
    0x48, 0x89, 0xe6, 0x31, 0xd2, 0x6a, 0x08, 0x41, 0x5a, 0x0f, 0x05, 0xb8, 0x80, 0x00, 0x00, 0x00, 0x48,
    0x89, 0xe7, 0x31, 0xf6, 0x31, 0xd2, 0x6a, 0x08, 0x41, 0x5a, 0x0f, 0x05, 0x85, 0xc0, 0x7e, 0xea, 0x83,
    0xf8, 0x11, 0x75, 0x27, 0x6a, 0x3d, 0x58, 0x6a, 0xff, 0x5f, 0x31, 0xf6, 0x6a, 0x01, 0x5a, 0x45, 0x31,
    0xd2, 0x0f, 0x05, 0x85, 0xc0, 0x7f, 0xec, 0xeb, 0xcf, 0x6a, 0x01, 0x58, 0x89, 0xc7, 0x48, 0x8d, 0x35,
    0x0c, 0x00, 0x00, 0x00, 0x6a, 0x0a, 0x5a, 0x0f, 0x05, 0x6a, 0x3c, 0x58, 0x31, 0xff, 0x0f, 0x05, 0x70,
    0x61, 0x75, 0x73, 0x65, 0x20, 0x31, 0x2e, 0x30, 0x0a,
];

/// aarch64: the same, call by call.
const AARCH64: &[u8] = &[
    0xe0, 0x03, 0x40, 0xf9, 0x1f, 0x04, 0x00, 0xf1, 0xa1, 0x03, 0x00, 0x54, 0x40, 0x00, 0x88, 0xd2, 0x20,
    0x00, 0xa0, 0xf2, 0xe0, 0x0f, 0x1f, 0xf8, 0x00, 0x00, 0x80, 0xd2, 0xe1, 0x03, 0x00, 0x91, 0x02, 0x00,
    0x80, 0xd2, 0x03, 0x01, 0x80, 0xd2, 0xe8, 0x10, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4, 0xe0, 0x03, 0x00,
    0x91, 0x01, 0x00, 0x80, 0xd2, 0x02, 0x00, 0x80, 0xd2, 0x03, 0x01, 0x80, 0xd2, 0x28, 0x11, 0x80, 0xd2,
    0x01, 0x00, 0x00, 0xd4, 0x1f, 0x00, 0x00, 0xf1, 0x2d, 0xff, 0xff, 0x54, 0x1f, 0x44, 0x00, 0xf1, 0xe1,
    0x01, 0x00, 0x54, 0x00, 0x00, 0x80, 0x92, 0x01, 0x00, 0x80, 0xd2, 0x22, 0x00, 0x80, 0xd2, 0x03, 0x00,
    0x80, 0xd2, 0x88, 0x20, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4, 0x1f, 0x00, 0x00, 0xf1, 0x2c, 0xff, 0xff,
    0x54, 0xee, 0xff, 0xff, 0x17, 0x20, 0x00, 0x80, 0xd2, 0xe1, 0x00, 0x00, 0x10, 0x42, 0x01, 0x80, 0xd2,
    0x08, 0x08, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4, 0x00, 0x00, 0x80, 0xd2, 0xa8, 0x0b, 0x80, 0xd2, 0x01,
    0x00, 0x00, 0xd4, 0x70, 0x61, 0x75, 0x73, 0x65, 0x20, 0x31, 0x2e, 0x30, 0x0a,
];

const LOAD: u64 = 0x40_0000;
const HEADERS: u64 = 64 + 56;

/// The program for an architecture as Rust names it; `None` where it is not written yet.
fn program(architecture: &str) -> Option<Vec<u8>> {
    match architecture {
        "x86_64" => Some(elf(62, X86_64)),
        "aarch64" => Some(elf(183, AARCH64)),
        _ => None,
    }
}

/// An executable with one segment that is the whole file.
fn elf(machine: u16, code: &[u8]) -> Vec<u8> {
    let size = HEADERS + code.len() as u64;
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    file.extend(2_u16.to_le_bytes()); // executable
    file.extend(machine.to_le_bytes());
    file.extend(1_u32.to_le_bytes());
    file.extend((LOAD + HEADERS).to_le_bytes()); // entry
    file.extend(64_u64.to_le_bytes()); // program headers
    file.extend(0_u64.to_le_bytes()); // no section headers
    file.extend(0_u32.to_le_bytes());
    for field in [64_u16, 56, 1, 0, 0, 0] {
        file.extend(field.to_le_bytes());
    }
    file.extend(1_u32.to_le_bytes()); // load
    file.extend(5_u32.to_le_bytes()); // read, execute
    for field in [0, LOAD, LOAD, size, size, 0x1_0000] {
        file.extend(u64::to_le_bytes(field));
    }
    file.extend(code);
    file
}

/// Writes the sandbox image into an OCI layout of its own, again when the old one is damaged.
pub fn write_pause(directory: &Path, names: Names) -> Result<()> {
    let name = names.pause();
    let architecture = std::env::consts::ARCH;
    let program = program(architecture).ok_or_else(|| {
        Error::said(format!(
            "embedded nodes run on x86_64 and aarch64, this machine is {architecture}"
        ))
    })?;
    let layer = tiny::layer(&[tiny::Entry::program("pause", &program)])?;
    let config = serde_json::json!({ "Entrypoint": ["/pause"] });
    if store::add(directory, &name, &layer, config.clone()).is_ok() {
        return Ok(());
    }
    std::fs::remove_dir_all(directory).map_err(Error::file("remove", directory))?;
    store::add(directory, &name, &layer, config)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Child, Command};
    use std::time::{Duration, Instant};

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    use super::*;
    use crate::names::EXAMPLE;

    fn exit_code(child: &mut Child) -> Option<i32> {
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end {
            if let Some(status) = child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        child.kill().unwrap();
        None
    }

    /// Runs a program for this machine's architecture, or for another one where QEMU can emulate it.
    fn command(architecture: &str, path: &std::path::Path) -> Option<Command> {
        if architecture == std::env::consts::ARCH {
            return Some(Command::new(path));
        }
        let emulator = format!("qemu-{architecture}");
        crate::process::program(&emulator).is_some().then(|| {
            let mut command = Command::new(emulator);
            command.arg(path);
            command
        })
    }

    #[test]
    fn a_damaged_layout_is_written_anew() {
        let directory = tempfile::tempdir().unwrap();
        let layout = directory.path().join("builtin");
        write_pause(&layout, EXAMPLE).unwrap();
        fs::write(layout.join("index.json"), "{ \"schemaVersion\"").unwrap();
        for blob in fs::read_dir(layout.join("blobs/sha256")).unwrap().flatten() {
            fs::write(blob.path(), "cut").unwrap();
        }
        write_pause(&layout, EXAMPLE).unwrap();
        let image = store::find(&layout, &EXAMPLE.pause()).unwrap().unwrap();
        assert_eq!(image.layers.len(), 1);
    }

    #[test]
    fn it_waits_tells_its_version_and_ends_on_a_signal() {
        let directory = tempfile::tempdir().unwrap();
        for architecture in ["x86_64", "aarch64"] {
            let path = directory.path().join(architecture);
            fs::write(&path, program(architecture).unwrap()).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            let Some(mut version) = command(architecture, &path) else {
                continue;
            };
            let version = version.arg("--version").output().unwrap();
            assert_eq!(
                (version.status.code(), version.stdout.as_slice()),
                (Some(0), b"pause 1.0\n".as_slice())
            );

            for signal in [Signal::SIGTERM, Signal::SIGINT] {
                let mut child = command(architecture, &path).unwrap().spawn().unwrap();
                std::thread::sleep(Duration::from_millis(300));
                let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
                kill(pid, Signal::SIGCHLD).unwrap();
                std::thread::sleep(Duration::from_millis(100));
                assert!(
                    child.try_wait().unwrap().is_none(),
                    "{architecture}: it ended on SIGCHLD"
                );
                kill(pid, signal).unwrap();
                assert_eq!(exit_code(&mut child), Some(0), "{architecture} {signal}");
            }
        }
    }
}

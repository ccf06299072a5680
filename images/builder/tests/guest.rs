//! The guest boots under QEMU without acceleration: it takes name and key from the metadata service
//! and from a config drive, answers by ssh, and obeys the power button.
//!
//! `cargo test -p c5c3-image-builder --test guest -- --ignored` builds what it needs: root, mmdebstrap
//! and a package archive.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use c5c3_image_builder::{Call, Images, STORE};

const RELEASE: &str = "2025.2";
const LIMIT: Duration = Duration::from_secs(240);
/// Seconds from the start of its kernel until it is ready, with an emulated processor.
const BOOTS_WITHIN: f32 = 10.0;
const METADATA: &str = r#"{"public_keys": {"k": "ssh-ed25519 AAAAC3Nza test\n"}, "keys": [{"data": "ssh-ed25519 AAAAC3Nza test\n"}], "hostname": "vm1.novalocal", "name": "vm1"}"#;

/// Answers one request as the metadata service does.
const SERVICE: &str = r#"#!/bin/sh
read -r method path rest
while read -r line; do case "$line" in ?) break ;; esac; done
case "$path" in
    */meta_data.json) status='200 OK'; body=$(cat "${0%/*}/meta_data.json") ;;
    *) status='404 Not Found'; body= ;;
esac
printf 'HTTP/1.0 %s\r\nContent-Length: %s\r\n\r\n%s' "$status" "${#body}" "$body"
"#;

fn call(words: &[String]) -> Call {
    Call {
        arguments: words.to_vec(),
        environment: Vec::new(),
    }
}

fn until(what: &str, mut test: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !test() {
        assert!(Instant::now() < end, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Starts the guest, waits for its ready line, lets `meet` look at it, presses the power button.
fn boot(images: &Images, directory: &Path, more: &[String], meet: impl FnOnce()) -> String {
    let path = |name: &str| directory.join(name).display().to_string();
    let serial = directory.join("serial");
    let _ = fs::remove_file(&serial);
    let mut words: Vec<String> = format!(
        "timeout {} qemu-system-x86_64 -machine pc,accel=tcg -m 128 -nodefaults -display none -no-reboot \
         -serial file:{} -monitor unix:{},server,nowait -drive file={},format=raw,if=virtio,snapshot=on",
        LIMIT.as_secs() * 2,
        path("serial"),
        path("monitor"),
        path("guest.raw")
    )
    .split_whitespace()
    .map(str::to_owned)
    .collect();
    words.extend_from_slice(more);
    let said = || fs::read_to_string(&serial).unwrap_or_default();
    std::thread::scope(|scope| {
        let machine = scope.spawn(|| images.run(RELEASE, "libvirt", &call(&words)).unwrap());
        until("the ready line", || {
            assert!(!machine.is_finished(), "QEMU ended: {}", said());
            said().contains("c5c3-guest: ready")
        });
        meet();
        let mut monitor = UnixStream::connect(directory.join("monitor")).unwrap();
        monitor.write_all(b"system_powerdown\n").unwrap();
        until("the end of the guest", || machine.is_finished());
        assert!(machine.join().unwrap().success());
    });
    assert!(said().contains("c5c3-guest: power off"), "{}", said());
    said()
}

/// On the guest's own clock: "c5c3-guest: ready … at 4.2 s".
fn seconds_to_ready(said: &str) -> Option<f32> {
    let line = said.lines().find(|line| line.contains("c5c3-guest: ready"))?;
    let (_, rest) = line.rsplit_once(" at ")?;
    rest.trim().trim_end_matches('s').trim().parse().ok()
}

#[test]
fn the_ready_line_tells_the_seconds() {
    let line = "x\nc5c3-guest: ready hostname=vm1 keys=1 at 4.25 s\r\ny";
    assert_eq!(seconds_to_ready(line), Some(4.25));
    assert_eq!(seconds_to_ready("c5c3-guest: power off"), None);
}

#[test]
#[ignore = "builds images and boots a machine"]
fn the_guest_knows_its_name_and_key_answers_by_ssh_and_obeys_the_power_button() {
    let store = std::env::var_os("C5C3_IMAGE_STORE").map_or_else(|| PathBuf::from(STORE), PathBuf::from);
    let images = Images::at(&store);
    let names = ["guest", "libvirt", "nova"].map(str::to_owned);
    images.build(RELEASE, &names, |_| {}).unwrap();
    // Below /tmp, which programs of images see at the same place.
    let directory = tempfile::tempdir_in("/tmp").unwrap();
    let file = |name: &str| directory.path().join(name);
    let disk = images.disk(RELEASE, "guest").unwrap();
    assert!(fs::metadata(&disk).unwrap().len() < 60_000_000);
    fs::copy(disk, file("guest.raw")).unwrap();
    fs::create_dir_all(file("drive/openstack/latest")).unwrap();
    fs::write(file("drive/openstack/latest/meta_data.json"), METADATA).unwrap();
    fs::write(file("meta_data.json"), METADATA).unwrap();
    fs::write(file("service"), SERVICE).unwrap();
    fs::set_permissions(file("service"), fs::Permissions::from_mode(0o755)).unwrap();

    // Nothing of this network leaves QEMU but the two forwarded ports.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let network = format!(
        "user,id=n,restrict=on,net=169.254.169.0/24,host=169.254.169.2,dhcpstart=169.254.169.15,\
         hostfwd=tcp:127.0.0.1:{port}-:22,guestfwd=tcp:169.254.169.254:80-cmd:{}",
        file("service").display()
    );
    let more = ["-netdev", &network, "-device", "virtio-net-pci,netdev=n"].map(str::to_owned);
    let said = boot(&images, directory.path(), &more, || {
        let mut banner = [0; 8];
        let mut ssh = TcpStream::connect(("127.0.0.1", port)).unwrap();
        ssh.set_read_timeout(Some(LIMIT)).unwrap();
        ssh.read_exact(&mut banner).unwrap();
        assert_eq!(&banner, b"SSH-2.0-");
    });
    assert!(said.contains("address 169.254.169.15/24"), "{said}");
    assert!(said.contains("ready hostname=vm1.novalocal keys=1 at"), "{said}");
    let took = seconds_to_ready(&said);
    assert!(
        took.is_some_and(|took| took <= BOOTS_WITHIN),
        "{took:?} s: {said}"
    );

    // Without a network card, from a config drive that is made as Nova makes it.
    let [drive, iso] = ["drive", "drive.iso"].map(|name| file(name).display().to_string());
    let options = "-ldots -allow-lowercase -allow-multidot -l -publisher c5c3 -quiet -J -r -V config-2";
    let mut words = vec!["genisoimage", "-o", &iso];
    words.extend(options.split(' '));
    words.push(&drive);
    let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    let made = images.run(RELEASE, "nova", &call(&words)).unwrap();
    assert!(made.success());
    let more = ["-drive", &format!("file={iso},media=cdrom,if=ide,format=raw")].map(str::to_owned);
    let said = boot(&images, directory.path(), &more, || {});
    assert!(said.contains("ready hostname=vm1.novalocal keys=1 at"), "{said}");
}

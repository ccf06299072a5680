//! `c5c3 demo`.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use c5c3_image_builder::Images;
use clap::Args;
use machine::connect;

use crate::commands::block_on;
use crate::commands::cluster::NAMES;
use crate::failure::Failure;
use crate::guests::demo::{self, SERVER, Wish};
use crate::guests::network::Outside;
use crate::guests::{Here, key, key_file};
use crate::output::{print, say_when};

/// The guest's port of ssh.
const SSH: u16 = 22;

/// Create a server to try the cloud: image, flavour, networks, key and floating address.
#[derive(Args)]
#[command(after_help = "Examples:
  c5c3 demo                     reuses what exists and creates the rest
  c5c3 ssh demo                 logs in to it
  c5c3 console demo             prints its console

It returns when the guest answers. Names: image guest, flavour tiny, networks public and demo,
router, security group and server demo, key c5c3-demo (kept in the state directory).
Exit code 4: the guest is not ready in time; run the command again to keep waiting.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    here: Here,
    /// How long to wait for the server and its guest.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    wait: u64,
    /// Image store, shared with `c5c3 image`.
    #[arg(
        long,
        value_name = "DIRECTORY",
        env = "C5C3_IMAGE_STORE",
        default_value = c5c3_image_builder::STORE
    )]
    image_store: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let start = Instant::now();
    let say = move |line: &str| say_when(start, line);
    let here = &arguments.here;
    let state = here.place.path();
    let login = block_on(here.login())?;
    let (network, gateway) = connect::data_network(NAMES, state)?;
    let wish = Wish {
        disk: disk(&arguments.image_store, &login.release, say)?,
        outside: Outside {
            range: network.to_string(),
            gateway,
        },
        public_key: key::public(&key_file(state))?,
        wait: Duration::from_secs(arguments.wait),
    };
    let session = login.session()?;
    let made = block_on(demo::demo(&session, &wish, &say))?;
    let left = wish.wait.saturating_sub(start.elapsed());
    answers(state, made.address, left)?;
    say(&format!("{} answers on port {SSH}", made.address));
    print(&farewell(&here.options(), made.address))
}

fn farewell(options: &str, address: Ipv4Addr) -> String {
    format!(
        "\nThe server {SERVER} runs at {address}.\n\nLog in:\n  c5c3 ssh{options} {SERVER}\n\n\
         Inspect it:\n  c5c3 console{options} {SERVER}\n  c5c3 openstack{options} server show {SERVER}\n\n\
         Delete it:\n  c5c3 openstack{options} server delete {SERVER}\n"
    )
}

/// The guest's disk; `up` has built it, unless the cloud was made without.
fn disk(store: &Path, release: &str, say: impl Fn(&str) + Send + Sync + 'static) -> Result<PathBuf, Failure> {
    const NAME: &str = "guest";
    let images = Images::at(store);
    if let Ok(disk) = images.disk(release, NAME) {
        return Ok(disk);
    }
    images.build(release, &[NAME.to_owned()], move |line| say(line.trim_start()))?;
    Ok(images.disk(release, NAME)?)
}

/// A connection as ssh makes it. The path through the router may take a moment to be there.
fn answers(state: &Path, address: Ipv4Addr, patience: Duration) -> Result<(), Failure> {
    let began = Instant::now();
    loop {
        match connect::connect(NAMES, state, address, SSH) {
            Ok(_) => return Ok(()),
            Err(error) if began.elapsed() > patience => {
                return Err(Failure::NotReady(format!(
                    "the guest is ready, but {address} does not answer on port {SSH}: {error}"
                )));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(500)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_name_the_cloud() {
        let text = farewell(" --state-dir /s", Ipv4Addr::new(10, 194, 0, 120));
        assert!(text.contains("\n  c5c3 ssh --state-dir /s demo\n"), "{text}");
        assert!(text.contains("runs at 10.194.0.120"), "{text}");
    }
}

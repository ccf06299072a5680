//! `c5c3 console`.

use std::time::Duration;

use clap::Args;
use openstack_client::{Compute, Operating};

use crate::commands::block_on;
use crate::failure::Failure;
use crate::guests::console::news;
use crate::guests::{self, Here, failed};
use crate::output::print;

const POLL: Duration = Duration::from_secs(1);

/// Print a server's console log, or a browser address for its screen.
#[derive(Args)]
#[command(after_help = "Examples:
  c5c3 console demo
  c5c3 console --follow demo     follow it until Ctrl-C
  c5c3 console --vnc demo        an address for a browser (noVNC)")]
pub(crate) struct Arguments {
    #[command(flatten)]
    here: Here,
    /// Follow new output.
    #[arg(long, short)]
    follow: bool,
    /// Print an address that opens its screen and keyboard in a browser; it is valid for ten minutes.
    #[arg(long, conflicts_with = "follow")]
    vnc: bool,
    /// Name or id of the server.
    server: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    block_on(async {
        let session = arguments.here.session().await?;
        let server = guests::find(&session, &arguments.server).await?;
        if arguments.vnc {
            let url = session.screen(&server.id).await.map_err(failed)?;
            return print(&format!("{url}\n"));
        }
        let mut before = String::new();
        loop {
            let now = session.console(&server.id).await.map_err(failed)?;
            print(news(&before, &now))?;
            if !arguments.follow {
                return Ok(());
            }
            before = now;
            tokio::time::sleep(POLL).await;
        }
    })
}

//! `c5c3 openstack` and `c5c3 env`: use a cloud as its administrator.

use std::path::PathBuf;
use std::process::ExitStatus;

use c5c3_image_builder::{Call, Images};
use clap::Args;

use crate::cloud::access::Target;
use crate::cloud::login;
use crate::commands::block_on;
use crate::failure::Failure;
use crate::output::{print, say_aside};

/// Run the openstack client from our image, logged in as the administrator.
#[derive(Args)]
#[command(after_help = "Examples:
  c5c3 openstack token issue
  c5c3 openstack image create --disk-format raw --file disk.img disk
  c5c3 openstack -- --help             help of the openstack command

Options of c5c3 come first; from the first other word on, all belongs to the openstack command.")]
pub(crate) struct Openstack {
    #[command(flatten)]
    target: Target,
    /// Image store, shared with `c5c3 image`.
    #[arg(
        long,
        value_name = "DIRECTORY",
        env = "C5C3_IMAGE_STORE",
        default_value = c5c3_image_builder::STORE
    )]
    image_store: PathBuf,
    /// Arguments of the openstack command.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<String>,
}

/// Print the administrator's credentials as shell variables.
#[derive(Args)]
#[command(after_help = "Examples:
  eval \"$(c5c3 env)\"        any OpenStack client then works in this shell

The output contains the password.")]
pub(crate) struct Env {
    #[command(flatten)]
    target: Target,
}

fn logged_in(target: &Target) -> Result<login::Login, Failure> {
    block_on(async { login::read(&target.client().await?, &target.namespace).await })
}

/// The exit code of the command is ours.
pub(crate) fn run(arguments: &Openstack) -> Result<(), Failure> {
    let login = logged_in(&arguments.target)?;
    let call = Call {
        arguments: arguments.arguments.clone(),
        environment: login
            .variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect(),
    };
    let images = Images::at(&arguments.image_store);
    let name = "openstackclient";
    let ended = match images.run(&login.release, name, &call) {
        Err(c5c3_image_builder::Error::NoImage { .. }) => {
            let release = &login.release;
            images.build(release, &[name.to_owned()], say_aside)?;
            images.run(release, name, &call)?
        }
        other => other?,
    };
    passed_on(ended)
}

fn passed_on(ended: ExitStatus) -> Result<(), Failure> {
    match ended.code() {
        Some(0) => Ok(()),
        // The command has said why.
        Some(code) => std::process::exit(code),
        None => Err(Failure::Failed(anyhow::anyhow!(
            "the openstack command was killed: {ended}"
        ))),
    }
}

pub(crate) fn env(arguments: &Env) -> Result<(), Failure> {
    print(&login::exports(&logged_in(&arguments.target)?))
}

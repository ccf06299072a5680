//! `c5c3`: one binary, every role a subcommand. Arguments and wiring, nothing else.

// Both panic when nobody reads any more; `output` has what does not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

#[cfg(test)]
mod chart_tests;
mod cloud;
#[cfg(test)]
mod command_tests;
mod commands;
mod doctor;
mod failure;
mod guests;
mod output;
mod roles;
#[cfg(test)]
mod service_tests;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::Failure;

const EXAMPLES: &str = "\
Examples:
  c5c3 up                                             a cloud on this machine
  c5c3 status                                         is it healthy, and if not, why
  c5c3 demo                                           a server on it, with an address
  c5c3 ssh demo                                       log in to that server
  c5c3 openstack token issue                          use the OpenStack client
  c5c3 doctor --context production                    can an existing cluster run a cloud?
  c5c3 crds | kubectl apply --server-side -f -        install every kind
  c5c3 crds -o table                                  list the kinds
  c5c3 crds --group c5c3.io --kind SecretAggregate    one definition
  c5c3 rbac | kubectl apply --server-side -f -        install the operators' accounts
  c5c3 operator control-plane --context production    run an operator here
  c5c3 image build keystone                           build an image and its base layers
  c5c3 completions bash > /etc/bash_completion.d/c5c3

Exit codes:
  0  done                     3  not found
  1  failed                   4  not ready, or not in time
  2  wrong arguments";

/// Must be the first argument; see `main`.
const NODE_INIT: &str = "node-init";

/// CobaltCore: OpenStack on Kubernetes, in one binary.
#[derive(Parser)]
#[command(name = "c5c3", version, after_help = EXAMPLES, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Up(commands::cluster::up::Arguments),
    Down(commands::cluster::down::Arguments),
    Status(commands::cloud::status::Arguments),
    Explain(commands::cloud::explain::Arguments),
    Doctor(commands::doctor::Arguments),
    Plan(commands::cloud::plan::Arguments),
    Logs(commands::cloud::logs::Arguments),
    Demo(commands::cloud::demo::Arguments),
    Test(commands::cloud::test::Arguments),
    Ssh(commands::cloud::ssh::Arguments),
    Console(commands::cloud::console::Arguments),
    Openstack(commands::cloud::openstack::Openstack),
    Env(commands::cloud::openstack::Env),
    Node(commands::cluster::node::Arguments),
    /// List hypervisors, drain them and return them to service.
    Hypervisor(commands::hypervisor::Arguments),
    /// Ask the switch of a host what it does with packets.
    Ovs(commands::ovs::Arguments),
    /// The process behind `up`.
    #[command(hide = true)]
    Daemon(commands::cluster::daemon::Arguments),
    /// Process 1 of a node.
    #[command(hide = true)]
    NodeInit {
        arguments: Vec<String>,
    },
    /// Print the custom resource definitions of the API.
    Crds(commands::crds::Arguments),
    /// Print the operators' accounts and their rights.
    Rbac(commands::rbac::Arguments),
    /// Run an operator against a cluster.
    Operator(commands::operator::Arguments),
    /// Run an agent of a hypervisor node.
    Agent(commands::agent::Arguments),
    Image(c5c3_image_builder::ImageCommand),
    Bundle(c5c3_image_builder::BundleCommand),
    LabelsInjector(commands::labels_injector::Arguments),
    Cortex(commands::cortex::Arguments),
    Prysm(c5c3_prysm::PrysmCommand),
    /// Print the version.
    Version(commands::version::Arguments),
    /// Print the completion script of a shell.
    Completions(commands::completions::Arguments),
}

impl Cli {
    fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Up(arguments) => commands::cluster::up::run(&arguments),
            Command::Down(arguments) => commands::cluster::down::run(&arguments),
            Command::Status(arguments) => commands::cloud::status::run(&arguments),
            Command::Explain(arguments) => commands::cloud::explain::run(&arguments),
            Command::Doctor(arguments) => commands::doctor::run(&arguments),
            Command::Plan(arguments) => commands::cloud::plan::run(&arguments),
            Command::Logs(arguments) => commands::cloud::logs::run(&arguments),
            Command::Demo(arguments) => commands::cloud::demo::run(&arguments),
            Command::Test(arguments) => commands::cloud::test::run(&arguments),
            Command::Ssh(arguments) => commands::cloud::ssh::run(&arguments),
            Command::Console(arguments) => commands::cloud::console::run(&arguments),
            Command::Openstack(arguments) => commands::cloud::openstack::run(&arguments),
            Command::Env(arguments) => commands::cloud::openstack::env(&arguments),
            Command::Node(arguments) => commands::cluster::node::run(&arguments),
            Command::Hypervisor(arguments) => commands::hypervisor::run(&arguments),
            Command::Ovs(arguments) => commands::ovs::run(&arguments),
            Command::Daemon(arguments) => commands::cluster::daemon::run(&arguments),
            // `main` has taken it: it must run before any thread.
            Command::NodeInit { .. } => Ok(()),
            Command::Crds(arguments) => commands::crds::run(&arguments),
            Command::Rbac(arguments) => commands::rbac::run(&arguments),
            Command::Operator(arguments) => commands::operator::run(arguments),
            Command::Agent(arguments) => commands::agent::run(arguments),
            Command::Image(arguments) => commands::image::run(arguments),
            Command::Bundle(arguments) => commands::image::bundle(arguments),
            Command::LabelsInjector(arguments) => commands::labels_injector::run(arguments),
            Command::Cortex(arguments) => commands::cortex::run(arguments),
            Command::Prysm(arguments) => commands::prysm::run(arguments),
            Command::Version(arguments) => commands::version::run(&arguments),
            Command::Completions(arguments) => commands::completions::run::<Cli>(&arguments),
        }
    }
}

fn main() -> ExitCode {
    // A node's process 1 enters namespaces, which only a single thread can.
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|name| name == NODE_INIT) {
        return embedded_node::init::main(&arguments[2..]);
    }
    // An error means that a provider is installed already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    match Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

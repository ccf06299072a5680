//! `c5c3 ovs …`: ask the switch of a host, through the agent beside it.

use std::fmt::Debug;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use c5c3_api::common::LocalRef;
use c5c3_api::ovs::{
    CaptureFilter, CaptureProtocol, OvsCapture, OvsCaptureSpec, OvsNode, OvsTrace, OvsTraceSpec, Phase,
};
use clap::{Args, Subcommand, ValueEnum};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::cloud::access::Target;
use crate::commands::block_on;
use crate::failure::Failure;
use crate::output::{print, say_aside};
use crate::roles;

/// Seconds between checks.
const POLL: Duration = Duration::from_millis(500);
/// Beside the time that a request itself takes.
const PATIENCE: Duration = Duration::from_secs(30);
const FILE: &str = "capture.pcap";

#[derive(Args)]
#[command(after_help = "Examples:
  c5c3 ovs trace node-2 in_port=tap3b1c3a4e-6f,icmp,nw_src=10.0.0.5,nw_dst=10.0.0.6
  c5c3 ovs capture node-2 tap3b1c3a4e-6f | tcpdump -nr -")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show what the switch of a host would do with a packet. No packet is sent.
    #[command(after_help = "Examples:
  c5c3 ovs trace node-2 in_port=tap3b1c3a4e-6f,icmp,nw_src=10.0.0.5,nw_dst=10.0.0.6
  c5c3 ovs trace node-2 in_port=eth1,arp --bridge br-phy

Exit codes:
  0  the switch answered      3  no such switch
  4  it gave no answer, or not in time")]
    Trace(Trace),
    /// Record packets of a port: a file for tcpdump or Wireshark, headers only unless told otherwise.
    #[command(after_help = "Examples:
  c5c3 ovs capture node-2 tap3b1c3a4e-6f | tcpdump -nr -
  c5c3 ovs capture node-2 tap3b1c3a4e-6f --protocol udp --port 53 --write dns.pcap
  c5c3 ovs capture node-2 eth1 --host 10.0.0.5 --packets 1000 --seconds 120 --write a.pcap

Exit codes:
  0  the file is there        3  no such switch
  4  there is none, or not in time")]
    Capture(Capture),
}

#[derive(Args)]
struct At {
    #[command(flatten)]
    target: Target,
    /// Namespace of the agents.
    #[arg(long, default_value = roles::NAMESPACE)]
    agents_namespace: String,
    /// Leave the request and its result in the cluster, until the agent deletes it after an hour.
    #[arg(long)]
    keep: bool,
    /// Name of the host.
    node: String,
}

#[derive(Args)]
struct Trace {
    #[command(flatten)]
    at: At,
    /// The packet, as ovs-fields(7) writes it.
    flow: String,
    /// Bridge that the packet enters.
    #[arg(long, default_value = "br-int")]
    bridge: String,
}

#[derive(Args)]
struct Capture {
    #[command(flatten)]
    at: At,
    /// Port of the switch, such as tap and the first eleven characters of a Neutron port's id.
    device: String,
    /// Only packets of this protocol.
    #[arg(long, value_enum)]
    protocol: Option<Protocol>,
    /// Only packets from or to this address.
    #[arg(long)]
    host: Option<std::net::IpAddr>,
    /// Only packets from or to this port of TCP or UDP.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// End with this many packets.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(i32).range(1..=2000))]
    packets: i32,
    /// End after this many seconds.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(i32).range(1..=300))]
    seconds: i32,
    /// Bytes kept of each packet. More than headers shows what guests say.
    #[arg(long, default_value_t = 96, value_parser = clap::value_parser!(i32).range(64..=9216))]
    bytes_per_packet: i32,
    /// File to write [default: standard output, unless it is a terminal]
    #[arg(long, short, value_name = "FILE")]
    write: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Protocol {
    Arp,
    Icmp,
    Tcp,
    Udp,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    block_on(async {
        match &arguments.command {
            Command::Trace(arguments) => trace(arguments).await,
            Command::Capture(arguments) => capture(arguments).await,
        }
    })
}

async fn trace(arguments: &Trace) -> Result<(), Failure> {
    let spec = OvsTraceSpec {
        node_ref: LocalRef::new(&arguments.at.node),
        bridge: Some(arguments.bridge.clone()),
        flow: arguments.flow.clone(),
        ttl_seconds: None,
    };
    let asked = Asked::of(&arguments.at, OvsTrace::new("", spec)).await?;
    let told = asked.answer(PATIENCE).await;
    let status = told.map(|trace| trace.status.unwrap_or_default());
    asked.leave(&arguments.at).await;
    let status = status?;
    if let Some(left_out) = &status.message {
        say_aside(left_out);
    }
    print(&format!("{}\n", status.result.unwrap_or_default().trim_end()))
}

async fn capture(arguments: &Capture) -> Result<(), Failure> {
    if arguments.write.is_none() && io::stdout().is_terminal() {
        return Err(Failure::Usage(
            "a capture is no text: give --write FILE, or a pipe such as `| tcpdump -nr -`".to_owned(),
        ));
    }
    let asked = Asked::of(&arguments.at, OvsCapture::new("", arguments.spec())).await?;
    let seconds = u64::try_from(arguments.seconds).unwrap_or_default();
    let told = asked.answer(PATIENCE + Duration::from_secs(seconds)).await;
    let file = match &told {
        Ok(capture) => asked.file(capture).await,
        Err(_) => Ok(Vec::new()),
    };
    asked.leave(&arguments.at).await;
    let (status, file) = (told?.status.unwrap_or_default(), file?);
    write(&file, arguments.write.as_deref())?;
    let packets = status.packets.unwrap_or_default();
    let end = status.message.unwrap_or_default();
    say_aside(&format!("{packets} packets, {} bytes: {end}", file.len()));
    Ok(())
}

impl Capture {
    fn spec(&self) -> OvsCaptureSpec {
        let filter = CaptureFilter {
            protocol: self.protocol.map(|protocol| match protocol {
                Protocol::Arp => CaptureProtocol::Arp,
                Protocol::Icmp => CaptureProtocol::Icmp,
                Protocol::Tcp => CaptureProtocol::Tcp,
                Protocol::Udp => CaptureProtocol::Udp,
            }),
            host: self.host.map(|host| host.to_string()),
            port: self.port.map(i32::from),
        };
        OvsCaptureSpec {
            node_ref: LocalRef::new(&self.at.node),
            port: self.device.clone(),
            filter: (filter != CaptureFilter::default()).then_some(filter),
            packets: Some(self.packets),
            seconds: Some(self.seconds),
            bytes_per_packet: Some(self.bytes_per_packet),
            ttl_seconds: None,
        }
    }
}

fn write(file: &[u8], path: Option<&Path>) -> Result<(), Failure> {
    if let Some(path) = path {
        std::fs::write(path, file).with_context(|| format!("cannot write {}", path.display()))?;
        return Ok(());
    }
    let mut out = io::stdout().lock();
    let written = out.write_all(file).and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => error.into(),
    })
}

/// What both kinds tell.
trait Told: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug {
    fn told(&self) -> (Option<Phase>, Option<&str>);
}

impl Told for OvsTrace {
    fn told(&self) -> (Option<Phase>, Option<&str>) {
        let status = self.status.as_ref();
        let message = status.and_then(|status| status.message.as_deref());
        (status.and_then(|status| status.phase), message)
    }
}

impl Told for OvsCapture {
    fn told(&self) -> (Option<Phase>, Option<&str>) {
        let status = self.status.as_ref();
        let message = status.and_then(|status| status.message.as_deref());
        (status.and_then(|status| status.phase), message)
    }
}

/// A request that was made.
struct Asked<K> {
    client: Client,
    namespace: String,
    api: Api<K>,
    name: String,
    node: String,
}

impl<K: Told + Serialize + DeserializeOwned> Asked<K> {
    async fn of(at: &At, mut request: K) -> Result<Self, Failure> {
        let (client, switch) = switch(at).await?;
        let meta = request.meta_mut();
        meta.name = None;
        meta.generate_name = Some(format!("{}-", at.node));
        // It goes with the switch, should its agent never get to it.
        let owner = json!({"apiVersion": OvsNode::api_version(&()), "kind": OvsNode::kind(&()),
            "name": switch.name_any(), "uid": switch.uid()});
        meta.owner_references = Some(vec![serde_json::from_value(owner)?]);
        let api: Api<K> = Api::namespaced(client.clone(), &at.agents_namespace);
        let made = api.create(&PostParams::default(), &request).await?;
        Ok(Asked {
            client,
            namespace: at.agents_namespace.clone(),
            api,
            name: made.name_any(),
            node: at.node.clone(),
        })
    }

    /// Waits for the end.
    async fn answer(&self, patience: Duration) -> Result<K, Failure> {
        let start = Instant::now();
        loop {
            let request = self.api.get(&self.name).await?;
            let (phase, message) = request.told();
            let said = match phase {
                Some(Phase::Succeeded) => return Ok(request),
                Some(Phase::Failed) => {
                    return Err(Failure::NotReady(message.unwrap_or("it failed").to_owned()));
                }
                Some(Phase::Running) => "is at work on it still",
                None => "has not begun: does it run there, or work on another request?",
            };
            if start.elapsed() > patience {
                return Err(Failure::NotReady(format!(
                    "no answer within {} s: the agent of {} {said}",
                    patience.as_secs(),
                    self.node
                )));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Removes the request, unless it is to stay. Otherwise the agent does, later.
    async fn leave(&self, at: &At) {
        if at.keep {
            return say_aside(&format!(
                "{} {} stays in namespace {}",
                K::kind(&()),
                self.name,
                self.namespace
            ));
        }
        if let Err(error) = self.api.delete(&self.name, &DeleteParams::default()).await {
            tracing::debug!("cannot delete {}: {error}", self.name);
        }
    }
}

impl Asked<OvsCapture> {
    async fn file(&self, capture: &OvsCapture) -> Result<Vec<u8>, Failure> {
        let named = capture
            .status
            .as_ref()
            .and_then(|status| status.secret_ref.as_ref());
        let name = &named.context("the capture names no Secret")?.name;
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let secret = secrets
            .get(name)
            .await
            .with_context(|| format!("cannot read Secret {name}"))?;
        let file = secret.data.unwrap_or_default().remove(FILE);
        Ok(file.with_context(|| format!("Secret {name} has no {FILE}"))?.0)
    }
}

/// The switch of this host, in whichever cluster of the cloud.
async fn switch(at: &At) -> Result<(Client, OvsNode), Failure> {
    let sight = at.target.sight().await?;
    for cluster in sight.clusters() {
        let switches: Api<OvsNode> = Api::namespaced(cluster.client.clone(), &at.agents_namespace);
        if let Some(switch) = switches.get_opt(&at.node).await? {
            return Ok((cluster.client.clone(), switch));
        }
    }
    Err(Failure::NotFound(format!(
        "there is no OVSNode {0} in namespace {1}: its agent makes it; `c5c3 hypervisor list` names the hosts",
        at.node, at.agents_namespace
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn capture_of(words: &str) -> Result<OvsCaptureSpec, clap::Error> {
        let words = ["c5c3", "capture"].into_iter().chain(words.split(' '));
        match Line::try_parse_from(words)?.arguments.command {
            Command::Capture(capture) => Ok(capture.spec()),
            Command::Trace(_) => panic!("a trace"),
        }
    }

    #[test]
    fn words_become_a_request() {
        let spec = capture_of("node-2 tap1").expect("a capture");
        assert_eq!(
            (spec.node_ref.name.as_str(), spec.port.as_str()),
            ("node-2", "tap1")
        );
        assert_eq!(spec.filter, None);
        assert_eq!(
            (spec.packets, spec.seconds, spec.bytes_per_packet),
            (Some(100), Some(30), Some(96))
        );
        let spec = capture_of("node-2 tap1 --protocol udp --host fd00:0::1 --port 53").expect("a capture");
        let filter = spec.filter.expect("a filter");
        assert_eq!(filter.protocol, Some(CaptureProtocol::Udp));
        assert_eq!((filter.host.as_deref(), filter.port), (Some("fd00::1"), Some(53)));
    }

    #[test]
    fn what_the_kind_refuses_is_refused_here() {
        for words in [
            "node-2 tap1 --seconds 301",
            "node-2 tap1 --packets 0",
            "node-2 tap1 --bytes-per-packet 65535",
            "node-2 tap1 --host nobody",
            "node-2 tap1 --port 0",
        ] {
            assert!(capture_of(words).is_err(), "{words}");
        }
    }
}

//! The networks of the demo: an external one on the machine's data network, one of its own, and a
//! router between them. What is there already stays as it is.

use std::net::Ipv4Addr;

use openstack_client::{Entity, Fields, NetworkKind, Networking, Result};
use serde_json::{Value, json};

/// The physical network that every hypervisor's uplink carries.
const PHYSICAL: &str = "physnet1";
const EXTERNAL: &str = "public";
const NAME: &str = "demo";
/// Guests see no other network of this range: it is behind their router.
const RANGE: &str = "192.168.100.0/24";
/// How an address of the demo is known again.
const MARK: &str = "c5c3 demo";

/// The data network, where floating addresses are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outside {
    pub range: String,
    pub gateway: Ipv4Addr,
}

impl Outside {
    /// Addresses that Neutron may give away; the others stay for the machine.
    fn pool(&self) -> (Ipv4Addr, Ipv4Addr) {
        let [a, b, c, _] = self.gateway.octets();
        (Ipv4Addr::new(a, b, c, 100), Ipv4Addr::new(a, b, c, 200))
    }
}

/// What a server needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Networks {
    pub external: String,
    pub own: String,
    pub group: String,
}

/// Finds or makes one thing; hears what was made.
async fn one(
    cloud: &(impl Networking + ?Sized),
    kind: NetworkKind,
    filter: &[(&str, &str)],
    wanted: Fields,
    made: &mut Vec<String>,
) -> Result<Entity> {
    if let Some(found) = cloud.found(kind, filter).await?.into_iter().next() {
        return Ok(found);
    }
    let new = cloud.make(kind, &wanted).await?;
    made.push(format!("{kind:?} {}", new.name()));
    Ok(new)
}

pub(crate) async fn networks(
    cloud: &(impl Networking + ?Sized),
    outside: &Outside,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Networks> {
    let mut made = Vec::new();
    let external = external(cloud, outside, &mut made).await?;
    let own = one(
        cloud,
        NetworkKind::Network,
        &[("name", NAME)],
        Fields::new().with("name", NAME),
        &mut made,
    )
    .await?;
    let subnet = Fields::new()
        .with("name", NAME)
        .with("network_id", own.id.as_str())
        .with("ip_version", 4)
        .with("cidr", RANGE);
    let subnet = one(
        cloud,
        NetworkKind::Subnet,
        &[("network_id", &own.id)],
        subnet,
        &mut made,
    )
    .await?;
    let router = Fields::new()
        .with("name", NAME)
        .with("external_gateway_info", json!({"network_id": external.id}));
    let router = one(cloud, NetworkKind::Router, &[("name", NAME)], router, &mut made).await?;
    let ports = cloud
        .found(NetworkKind::Port, &[("device_id", &router.id)])
        .await?;
    if !ports.iter().any(|port| is_on(port, &subnet.id)) {
        cloud.add_router_interface(&router.id, &subnet.id).await?;
    }
    let group = group(cloud, &mut made).await?;
    say(&if made.is_empty() {
        "networks public and demo exist".to_owned()
    } else {
        format!("networks created: {}", made.join(", "))
    });
    Ok(Networks {
        external: external.id,
        own: own.id,
        group: group.id,
    })
}

async fn external(
    cloud: &(impl Networking + ?Sized),
    outside: &Outside,
    made: &mut Vec<String>,
) -> Result<Entity> {
    let network = Fields::new()
        .with("name", EXTERNAL)
        .with("router:external", true)
        .with("provider:network_type", "flat")
        .with("provider:physical_network", PHYSICAL);
    let filter = [("name", EXTERNAL), ("router:external", "true")];
    let network = one(cloud, NetworkKind::Network, &filter, network, made).await?;
    let (start, end) = outside.pool();
    // The fabric answers for its own address; guests get theirs by translation.
    let subnet = Fields::new()
        .with("name", EXTERNAL)
        .with("network_id", network.id.as_str())
        .with("ip_version", 4)
        .with("cidr", outside.range.as_str())
        .with("gateway_ip", outside.gateway.to_string())
        .with("enable_dhcp", false)
        .with(
            "allocation_pools",
            json!([{"start": start.to_string(), "end": end.to_string()}]),
        );
    let filter = [("network_id", network.id.as_str())];
    one(cloud, NetworkKind::Subnet, &filter, subnet, made).await?;
    Ok(network)
}

fn is_on(port: &Entity, subnet: &str) -> bool {
    let addresses = port.fields.0.get("fixed_ips").and_then(Value::as_array);
    addresses
        .into_iter()
        .flatten()
        .any(|address| address["subnet_id"] == subnet)
}

/// Lets in pings and ssh.
async fn group(cloud: &(impl Networking + ?Sized), made: &mut Vec<String>) -> Result<Entity> {
    let wanted = Fields::new().with("name", NAME);
    let group = one(cloud, NetworkKind::SecurityGroup, &[("name", NAME)], wanted, made).await?;
    for (protocol, port) in [("icmp", None), ("tcp", Some(22))] {
        let filter = [
            ("security_group_id", group.id.as_str()),
            ("direction", "ingress"),
            ("protocol", protocol),
        ];
        let mut rule = Fields::new()
            .with("security_group_id", group.id.as_str())
            .with("direction", "ingress")
            .with("ethertype", "IPv4")
            .with("protocol", protocol);
        if let Some(port) = port {
            rule = rule.with("port_range_min", port).with("port_range_max", port);
        }
        let there = cloud.found(NetworkKind::SecurityGroupRule, &filter).await?;
        let same = |found: &Entity| found.fields.0.get("port_range_min").and_then(Value::as_i64) == port;
        if !there.iter().any(same) {
            cloud.make(NetworkKind::SecurityGroupRule, &rule).await?;
        }
    }
    Ok(group)
}

/// The floating address of a server; one that a demo had before is taken again.
pub(crate) async fn floating(
    cloud: &(impl Networking + ?Sized),
    external: &str,
    server: &str,
) -> Result<Option<Ipv4Addr>> {
    let ports = cloud.found(NetworkKind::Port, &[("device_id", server)]).await?;
    let Some(port) = ports.into_iter().next() else {
        return Ok(None);
    };
    let there = cloud
        .found(NetworkKind::FloatingIp, &[("port_id", &port.id)])
        .await?;
    if let Some(found) = there.first() {
        return Ok(address(found));
    }
    let ours = cloud
        .found(NetworkKind::FloatingIp, &[("description", MARK)])
        .await?;
    let free = ours.into_iter().find(|address| address.text("port_id").is_none());
    let given = match free {
        Some(free) => {
            let change = Fields::new().with("port_id", port.id.as_str());
            cloud.change(NetworkKind::FloatingIp, &free.id, &change).await?
        }
        None => {
            let wanted = Fields::new()
                .with("floating_network_id", external)
                .with("port_id", port.id.as_str())
                .with("description", MARK);
            cloud.make(NetworkKind::FloatingIp, &wanted).await?
        }
    };
    Ok(address(&given))
}

fn address(floating: &Entity) -> Option<Ipv4Addr> {
    floating.text("floating_ip_address")?.parse().ok()
}

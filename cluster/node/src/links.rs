//! Links, addresses and routes over netlink, idempotent.

use std::net::{IpAddr, Ipv4Addr};

use futures::TryStreamExt;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::address::AddressAttribute;
use rtnetlink::packet_route::link::LinkAttribute;
use rtnetlink::packet_route::route::{RouteScope, RouteType};
use rtnetlink::{Handle, LinkBridge, LinkUnspec, LinkVeth, RouteMessageBuilder};

use crate::addresses::Network;
use crate::error::{Error, Result};
use crate::netns::NetNs;

const EEXIST: i32 = 17;
const ENODEV: i32 = 19;

/// Netlink inside one namespace.
pub(crate) struct Links {
    handle: Handle,
}

fn failed(what: impl Into<String>) -> impl FnOnce(rtnetlink::Error) -> Error {
    let what = what.into();
    move |source| Error::Link { what, source }
}

fn errno(error: &rtnetlink::Error) -> i32 {
    match error {
        rtnetlink::Error::NetlinkError(message) => -message.raw_code(),
        _ => 0,
    }
}

impl Links {
    pub(crate) async fn of(ns: &NetNs) -> Result<Self> {
        let handle = ns
            .netlink()
            .await
            .map_err(Error::system("open a netlink socket"))?;
        Ok(Self { handle })
    }

    pub(crate) async fn index(&self, name: &str) -> Result<Option<u32>> {
        let mut found = Box::pin(self.handle.link().get().match_name(name).execute());
        match found.try_next().await {
            Ok(link) => Ok(link.map(|l| l.header.index)),
            Err(e) if errno(&e) == ENODEV => Ok(None),
            Err(e) => Err(failed(name)(e)),
        }
    }

    /// The bridge that a link belongs to.
    pub(crate) async fn controller(&self, name: &str) -> Result<Option<u32>> {
        let mut found = Box::pin(self.handle.link().get().match_name(name).execute());
        let link = found.try_next().await.map_err(failed(name))?;
        let attributes = link.into_iter().flat_map(|l| l.attributes);
        Ok(attributes
            .filter_map(|a| match a {
                LinkAttribute::Controller(index) => Some(index),
                _ => None,
            })
            .next())
    }

    pub(crate) async fn join(&self, name: &str, bridge: u32) -> Result<()> {
        let link = LinkUnspec::new_with_name(name).controller(bridge).up().build();
        self.handle.link().set(link).execute().await.map_err(failed(name))
    }

    pub(crate) async fn names(&self) -> Result<Vec<String>> {
        let links: Vec<_> = self
            .handle
            .link()
            .get()
            .execute()
            .try_collect()
            .await
            .map_err(failed("list of links"))?;
        Ok(links
            .into_iter()
            .flat_map(|l| l.attributes)
            .filter_map(|a| match a {
                LinkAttribute::IfName(name) => Some(name),
                _ => None,
            })
            .collect())
    }

    pub(crate) async fn up(&self, name: &str) -> Result<()> {
        let link = LinkUnspec::new_with_name(name).up().build();
        self.handle.link().set(link).execute().await.map_err(failed(name))
    }

    pub(crate) async fn bridge(&self, name: &str) -> Result<u32> {
        let link = LinkBridge::new(name).up().build();
        match self.handle.link().add(link).execute().await {
            Err(e) if errno(&e) != EEXIST => return Err(failed(name)(e)),
            _ => {}
        }
        self.up(name).await?;
        self.index(name)
            .await?
            .ok_or_else(|| Error::said(format!("bridge {name} vanished while it was made")))
    }

    /// Gives a link a hardware address.
    pub(crate) async fn hardware(&self, name: &str, address: [u8; 6]) -> Result<()> {
        let link = LinkUnspec::new_with_name(name).address(address.into()).build();
        self.handle.link().set(link).execute().await.map_err(failed(name))
    }

    pub(crate) async fn remove(&self, name: &str) -> Result<()> {
        let Some(index) = self.index(name).await? else {
            return Ok(());
        };
        match self.handle.link().del(index).execute().await {
            Err(e) if errno(&e) != ENODEV => Err(failed(name)(e)),
            _ => Ok(()),
        }
    }

    /// A cable: one end here on `bridge`, the other in `far`, named `far_name`. Both are
    /// born here, so nothing ever shows in the machine's namespace. A cable that is laid
    /// again has the same hardware address: neighbours need not learn a new one.
    pub(crate) async fn cable(
        &self,
        name: &str,
        bridge: u32,
        far: &NetNs,
        far_name: &str,
        hardware: [u8; 6],
    ) -> Result<()> {
        let peer = format!("{name}p");
        self.remove(name).await?;
        self.remove(&peer).await?;
        let veth = LinkVeth::new(name, &peer).build();
        self.handle
            .link()
            .add(veth)
            .execute()
            .await
            .map_err(failed(name))?;
        let index = self
            .index(&peer)
            .await?
            .ok_or_else(|| Error::said(format!("link {peer} vanished while it was made")))?;
        let moved = LinkUnspec::new_with_index(index)
            .setns_by_fd(far.fd())
            .name(far_name)
            .address(hardware.into())
            .build();
        self.handle
            .link()
            .set(moved)
            .execute()
            .await
            .map_err(failed(&peer))?;
        self.join(name, bridge).await
    }

    pub(crate) async fn has_address(&self, index: u32, address: Ipv4Addr) -> Result<bool> {
        let found: Vec<_> = self
            .handle
            .address()
            .get()
            .set_link_index_filter(index)
            .execute()
            .try_collect()
            .await
            .map_err(failed("list of addresses"))?;
        Ok(found
            .iter()
            .flat_map(|m| &m.attributes)
            .any(|a| matches!(a, AddressAttribute::Local(IpAddr::V4(local)) if *local == address)))
    }

    pub(crate) async fn address(&self, index: u32, address: Ipv4Addr, prefix: u8) -> Result<()> {
        match self
            .handle
            .address()
            .add(index, address.into(), prefix)
            .execute()
            .await
        {
            Err(e) if errno(&e) != EEXIST => Err(failed(address.to_string())(e)),
            _ => Ok(()),
        }
    }

    /// Sends `to` to a neighbour.
    pub(crate) async fn route_via(&self, to: Network, via: Ipv4Addr) -> Result<()> {
        let route = RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(to.address, to.prefix)
            .gateway(via)
            .build();
        self.replace(to, route).await
    }

    /// `to` fails at once instead of after a time-out.
    pub(crate) async fn route_unreachable(&self, to: Network) -> Result<()> {
        let route = RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(to.address, to.prefix)
            .kind(RouteType::Unreachable)
            .build();
        self.replace(to, route).await
    }

    /// `to` lies behind the link; own packets go out with the address `source`.
    pub(crate) async fn route_link(&self, to: Network, index: u32, source: Ipv4Addr) -> Result<()> {
        let route = RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(to.address, to.prefix)
            .output_interface(index)
            .pref_source(source)
            .scope(RouteScope::Link)
            .build();
        self.replace(to, route).await
    }

    async fn replace(&self, to: Network, route: rtnetlink::packet_route::route::RouteMessage) -> Result<()> {
        self.handle
            .route()
            .add(route)
            .replace()
            .execute()
            .await
            .map_err(failed(format!("route {to}")))
    }

    /// How many routes lead everywhere; none in a fabric or node.
    pub(crate) async fn default_routes(&self) -> Result<usize> {
        let mut query = RouteMessageBuilder::<Ipv4Addr>::new().build();
        query.header.address_family = AddressFamily::Inet;
        let routes: Vec<_> = self
            .handle
            .route()
            .get(query)
            .execute()
            .try_collect()
            .await
            .map_err(failed("list of routes"))?;
        Ok(routes
            .iter()
            .filter(|r| r.header.destination_prefix_length == 0)
            .count())
    }
}

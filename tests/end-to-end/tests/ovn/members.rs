//! Databases of three members.

use anyhow::ensure;

use super::{NAMESPACE, Ovn, until};

#[test]
fn three_members_bear_the_loss_of_one_and_of_its_volume() -> anyhow::Result<()> {
    three_members_bear_losses("{}", "tcp:")
}

#[test]
fn three_members_with_tls_bear_the_loss_of_one_and_of_its_volume() -> anyhow::Result<()> {
    three_members_bear_losses("{enabled: true}", "ssl:")
}

fn three_members_bear_losses(tls: &str, protocol: &str) -> anyhow::Result<()> {
    let ovn = Ovn::up()?;
    ovn.label_hypervisors()?;
    ovn.apply_with(3, tls)?;
    until(240, "three members", || {
        let roles = ovn.roles()?;
        ensure!(roles == ["Follower", "Follower", "Leader"], "{roles:?}");
        Ok(())
    })?;
    ovn.ready(120)?;
    // They talk to each other as clients talk to them.
    let show = "ovs-appctl -t /run/ovn/db.ctl cluster/status OVN_Northbound";
    let show = ovn.shell("ovn-nb-0", show)?;
    let members = show.matches(&format!(" at {protocol}")).count();
    ensure!(
        members == 3 && show.contains(&format!("Address: {protocol}")),
        "{show}"
    );
    until(30, "the first write", || {
        ovn.northbound("ovn-nb-0", "--may-exist ls-add first")
    })?;

    // One is killed: the others go on, and it comes back with all that it missed.
    ovn.0.kill_containers(NAMESPACE, &["ovn-nb-1"], "ovsdb-server")?;
    until(30, "a write without it", || {
        ovn.northbound("ovn-nb-0", "--may-exist ls-add second")
    })?;
    until(60, "it is back", || {
        let local = "ovn-nbctl --timeout=5 --no-leader-only --db=unix:/run/ovn/db.sock --bare --columns=name list logical_switch";
        let names = ovn.shell("ovn-nb-1", local)?;
        ensure!(names.contains("first") && names.contains("second"), "{names}");
        Ok(())
    })?;
    ensure!(
        ovn.servers("ovn-nb-0")?.len() == 3,
        "the members are the same three"
    );

    // The volume of the very first is lost: it joins again, and who it was before counts no more.
    let before = ovn.servers("ovn-nb-1")?;
    ovn.kubectl(&["delete", "pvc", "data-ovn-nb-0", "--wait=false"])?;
    ovn.kubectl(&["delete", "pod", "ovn-nb-0"])?;
    until(120, "another member in its place", || {
        let servers = ovn.servers("ovn-nb-1")?;
        let new = servers.iter().filter(|id| !before.contains(id)).count();
        ensure!(servers.len() == 3 && new == 1, "{before:?} became {servers:?}");
        Ok(())
    })?;
    until(60, "all data in it", || {
        let names = ovn.switches("ovn-nb-0")?;
        ensure!(names.len() == 2, "{names:?}");
        Ok(())
    })?;

    // A full stop: all come back from their volumes.
    ovn.kubectl(&[
        "delete",
        "pod",
        "--force",
        "--grace-period=0",
        "ovn-nb-0",
        "ovn-nb-1",
        "ovn-nb-2",
    ])?;
    until(120, "the data is back", || {
        let names = ovn.switches("ovn-nb-0")?;
        ensure!(names.len() == 2, "{names:?}");
        Ok(())
    })?;
    ovn.ready(120)
}

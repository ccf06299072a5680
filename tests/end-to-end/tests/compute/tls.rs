//! Hypervisors talk to each other with certificates, and to nobody else.

use anyhow::{Context, bail, ensure};
use end_to_end::patience::{until, until_ok};
use openstack_client::{NetworkKind, Networking};
use serde_json::{Value, json};

use crate::world::{Pod, World};
use crate::{NAMESPACE, PATIENCE, inside, there};

const NOW: &str = "/run/libvirt/tls/now";

/// libvirtd's pod on that host, or on any other.
fn libvirt(world: &World<'_>, is_it: impl Fn(&Pod) -> bool) -> anyhow::Result<Pod> {
    let mut pods = world.pods("nova-libvirt")?.into_iter();
    pods.find(|pod| is_it(pod)).context("a pod of libvirtd")
}

fn address_of(world: &World<'_>, node: &str) -> anyhow::Result<String> {
    let node: Value = serde_json::from_str(&there(world.cloud, &["get", "node", node, "-o", "json"])?)?;
    let addresses = node["status"]["addresses"].as_array().context("addresses")?;
    let internal = addresses.iter().find(|one| one["type"] == "InternalIP");
    let address = internal.and_then(|one| one["address"].as_str());
    Ok(address.context("an address")?.to_owned())
}

/// From one hypervisor to the other: with its own certificate it is let in; without one, with that of a guest
/// or without TLS it is not.
pub(crate) fn only_libvirtd_commands_libvirtd(world: &World<'_>) -> anyhow::Result<()> {
    let one = libvirt(world, |_| true)?;
    let other = libvirt(world, |pod| pod.node != one.node)?;
    let address = address_of(world, &other.node)?;
    let call = |scheme: &str, more: &str| {
        let url = format!("qemu+{scheme}://{address}/system{more}");
        world.exec(&one, &["timeout", "20", "virsh", "-c", &url, "list"])
    };
    let listed = call("tls", "")?;
    ensure!(listed.contains("State"), "{listed}");
    let prepare = format!(
        "rm -rf /tmp/nobody /tmp/guest; mkdir /tmp/nobody /tmp/guest; cd {NOW}/qemu; \
         cp ca-cert.pem /tmp/nobody/cacert.pem; cp ca-cert.pem /tmp/guest/cacert.pem; \
         cp client-cert.pem /tmp/guest/clientcert.pem; cp client-key.pem /tmp/guest/clientkey.pem"
    );
    world.exec(&one, &["sh", "-ec", &prepare])?;
    for (scheme, more) in [
        ("tcp", ""),
        ("tls", "?pkipath=/tmp/nobody"),
        ("tls", "?pkipath=/tmp/guest"),
    ] {
        match call(scheme, more) {
            Ok(said) => bail!("{scheme}{more} was let in: {said}"),
            Err(why) => println!("{scheme}{more}: {}", format!("{why:#}").replace('\n', " ")),
        }
    }
    world.exec(&one, &["rm", "-r", "/tmp/nobody", "/tmp/guest"])?;
    let modes = [
        "sh",
        "-c",
        "cd /run/libvirt/tls/now && stat -L -c '%a %u %n' libvirt qemu */*-key.pem",
    ];
    let modes = world.exec(&one, &modes)?;
    let expected = "700 0 libvirt\n700 42424 qemu\n400 0 libvirt/client-key.pem\n400 0 libvirt/server-key.pem\n\
        400 42424 qemu/client-key.pem\n400 42424 qemu/server-key.pem";
    ensure!(modes.trim() == expected, "{modes}");
    Ok(())
}

/// Certificates are replaced below running guests, and libvirtd shows the new one at once.
pub(crate) fn a_new_certificate_is_taken_without_a_restart(world: &World<'_>) -> anyhow::Result<()> {
    let boot = "cat /proc/sys/kernel/random/boot_id";
    let running = inside(world.cloud, boot)?;
    let pod = libvirt(world, |_| true)?;
    let address = address_of(world, &pod.node)?;
    // nova-compute's image has Python.
    let mut computes = world.pods("nova-compute-cell1")?.into_iter();
    let asks = computes.next().context("a pod of nova-compute")?;
    let ask = format!("import ssl; print(ssl.get_server_certificate(('{address}', 16514)))");
    let shown = || world.exec(&asks, &["python3", "-c", &ask]);
    let before = shown()?;
    let file = format!("libvirt-{}.crt", pod.node);
    let patch = json!({"data": {file: null}}).to_string();
    let words = [
        "patch",
        "secret",
        "nova-libvirt-tls",
        "--type=merge",
        "-p",
        &patch,
    ];
    there(world.cloud, &words)?;
    until("libvirtd shows a new certificate", PATIENCE, || {
        let now = shown()?;
        Ok(if now == before { Err(now) } else { Ok(()) })
    })?;
    until_ok("the hypervisor lets itself in with it", PATIENCE, || {
        let url = format!("qemu+tls://{address}/system");
        world.exec(&pod, &["timeout", "20", "virsh", "-c", &url, "list"])
    })?;
    let same = libvirt(world, |other| other.node == pod.node)?;
    ensure!(same.name == pod.name, "{} was replaced", pod.name);
    ensure!(
        inside(world.cloud, boot)? == running,
        "the guest was started anew"
    );
    Ok(())
}

/// The authority stays in the control plane.
pub(crate) fn the_authority_is_not_on_hypervisors(world: &World<'_>) -> anyhow::Result<()> {
    let name = "nova-libvirt-tls-authority";
    world
        .cloud
        .kubectl(&["-n", NAMESPACE, "get", "secret", name], "")?;
    ensure!(there(world.cloud, &["get", "secret", name]).is_err(), "{name}");
    Ok(())
}

/// Neutron and its agents talk TLS with OVN, each with certificates of its own; new ones are taken while the API
/// answers.
pub(crate) fn networks_are_made_over_tls(world: &World<'_>) -> anyhow::Result<()> {
    let home = |arguments: &[&str]| {
        let place = ["-n", NAMESPACE];
        world.cloud.kubectl(&[place.as_slice(), arguments].concat(), "")
    };
    let at = home(&["get", "ovncluster", "ovn", "-o", "jsonpath={.status.endpoints}"])?;
    ensure!(at.contains("ssl:") && !at.contains("tcp:"), "{at}");
    let key = |secret: &str| home(&["get", "secret", secret, "-o", "jsonpath={.data.tls\\.key}"]);
    let (control, hypervisors) = (key("ovn-certificates")?, key("ovn-hypervisors")?);
    let elsewhere = there(world.cloud, &["get", "secrets", "-o", "json"])?;
    ensure!(
        !elsewhere.contains(&control) && elsewhere.contains(&hypervisors),
        "a hypervisor has a key of the control plane, or none of its own"
    );
    let deployments = || {
        let path = "jsonpath={.metadata.annotations.deployment\\.kubernetes\\.io/revision} {.status.updatedReplicas} \
             {.status.replicas} {.status.availableReplicas}";
        home(&["get", "deployment", "neutron", "-o", path])
    };
    let before = deployments()?;
    let revision = |text: &str| text.split(' ').next().unwrap_or_default().to_owned();
    for secret in ["ovn-certificates", "ovn-hypervisors"] {
        let patch = json!({"data": {"tls.crt": null}}).to_string();
        home(&["patch", "secret", secret, "--type=merge", "-p", &patch])?;
    }
    until("Neutron's API has the new certificate", PATIENCE, || {
        // While pods take over, each question is answered.
        world.run(world.session.found(NetworkKind::Network, &[]))?;
        let now = deployments()?;
        let counts: Vec<&str> = now.split(' ').skip(1).collect();
        let all = counts.len() == 3 && counts.iter().all(|count| *count == counts[0]);
        Ok(if revision(&now) != revision(&before) && all {
            Ok(())
        } else {
            Err(now)
        })
    })?;
    home(&[
        "wait",
        "--for=condition=Ready",
        "neutron/neutron",
        "--timeout=300s",
    ])?;
    ensure!(key("ovn-certificates")? != control, "the key was not replaced");
    Ok(())
}

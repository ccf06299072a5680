//! Three of everything: parts are killed during a stream of token requests.

use std::time::Duration;

use anyhow::{Context, ensure};
use end_to_end::cloud::Cloud;
use end_to_end::stream::Stream;

use crate::objects::versions;

/// Longer than any failover takes here: a dead pod leaves its Services within seconds.
const FAILOVER: f64 = 30.0;

#[test]
fn three_of_everything_outlive_the_death_of_one() -> anyhow::Result<()> {
    let cloud = crate::up("ha")?;
    let names = |cloud: &Cloud| -> anyhow::Result<Vec<String>> {
        let all = versions(cloud, "openstack")?;
        let lasting = |name: &&String| !name.contains("/Pod/") && !name.contains("/EndpointSlice/");
        Ok(all.keys().filter(lasting).cloned().collect())
    };
    let before = names(&cloud)?;
    let stream = Stream::start(&cloud, "openstack", "tokens", Duration::from_secs(900))?;

    for part in ["mariadb", "rabbitmq", "keystone"] {
        let pod = first_pod(&cloud, part)?;
        cloud.kubectl(
            &["-n", "openstack", "delete", &pod, "--grace-period=0", "--force"],
            "",
        )?;
        stream.more(20)?;
        settled(&cloud)?;
    }

    // The process behind the cluster dies: nothing that is served needs it.
    cloud.crash()?;
    std::thread::sleep(Duration::from_secs(10));
    cloud.start()?;
    stream.more(20)?;
    settled(&cloud)?;

    let outcome = stream.stop()?;
    println!(
        "{} tokens, {} failed, longest gap {:.1} s",
        outcome.good,
        outcome.failed.len(),
        outcome.longest_gap
    );
    ensure!(outcome.longest_gap < FAILOVER, "{outcome:?}");
    ensure!(names(&cloud)? == before, "something was made twice or is missing");
    Ok(())
}

fn first_pod(cloud: &Cloud, part: &str) -> anyhow::Result<String> {
    let pods = cloud.kubectl(&["-n", "openstack", "get", "pods", "-o", "name"], "")?;
    let of_part = |name: &&str| name.starts_with(&format!("pod/{part}-"));
    // The primary of a database is its first member.
    pods.lines()
        .find(of_part)
        .map(str::to_owned)
        .with_context(|| format!("a pod of {part} in:\n{pods}"))
}

fn settled(cloud: &Cloud) -> anyhow::Result<()> {
    // It takes a moment until the loss is seen.
    std::thread::sleep(Duration::from_secs(2));
    let wait = [
        "-n",
        "openstack",
        "wait",
        "--for=condition=Ready",
        "controlplane/cloud",
        "--timeout=300s",
    ];
    cloud.kubectl(&wait, "").map(drop).map_err(|error| {
        error.context(
            cloud
                .tried("explain", &[])
                .map(|(_, out, _)| out)
                .unwrap_or_default(),
        )
    })
}

//! OVN with TLS.

use anyhow::ensure;

use super::{KEYS, NAMESPACE, Ovn, until};

/// A database that was made without TLS gets it; from then on only certificates let somebody in, those of
/// hypervisors into the southbound database alone.
#[test]
fn with_tls_nobody_gets_in_without_the_right_certificate() -> anyhow::Result<()> {
    let ovn = Ovn::up()?;
    ovn.label_hypervisors()?;
    ovn.apply(1)?;
    ovn.ready(180)?;
    ovn.northbound("ovn-nb-0", "ls-add kept")?;

    ovn.apply_with(1, "{enabled: true}")?;
    until(120, "the databases talk TLS", || {
        let at = ovn.field("ovncluster/ovn", ".status.endpoints")?;
        ensure!(
            at.contains("ssl:")
                && !at.contains("tcp:")
                && ovn.switches("ovn-nb-0")?.contains(&"kept".to_owned()),
            "{at}"
        );
        let show = "ovs-appctl -t /run/ovn/db.ctl cluster/status OVN_Northbound";
        let show = ovn.shell("ovn-nb-0", show)?;
        ensure!(show.contains("Address: ssl:"), "{show}");
        Ok(())
    })?;
    ovn.ready(120)?;
    until(120, "both chassis live", || {
        let counts = ovn.field("ovncluster/ovn", ".status['chassisCount','activeControllers']")?;
        ensure!(counts == "2 2", "{counts}");
        Ok(())
    })?;

    let [northbound, southbound] = ["northbound", "southbound"]
        .map(|side| ovn.field("ovncluster/ovn", &format!(".status.endpoints.{side}")));
    let (northbound, southbound) = (northbound?, southbound?);
    let controller = [
        "get",
        "pods",
        "-l",
        "app.kubernetes.io/component=controller",
        "-o",
        "jsonpath={.items[0].metadata.name}",
    ];
    let controller = ovn.kubectl(&controller)?;
    let southbound = format!("ovn-sbctl --timeout=8 --no-leader-only --db={southbound} {KEYS} show");
    let shown = ovn.shell(&controller, &southbound)?;
    ensure!(shown.contains("node-2"), "{shown}");
    let plain = northbound.replace("ssl:", "tcp:");
    for (who, pod, words) in [
        (
            "the key of a hypervisor",
            controller.as_str(),
            format!("--db={northbound} {KEYS}"),
        ),
        ("nobody", "ovn-nb-0", format!("--db={plain}")),
    ] {
        let asks = format!("ovn-nbctl --timeout=8 --no-leader-only {words} show");
        match ovn.shell(pod, &asks) {
            Ok(said) => anyhow::bail!("{who} opened the northbound database: {said}"),
            Err(why) => println!("{who}: {}", format!("{why:#}").replace('\n', " ")),
        }
    }

    a_renewed_certificate_is_taken_without_a_restart(&ovn)?;
    certificates_of_others_are_told(&ovn)
}

fn a_renewed_certificate_is_taken_without_a_restart(ovn: &Ovn) -> anyhow::Result<()> {
    let pods = || ovn.kubectl(&["get", "pods", "-o", "jsonpath={.items[*].metadata.uid}"]);
    let before = pods()?;
    let file = |pod: &str| ovn.shell(pod, "cat /tls/tls.crt");
    let old = file("ovn-nb-0")?;
    let patch = "{\"data\": {\"tls.crt\": null}}";
    for secret in ["ovn-certificates", "ovn-hypervisors"] {
        ovn.kubectl(&["patch", "secret", secret, "--type=merge", "-p", patch])?;
    }
    until(180, "the new certificate is in the pods", || {
        ensure!(
            file("ovn-nb-0")? != old && file("ovn-sb-0")? != old,
            "it is the old one"
        );
        Ok(())
    })?;
    until(60, "it lets us in", || {
        let names = ovn.switches("ovn-nb-0")?;
        ensure!(names.contains(&"kept".to_owned()), "{names:?}");
        Ok(())
    })?;
    ovn.ready(60)?;
    ensure!(pods()? == before, "pods were replaced");
    Ok(())
}

/// Certificates that their own `ca.crt` does not vouch for.
fn certificates_of_others_are_told(ovn: &Ovn) -> anyhow::Result<()> {
    let of = |secret: &str, key: &str| {
        let path = format!(".data.{}", key.replace('.', "\\."));
        ovn.field(&format!("secret/{secret}"), &path)
    };
    let secret = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: others, namespace: {NAMESPACE}}}\n\
         data: {{tls.crt: {}, tls.key: {}, ca.crt: {}}}\n",
        of("ovn-certificates", "tls.crt")?,
        of("ovn-certificates", "tls.key")?,
        of("ovn-hypervisors", "issuer.crt")?,
    );
    ovn.0.kubectl(&["apply", "-f", "-"], &secret)?;
    ovn.apply_with(1, "{enabled: true, certSecretRef: {name: others}}")?;
    until(180, "it is told what is wrong with them", || {
        let said = ovn.field(
            "ovncluster/ovn",
            ".status.conditions[?(@.type==\"NorthboundReady\")].message",
        )?;
        ensure!(
            said.contains("tls.crt of Secret others") && said.contains("fails"),
            "{said}"
        );
        Ok(())
    })?;
    ovn.apply_with(1, "{enabled: true}")?;
    until(180, "all is well with the right ones", || ovn.ready(20))
}

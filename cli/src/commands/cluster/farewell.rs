//! What `up` prints at its end. Pure.

use std::time::Duration;

use kube::ResourceExt;
use machine::up::Up;

use super::StateDir;
use crate::cloud::NAMESPACE;
use crate::cloud::profile::Bundle;
use crate::cloud::sight;

pub(crate) fn farewell(place: &StateDir, up: &Up, bundle: &Bundle, took: Duration) -> String {
    let state = place.argument();
    let mut text = match (bundle.planes.len(), bundle.objects.len(), up.already) {
        (0, 0, true) => "The cluster is already running.\n".to_owned(),
        (0, 0, false) => "The cluster is running.\n".to_owned(),
        (0, objects, _) => format!(
            "Objects applied: {objects}. There is no ControlPlane among them, so there was no cloud to wait for.\n"
        ),
        _ => format!("\nThe cloud is ready after {:.1} s.\n", took.as_secs_f32()),
    };
    let mut look = vec!["kubectl get nodes".to_owned()];
    if !bundle.planes.is_empty() {
        look.clear();
        text.push_str("\nUse it:\n");
    }
    for plane in &bundle.planes {
        let namespace = plane.namespace().unwrap_or_default();
        let options = if namespace == NAMESPACE {
            state.clone()
        } else {
            format!("{state} -n {namespace}")
        };
        let mut commands = vec![
            (
                format!("c5c3 openstack{options} token issue"),
                "the openstack command, logged in as admin",
            ),
            (format!("c5c3 status{options}"), "everything on one screen"),
            (
                format!("eval \"$(c5c3 env{options})\""),
                "credentials for any other client",
            ),
        ];
        let services = &plane.spec.services;
        if services.nova.common.enabled && services.neutron.common.enabled {
            commands.insert(
                0,
                (
                    format!("c5c3 demo{options}"),
                    "create a server with a floating IP",
                ),
            );
        }
        // The login to a Keystone of somebody else is theirs.
        if !plane.spec.services.keystone.common.enabled {
            commands.retain(|(command, _)| command.starts_with("c5c3 status"));
        }
        let width = commands
            .iter()
            .map(|(command, _)| command.len())
            .max()
            .unwrap_or(0);
        for (command, does) in commands {
            text.push_str(&format!("  {command:<width$}   {does}\n"));
        }
        look.push(format!("kubectl -n {namespace} get controlplane,pods"));
        for cluster in sight::named(std::slice::from_ref(plane), &[]) {
            look.push(format!(
                "kubectl --context {cluster} -n {namespace} get pods -o wide"
            ));
        }
    }
    text.push_str(&format!(
        "\nInspect it:\n  export KUBECONFIG={}\n",
        up.kubeconfig.display()
    ));
    for line in look {
        text.push_str(&format!("  {line}\n"));
    }
    text.push_str(&format!("\nStop it:\n  c5c3 down{state}\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(state: Option<&str>, file: &str) -> String {
        let up = Up {
            kubeconfig: "/s/api/kubeconfig".into(),
            already: false,
        };
        let bundle = Bundle::parse(file).expect("parses");
        let place = StateDir::at(state.map(Into::into));
        farewell(&place, &up, &bundle, Duration::from_secs(14))
    }

    fn cloud(namespace: &str) -> String {
        format!(
            "apiVersion: c5c3.io/v1alpha1\nkind: ControlPlane\nspec: {{openStackRelease: '2025.2'}}\n\
             metadata: {{name: cloud, namespace: {namespace}}}\n"
        )
    }

    #[test]
    fn nobody_is_sent_to_a_login_that_is_not_there() {
        let file = cloud("edge").replace(
            "{openStackRelease: '2025.2'}",
            "{openStackRelease: '2025.2', services: {keystone: {enabled: false}}, \
             korc: {cloudCredentialsRef: {cloudName: a, secretName: b}}}",
        );
        let text = said(None, &file);
        assert!(
            text.contains("c5c3 status -n edge") && !text.contains("c5c3 openstack"),
            "{text}"
        );
    }

    #[test]
    fn a_server_is_offered_where_servers_can_be() {
        assert!(said(None, &cloud("openstack")).contains("\n  c5c3 demo "));
        let core = include_str!("../../../../deploy/profiles/core.yaml");
        assert!(!said(None, core).contains("c5c3 demo"));
    }

    #[test]
    fn commands_name_the_cloud_that_was_made() {
        let usual = said(None, &cloud("openstack"));
        assert!(usual.contains("  c5c3 openstack token issue "), "{usual}");
        assert!(
            usual.contains("kubectl -n openstack get controlplane,pods"),
            "{usual}"
        );
        assert!(usual.ends_with("\n  c5c3 down\n"), "{usual}");
        let other = said(Some("/s"), &cloud("mine"));
        assert!(other.contains("  c5c3 status --state-dir /s -n mine "), "{other}");
        assert!(other.contains("kubectl -n mine get controlplane,pods"), "{other}");
        assert!(other.ends_with("\n  c5c3 down --state-dir /s\n"), "{other}");
    }

    #[test]
    fn without_a_cloud_it_does_not_speak_of_one() {
        assert!(said(None, "").starts_with("The cluster is running.\n"));
        let applied = said(None, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n");
        assert!(
            applied.starts_with("Objects applied: 1. There is no ControlPlane"),
            "{applied}"
        );
        assert!(!applied.contains("c5c3 status"), "{applied}");
    }
}

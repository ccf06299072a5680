//! A kubeconfig from a Secret. Whoever may write that Secret must not become the operator: what would
//! run a program or read a file of ours is refused.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};

use super::Finding;

/// The text under the key.
pub(super) fn text(secret: Option<&Secret>, name: &str, key: &str) -> Result<String, Finding> {
    let Some(secret) = secret else {
        return Err(Finding::NoSecret(format!(
            "accesskeyRef: Secret {name} is missing: create it with a kubeconfig under {key}"
        )));
    };
    let bytes = secret.data.as_ref().and_then(|data| data.get(key));
    let Some(bytes) = bytes.filter(|bytes| !bytes.0.is_empty()) else {
        return Err(Finding::NoSecret(format!(
            "accesskeyRef: Secret {name} has no value under {key}: add a kubeconfig"
        )));
    };
    String::from_utf8(bytes.0.clone()).map_err(|_| bad("it is not text"))
}

fn bad(why: &str) -> Finding {
    Finding::BadConfig(format!("the kubeconfig cannot be used: {why}"))
}

pub(super) async fn config(text: &str, timeout: Duration) -> Result<Config, Finding> {
    // The reader's own words may hold a piece of the text, and that is secret.
    let kubeconfig: Kubeconfig =
        serde_saphyr::from_str(text).map_err(|_| bad("it is not YAML with clusters, users and contexts"))?;
    if let Some(what) = refused(&kubeconfig) {
        return Err(bad(&format!(
            "{what} cannot be used in a Secret: put the values into the kubeconfig itself"
        )));
    }
    let made = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let mut config = made.map_err(|error| bad(&error.to_string()))?;
    config.connect_timeout = Some(timeout);
    config.read_timeout = Some(timeout);
    config.write_timeout = Some(timeout);
    Ok(config)
}

/// What of it would have the operator run or read something.
fn refused(kubeconfig: &Kubeconfig) -> Option<&'static str> {
    let mut users = kubeconfig
        .auth_infos
        .iter()
        .filter_map(|user| user.auth_info.as_ref());
    let user = users.find_map(|user| {
        let found = [
            (user.exec.is_some(), "users[].user.exec"),
            (user.auth_provider.is_some(), "users[].user.auth-provider"),
            (user.token_file.is_some(), "users[].user.tokenFile"),
            (
                user.client_certificate.is_some(),
                "users[].user.client-certificate",
            ),
            (user.client_key.is_some(), "users[].user.client-key"),
        ];
        found.into_iter().find_map(|(is, what)| is.then_some(what))
    });
    let mut clusters = kubeconfig.clusters.iter().filter_map(|one| one.cluster.as_ref());
    user.or_else(|| {
        clusters.find_map(|cluster| {
            let found = [
                (
                    cluster.certificate_authority.is_some(),
                    "clusters[].cluster.certificate-authority",
                ),
                (cluster.proxy_url.is_some(), "clusters[].cluster.proxy-url"),
            ];
            found.into_iter().find_map(|(is, what)| is.then_some(what))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(user: &str, cluster: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             contexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n\
             clusters: [{{name: k, cluster: {{server: 'https://127.0.0.1:1', {cluster}}}}}]\n\
             users: [{{name: u, user: {{{user}}}}}]\n"
        )
    }

    async fn found(text: &str) -> String {
        match config(text, Duration::from_secs(1)).await {
            Ok(_) => "fit".to_owned(),
            Err(Finding::BadConfig(why)) => why,
            Err(other) => format!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn values_are_taken_programs_and_files_are_not() {
        assert_eq!(found(&with("token: abc", "")).await, "fit");
        for (user, cluster, named) in [
            ("exec: {apiVersion: v1, command: /bin/evil}", "", "user.exec"),
            ("tokenFile: /var/run/secrets/token", "", "tokenFile"),
            (
                "client-certificate: /etc/a, client-key: /etc/b",
                "",
                "client-certificate",
            ),
            ("auth-provider: {name: gcp, config: {}}", "", "auth-provider"),
            (
                "token: t",
                "certificate-authority: /etc/passwd",
                "certificate-authority",
            ),
            ("token: t", "proxy-url: 'http://evil'", "proxy-url"),
        ] {
            let said = found(&with(user, cluster)).await;
            assert!(said.contains(named), "{user} {cluster}: {said}");
        }
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_not_repeated() {
        let said = found("users: [{token: SECRET").await;
        assert!(!said.contains("SECRET") && said.contains("not YAML"), "{said}");
        assert!(found("{}").await.contains("cannot be used"));
    }

    #[test]
    fn a_secret_has_to_be_there_with_its_key() {
        let missing = text(None, "s", "k").expect_err("missing");
        assert!(
            missing
                .trouble()
                .unwrap_or_default()
                .contains("Secret s is missing")
        );
        let empty = text(Some(&Secret::default()), "s", "k").expect_err("empty");
        assert!(empty.trouble().unwrap_or_default().contains("no value under k"));
    }
}

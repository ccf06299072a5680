//! Who may do what, and where.

use end_to_end::Embedded;

use crate::{GARDENS, contains, start};

#[tokio::test(flavor = "multi_thread")]
async fn who_may_do_what() -> anyhow::Result<()> {
    let (embedded, kubectl) = start().await?;
    contains(
        &kubectl.run(&["auth", "whoami"]).await?,
        &["kubernetes-admin", "system:masters"],
    );
    assert_eq!(
        kubectl.run(&["auth", "can-i", "create", "pods"]).await?.trim(),
        "yes"
    );
    kubectl.run(&["create", "sa", "bot"]).await?;
    let bot = "--as=system:serviceaccount:default:bot";
    let refused = kubectl.try_run(&["auth", "can-i", "list", "cm", bot], "").await?;
    assert_eq!((refused.code, refused.out.trim()), (1, "no"));
    kubectl
        .run(&[
            "create",
            "rolebinding",
            "bot",
            "--clusterrole=view",
            "--serviceaccount=default:bot",
        ])
        .await?;
    assert_eq!(
        kubectl.run(&["auth", "can-i", "list", "cm", bot]).await?.trim(),
        "yes"
    );
    contains(
        &kubectl.run(&["auth", "can-i", "--list", bot]).await?,
        &["configmaps", "[get list watch]"],
    );
    let secrets = kubectl.fails(&["get", "secrets", bot]).await?;
    contains(
        &secrets,
        &["User \"system:serviceaccount:default:bot\" cannot list resource \"secrets\""],
    );

    let token = kubectl.run(&["create", "token", "bot", "--duration=20m"]).await?;
    let server = kubectl
        .run(&[
            "config",
            "view",
            "-o",
            "jsonpath={.clusters[?(@.name==\"alpha\")].cluster.server}",
        ])
        .await?;
    let as_bot = |arguments: &[&str]| {
        let mut all = vec![
            "--kubeconfig=/dev/null",
            "--insecure-skip-tls-verify",
            "--token",
            token.trim(),
            "--server",
            &server,
        ];
        all.extend(arguments);
        all.iter()
            .map(|&argument| argument.to_owned())
            .collect::<Vec<_>>()
    };
    let get = as_bot(&["get", "cm", "-o", "name"]);
    let get: Vec<&str> = get.iter().map(String::as_str).collect();
    contains(&kubectl.run(&get).await?, &["configmap/kube-root-ca.crt"]);
    let delete = as_bot(&["delete", "cm", "kube-root-ca.crt"]);
    let delete: Vec<&str> = delete.iter().map(String::as_str).collect();
    contains(&kubectl.fails(&delete).await?, &["Forbidden"]);
    // The same token is nothing in the other cluster.
    let elsewhere: Vec<String> = get
        .iter()
        .map(|a| a.replace("/clusters/alpha", "/clusters/beta"))
        .collect();
    let elsewhere: Vec<&str> = elsewhere.iter().map(String::as_str).collect();
    contains(
        &kubectl.fails(&elsewhere).await?,
        &["You must be logged in to the server"],
    );
    embedded.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_say_who_someone_is() -> anyhow::Result<()> {
    let (embedded, kubectl) = start().await?;
    let issued = embedded
        .server
        .access()
        .authority()
        .issue_client("rita", &["readers"])?;
    std::fs::write(kubectl.home().join("rita.crt"), issued.certificate)?;
    std::fs::write(kubectl.home().join("rita.key"), issued.key)?;
    kubectl
        .run(&[
            "config",
            "set-credentials",
            "rita",
            "--client-certificate=rita.crt",
            "--client-key=rita.key",
        ])
        .await?;
    let who = kubectl.run(&["auth", "whoami", "--user=rita"]).await?;
    contains(&who, &["rita", "readers", "system:authenticated"]);
    contains(
        &kubectl.fails(&["get", "cm", "--user=rita"]).await?,
        &["User \"rita\" cannot list resource \"configmaps\""],
    );
    kubectl
        .run(&[
            "create",
            "clusterrolebinding",
            "readers",
            "--clusterrole=view",
            "--group=readers",
        ])
        .await?;
    contains(
        &kubectl.run(&["get", "cm", "--user=rita"]).await?,
        &["kube-root-ca.crt"],
    );
    // A certificate of another authority does not even get through the handshake.
    let other = Embedded::start().await?;
    let foreign = other
        .server
        .access()
        .authority()
        .issue_client("rita", &["readers"])?;
    std::fs::write(kubectl.home().join("rita.crt"), foreign.certificate)?;
    std::fs::write(kubectl.home().join("rita.key"), foreign.key)?;
    kubectl.fails(&["get", "cm", "--user=rita"]).await?;
    other.server.shutdown().await;
    embedded.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn contexts_are_clusters_of_their_own() -> anyhow::Result<()> {
    let (embedded, kubectl) = start().await?;
    contains(
        &kubectl.run(&["config", "get-contexts", "-o", "name"]).await?,
        &["alpha", "beta"],
    );
    assert_eq!(kubectl.run(&["config", "current-context"]).await?.trim(), "alpha");
    kubectl.run(&["create", "cm", "here"]).await?;
    kubectl.run(&["config", "use-context", "beta"]).await?;
    contains(&kubectl.fails(&["get", "cm", "here"]).await?, &["not found"]);
    kubectl.run_with(&["apply", "-f", "-"], GARDENS).await?;
    kubectl
        .run(&[
            "wait",
            "--for=condition=Established",
            "crd/gardens.example.com",
            "--timeout=20s",
        ])
        .await?;
    kubectl.run(&["get", "gardens"]).await?;
    contains(
        &kubectl.fails(&["get", "gardens", "--context=alpha"]).await?,
        &["doesn't have a resource type"],
    );
    contains(&kubectl.run(&["cluster-info"]).await?, &["/clusters/beta"]);
    embedded.server.shutdown().await;
    Ok(())
}

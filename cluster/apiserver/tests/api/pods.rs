//! Logs, commands and ports of pods, with a node that runs commands as plain processes.

use std::{collections::BTreeMap, net::SocketAddr, process::Stdio, sync::Arc};

use apiserver::{
    ApiError,
    pods::{Connection, ExecOptions, Exit, LogOptions, LogStream, PodRef, Provider, Session},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use futures::{SinkExt, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{AttachParams, LogParams},
};
use rustls::pki_types::ServerName;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    process::Command,
};
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::{Message, client::IntoClientRequest};

use crate::support::*;

struct Processes {
    port: u16,
}

#[async_trait::async_trait]
impl Provider for Processes {
    async fn logs(&self, pod: &PodRef, options: &LogOptions) -> Result<LogStream, ApiError> {
        let lines: Vec<_> = (0..options.tail_lines.unwrap_or(3))
            .map(|i| Ok(format!("{} {} {i}\n", pod.name, options.container).into()))
            .collect();
        Ok(futures::stream::iter(lines).boxed())
    }

    async fn exec(&self, _: &PodRef, options: &ExecOptions) -> Result<Session, ApiError> {
        let mut child = Command::new(&options.command[0])
            .args(&options.command[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(ApiError::internal)?;
        Ok(Session {
            stdin: options
                .stdin
                .then(|| child.stdin.take())
                .flatten()
                .map(|s| Box::new(s) as _),
            stdout: child.stdout.take().map(|s| Box::new(s) as _),
            stderr: options
                .stderr
                .then(|| child.stderr.take())
                .flatten()
                .map(|s| Box::new(s) as _),
            resize: None,
            exit: Box::pin(async move {
                match child.wait().await {
                    Ok(status) => Exit::Code(status.code().unwrap_or(-1)),
                    Err(error) => Exit::Failed(error.to_string()),
                }
            }),
        })
    }

    async fn attach(&self, pod: &PodRef, options: &ExecOptions) -> Result<Session, ApiError> {
        self.exec(
            pod,
            &ExecOptions {
                command: vec!["cat".into()],
                ..options.clone()
            },
        )
        .await
    }

    async fn connect(&self, _: &PodRef, port: u16) -> Result<Box<dyn Connection>, ApiError> {
        if port != 80 {
            return Err(ApiError::bad_request(format!("nothing listens on port {port}")));
        }
        let stream = TcpStream::connect(("127.0.0.1", self.port))
            .await
            .map_err(ApiError::internal)?;
        Ok(Box::new(stream))
    }
}

/// A server that answers each line with itself in capitals.
async fn shouter() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut buffer = [0; 1024];
                while let Ok(n @ 1..) = socket.read(&mut buffer).await {
                    let loud = buffer[..n].to_ascii_uppercase();
                    if socket.write_all(&loud).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

pub(crate) async fn pod(run: &Running) -> Api<Pod> {
    post(
        &run.client,
        "/api/v1/namespaces/default/serviceaccounts",
        json!({"metadata": {"name": "default"}}),
    )
    .await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "main", "image": "x:1"}]}});
    assert_eq!(
        post(&run.client, "/api/v1/namespaces/default/pods", pod).await.0,
        201
    );
    let running = json!({"status": {"phase": "Running"}}).to_string();
    let path = "/api/v1/namespaces/default/pods/p/status";
    let media = "application/merge-patch+json";
    assert_eq!(
        call_as(&run.client, http::Method::PATCH, path, media, running)
            .await
            .0,
        200
    );
    run.server.set_pods(
        "default",
        Arc::new(Processes {
            port: shouter().await,
        }),
    );
    Api::namespaced(run.client.clone(), "default")
}

#[tokio::test]
async fn logs_are_streamed() {
    let run = start().await;
    let pods = pod(&run).await;
    let text = pods
        .logs(
            "p",
            &LogParams {
                tail_lines: Some(2),
                ..Default::default()
            },
        )
        .await
        .unwrap();
    assert_eq!(text, "p main 0\np main 1\n");
    let other = LogParams {
        container: Some("nope".into()),
        ..Default::default()
    };
    let error = pods.logs("p", &other).await.unwrap_err().to_string();
    assert!(error.contains("container nope is not valid for pod p"), "{error}");
}

#[tokio::test]
async fn commands_run_with_their_streams_and_exit_codes() {
    let run = start().await;
    let pods = pod(&run).await;
    let params = AttachParams::default().stdin(true).stdout(true).stderr(true);
    let mut session = pods
        .exec("p", ["sh", "-c", "cat; echo oops >&2; exit 3"], &params)
        .await
        .unwrap();
    let mut stdin = session.stdin().unwrap();
    stdin.write_all(b"hello").await.unwrap();
    stdin.shutdown().await.unwrap();
    drop(stdin);
    let (mut out, mut err) = (String::new(), String::new());
    let (mut stdout, mut stderr) = (session.stdout().unwrap(), session.stderr().unwrap());
    let status = session.take_status().unwrap();
    let (a, b) = tokio::join!(stdout.read_to_string(&mut out), stderr.read_to_string(&mut err));
    a.unwrap();
    b.unwrap();
    assert_eq!((out.as_str(), err.as_str()), ("hello", "oops\n"));
    let status = status.await.unwrap();
    assert_eq!(status.reason.as_deref(), Some("NonZeroExitCode"));
    let causes = status.details.unwrap().causes.unwrap();
    assert_eq!(causes[0].message.as_deref(), Some("3"));
    session.join().await.unwrap();

    let mut session = pods
        .attach("p", &AttachParams::default().stdin(true).stderr(false))
        .await
        .unwrap();
    session.stdin().unwrap().write_all(b"echo").await.unwrap();
    let mut answer = [0; 4];
    session.stdout().unwrap().read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"echo");
    session.abort();

    let (code, error) = get(
        &run.client,
        "/api/v1/namespaces/default/pods/p/exec?command=ls&stdout=true",
    )
    .await;
    assert_eq!((code, error["reason"].as_str()), (400, Some("BadRequest")));
}

/// What a client of an older protocol sees of a command that repeats its input: the protocol that was agreed on, and
/// the messages.
async fn talk(
    address: SocketAddr,
    tls: &TlsConnector,
    token: &str,
    offered: Option<&str>,
) -> (Option<String>, Vec<Message>) {
    let script = "command=sh&command=-c&command=head%20-c5%3Bexit%203&stdin=true&stdout=true";
    let url = format!("wss://{address}/api/v1/namespaces/default/pods/p/exec?{script}");
    let mut request = url.into_client_request().unwrap();
    let headers = request.headers_mut();
    headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
    if let Some(offered) = offered {
        headers.insert("sec-websocket-protocol", offered.parse().unwrap());
    }
    let socket = TcpStream::connect(address).await.unwrap();
    let stream = tls.connect(ServerName::from(address.ip()), socket).await.unwrap();
    let (mut socket, answer) = tokio_tungstenite::client_async(request, stream).await.unwrap();
    let agreed = answer.headers().get("sec-websocket-protocol");
    let agreed = agreed.map(|name| name.to_str().unwrap().to_owned());
    let text = agreed.as_deref().is_some_and(|name| name.contains("base64"));
    let hello = if text {
        Message::Text(format!("0{}", STANDARD.encode("hello")).into())
    } else {
        Message::Binary(b"\0hello".to_vec().into())
    };
    socket.send(hello).await.unwrap();
    let mut said = Vec::new();
    while let Some(Ok(message)) = socket.next().await {
        if matches!(message, Message::Close(_)) {
            break;
        }
        said.push(message);
    }
    (agreed, said)
}

#[tokio::test]
async fn commands_run_for_clients_of_older_protocols() {
    let run = start_with(|mut config| {
        config.listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        config
    })
    .await;
    pod(&run).await;
    let token = crate::load::account(&run, "older").await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let binding = json!({"metadata": {"name": "older"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "older", "namespace": "default"}]});
    assert_eq!(post(&run.client, rbac, binding).await.0, 201);
    let (address, tls) = (run.server.addr().unwrap(), crate::listener::tls(&run));
    let plain = "command terminated with non-zero exit code: exit status 3";
    for (offered, status) in [
        (Some("v5.channel.k8s.io"), true),
        (Some("v4.channel.k8s.io"), true),
        (Some("v4.base64.channel.k8s.io"), true),
        (Some("channel.k8s.io"), false),
        (Some("base64.channel.k8s.io"), false),
        (Some("nobody.knows, base64.channel.k8s.io"), false),
        (None, false),
    ] {
        let (agreed, said) = talk(address, &tls, &token, offered).await;
        let last = offered.and_then(|offered| offered.split(", ").last());
        assert_eq!(agreed.as_deref(), last);
        let text = offered.is_some_and(|name| name.contains("base64"));
        // By channel: the number as a byte, or as a digit before Base64.
        let mut channels = BTreeMap::<u8, Vec<u8>>::new();
        for message in said {
            let (channel, data) = match message {
                Message::Text(said) if text => {
                    let (channel, data) = said.split_at(1);
                    (channel.parse().unwrap(), STANDARD.decode(data).unwrap())
                }
                Message::Binary(said) if !text => (said[0], said[1..].to_vec()),
                other => panic!("{offered:?}: {other:?}"),
            };
            channels.entry(channel).or_default().extend(data);
        }
        assert_eq!(channels[&1], b"hello", "{offered:?}");
        let end = String::from_utf8(channels[&3].clone()).unwrap();
        match serde_json::from_str::<serde_json::Value>(&end) {
            Ok(end) if status => assert_eq!(end["reason"], "NonZeroExitCode", "{offered:?}"),
            _ => assert_eq!((end.as_str(), status), (plain, false), "{offered:?}"),
        }
    }
}

#[tokio::test]
async fn ports_are_forwarded() {
    let run = start().await;
    let pods = pod(&run).await;
    let mut forwarder = pods.portforward("p", &[80, 81]).await.unwrap();
    let refused = forwarder.take_error(81).unwrap();
    assert!(refused.await.unwrap().contains("nothing listens on port 81"));
    let mut stream = forwarder.take_stream(80).unwrap();
    stream.write_all(b"quiet").await.unwrap();
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"QUIET");
    drop(stream);
    forwarder.abort();
}

#[tokio::test]
async fn leave_to_read_is_no_leave_to_run() {
    let run = start().await;
    pod(&run).await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    for (user, verbs) in [("rita", json!(["get"])), ("will", json!(["get", "create"]))] {
        let rules = json!([{"apiGroups": [""], "resources": ["pods/exec"], "verbs": verbs}]);
        let role = json!({"metadata": {"name": user}, "rules": rules});
        assert_eq!(post(&run.client, &format!("{rbac}/roles"), role).await.0, 201);
        let group = "rbac.authorization.k8s.io";
        let binding = json!({"metadata": {"name": user}, "roleRef": {"apiGroup": group, "kind": "Role", "name": user},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}]});
        assert_eq!(
            post(&run.client, &format!("{rbac}/rolebindings"), binding)
                .await
                .0,
            201
        );
        let pods: Api<Pod> = Api::default_namespaced(run.server.client_as("default", user, &[]));
        let session = pods.exec("p", ["true"], &AttachParams::default()).await;
        assert_eq!(session.is_ok(), user == "will", "{user}");
    }
}

//! Logs, commands and ports of pods, with a node that runs commands as plain processes.

use std::{process::Stdio, sync::Arc};

use apiserver::{
    ApiError,
    pods::{Connection, ExecOptions, Exit, LogOptions, LogStream, PodRef, Provider, Session},
};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{AttachParams, LogParams},
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    process::Command,
};

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

async fn pod(run: &Running) -> Api<Pod> {
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

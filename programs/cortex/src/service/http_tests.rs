//! The contract over a real socket.

use super::*;
use crate::engine::testing::{host, world};
use crate::engine::{PipelineDraft, StepDraft, defaults};
use crate::service::{Source, World};
use c5c3_kit::stop::Stopper;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn start(scheduler: Scheduler) -> (SocketAddr, Arc<Scheduler>, Stopper) {
    let scheduler = Arc::new(scheduler);
    let (stopper, stop) = Stop::channel();
    let local = "127.0.0.1:0".parse().expect("an address");
    let server = Server::bind(local, scheduler.clone(), Metrics::default(), None)
        .await
        .expect("binds");
    let address = server.address().expect("bound");
    tokio::spawn(server.serve(stop));
    (address, scheduler, stopper)
}

async fn ask(address: SocketAddr, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = tokio::net::TcpStream::connect(address).await.expect("connects");
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.expect("writes");
    stream.write_all(body.as_bytes()).await.expect("writes");
    let mut text = String::new();
    stream.read_to_string(&mut text).await.expect("reads");
    let (head, body) = text.split_once("\r\n\r\n").expect("an answer");
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    (code.expect("a code"), body.to_owned())
}

fn question(hosts: &[&str], data: &Value) -> Value {
    let entries: Vec<Value> = hosts.iter().map(|host| json!({"host": host})).collect();
    let weights: serde_json::Map<String, Value> = hosts
        .iter()
        .map(|host| ((*host).to_owned(), json!(1.0)))
        .collect();
    json!({"spec": {"nova_object.data": data}, "hosts": entries, "weights": weights,
        "pipeline": defaults::GENERAL})
}

fn filled() -> Scheduler {
    let draft = world(&[("a", host()), ("b", host())]);
    let scheduler = Scheduler {
        world: World::usual(),
        ..Scheduler::default()
    };
    scheduler.world.tell(Source::OpenStack {
        hosts: draft.hosts,
        servers: draft.servers,
    });
    scheduler
}

const NOVA: &str = "/scheduler/nova/external";

#[tokio::test]
async fn no_host_is_an_empty_list_and_never_null() {
    let (address, _, _stopper) = start(filled()).await;
    let large = json!({"flavor": {"nova_object.data": {"vcpus": 99, "memory_mb": 1}}});
    let (code, body) = ask(address, "POST", NOVA, &question(&["a", "b"], &large).to_string()).await;
    assert_eq!((code, body.as_str()), (200, r#"{"hosts":[]}"#));
    let none =
        json!({"spec": {"nova_object.data": {}}, "hosts": [], "weights": {}, "pipeline": defaults::GENERAL});
    assert_eq!(
        ask(address, "POST", NOVA, &none.to_string()).await.1,
        r#"{"hosts":[]}"#
    );
}

#[tokio::test]
async fn the_best_host_comes_first_and_the_decision_is_told() {
    let (address, _, _stopper) = start(filled()).await;
    let data = json!({"instance_uuid": "vm-1", "flavor": {"nova_object.data": {"vcpus": 1, "memory_mb": 1}}});
    let (code, body) = ask(
        address,
        "POST",
        NOVA,
        &question(&["b", "a", "x"], &data).to_string(),
    )
    .await;
    assert_eq!((code, body.as_str()), (200, r#"{"hosts":["a","b"]}"#));
    let (_, why) = ask(address, "GET", "/why/vm-1", "").await;
    let why: Value = serde_json::from_str(&why).expect("JSON");
    assert_eq!(
        why["decisions"][0]["dropped"][0]["reason"],
        "is not known to Cortex"
    );
    let (_, metrics) = ask(address, "GET", "/metrics", "").await;
    assert!(metrics.contains(
        r#"cortex_scheduler_api_request_duration_seconds_count{path="/scheduler/nova/external",code="200"} 1"#
    ));
    assert!(
        metrics.contains("cortex_filter_weigher_pipeline_hosts_dropped_total"),
        "{metrics}"
    );
}

#[tokio::test]
async fn errors_are_plain_text_with_the_codes_of_the_contract() {
    let (address, _, _stopper) = start(filled()).await;
    for (method, path, body, code, text) in [
        ("GET", NOVA, "", 405, "invalid request method"),
        ("POST", NOVA, "{", 400, "failed to decode request body"),
        (
            "POST",
            NOVA,
            r#"{"spec":{"nova_object.data":{}},"hosts":[{"host":"a"}],"weights":{}}"#,
            400,
            "missing weight",
        ),
        (
            "POST",
            NOVA,
            r#"{"spec":{"nova_object.data":{}},"hosts":[],"weights":{"a":1}}"#,
            400,
            "unknown host a",
        ),
        (
            "POST",
            NOVA,
            r#"{"spec":{"nova_object.data":{}},"hosts":[],"weights":{}}"#,
            400,
            "hypervisor type",
        ),
        (
            "POST",
            NOVA,
            r#"{"spec":{"nova_object.data":{}},"hosts":[],"weights":{},"pipeline":"none"}"#,
            500,
            "no pipeline none",
        ),
        (
            "POST",
            "/scheduler/cinder/external",
            r#"{"spec":{},"hosts":[{"host":"h"}],"weights":{"h":1}}"#,
            200,
            r#"{"hosts":["h"]}"#,
        ),
        (
            "POST",
            "/scheduler/manila/external",
            r#"{"spec":{},"hosts":[{"host":"h"}],"weights":{"h":1}}"#,
            200,
            r#"{"hosts":["h"]}"#,
        ),
        ("GET", "/nowhere", "", 404, "no such page"),
    ] {
        let (got, answer) = ask(address, method, path, body).await;
        assert_eq!(got, code, "{path} {body}");
        assert!(answer.contains(text), "{answer}");
    }
}

#[tokio::test]
async fn a_pipeline_with_a_broken_filter_answers_nobody() {
    let scheduler = filled();
    let broken = PipelineDraft {
        name: "kvm-general-purpose-load-balancing".into(),
        filters: vec![StepDraft::named("external_customer")],
        ..PipelineDraft::default()
    };
    scheduler
        .world
        .set_pipelines(vec![(SchedulingDomain::Nova, broken)], Vec::new());
    let (address, _, _stopper) = start(scheduler).await;
    let (code, text) = ask(address, "POST", NOVA, &question(&["a"], &json!({})).to_string()).await;
    assert_eq!(code, 500);
    assert!(text.contains("external_customer: domainNamePrefixes"), "{text}");
}

#[tokio::test]
async fn it_is_ready_once_hosts_are_known() {
    let (address, scheduler, _stopper) = start(Scheduler::default()).await;
    assert_eq!(ask(address, "GET", "/readyz", "").await.0, 503);
    assert_eq!(ask(address, "GET", "/healthz", "").await.0, 200);
    scheduler
        .world
        .tell(Source::Hypervisors([("a".to_owned(), host())].into()));
    assert_eq!(ask(address, "GET", "/readyz", "").await.0, 200);
}

#[tokio::test]
async fn evacuations_stay_among_the_hosts_that_are_fit() {
    let (address, _, _stopper) = start(filled()).await;
    let data = json!({"scheduler_hints": {"_nova_check_type": ["evacuate"]},
        "flavor": {"nova_object.data": {"vcpus": 1, "memory_mb": 1}}});
    let (_, body) = ask(
        address,
        "POST",
        NOVA,
        &question(&["b", "a", "x"], &data).to_string(),
    )
    .await;
    let body: Value = serde_json::from_str(&body).expect("JSON");
    let mut hosts: Vec<&str> = body["hosts"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    hosts.sort_unstable();
    assert_eq!(hosts, ["a", "b"]);
}

use super::*;
use crate::test_server::{Server as TestServer, answer, logged_in};

#[tokio::test]
async fn hosts_are_exact_and_pages_are_followed() {
    let server = TestServer::start(logged_in(|q| match (q.method.as_str(), q.path.as_str()) {
        ("GET", "/servers/detail?all_tenants=1&host=node1&limit=500") => {
            let guest = |id: String, host: &str| {
                json!({"id": id, "name": "s", "status": "ACTIVE", "OS-EXT-STS:task_state": null,
                    "OS-EXT-SRV-ATTR:host": host, "flavor": {"ram": 128}})
            };
            let mut all: Vec<Value> = (0..PAGE - 1).map(|i| guest(format!("s{i}"), "node1")).collect();
            all.push(guest("last".into(), "node10"));
            answer(200, &json!({"servers": all}))
        }
        ("GET", "/servers/detail?all_tenants=1&host=node1&limit=500&marker=last") => answer(
            200,
            &json!({"servers": [{"id": "z", "name": "s", "status": "ERROR", "fault": {"message": "bad"},
                "OS-EXT-SRV-ATTR:host": "node1", "metadata": {"c5c3:evacuation_priority": "7"}}]}),
        ),
        ("GET", "/os-hypervisors/detail?limit=500") => answer(
            200,
            &json!({"hypervisors": [{"id": "h1", "hypervisor_hostname": "node1.example",
                "service": {"id": "v1", "host": "node1", "disabled_reason": null}}]}),
        ),
        ("DELETE", "/os-services/gone") => answer(404, &json!({})),
        ("PUT", "/os-services/v1") => answer(200, &json!({"service": {}})),
        ("POST", "/servers") => answer(202, &json!({"server": {"id": "t1"}})),
        ("POST", "/servers/s1/migrations/7/action") => answer(202, &json!({})),
        ("POST", "/servers/s1/migrations/8/action") => answer(404, &json!({})),
        _ => answer(500, &json!({})),
    }))
    .await;
    let session = Session::new(server.cloud()).expect("a session");
    let guests = session.guests_on("node1").await.expect("a list");
    assert_eq!(guests.len(), PAGE, "node10 is another host");
    assert_eq!(guests[PAGE - 1].fault.as_deref(), Some("bad"));
    assert_eq!(guests[0].ram_mb, 128);
    assert_eq!((guests[0].priority, guests[PAGE - 1].priority), (0, 7));
    let record = session.hypervisors().await.expect("a list").remove(0);
    assert_eq!((record.id.as_str(), record.service.as_str()), ("h1", "v1"));
    session.delete_service("gone").await.expect("as good as deleted");
    session.disable("v1", "why").await.expect("disabled");
    let draft = TestDraft {
        name: "t".into(),
        host: "node1".into(),
        image: "i".into(),
        flavour: "f".into(),
        network: None,
    };
    assert_eq!(session.create_test_server(&draft).await.expect("made"), "t1");
    let asked = server.asked();
    let sent = asked.last().expect("asked").json();
    assert_eq!(
        (&sent["server"]["host"], &sent["server"]["networks"]),
        (&json!("node1"), &json!("none"))
    );
    session.force_complete("s1", 7).await.expect("asked");
    let asked = server.asked();
    let sent = asked.last().expect("asked").json();
    assert_eq!(sent, json!({"force_complete": null}));
    session.force_complete("s1", 8).await.expect("it is over");
}

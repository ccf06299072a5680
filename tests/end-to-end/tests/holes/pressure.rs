//! The tenant keeps others out, or sends the cluster's own parts where it cannot go.

use std::sync::Arc;
use std::time::Duration;

use apiserver::serve::{Body, stream};
use http::Request;
use openstack_client::{Beyond, Cloud, Limits, Session};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::{JSON, World, ask, make};

/// More than all places for requests.
const CROWD: usize = 1200;

/// A request as it comes from the listener.
fn request(world: &World, body: Body) -> anyhow::Result<Request<Body>> {
    Ok(Request::post("/api/v1/namespaces/tenant/configmaps")
        .header("authorization", format!("Bearer {}", world.token))
        .header("content-type", JSON)
        .body(body)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_never_end_keep_nobody_else_out() -> anyhow::Result<()> {
    let world = World::new().await?;
    let service = world.embedded.server.service();
    let mut crowd = Vec::with_capacity(CROWD);
    for _ in 0..CROWD {
        let request = request(&world, stream(futures::stream::pending()))?;
        crowd.push(tokio::spawn(service.answer(request)));
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let waiting = crowd.iter().filter(|request| !request.is_finished()).count();
    assert!(
        waiting < CROWD / 2,
        "{waiting} have a place: no more than a share"
    );
    let map = json!({"metadata": {"name": "in-time"}});
    make(&world.admin, "/api/v1/namespaces/victim/configmaps", map).await?;
    for request in crowd {
        request.abort();
    }
    let own = "/api/v1/namespaces/tenant/configmaps";
    let mut code = 0;
    for _ in 0..50 {
        let map = json!({"metadata": {"name": "at-last"}});
        (code, _) = ask(&world.tenant, "POST", own, JSON, &map).await?;
        if code != 429 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(code, 201, "the share comes back");
    world.embedded.server.shutdown().await;
    Ok(())
}

/// What looks after K-ORC's objects logs in where the tenant's clouds.yaml says, as root on the machine.
#[tokio::test(flavor = "multi_thread")]
async fn a_login_does_not_lead_to_the_machine() -> anyhow::Result<()> {
    let world = World::new().await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let secrets = "/api/v1/namespaces/tenant/secrets";
    for (number, host) in [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "2130706433",
    ]
    .iter()
    .enumerate()
    {
        let login = json!({"clouds": {"openstack": {"auth": {"auth_url": format!("http://{host}:{port}/v3"),
            "username": "u", "password": "p", "project_name": "x", "user_domain_name": "d", "project_domain_name": "d"}}}});
        let name = format!("clouds-{number}");
        let secret = json!({"metadata": {"name": name}, "stringData": {"clouds.yaml": login.to_string()}});
        make(&world.tenant, secrets, secret).await?;
        let (_, stored) = ask(
            &world.admin,
            "GET",
            &format!("{secrets}/{name}"),
            JSON,
            &Value::Null,
        )
        .await?;
        assert!(
            stored["data"]["clouds.yaml"].is_string(),
            "the API takes any text"
        );
        let cloud = Cloud::parse(&login.to_string(), "openstack", None)?;
        let limits = Limits {
            retries: 0,
            ..Limits::default()
        };
        let session = Session::with(cloud, Arc::new(Beyond::default()), limits)?;
        let refused = session.identify().await.map(drop).expect_err(host).to_string();
        assert!(refused.contains("is not asked"), "{host}: {refused}");
    }
    let knock = timeout(Duration::from_millis(200), listener.accept()).await;
    assert!(knock.is_err(), "nobody was asked");
    world.embedded.server.shutdown().await;
    Ok(())
}

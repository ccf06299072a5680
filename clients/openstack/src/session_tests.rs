use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::Method;
use serde_json::{Value, json};

use crate::test_server::{Question, Reply, Server, answer, token};
use crate::{Cause, Class, Content, Fields, Identity, ImageDraft, Images, Kind, Limits, Placement, Session};
use dial::{Stream, Tcp};

fn is_login(question: &Question) -> bool {
    question.path == "/v3/auth/tokens"
}

fn quick() -> Limits {
    Limits {
        connect: Duration::from_millis(300),
        answer: Duration::from_millis(300),
        ..Limits::default()
    }
}

fn session(server: &Server) -> Session {
    Session::with(server.cloud(), Arc::new(Tcp), Limits::default()).expect("a session")
}

fn domains() -> Reply {
    answer(200, &json!({"domains": [{"id": "default", "name": "Default"}]}))
}

#[tokio::test]
async fn one_login_serves_many_calls_at_once() {
    let server = Server::start(|_, q| {
        if is_login(q) {
            token("t1", 3600, "")
        } else {
            domains()
        }
    })
    .await;
    let session = session(&server);
    let calls = (0..20).map(|_| session.list(&Kind::Domain, &[("name", "Default")]));
    for found in futures::future::join_all(calls).await {
        assert_eq!(found.expect("a list")[0].id, "default");
    }
    let asked = server.asked();
    assert_eq!(asked.iter().filter(|q| is_login(q)).count(), 1);
    assert_eq!(asked[1].path, "/v3/domains?name=Default");
    assert_eq!(asked[1].token.as_deref(), Some("t1"));
    let login = asked[0].json();
    assert_eq!(
        login["auth"]["identity"]["password"]["user"]["password"],
        "s3cret"
    );
    assert_eq!(login["auth"]["scope"]["project"]["name"], "admin");
}

#[tokio::test]
async fn a_refused_token_is_renewed_once() {
    let server = Server::start(|count, q| match (is_login(q), q.token.as_deref()) {
        (true, _) => token(&format!("t{count}"), 3600, ""),
        (false, Some("t0")) => answer(401, &json!({"error": {"message": "revoked"}})),
        _ => domains(),
    })
    .await;
    assert_eq!(
        session(&server)
            .list(&Kind::Domain, &[])
            .await
            .expect("a list")
            .len(),
        1
    );
    assert_eq!(server.asked().len(), 4, "login, refused, login, list");

    let never = Server::start(|_, q| {
        if is_login(q) {
            token("t", 3600, "")
        } else {
            answer(401, &json!({"error": {"message": "no"}}))
        }
    })
    .await;
    let error = session(&never)
        .list(&Kind::Domain, &[])
        .await
        .expect_err("refused");
    assert_eq!(error.class(), Class::Unauthorized);
    assert_eq!(never.asked().len(), 4, "no more than two tries");
}

#[tokio::test]
async fn a_service_that_came_later_is_found() {
    let logins = AtomicUsize::new(0);
    let server = Server::start(move |_, q| {
        if !is_login(q) {
            return answer(200, &json!({"images": []}));
        }
        // Only the third catalogue has services.
        let whole = token("t", 3600, &format!("http://{}", q.host));
        if logins.fetch_add(1, Ordering::Relaxed) >= 2 {
            return whole;
        }
        let mut body: Value = serde_json::from_slice(&whole.2).expect("JSON");
        body["token"]["catalog"] = json!([]);
        (whole.0, whole.1, Bytes::from(body.to_string()))
    })
    .await;
    let after = |catalogue| {
        let limits = Limits {
            catalogue,
            ..Limits::default()
        };
        Session::with(server.cloud(), Arc::new(Tcp), limits).expect("a session")
    };
    let patient = after(Duration::from_secs(3600));
    for _ in 0..2 {
        let error = patient.images(None).await.expect_err("no such service");
        assert!(matches!(error.cause, Cause::NoEndpoint { .. }), "{error}");
    }
    assert_eq!(server.asked().len(), 1, "a new catalogue is not asked for again");
    after(Duration::ZERO)
        .images(None)
        .await
        .expect("it is there by now");
    assert_eq!(server.asked().len(), 4, "login, login, images");
}

#[tokio::test]
async fn a_token_near_its_end_is_renewed_before() {
    let server = Server::start(|_, q| {
        if is_login(q) {
            token("t", 30, "")
        } else {
            domains()
        }
    })
    .await;
    let session = session(&server);
    for _ in 0..2 {
        session.list(&Kind::Domain, &[]).await.expect("a list");
    }
    assert_eq!(server.asked().iter().filter(|q| is_login(q)).count(), 2);
}

#[tokio::test]
async fn a_wrong_password_is_tried_once_however_many_ask() {
    let refused = json!({"error": {"message": "The request you have made requires authentication."}});
    let server = Server::start(move |_, _| answer(401, &refused)).await;
    let session = session(&server);
    let calls = futures::future::join_all((0..10).map(|_| session.list(&Kind::Role, &[]))).await;
    for call in calls {
        let error = call.expect_err("refused");
        assert_eq!(error.class(), Class::Unauthorized);
        let text = error.to_string();
        assert!(
            text.starts_with("log in to http://127.0.0.1") && text.contains("401 Unauthorized"),
            "{text}"
        );
        assert!(!text.contains("s3cret"));
    }
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn errors_say_what_was_done() {
    let server = Server::start(|_, q| match (is_login(q), q.method.clone()) {
        (true, _) => token("t", 3600, ""),
        (_, Method::POST) => answer(409, &json!({"error": {"message": "Duplicate entry"}})),
        (_, Method::DELETE) => answer(404, &json!({})),
        _ => answer(500, &json!({})),
    })
    .await;
    let session = session(&server);
    let user = Fields::new().with("name", "glance").with("password", "hidden");
    let error = session.create(&Kind::User, &user).await.expect_err("taken");
    assert_eq!(
        error.to_string(),
        "create user glance: 409 Conflict: Duplicate entry"
    );
    assert_eq!(error.class(), Class::Conflict);
    session.delete(&Kind::User, "x").await.expect("gone already");
    let error = session.get(&Kind::User, "x").await.expect_err("broken");
    assert_eq!(error.class(), Class::Unavailable);
}

#[tokio::test]
async fn silence_ends_in_a_timeout_and_no_connection_in_an_error() {
    let server = Server::wrapped(
        |_, _| domains(),
        |stream| async move {
            tokio::time::sleep(Duration::from_secs(5)).await;
            Ok(Box::new(stream) as Box<dyn Stream>)
        },
    )
    .await;
    let impatient = Session::with(server.cloud(), Arc::new(Tcp), quick()).expect("a session");
    let error = impatient.ping().await.expect_err("silence");
    assert!(matches!(error.cause, Cause::Timeout(_)), "{error}");
    assert!(error.unreachable());

    let closed = server.cloud();
    drop(server);
    tokio::time::sleep(Duration::from_millis(20)).await;
    let session = Session::with(closed, Arc::new(Tcp), Limits::default()).expect("a session");
    let error = session.ping().await.expect_err("nobody there");
    assert!(
        matches!(error.cause, Cause::Connect { .. } | Cause::Broken(_)),
        "{error}"
    );
}

#[tokio::test]
async fn what_may_be_repeated_is_repeated() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let connections = Arc::new(AtomicUsize::new(0));
    let count = connections.clone();
    let server = Server::wrapped(
        |_, _| domains(),
        move |stream| {
            let broken = count.fetch_add(1, Ordering::SeqCst) < 2;
            async move {
                if broken {
                    return Err(std::io::Error::other("dropped"));
                }
                Ok(Box::new(stream) as Box<dyn Stream>)
            }
        },
    )
    .await;
    session(&server).ping().await.expect("the third try works");
    assert_eq!(connections.load(Ordering::SeqCst), 3);

    connections.store(0, Ordering::SeqCst);
    // A login is a POST: it is not repeated.
    session(&server).identify().await.expect_err("dropped");
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn too_long_an_answer_is_refused() {
    let server = Server::start(|_, _| answer(200, &json!("x".repeat(5000)))).await;
    let limits = Limits {
        bytes: 1000,
        ..Limits::default()
    };
    let session = Session::with(server.cloud(), Arc::new(Tcp), limits).expect("a session");
    let error = session.ping().await.expect_err("too long");
    assert_eq!(error.cause, Cause::TooLarge(1000));
}

#[tokio::test]
async fn images_stream_both_ways() {
    let server = Server::start(move |_, q| {
        let at = "http://glance.openstack.svc/glance";
        match (q.method.clone(), q.path.as_str()) {
            (_, path) if path.ends_with("/auth/tokens") => token("t", 3600, at),
            (Method::POST, _) => answer(201, &json!({"id": "i1", "name": "tiny", "status": "queued"})),
            (Method::PUT, _) => answer(204, &json!({})),
            (Method::GET, "/glance/v2/images/i1/file") => {
                (http::StatusCode::OK, Vec::new(), Bytes::from(vec![7u8; 100_000]))
            }
            _ => answer(404, &json!({"message": "No image found"})),
        }
    })
    .await;
    let mut cloud = server.cloud();
    cloud.interface = crate::Interface::Public;
    let session =
        Session::with(cloud, Arc::new(Prefixed(server.address)), Limits::default()).expect("a session");
    let image = session
        .create_image(&ImageDraft::raw("tiny"))
        .await
        .expect("an image");
    let chunks = (0..10).map(|_| Ok(Bytes::from(vec![7u8; 10_000])));
    let content = Content::new(futures::stream::iter(chunks));
    session.upload_image(&image.id, content).await.expect("an upload");
    let sent = server
        .asked()
        .into_iter()
        .find(|q| q.method == Method::PUT)
        .expect("a PUT");
    assert_eq!(
        (sent.path.as_str(), sent.body.len()),
        ("/glance/v2/images/i1/file", 100_000)
    );
    let back = session.download_image("i1").await.expect("a download");
    assert_eq!(back.collect(1 << 20).await.expect("the content").len(), 100_000);
    let error = session.download_image("i2").await.expect_err("no such image");
    assert_eq!(
        error.to_string(),
        "download image i2: 404 Not Found: No image found"
    );
    assert_eq!(session.image("i2").await.expect("an answer"), None);
    let mut stream = session
        .download_image("i1")
        .await
        .expect("a download")
        .into_stream();
    stream.next().await.expect("a first piece").expect("bytes");
}

/// The catalogue names a host that only the dialer knows.
#[derive(Debug)]
struct Prefixed(std::net::SocketAddr);

#[async_trait::async_trait]
impl crate::Dial for Prefixed {
    async fn dial(&self, _host: &str, _port: u16) -> std::io::Result<Box<dyn Stream>> {
        Tcp.dial(&self.0.ip().to_string(), self.0.port()).await
    }
}

#[tokio::test]
async fn placement_is_asked_in_one_microversion() {
    let server = Server::start(|_, q| {
        if q.path.ends_with("/auth/tokens") {
            return token("t", 3600, "http://placement.openstack.svc/placement");
        }
        answer(
            200,
            &json!({"resource_provider_generation": 3, "inventories": {"VCPU": {"total": 8}}}),
        )
    })
    .await;
    let session = Session::with(
        server.cloud(),
        Arc::new(Prefixed(server.address)),
        Limits::default(),
    )
    .expect("a session");
    let (generation, inventories) = session.inventories("rp").await.expect("inventories");
    assert_eq!((generation, inventories["VCPU"].total), (3, 8));
    assert_eq!(
        server.asked()[1].path,
        "/placement/resource_providers/rp/inventories"
    );
}

#[tokio::test]
async fn tls_trusts_the_given_ca_and_no_other() {
    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("a key that fits");
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let server = Server::wrapped(
        |_, _| domains(),
        move |stream| {
            let acceptor = acceptor.clone();
            async move { Ok(Box::new(acceptor.accept(stream).await?) as Box<dyn Stream>) }
        },
    )
    .await;
    let mut cloud = server.cloud();
    cloud.auth_url = cloud.auth_url.replace("http://", "https://");
    let with = |ca: Option<String>| {
        let mut cloud = cloud.clone();
        cloud.ca = ca;
        Session::with(cloud, Arc::new(Tcp), Limits::default())
    };
    let trusting = with(Some(made.cert.pem())).expect("a session");
    trusting.ping().await.expect("the CA is trusted");
    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let wary = with(Some(other.cert.pem())).expect("a session");
    let error = wary.ping().await.expect_err("another CA");
    assert!(matches!(error.cause, Cause::Connect { .. }), "{error}");
    let error = with(Some("nonsense".to_owned())).expect_err("no certificate");
    assert!(
        error.to_string().contains("the CA holds no certificate"),
        "{error}"
    );
}

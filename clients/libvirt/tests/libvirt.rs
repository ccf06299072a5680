//! With a real libvirtd. `make test` runs these: they need it installed.

mod daemon;

use std::time::Duration;

use daemon::Libvirtd;
use libvirt_client::events::{Lifecycle, lifecycle};
use libvirt_client::{
    Certificates, Connection, Error, Event, EventKind, Events, News, Session, Settings, Uri,
};

const PATIENCE: Duration = Duration::from_secs(20);
const DOMAIN: &str = "<domain type='test'><name>NAME</name><memory unit='MiB'>64</memory><vcpu>2</vcpu><os><type>hvm</type></os></domain>";

async fn open(uri: &str) -> (Connection, Events) {
    let uri: Uri = uri.parse().expect("a URI");
    Connection::open(&uri, &Settings::default())
        .await
        .expect("libvirtd answers")
}

async fn lifecycle_of(events: &mut Events) -> Lifecycle {
    match tokio::time::timeout(PATIENCE, events.recv())
        .await
        .expect("in time")
    {
        Some(Event::Lifecycle(event)) => event,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
#[ignore = "needs libvirtd; make test runs it"]
async fn a_domain_lives_and_its_events_come() {
    let daemon = Libvirtd::start();
    let (connection, mut events) = open(&daemon.test_driver()).await;
    assert_eq!(connection.connect_get_type().await.expect("a type"), "TEST");
    assert!(connection.connect_get_lib_version().await.expect("a version") > 5_000_000);
    assert!(
        !connection
            .connect_get_hostname()
            .await
            .expect("a name")
            .is_empty()
    );
    let info = connection.node_get_info().await.expect("a host");
    assert_eq!((info.model.0.as_str(), info.cpus, info.nodes), ("i686", 16, 2));
    assert!(
        connection
            .connect_get_capabilities()
            .await
            .expect("XML")
            .contains("<topology>")
    );
    connection.listen(&[EventKind::Lifecycle]).await.expect("listens");

    let defined = connection
        .domain_define_xml_flags(&DOMAIN.replace("NAME", "one"), 0)
        .await
        .expect("defined");
    assert!(!defined.is_active());
    assert_eq!(lifecycle_of(&mut events).await.event, lifecycle::DEFINED);
    let running = connection
        .domain_create_with_flags(&defined, 0)
        .await
        .expect("started");
    assert!(running.is_active());
    let event = lifecycle_of(&mut events).await;
    assert_eq!(
        (event.event, &event.domain.uuid),
        (lifecycle::STARTED, &running.uuid)
    );

    let found = connection.domain_lookup_by_name("one").await.expect("there");
    assert_eq!(
        found,
        connection
            .domain_lookup_by_uuid(running.uuid)
            .await
            .expect("there")
    );
    assert_eq!(
        connection
            .domain_get_state(&found, 0)
            .await
            .expect("a state")
            .state,
        1
    );
    let info = connection.domain_get_info(&found).await.expect("figures");
    assert_eq!((info.max_memory, info.cpus), (64 << 10, 2));
    assert!(
        connection
            .domain_get_xml_desc(&found, 0)
            .await
            .expect("XML")
            .contains("<name>one</name>")
    );
    let stats = connection.all_stats(0).await.expect("figures");
    assert!(
        stats
            .iter()
            .any(|one| one.domain.uuid == running.uuid && !one.params.0.is_empty())
    );

    connection.domain_suspend(&found).await.expect("paused");
    assert_eq!(lifecycle_of(&mut events).await.event, lifecycle::SUSPENDED);
    connection.domain_resume(&found).await.expect("goes on");
    assert_eq!(lifecycle_of(&mut events).await.event, lifecycle::RESUMED);
    connection.domain_destroy_flags(&found, 0).await.expect("off");
    assert_eq!(lifecycle_of(&mut events).await.event, lifecycle::STOPPED);
    connection.domain_undefine_flags(&found, 0).await.expect("gone");
    assert_eq!(lifecycle_of(&mut events).await.event, lifecycle::UNDEFINED);
    let gone = connection
        .domain_get_state(&found, 0)
        .await
        .expect_err("it is gone");
    assert!(gone.is_no_domain(), "{gone}");
    connection.close().await.expect("leaves");
}

#[tokio::test]
#[ignore = "needs libvirtd; make test runs it"]
async fn refusals_name_the_reason_and_the_connection_goes_on() {
    let daemon = Libvirtd::start();
    let (connection, _events) = open(&daemon.test_driver()).await;
    let bad = connection
        .domain_define_xml_flags("<domain", 0)
        .await
        .expect_err("no XML");
    assert!(matches!(bad, Error::Refused { .. }), "{bad:?}");
    let domain = &connection.domains().await.expect("domains")[0];
    let none = connection
        .domain_get_job_stats(domain, 0)
        .await
        .expect_err("no jobs");
    assert!(none.is_unsupported(), "{none}");
    let uri: Uri = daemon
        .test_driver()
        .replace("default", "absent")
        .parse()
        .expect("a URI");
    let absent = Connection::open(&uri, &Settings::default())
        .await
        .expect_err("no such file");
    assert!(absent.code().is_some(), "{absent}");
    assert_eq!(connection.domains().await.expect("still there").len(), 1);
}

/// The test driver has no secrets; that of QEMU has, without QEMU.
#[tokio::test]
#[ignore = "needs libvirtd; make test runs it"]
async fn a_secret_is_defined_and_set() {
    let daemon = Libvirtd::start();
    let (connection, _events) = open(&format!(
        "qemu+unix:///session?socket={}",
        daemon.socket().display()
    ))
    .await;
    let xml = "<secret ephemeral='no' private='yes'><uuid>6b1ee6d0-9b0a-4b43-9f07-b7ad1fd6dc0e</uuid>\
               <usage type='ceph'><name>client.cinder</name></usage></secret>";
    let secret = connection.secret_define_xml(xml, 0).await.expect("defined");
    assert_eq!(secret.usage_id, "client.cinder");
    connection.set_secret(&secret, b"AQBodWg=").await.expect("set");
    let all = connection.connect_list_all_secrets(1, 0).await.expect("a list");
    assert_eq!((all.count, &all.secrets.0[0]), (1, &secret));
    assert_eq!(
        connection
            .secret_lookup_by_uuid(secret.uuid)
            .await
            .expect("there"),
        secret
    );
    connection.secret_undefine(&secret).await.expect("gone");
}

#[tokio::test]
#[ignore = "needs libvirtd; make test runs it"]
async fn pings_go_both_ways() {
    // It asks each second and hangs up after two without an answer.
    let daemon = Libvirtd::start_with("keepalive_interval = 1\nkeepalive_count = 2\n", &[]);
    let uri: Uri = daemon.test_driver().parse().expect("a URI");
    let settings = Settings {
        probe: Duration::from_millis(300),
        ..Settings::default()
    };
    let (connection, _events) = Connection::open(&uri, &settings).await.expect("answers");
    tokio::time::sleep(Duration::from_secs(5)).await;
    connection.connect_get_hostname().await.expect("still connected");
}

#[tokio::test]
#[ignore = "needs libvirtd; make test runs it"]
async fn a_session_outlives_the_daemon() {
    let mut daemon = Libvirtd::start();
    let uri: Uri = daemon.test_driver().parse().expect("a URI");
    let (_session, mut news) = Session::start(uri, Settings::default(), EventKind::ALL.to_vec());
    let mut next = async || {
        tokio::time::timeout(PATIENCE, news.recv())
            .await
            .expect("in time")
            .expect("goes on")
    };
    for _ in 0..3 {
        let connection = loop {
            if let News::Connected(connection) = next().await {
                break connection;
            }
        };
        assert_eq!(connection.domains().await.expect("domains").len(), 1);
        daemon.kill();
        assert!(matches!(next().await, News::Lost(_)));
        assert!(matches!(connection.domains().await, Err(Error::Closed)));
        daemon.up();
    }
}

#[tokio::test]
#[ignore = "needs libvirtd; make test runs it"]
async fn tcp_and_tls_lead_to_the_same() {
    let place = tempfile::tempdir().expect("a directory");
    let issued = issue(place.path());
    let (tcp, tls) = (free_port(), free_port());
    let path = |name: &str| place.path().join(name).display().to_string();
    let settings = format!(
        "listen_tcp = 1\nlisten_tls = 1\nlisten_addr = \"127.0.0.1\"\nauth_tcp = \"none\"\nauth_tls = \"none\"\n\
         tcp_port = \"{tcp}\"\ntls_port = \"{tls}\"\nca_file = \"{}\"\ncert_file = \"{}\"\nkey_file = \"{}\"\n",
        path("ca.pem"),
        path("server.pem"),
        path("server.key")
    );
    let _daemon = Libvirtd::start_with(&settings, &["--listen"]);
    let (connection, _events) = open(&format!("test+tcp://127.0.0.1:{tcp}/default")).await;
    assert_eq!(connection.domains().await.expect("domains").len(), 1);

    let uri: Uri = format!("test+tls://localhost:{tls}/default")
        .parse()
        .expect("a URI");
    let with = |certificates| Settings {
        certificates,
        patience: PATIENCE,
        ..Settings::default()
    };
    let (connection, _events) = Connection::open(&uri, &with(Some(issued))).await.expect("TLS");
    assert_eq!(connection.domains().await.expect("domains").len(), 1);
    assert!(matches!(
        Connection::open(&uri, &with(None)).await,
        Err(Error::Tls(_))
    ));

    let other = tempfile::tempdir().expect("a directory");
    let stranger = issue(other.path());
    let refused = Connection::open(&uri, &with(Some(stranger))).await;
    assert!(
        matches!(refused, Err(Error::Unreachable { .. })),
        "{:?}",
        refused.err()
    );
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// An authority with a certificate of the server, in files that libvirtd can read, and our own.
fn issue(place: &std::path::Path) -> Certificates {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
    let named = |name: &str, names: Vec<String>| {
        let mut params = CertificateParams::new(names).expect("names");
        params.distinguished_name.push(DnType::CommonName, name);
        params
    };
    let mut authority = named("authority", vec![]);
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let authority_key = KeyPair::generate().expect("a key");
    let root = authority.self_signed(&authority_key).expect("a certificate");
    let issuer = Issuer::new(authority, authority_key);
    let leaf = |name: &str, names: Vec<String>| {
        let mut params = named(name, names);
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyEncipherment,
        ];
        params.extended_key_usages = vec![
            rcgen::ExtendedKeyUsagePurpose::ServerAuth,
            rcgen::ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &issuer).expect("a certificate");
        (certificate.pem(), key.serialize_pem())
    };
    let (server, key) = leaf("localhost", vec!["localhost".into()]);
    let write = |name: &str, text: &str| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::write(place.join(name), text).expect("a file");
        // Keys of a test, for a daemon that runs as somebody else.
        std::fs::set_permissions(place.join(name), std::fs::Permissions::from_mode(0o644)).expect("its mode");
    };
    std::fs::set_permissions(place, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("its mode");
    write("ca.pem", &root.pem());
    write("server.pem", &server);
    write("server.key", &key);
    let (client, client_key) = leaf("client", vec![]);
    Certificates::new(client.as_bytes(), client_key.as_bytes(), root.pem().as_bytes()).expect("certificates")
}

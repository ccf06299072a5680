//! The client against a peer that says what the test tells it to.

use std::path::PathBuf;
use std::time::Duration;

use ovsdb_client::{Connection, Error, Follow, Framer, Note, Operation, Remote, Session, State, Way};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

const PATIENCE: Duration = Duration::from_secs(20);

/// The other end of a connection.
struct Peer {
    stream: UnixStream,
    framer: Framer,
}

impl Peer {
    async fn accept(listener: &UnixListener) -> Self {
        let (stream, _) = tokio::time::timeout(PATIENCE, listener.accept())
            .await
            .expect("somebody connects in time")
            .expect("a connection");
        Peer {
            stream,
            framer: Framer::default(),
        }
    }

    async fn heard(&mut self) -> Value {
        let mut chunk = [0; 4096];
        loop {
            if let Some(message) = self.framer.message().expect("a message") {
                return message;
            }
            let read = tokio::time::timeout(PATIENCE, self.stream.read(&mut chunk)).await;
            let count = read.expect("something in time").expect("readable");
            assert!(count > 0, "the client hung up");
            self.framer.push(&chunk[..count]);
        }
    }

    async fn say(&mut self, message: Value) {
        let text = message.to_string();
        self.stream
            .write_all(text.as_bytes())
            .await
            .expect("the client listens");
    }

    /// Hears this request and answers it; the parameters are returned.
    async fn answer(&mut self, method: &str, result: Value) -> Value {
        let request = self.heard().await;
        assert_eq!(request["method"], method, "{request}");
        self.say(json!({"id": request["id"], "result": result, "error": null}))
            .await;
        request["params"].clone()
    }

    async fn refuse(&mut self, method: &str, error: Value) {
        let request = self.heard().await;
        assert_eq!(request["method"], method, "{request}");
        self.say(json!({"id": request["id"], "result": null, "error": error}))
            .await;
    }

    /// The first steps with a server of a raft cluster.
    async fn greet(&mut self, leader: bool) {
        self.answer("list_dbs", json!(["_Server", "D"])).await;
        self.answer("get_schema", server_schema()).await;
        let row = json!({"name": "D", "model": "clustered", "connected": true, "leader": leader});
        self.answer("monitor_cond", json!({"Database": {"s": {"initial": row}}}))
            .await;
    }
}

fn server_schema() -> Value {
    json!({"name": "_Server", "version": "1", "tables": {"Database": {"columns": {"name": {"type": "string"}}}}})
}

fn schema() -> Value {
    json!({"name": "D", "version": "1.0.0", "tables": {"T": {"columns": {
        "name": {"type": "string"}, "tags": {"type": {"key": "string", "min": 0, "max": "unlimited"}}}}}})
}

struct Place {
    _directory: tempfile::TempDir,
    path: PathBuf,
    listener: UnixListener,
}

fn listen() -> Place {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("db.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    Place {
        _directory: directory,
        path,
        listener,
    }
}

async fn connect(place: &Place, way: Way) -> (Connection, ovsdb_client::Notes, Peer) {
    let remote = Remote::Unix(place.path.clone());
    let (opened, peer) = tokio::join!(Connection::open(&remote, &way), Peer::accept(&place.listener));
    let (connection, notes) = opened.expect("connects");
    (connection, notes, peer)
}

fn follow(remotes: Vec<Remote>, leader: bool) -> Follow {
    Follow {
        remotes,
        database: "D".into(),
        tables: vec![("T".into(), vec![]), ("Absent".into(), vec![])],
        leader,
    }
}

async fn until(session: &Session, what: &str, holds: impl Fn(&State) -> bool) -> State {
    let mut watch = session.watch();
    let found = tokio::time::timeout(PATIENCE, watch.wait_for(|state| holds(state))).await;
    found
        .unwrap_or_else(|_| panic!("not in time: {what}"))
        .expect("it runs")
        .clone()
}

#[tokio::test]
async fn answers_find_their_question_in_any_order() {
    let place = listen();
    let (connection, _notes, mut peer) = connect(&place, Way::default()).await;
    let script = async {
        let (first, second) = (peer.heard().await, peer.heard().await);
        for (request, result) in [(second, json!(["two"])), (first, json!(["one"]))] {
            peer.say(json!({"id": request["id"], "result": result, "error": null}))
                .await;
        }
    };
    let (one, two, ()) = tokio::join!(connection.list_dbs(), connection.list_dbs(), script);
    let mut both = vec![one.expect("answered"), two.expect("answered")];
    both.sort();
    assert_eq!(both, [["one"], ["two"]]);
}

#[tokio::test]
async fn probes_are_answered_and_a_silent_server_is_left() {
    let place = listen();
    let way = Way {
        probe: Duration::from_millis(200),
        ..Way::default()
    };
    let (connection, mut notes, mut peer) = connect(&place, way).await;
    peer.say(json!({"id": "echo", "method": "echo", "params": ["x"]}))
        .await;
    assert_eq!(
        peer.heard().await,
        json!({"id": "echo", "result": ["x"], "error": null})
    );
    // Then it is the client that asks, and that hangs up when nothing comes.
    assert_eq!(peer.heard().await["method"], "echo");
    assert_eq!(
        tokio::time::timeout(PATIENCE, notes.recv())
            .await
            .expect("in time"),
        None
    );
    assert!(matches!(connection.echo().await, Err(Error::Closed)));
}

#[tokio::test]
async fn a_transaction_that_failed_anywhere_is_an_error() {
    let place = listen();
    let (connection, _notes, mut peer) = connect(&place, Way::default()).await;
    let operations = [Operation::insert("T").set("name", "n")];
    for (answer, said) in [
        (
            json!([{"error": "constraint violation", "details": "name"}]),
            "refused: constraint violation: name",
        ),
        (
            json!([{"uuid": ["uuid", "u"]}, {"error": "not leader"}]),
            "refused: not leader",
        ),
        (
            json!([]),
            "the server sent something that is not an OVSDB message: outcomes of operations are missing",
        ),
        (
            json!(7),
            "the server sent something that is not an OVSDB message: the outcome of a transaction is not a list",
        ),
    ] {
        let (outcome, params) = tokio::join!(
            connection.transact("D", &operations),
            peer.answer("transact", answer)
        );
        assert_eq!(outcome.expect_err("failed").to_string(), said);
        assert_eq!(
            params,
            json!(["D", {"op": "insert", "table": "T", "row": {"name": "n"}}])
        );
    }
    let (outcome, _) = tokio::join!(
        connection.transact("D", &operations),
        peer.answer("transact", json!([{"uuid": ["uuid", "u"]}]))
    );
    assert_eq!(outcome.expect("done")[0].uuid(), Some("u"));
}

#[tokio::test]
async fn nonsense_ends_the_connection_and_nothing_else() {
    let place = listen();
    for nonsense in ["\u{0}\u{1}", "[]", "{\"id\":1,\"method\":3}", "{]"] {
        let (connection, mut notes, mut peer) = connect(&place, Way::default()).await;
        peer.stream.write_all(nonsense.as_bytes()).await.expect("written");
        assert_eq!(
            tokio::time::timeout(PATIENCE, notes.recv())
                .await
                .expect("in time"),
            None
        );
        assert!(connection.echo().await.is_err());
    }
    let short = Way {
        longest: 100,
        ..Way::default()
    };
    let (_connection, mut notes, mut peer) = connect(&place, short).await;
    let long = json!({"id": null, "method": "update", "params": ["x".repeat(200)]});
    peer.say(long).await;
    assert_eq!(
        tokio::time::timeout(PATIENCE, notes.recv())
            .await
            .expect("in time"),
        None::<Note>
    );
}

#[tokio::test]
async fn a_session_goes_to_the_leader_and_follows_it() {
    let (follower, leader) = (listen(), listen());
    let remotes = vec![
        Remote::Unix(follower.path.clone()),
        Remote::Unix(leader.path.clone()),
    ];
    let session = Session::start(follow(remotes.clone(), true), Way::default());
    let mut peer = Peer::accept(&follower.listener).await;
    peer.greet(false).await;

    let mut peer = Peer::accept(&leader.listener).await;
    peer.greet(true).await;
    peer.answer("get_schema", schema()).await;
    let params = peer
        .answer(
            "monitor_cond_since",
            json!([false, "t1", {"T": {"a": {"initial": {"name": "n", "tags": "x"}}}}]),
        )
        .await;
    assert_eq!(
        params[2],
        json!({"T": [{"columns": ["name", "tags"]}]}),
        "no table that the schema lacks"
    );
    let state = until(&session, "the first row", |state| state.tables.contains_key("T")).await;
    assert_eq!(state.remote, Some(remotes[1].clone()));
    peer.say(json!({"id": null, "method": "update3", "params": ["data", "t2", {"T": {"a": {"modify": {"tags": ["set", ["x", "y"]]}}}}]}))
        .await;
    until(&session, "a difference", |state| {
        state.tables["T"]["a"]["tags"] == "y"
    })
    .await;

    // It leads no more: the session leaves, and goes on where it was at the new leader.
    peer.say(json!({"id": null, "method": "update2", "params": ["server", {"Database": {"s": {"modify": {"leader": false}}}}]}))
        .await;
    let mut peer = Peer::accept(&follower.listener).await;
    peer.greet(true).await;
    peer.answer("get_schema", schema()).await;
    let params = peer
        .answer(
            "monitor_cond_since",
            json!([true, "t3", {"T": {"b": {"insert": {}}}}]),
        )
        .await;
    assert_eq!(params[3], "t2");
    let state = until(&session, "both rows", |state| state.tables["T"].len() == 2).await;
    assert_eq!(state.remote, Some(remotes[0].clone()));
    assert_eq!((state.failures, state.trouble), (0, None));

    let transacted = session.transact(vec![Operation::delete("T")]);
    let (outcome, _) = tokio::join!(transacted, peer.answer("transact", json!([{"count": 2}])));
    assert_eq!(outcome.expect("done")[0].count(), 2);
}

#[tokio::test]
async fn an_old_server_is_followed_in_the_old_way() {
    let place = listen();
    let session = Session::start(
        follow(vec![Remote::Unix(place.path.clone())], true),
        Way::default(),
    );
    let mut peer = Peer::accept(&place.listener).await;
    peer.answer("list_dbs", json!(["D"])).await;
    peer.answer("get_schema", schema()).await;
    peer.refuse("monitor_cond_since", json!({"error": "unknown method"}))
        .await;
    peer.answer("monitor", json!({"T": {"a": {"new": {"name": "n"}}}}))
        .await;
    until(&session, "the row", |state| state.tables.contains_key("T")).await;
    peer.say(json!({"id": null, "method": "update", "params": ["data", {"T": {"a": {"old": {}}}}]}))
        .await;
    until(&session, "no row", |state| state.tables["T"].is_empty()).await;
}

#[tokio::test]
async fn a_session_comes_back_and_says_what_is_wrong_meanwhile() {
    let place = listen();
    let session = Session::start(
        follow(vec![Remote::Unix(place.path.clone())], false),
        Way::default(),
    );
    let mut peer = Peer::accept(&place.listener).await;
    peer.answer("list_dbs", json!(["Other"])).await;
    let state = until(&session, "the trouble", |state| state.trouble.is_some()).await;
    assert_eq!(
        state.trouble.as_deref(),
        Some("the server does not know database D")
    );
    let refused = session.transact(vec![]).await.expect_err("not connected");
    assert!(
        refused.to_string().contains("does not know database D"),
        "{refused}"
    );
    let mut peer = Peer::accept(&place.listener).await;
    peer.answer("list_dbs", json!(["D"])).await;
    peer.answer("get_schema", schema()).await;
    peer.answer("monitor_cond_since", json!([false, "t", {}])).await;
    until(&session, "the connection", |state| state.remote.is_some()).await;
}

#[path = "../../../fuzz/targets/ovsdb.rs"]
mod fuzzed;

#[path = "../../../fuzz/seeds.rs"]
mod seeds;

/// The seeds of the fuzz target, as an ordinary test.
#[test]
fn messages_mean_the_same_however_they_arrive() {
    seeds::run("ovsdb", fuzzed::ovsdb);
}

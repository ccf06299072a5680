//! A connection that is made again whenever it ends, and a replica of tables that it keeps.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;

use crate::connection::{Connection, Note, Notes, Way};
use crate::error::Error;
use crate::operation::{Operation, Outcome};
use crate::remote::Remote;
use crate::replica::{Tables, Telling, apply};
use crate::schema::Schema;

/// The database in which a server describes itself.
const SERVER: &str = "_Server";
const ORDERS: usize = 16;

/// What a session is to follow.
#[derive(Clone, Debug)]
pub struct Follow {
    pub remotes: Vec<Remote>,
    pub database: String,
    /// Tables and their columns; without columns all of them.
    pub tables: Vec<(String, Vec<String>)>,
    /// Only the leader of a raft cluster will do: needed to write at once, and to read what is newest.
    pub leader: bool,
}

/// How a session is.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The server that it is connected to.
    pub remote: Option<Remote>,
    /// As of the last connection; empty before the first.
    pub tables: Arc<Tables>,
    /// Why there is no connection.
    pub trouble: Option<String>,
    /// The trouble is that certificates are not accepted.
    pub untrusted: bool,
    /// Connections that were tried without success since the last one that worked.
    pub failures: u32,
}

type Order = (Vec<Operation>, oneshot::Sender<Result<Vec<Outcome>, Error>>);

/// It ends when it is dropped.
#[derive(Debug)]
pub struct Session {
    state: watch::Receiver<State>,
    orders: mpsc::Sender<Order>,
    task: AbortHandle,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Session {
    pub fn start(follow: Follow, way: Way) -> Self {
        let (state, seen) = watch::channel(State::default());
        let (orders, ordered) = mpsc::channel(ORDERS);
        let task = tokio::spawn(run(follow, way, state, ordered));
        Session {
            state: seen,
            orders,
            task: task.abort_handle(),
        }
    }

    pub fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Tells of every change.
    pub fn watch(&self) -> watch::Receiver<State> {
        self.state.clone()
    }

    /// On the connection that is up now. It is not tried again: it may have been carried out.
    pub async fn transact(&self, operations: Vec<Operation>) -> Result<Vec<Outcome>, Error> {
        let state = self.state();
        if state.remote.is_none() {
            return Err(Error::Disconnected(state.trouble));
        }
        let (answer, answered) = oneshot::channel();
        let ordered = self.orders.send((operations, answer)).await;
        ordered.map_err(|_| Error::Closed)?;
        answered.await.unwrap_or(Err(Error::Closed))
    }
}

async fn run(follow: Follow, way: Way, state: watch::Sender<State>, mut orders: mpsc::Receiver<Order>) {
    let mut replica = Replica::default();
    let mut next = 0;
    loop {
        let Some(remote) = follow.remotes.get(next % follow.remotes.len().max(1)) else {
            return;
        };
        next = next.wrapping_add(1);
        let served = serve(&follow, remote, &way, &mut replica, &state, &mut orders).await;
        let Err(error) = served;
        let failures = state.borrow().failures.saturating_add(1);
        let told = error.to_string();
        tracing::debug!(%remote, "OVSDB: {told}");
        state.send_modify(|state| {
            state.remote = None;
            state.failures = failures;
            state.trouble = Some(told);
            state.untrusted = matches!(error, Error::Tls(_));
        });
        // The next remote may lead: a pause comes after every one was tried.
        let all = u32::try_from(follow.remotes.len()).unwrap_or(u32::MAX).max(1);
        if failures.is_multiple_of(all) {
            tokio::time::sleep(dial::pause(failures / all)).await;
        }
    }
}

#[derive(Default)]
struct Replica {
    tables: Tables,
    /// The last transaction that is in it.
    last: Option<String>,
}

enum Never {}

async fn serve(
    follow: &Follow,
    remote: &Remote,
    way: &Way,
    replica: &mut Replica,
    state: &watch::Sender<State>,
    orders: &mut mpsc::Receiver<Order>,
) -> Result<Never, Error> {
    let (connection, mut notes) = Connection::open(remote, way).await?;
    let mut server = Server::of(&connection, follow).await?;
    server.check(follow)?;
    let schema = connection.get_schema(&follow.database).await?;
    let telling = monitor(&connection, follow, &schema, replica).await?;
    publish(state, remote, replica);
    loop {
        tokio::select! {
            note = notes.recv() => {
                let note = note.ok_or(Error::Closed)?;
                if take(&note, &mut server, &schema, telling, replica) {
                    // All that is there already is told at once.
                    while let Some(more) = at_once(&mut notes) {
                        take(&more, &mut server, &schema, telling, replica);
                    }
                    publish(state, remote, replica);
                }
                server.check(follow)?;
            }
            order = orders.recv() => {
                let Some((operations, answer)) = order else {
                    return Err(Error::Closed);
                };
                let (connection, database) = (connection.clone(), follow.database.clone());
                tokio::spawn(async move {
                    // Who asked may have given up.
                    let _ = answer.send(connection.transact(&database, &operations).await);
                });
            }
        }
    }
}

fn at_once(notes: &mut Notes) -> Option<Note> {
    notes.try_recv().ok()
}

fn publish(state: &watch::Sender<State>, remote: &Remote, replica: &Replica) {
    state.send_modify(|state| {
        state.remote = Some(remote.clone());
        state.tables = Arc::new(replica.tables.clone());
        state.trouble = None;
        state.untrusted = false;
        state.failures = 0;
    });
}

const DATA: &str = "data";
const OF_SERVER: &str = "server";

/// `true` when the replica changed.
fn take(note: &Note, server: &mut Server, schema: &Schema, telling: Telling, replica: &mut Replica) -> bool {
    let params = note.params.as_array().map(Vec::as_slice).unwrap_or_default();
    let (id, last, updates) = match (note.method.as_str(), params) {
        ("update3", [id, last, updates]) => (id, Some(last), updates),
        ("update2" | "update", [id, updates]) => (id, None, updates),
        _ => return false,
    };
    match id.as_str() {
        Some(OF_SERVER) => {
            let telling = server.telling;
            apply(&mut server.tables, &server.schema, updates, telling);
            false
        }
        Some(DATA) => {
            apply(&mut replica.tables, schema, updates, telling);
            replica.last = last.and_then(Value::as_str).map(str::to_owned);
            true
        }
        _ => false,
    }
}

/// What the server says of its own part in the cluster.
struct Server {
    tables: Tables,
    schema: Schema,
    telling: Telling,
}

impl Server {
    /// One that is too old to tell stands alone.
    async fn of(connection: &Connection, follow: &Follow) -> Result<Self, Error> {
        let mut server = Server {
            tables: Tables::new(),
            schema: Schema::default(),
            telling: Telling::Whole,
        };
        let names = connection.list_dbs().await?;
        if !names.contains(&follow.database) {
            return Err(Error::NoDatabase(follow.database.clone()));
        }
        if follow.database == SERVER || !names.iter().any(|name| name == SERVER) {
            return Ok(server);
        }
        server.schema = connection.get_schema(SERVER).await?;
        let columns = ["name", "model", "connected", "leader"];
        let requests = json!({"Database": [{"columns": columns}]});
        let (updates, telling) = match connection
            .call("monitor_cond", json!([SERVER, OF_SERVER, requests]))
            .await
        {
            Ok(updates) => (updates, Telling::Difference),
            Err(error) if is_unknown_method(&error) => {
                let requests = json!({"Database": {"columns": columns}});
                let updates = connection
                    .call("monitor", json!([SERVER, OF_SERVER, requests]))
                    .await?;
                (updates, Telling::Whole)
            }
            Err(error) => return Err(error),
        };
        server.telling = telling;
        apply(&mut server.tables, &server.schema, &updates, telling);
        Ok(server)
    }

    fn check(&self, follow: &Follow) -> Result<(), Error> {
        let mut rows = self
            .tables
            .get("Database")
            .into_iter()
            .flat_map(|table| table.values());
        let Some(row) = rows.find(|row| row.get("name").and_then(Value::as_str) == Some(&follow.database))
        else {
            return Ok(());
        };
        let is = |column: &str| row.get(column).and_then(Value::as_bool).unwrap_or(false);
        if row.get("model").and_then(Value::as_str) != Some("clustered") {
            return Ok(());
        }
        if !is("connected") {
            return Err(Error::Detached(follow.database.clone()));
        }
        if follow.leader && !is("leader") {
            Err(Error::NotLeader(follow.database.clone()))
        } else {
            Ok(())
        }
    }
}

fn is_unknown_method(error: &Error) -> bool {
    matches!(error, Error::Refused { error, .. } if error == "unknown method")
}

/// Asks for the tables, and goes on where the last connection ended if the server still knows that.
async fn monitor(
    connection: &Connection,
    follow: &Follow,
    schema: &Schema,
    replica: &mut Replica,
) -> Result<Telling, Error> {
    let wanted = follow.tables.iter().filter(|(table, _)| schema.has(table));
    let columns = |table: &str, columns: &[String]| -> Vec<String> {
        // Columns that an older schema lacks would have the whole request refused.
        let known = schema.columns(table).map(str::to_owned);
        known
            .filter(|column| columns.is_empty() || columns.contains(column))
            .collect()
    };
    let each: Vec<(String, Value)> = wanted
        .map(|(table, names)| (table.clone(), json!({"columns": columns(table, names)})))
        .collect();
    let several: serde_json::Map<String, Value> = each
        .iter()
        .map(|(table, one)| (table.clone(), json!([one])))
        .collect();
    let nothing = "00000000-0000-0000-0000-000000000000";
    let last = replica.last.clone().unwrap_or_else(|| nothing.to_owned());
    let since = json!([follow.database, DATA, several, last]);
    match connection.call("monitor_cond_since", since).await {
        Ok(Value::Array(answer)) if answer.len() == 3 => {
            if answer[0] != Value::Bool(true) {
                replica.tables.clear();
            }
            apply(&mut replica.tables, schema, &answer[2], Telling::Difference);
            replica.last = answer[1].as_str().map(str::to_owned);
            return Ok(Telling::Difference);
        }
        Ok(_) => return Err(Error::Malformed("monitor_cond_since".to_owned())),
        Err(error) if is_unknown_method(&error) => {}
        Err(error) => return Err(error),
    }
    let single: serde_json::Map<String, Value> = each.into_iter().collect();
    let updates = connection
        .call("monitor", json!([follow.database, DATA, single]))
        .await?;
    replica.tables.clear();
    replica.last = None;
    apply(&mut replica.tables, schema, &updates, Telling::Whole);
    Ok(Telling::Whole)
}

//! Prints a table of a database whenever it changes:
//! `cargo run -p ovsdb-client --example tables -- tcp:127.0.0.1:6642 OVN_Southbound Chassis`

use ovsdb_client::{Error, Follow, Session, Way, remotes};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [servers, database, table] = arguments.as_slice() else {
        eprintln!("usage: tables REMOTES DATABASE TABLE");
        std::process::exit(2);
    };
    let follow = Follow {
        remotes: remotes(servers)?,
        database: database.clone(),
        tables: vec![(table.clone(), Vec::new())],
        leader: false,
    };
    let session = Session::start(follow, Way::default());
    let mut changes = session.watch();
    while changes.changed().await.is_ok() {
        let state = changes.borrow_and_update().clone();
        match (&state.remote, state.trouble) {
            (Some(remote), _) => {
                let rows = state.tables.get(table).into_iter().flatten();
                println!("{remote}:");
                rows.for_each(|(id, row)| println!("  {id} {}", serde_json::json!(row)));
            }
            (None, trouble) => println!("not connected: {}", trouble.unwrap_or_default()),
        }
    }
    Ok(())
}

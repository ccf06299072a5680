//! The control sockets of Open vSwitch's and OVN's programs.

use std::path::{Path, PathBuf};

use ovsdb_client::{Connection, Remote, Way};
use serde_json::{Value, json};

/// Asks a program that runs; its sockets lie in this directory.
pub(crate) async fn ask(
    directory: &Path,
    program: &str,
    method: &str,
    words: &[&str],
) -> Result<String, String> {
    let remote: Remote = format!("unix:{}", socket(directory, program).await?.display())
        .parse()
        .map_err(|error: ovsdb_client::Error| error.to_string())?;
    // They speak the same protocol as the databases.
    let asked = async {
        let (connection, _notes) = Connection::open(&remote, &Way::default()).await?;
        connection.call(method, json!(words)).await
    };
    match asked.await {
        Ok(Value::String(said)) => Ok(said),
        Ok(other) => Err(format!("it said {other}")),
        Err(error) => Err(error.to_string()),
    }
}

/// It is named after the process, whose number is in a file beside it.
async fn socket(directory: &Path, program: &str) -> Result<PathBuf, String> {
    let file = directory.join(format!("{program}.pid"));
    let text = tokio::fs::read_to_string(&file)
        .await
        .map_err(|error| format!("{}: {error}", file.display()))?;
    let number: u32 = text
        .trim()
        .parse()
        .map_err(|_| format!("{}: not the number of a process", file.display()))?;
    Ok(directory.join(format!("{program}.{number}.ctl")))
}

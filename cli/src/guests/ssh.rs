//! How the machine's ssh reaches a server. Pure.

use std::net::IpAddr;
use std::path::Path;

use openstack_client::Server;

use crate::failure::Failure;

/// The address that a connection from the machine can go to.
pub(crate) fn address(server: &Server) -> Result<IpAddr, Failure> {
    server.floating().ok_or_else(|| {
        Failure::NotFound(format!(
            "server {0} has no floating address: `c5c3 openstack floating ip create public`, then \
             `c5c3 openstack server add floating ip {0} ADDRESS`",
            server.name
        ))
    })
}

/// For a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The program that joins ssh with the data network; ssh gives it to a shell, and reads `%`.
fn proxy(program: &Path, state: &Path) -> String {
    let word = |path: &Path| quoted(&path.to_string_lossy()).replace('%', "%%");
    format!("{} node connect --state-dir {} %h %p", word(program), word(state))
}

pub(crate) struct Call<'a> {
    pub program: &'a Path,
    pub state: &'a Path,
    pub key: &'a Path,
    pub user: &'a str,
    pub address: IpAddr,
    pub command: &'a [String],
}

/// Arguments of ssh. A person's own settings have no part in it, and host keys are not kept: a
/// guest makes new ones at each start, and nothing of the connection leaves the machine.
pub(crate) fn arguments(call: &Call<'_>) -> Vec<String> {
    let options = [
        "IdentitiesOnly=yes".to_owned(),
        "StrictHostKeyChecking=no".to_owned(),
        "UserKnownHostsFile=/dev/null".to_owned(),
        "LogLevel=ERROR".to_owned(),
        format!("ProxyCommand={}", proxy(call.program, call.state)),
    ];
    let mut words = vec![
        "-F".to_owned(),
        "none".to_owned(),
        "-i".to_owned(),
        call.key.to_string_lossy().into_owned(),
    ];
    words.extend(options.into_iter().flat_map(|option| ["-o".to_owned(), option]));
    words.push(format!("{}@{}", call.user, call.address));
    // ssh joins what follows with blanks and gives it to a shell over there.
    if !call.command.is_empty() {
        words.push("--".to_owned());
        words.extend(call.command.iter().cloned());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ssh_goes_through_the_data_network() {
        let command = ["uname".to_owned(), "-a".to_owned()];
        let words = arguments(&Call {
            program: Path::new("/opt/it's/c5c3"),
            state: Path::new("/s/50%"),
            key: Path::new("/s/demo/id_ed25519"),
            user: "root",
            address: [10, 194, 0, 120].into(),
            command: &command,
        });
        assert!(
            words.contains(
                &r"ProxyCommand='/opt/it'\''s/c5c3' node connect --state-dir '/s/50%%' %h %p".to_owned()
            ),
            "{words:?}"
        );
        assert!(
            words.ends_with(&["root@10.194.0.120", "--", "uname", "-a"].map(str::to_owned)),
            "{words:?}"
        );
    }

    #[test]
    fn a_server_without_an_address_is_named() {
        let server = serde_json::json!({"id": "1", "name": "web", "status": "ACTIVE",
            "addresses": {"demo": [{"addr": "192.168.0.4", "OS-EXT-IPS:type": "fixed"}]}});
        let server: Server = serde_json::from_value(server).expect("a server");
        let said = address(&server).expect_err("none").to_string();
        assert!(said.contains("server add floating ip web"), "{said}");
    }
}

//! Who may be asked for images: registries on this machine and those that a person has named. The
//! same holds for every place that a registry sends us to.

use std::net::IpAddr;

use http::Uri;

use crate::names::Names;

/// Any registry may be asked.
const ANY: &str = "*";
/// Names of the one registry that has others than its own.
const DOCKER: &str = "docker.io";
const OF_DOCKER: [&str; 2] = ["registry-1.docker.io", "auth.docker.io"];

/// The registries that may be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registries {
    names: Names,
    hosts: Vec<String>,
}

impl Registries {
    /// `hosts`, beside those on this machine; `names` say how a person allows more.
    pub fn new(names: Names, hosts: Vec<String>) -> Self {
        Self { names, hosts }
    }

    pub(super) fn names(&self) -> Names {
        self.names
    }

    pub fn allow(&self, host: &str) -> bool {
        on_this_machine(host) || self.named(host)
    }

    fn named(&self, host: &str) -> bool {
        let docker = OF_DOCKER.contains(&host);
        let known = |h: &String| h == ANY || h == host || (docker && h == DOCKER);
        self.hosts.iter().any(known)
    }

    /// Whether a pull from the registry `home` may go to `at`; the error says why not.
    pub(super) fn check(&self, home: &str, at: &Uri) -> Result<(), String> {
        let (Some(scheme), Some(name)) = (at.scheme_str(), at.host()) else {
            return Err(format!("{home} leads to {at}, which is not a complete address"));
        };
        let host = match at.port_u16() {
            Some(port) => format!("{name}:{port}"),
            None => name.to_owned(),
        };
        match (on_this_machine(&host), on_this_machine(home)) {
            (true, true) if matches!(scheme, "http" | "https") => return Ok(()),
            (true, _) => {
                return Err(format!(
                    "{home} leads to {at} on this machine, where it has no business"
                ));
            }
            (false, _) => {}
        }
        if scheme != "https" {
            return Err(format!("{home} leads to {at}: only https is spoken with others"));
        }
        if self.named(&host) {
            Ok(())
        } else {
            Err(format!(
                "{home} leads to {host}, which is not allowed: {}",
                self.names.allow_registry(&host)
            ))
        }
    }
}

/// The registry's address, as a web address begins.
pub(super) fn address(host: &str) -> String {
    match host {
        DOCKER => format!("https://{}", OF_DOCKER[0]),
        host if on_this_machine(host) => format!("http://{host}"),
        host => format!("https://{host}"),
    }
}

/// Such a registry speaks plain HTTP: no network is in between.
fn on_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::EXAMPLE;

    #[test]
    fn who_may_be_asked() {
        let none = Registries::new(EXAMPLE, Vec::new());
        assert!(none.allow("127.0.0.1:5000") && none.allow("localhost:5000") && none.allow("localhost"));
        assert!(!none.allow("ghcr.io") && !none.allow("127.evil.example"));
        let one = Registries::new(EXAMPLE, vec!["ghcr.io".into()]);
        assert!(one.allow("ghcr.io") && !one.allow("docker.io"));
        assert!(Registries::new(EXAMPLE, vec![ANY.into()]).allow("docker.io"));
    }

    #[test]
    fn every_hop_obeys_the_same_rule() {
        let some = Registries::new(
            EXAMPLE,
            vec!["ghcr.io".into(), "docker.io".into(), "r.example:5000".into()],
        );
        let check = |home: &str, at: &str| some.check(home, &at.parse().unwrap());
        for (home, at) in [
            ("127.0.0.1:5000", "http://127.0.0.1:5000/v2/"),
            ("127.0.0.1:5000", "http://localhost:81/blobs"),
            ("127.0.0.1:5000", "https://ghcr.io/blobs"),
            ("ghcr.io", "https://ghcr.io/token"),
            ("docker.io", "https://registry-1.docker.io/v2/"),
            ("docker.io", "https://auth.docker.io/token"),
            ("ghcr.io", "https://r.example:5000/x"),
        ] {
            assert_eq!(check(home, at), Ok(()), "{home} {at}");
        }
        for (home, at, said) in [
            (
                "ghcr.io",
                "https://cdn.example/x",
                "`example up --registry cdn.example`",
            ),
            ("127.0.0.1:5000", "https://cdn.example/x", "not allowed"),
            (
                "ghcr.io",
                "https://ghcr.io@cdn.example/x",
                "cdn.example, which is not allowed",
            ),
            (
                "ghcr.io",
                "https://ghcr.io:444/x",
                "ghcr.io:444, which is not allowed",
            ),
            ("ghcr.io", "http://ghcr.io/x", "only https"),
            ("ghcr.io", "http://127.0.0.1:8080/admin", "on this machine"),
            ("ghcr.io", "http://[::1]:8080/admin", "on this machine"),
            ("ghcr.io", "https://localhost/admin", "on this machine"),
            ("ghcr.io", "blobs", "not a complete address"),
            ("127.0.0.1:5000", "ftp://127.0.0.1/x", "on this machine"),
        ] {
            let error = check(home, at).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}

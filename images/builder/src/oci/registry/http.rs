//! Requests to a registry, by `curl`. Tokens and logins go through its standard input: arguments can be
//! seen by everybody on the machine.

use std::cell::RefCell;
use std::fs;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use regex::Regex;
use serde_json::Value;

use crate::build::sandbox::missing;
use crate::error::{Context, Error, Result};

pub(super) struct Registry<'a> {
    host: &'a str,
    repository: &'a str,
    ca: Option<&'a Path>,
    work: &'a Path,
    /// `Basic …` of docker's configuration.
    login: Option<String>,
    /// What the registry last took.
    authorization: RefCell<Option<String>>,
}

pub(super) struct Request {
    method: &'static str,
    /// Below the repository, or a whole address.
    path: String,
    header: Option<String>,
    file: Option<PathBuf>,
    /// Where a large answer goes, instead of into memory.
    into: Option<PathBuf>,
}

impl Request {
    fn new(method: &'static str, path: &str) -> Self {
        Self {
            method,
            path: path.to_owned(),
            header: None,
            file: None,
            into: None,
        }
    }

    pub(super) fn head(path: &str) -> Self {
        Self::new("HEAD", path)
    }

    pub(super) fn post(path: &str) -> Self {
        Self::new("POST", path)
    }

    pub(super) fn get(path: &str, accept: &str) -> Self {
        Self {
            header: Some(format!("Accept: {accept}")),
            ..Self::new("GET", path)
        }
    }

    pub(super) fn download(path: &str, into: &Path) -> Self {
        Self {
            into: Some(into.to_owned()),
            ..Self::new("GET", path)
        }
    }

    pub(super) fn put(path: &str, media_type: &str, file: &Path) -> Self {
        Self {
            header: Some(format!("Content-Type: {media_type}")),
            file: Some(file.to_owned()),
            ..Self::new("PUT", path)
        }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    /// By its name in lower case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Reads the heads that curl writes; the last is the answer.
    fn parse(heads: &str) -> Self {
        let mut answer = Self::default();
        for line in heads.lines() {
            if let Some(status) = line.strip_prefix("HTTP/") {
                let status = status
                    .split_whitespace()
                    .nth(1)
                    .and_then(|code| code.parse().ok());
                answer = Self {
                    status: status.unwrap_or_default(),
                    ..Self::default()
                };
            } else if let Some((name, value)) = line.split_once(':') {
                let header = (name.to_ascii_lowercase(), value.trim().to_owned());
                answer.headers.push(header);
            }
        }
        answer
    }
}

impl<'a> Registry<'a> {
    pub(super) fn new(host: &'a str, repository: &'a str, ca: Option<&'a Path>, work: &'a Path) -> Self {
        Self {
            host,
            repository,
            ca,
            work,
            login: docker_config().and_then(|config| login(&config, host)),
            authorization: RefCell::default(),
        }
    }

    /// Something that the registry should not have answered.
    pub(super) fn odd(&self, what: &str) -> Error {
        Error::Request(format!("registry {}, {}: {what}", self.host, self.repository))
    }

    pub(super) fn note(&self, name: &str, content: &[u8]) -> Result<PathBuf> {
        let path = self.work.join(name);
        fs::write(&path, content).context("writing", &path)?;
        Ok(path)
    }

    /// An answer with one of these codes; others are errors.
    pub(super) fn expect(&self, request: &Request, codes: &[u16]) -> Result<Answer> {
        let answer = self.send(request)?;
        if codes.contains(&answer.status) {
            return Ok(answer);
        }
        let text = String::from_utf8_lossy(&answer.body);
        let text: String = text.trim().chars().take(300).collect();
        let hint = match answer.status {
            401 | 403 => "; `docker login` writes the login that is used",
            _ => "",
        };
        let what = format!("{} answered {}: {text}{hint}", request.method, answer.status);
        Err(self.odd(&what))
    }

    /// Asks, and asks again with what the registry wants to see when it refuses.
    pub(super) fn send(&self, request: &Request) -> Result<Answer> {
        let url = self.url(&request.path);
        let own = self.is_own(&url);
        let authorization = self.authorization.borrow().clone().filter(|_| own);
        let answer = self.curl(request, &url, authorization.as_deref())?;
        let challenge = answer.header("www-authenticate");
        let (401, true, Some(challenge)) = (answer.status, own, challenge) else {
            return Ok(answer);
        };
        let Some(authorization) = self.authorize(challenge)? else {
            return Ok(answer);
        };
        let again = self.curl(request, &url, Some(&authorization))?;
        *self.authorization.borrow_mut() = Some(authorization);
        Ok(again)
    }

    fn url(&self, path: &str) -> String {
        let root = format!("{}://{}", scheme(self.host), self.host);
        match path {
            whole if whole.contains("://") => whole.to_owned(),
            absolute if absolute.starts_with('/') => format!("{root}{absolute}"),
            below => format!("{root}/v2/{}/{below}", self.repository),
        }
    }

    /// Uploads may go to another server, which must not see the login.
    fn is_own(&self, url: &str) -> bool {
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        rest.split('/').next() == Some(self.host)
    }

    fn authorize(&self, challenge: &str) -> Result<Option<String>> {
        if challenge.to_ascii_lowercase().starts_with("basic") {
            return Ok(self.login.clone());
        }
        let Some(url) = token_address(challenge) else {
            return Err(self.odd(&format!("it asks for a login of an unknown kind: {challenge}")));
        };
        let answer = self.curl(
            &Request::get(&url, "application/json"),
            &url,
            self.login.as_deref(),
        )?;
        let token: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let token = token["token"].as_str().or(token["access_token"].as_str());
        Ok(token.map(|token| format!("Bearer {token}")))
    }

    fn curl(&self, request: &Request, url: &str, authorization: Option<&str>) -> Result<Answer> {
        let body = request.into.clone().unwrap_or_else(|| self.work.join("body"));
        let mut config = String::from("silent\nshow-error\ndump-header = \"-\"\nconnect-timeout = 20\n");
        // No limit of the whole: layers are large. One of a standstill.
        config.push_str("speed-limit = 1\nspeed-time = 120\n");
        let mut set = |name: &str, value: &str| {
            let value = value
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace(['\n', '\r'], "");
            config.push_str(&format!("{name} = \"{value}\"\n"));
        };
        set("url", url);
        set("output", &body.display().to_string());
        // Some servers do not know it; ours have been asked before.
        set("header", "Expect:");
        if let Some(header) = &request.header {
            set("header", header);
        }
        if let Some(authorization) = authorization {
            set("header", &format!("Authorization: {authorization}"));
        }
        if let Some(ca) = self.ca {
            set("cacert", &ca.display().to_string());
        }
        if scheme(self.host) == "http" {
            set("noproxy", "*");
        }
        match (request.method, &request.file) {
            ("HEAD", _) => config.push_str("head\n"),
            (_, Some(file)) => set("upload-file", &file.display().to_string()),
            ("POST", None) => config.push_str("request = \"POST\"\ndata = \"\"\n"),
            _ => {}
        }
        if request.into.is_some() {
            // Registries keep layers elsewhere. curl does not take the login along to another host.
            config.push_str("location\nmax-redirs = 5\nproto-redir = \"=https,http\"\n");
        }
        let _ = fs::remove_file(&body);
        let mut child = Command::new("curl")
            .args(["--config", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| missing("curl", "curl", error))?;
        if let Some(mut stdin) = child.stdin.take() {
            let written = stdin.write_all(config.as_bytes());
            written.context("writing to", Path::new("curl"))?;
        }
        let output = child.wait_with_output();
        let output = output.context("waiting for", Path::new("curl"))?;
        if !output.status.success() {
            return Err(self.odd(String::from_utf8_lossy(&output.stderr).trim()));
        }
        let answer = Answer::parse(&String::from_utf8_lossy(&output.stdout));
        let in_memory = request.into.is_none() || answer.status != 200;
        Ok(Answer {
            body: if in_memory { first_of(&body) } else { Vec::new() },
            ..answer
        })
    }
}

/// Manifests are small, and so is what a registry says when it refuses.
const SMALL: u64 = 16 << 20;

fn first_of(file: &Path) -> Vec<u8> {
    let mut content = Vec::new();
    // A HEAD leaves no file.
    if let Ok(file) = fs::File::open(file) {
        let _ = file.take(SMALL).read_to_end(&mut content);
    }
    content
}

/// A registry on this machine speaks plain HTTP: no network is in between.
fn scheme(host: &str) -> &'static str {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let here = name == "localhost"
        || name
            .parse::<Ipv4Addr>()
            .is_ok_and(|address| address.is_loopback());
    if here { "http" } else { "https" }
}

/// Where a `Bearer realm="…",service="…",scope="…"` challenge sends for a token.
fn token_address(challenge: &str) -> Option<String> {
    let challenge = challenge
        .strip_prefix("Bearer ")
        .or(challenge.strip_prefix("bearer "))?;
    let pairs = Regex::new(r#"(\w+)="([^"]*)""#).ok()?;
    let field = |wanted: &str| {
        pairs
            .captures_iter(challenge)
            .find(|pair| &pair[1] == wanted)
            .map(|pair| pair[2].to_owned())
    };
    let realm = field("realm").filter(|realm| realm.contains("://"))?;
    let joint = if realm.contains('?') { '&' } else { '?' };
    let question = ["service", "scope"]
        .iter()
        .filter_map(|name| Some(format!("{name}={}", field(name)?.replace(' ', "%20"))));
    let question: Vec<String> = question.collect();
    Some(format!("{realm}{joint}{}", question.join("&")))
}

fn docker_config() -> Option<Value> {
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".docker"));
    let directory = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from).or(home)?;
    serde_json::from_slice(&fs::read(directory.join("config.json")).ok()?).ok()
}

/// The login of a registry in docker's configuration. Pure.
fn login(config: &Value, host: &str) -> Option<String> {
    let entry = [host.to_owned(), format!("https://{host}")]
        .into_iter()
        .find_map(|name| config["auths"][name]["auth"].as_str())?;
    (!entry.is_empty()).then(|| format!("Basic {entry}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_machine_itself_is_spoken_to_in_the_clear() {
        for (host, wanted) in [
            ("127.0.0.1:5000", "http"),
            ("localhost", "http"),
            ("ghcr.io", "https"),
            ("10.0.0.1:5000", "https"),
            ("localhost.example", "https"),
        ] {
            assert_eq!(scheme(host), wanted, "{host}");
        }
    }

    #[test]
    fn challenges_and_logins_are_read() {
        let challenge = r#"Bearer realm="https://auth.example/token",service="r.example",scope="repository:a/b:pull,push""#;
        assert_eq!(
            token_address(challenge).as_deref(),
            Some("https://auth.example/token?service=r.example&scope=repository:a/b:pull,push")
        );
        assert_eq!(token_address("Negotiate"), None);
        let config = json!({"auths": {"ghcr.io": {"auth": "dTpw"}, "empty.example": {"auth": ""}}});
        assert_eq!(login(&config, "ghcr.io").as_deref(), Some("Basic dTpw"));
        assert_eq!(login(&config, "empty.example"), None);
        assert_eq!(login(&config, "other.example"), None);
    }

    #[test]
    fn the_last_head_is_the_answer() {
        let answer =
            Answer::parse("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 202 Accepted\r\nLocation: /v2/x\r\n\r\n");
        assert_eq!((answer.status, answer.header("location")), (202, Some("/v2/x")));
    }
}

//! uv: fetched from the package index of the machine as a wheel, checked, and shown to a sandbox.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use c5c3_catalogue::Uv;
use regex::Regex;
use sha2::{Digest, Sha256};

use crate::build::host::{Host, find_links_directory};
use crate::build::sandbox::{INSIDE, Inside, missing};
use crate::build::steps::Variables;
use crate::error::{Context, Error, Result};
use crate::oci::store::Store;

fn wanted(uv: &Uv) -> Result<&str> {
    let architecture = std::env::consts::ARCH;
    uv.sha256.get(architecture).map(String::as_str).ok_or_else(|| {
        Error::Request(format!(
            "release.yaml has no digest of uv {} for {architecture}",
            uv.version
        ))
    })
}

fn wheel_path(store: &Store, uv: &Uv) -> Result<PathBuf> {
    Ok(store
        .cache("tools")?
        .join(format!("uv-{}-{}.whl", uv.version, std::env::consts::ARCH)))
}

fn program_path(store: &Store, uv: &Uv) -> Result<PathBuf> {
    Ok(store
        .cache("tools")?
        .join(format!("uv-{}-{}", uv.version, std::env::consts::ARCH)))
}

/// Fetches the wheel when it is not there; may run ahead of its use.
pub(crate) fn fetch(store: &Store, host: &Host, uv: &Uv) -> Result<()> {
    let _lock = store.lock("uv")?;
    if program_path(store, uv)?.exists() {
        return Ok(());
    }
    let digest = wanted(uv)?;
    let wheel = wheel_path(store, uv)?;
    if fs::read(&wheel).is_ok_and(|bytes| hex::encode(Sha256::digest(&bytes)) == digest) {
        return Ok(());
    }
    let work = store.work("uv")?;
    let index = format!("{}/uv/", host.pip.index().trim_end_matches('/'));
    let page = work.path.join("index.html");
    download(host, &index, &page)?;
    let page = fs::read_to_string(&page).context("reading", &page)?;
    let url = find_wheel(&page, &index, &uv.version, std::env::consts::ARCH, digest).ok_or_else(|| {
        Error::Registry {
            layer: "uv".into(),
            line: format!(
                "the index {} has no wheel of uv {}",
                without_login(&index),
                uv.version
            ),
            log: store.log("uv"),
        }
    })?;
    let half = work.path.join("uv.whl");
    download(host, &url, &half)?;
    let bytes = fs::read(&half).context("reading", &half)?;
    let found = hex::encode(Sha256::digest(&bytes));
    if found != digest {
        let url = without_login(&url);
        return Err(Error::Request(format!(
            "{url} has the digest {found}, release.yaml wants {digest}"
        )));
    }
    fs::rename(&half, &wheel).context("storing", &wheel)
}

/// Shows uv and the machine's Python settings to a sandbox; the result is the environment to run it in.
pub(crate) fn provide(
    inside: &Inside<'_>,
    store: &Store,
    host: &Host,
    uv: &Uv,
    variables: &Variables,
) -> Result<Variables> {
    fetch(store, host, uv)?;
    let program = program_path(store, uv)?;
    {
        let _lock = store.lock("uv")?;
        if !program.exists() {
            extract(inside, store, uv, &program)?;
        }
    }
    inside.bind(&program, &format!("{INSIDE}/uv"))?;
    inside.bind(&store.cache("uv")?, &format!("{INSIDE}/uv-cache"))?;
    let mut variables = variables.clone();
    for (name, value) in [
        ("UV_CACHE_DIR", format!("{INSIDE}/uv-cache")),
        ("UV_PYTHON_DOWNLOADS", "never".into()),
    ] {
        variables.insert(name.into(), value);
    }
    if let Some(ca) = &host.ca {
        let text = fs::read_to_string(ca).context("reading", ca)?;
        variables.insert("SSL_CERT_FILE".into(), inside.note("ca.crt", &text)?);
    }
    if let Some(config) = &host.uv_config {
        let text = fs::read_to_string(config).context("reading", config)?;
        variables.insert("UV_CONFIG_FILE".into(), inside.note("uv.toml", &text)?);
    }
    if let Some(netrc) = &host.netrc {
        let text = fs::read_to_string(netrc).context("reading", netrc)?;
        variables.insert("NETRC".into(), inside.note("netrc", &text)?);
    }
    for (index, directory) in host.pip.directories().iter().enumerate() {
        inside.bind(directory, &find_links_directory(index))?;
    }
    Ok(variables)
}

/// A wheel is a zip file; the Python of the layers below opens it.
fn extract(inside: &Inside<'_>, store: &Store, uv: &Uv, program: &Path) -> Result<()> {
    let work = store.work("uv-extract")?;
    inside.bind(&wheel_path(store, uv)?, &format!("{INSIDE}/uv.whl"))?;
    inside.bind(&work.path, &format!("{INSIDE}/uv-unpacked"))?;
    let script = format!("/usr/bin/python3 -I -m zipfile -e {INSIDE}/uv.whl {INSIDE}/uv-unpacked");
    inside.run("unpacking uv", &script, &Variables::new())?;
    let unpacked = work.path.join(format!("uv-{}.data/scripts/uv", uv.version));
    fs::set_permissions(&unpacked, fs::Permissions::from_mode(0o755)).context("changing", &unpacked)?;
    fs::rename(&unpacked, program).context("storing", program)?;
    let _ = fs::remove_file(wheel_path(store, uv)?);
    Ok(())
}

/// Fetches a file with curl, which knows the machine's proxies and certificates. The address may hold
/// a login: it goes through standard input, not the argument list.
fn download(host: &Host, url: &str, out: &Path) -> Result<()> {
    let mut config = format!(
        "url = \"{}\"\noutput = \"{}\"\n",
        escaped(url),
        escaped(&out.display().to_string())
    );
    if let Some(ca) = &host.ca {
        config.push_str(&format!("cacert = \"{}\"\n", escaped(&ca.display().to_string())));
    }
    let mut child = Command::new("curl")
        .args([
            "--fail",
            "--silent",
            "--show-error",
            "--location",
            "--retry",
            "3",
            "--connect-timeout",
            "20",
        ])
        .args(["--netrc-optional", "--config", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| missing("curl", "curl", error))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin
            .write_all(config.as_bytes())
            .context("writing to", Path::new("curl"))?;
    }
    let output = child
        .wait_with_output()
        .context("waiting for", Path::new("curl"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Registry {
        layer: "uv".into(),
        line: format!(
            "{}: {}",
            without_login(url),
            String::from_utf8_lossy(&output.stderr).trim()
        ),
        log: PathBuf::from("/dev/null"),
    })
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "")
}

/// An address without user and password.
fn without_login(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if at > scheme => format!("{}{}", &url[..scheme + 3], &url[at + 1..]),
        _ => url.to_owned(),
    }
}

/// The address of the wheel on a page of the index: by digest when the page tells it, else by name.
fn find_wheel(page: &str, index: &str, version: &str, architecture: &str, digest: &str) -> Option<String> {
    let link = Regex::new(r#"href\s*=\s*["']([^"']+)["']"#).ok()?;
    let links: Vec<String> = link
        .captures_iter(page)
        .map(|found| found[1].replace("&amp;", "&"))
        .collect();
    let by_digest = links
        .iter()
        .find(|link| link.ends_with(&format!("sha256={digest}")));
    let by_name = || {
        links.iter().find(|link| {
            let name = link
                .split('#')
                .next()
                .and_then(|path| path.rsplit('/').next())
                .unwrap_or_default();
            name.starts_with(&format!("uv-{version}-"))
                && name.contains("manylinux")
                && name.ends_with(&format!("{architecture}.whl"))
        })
    };
    let chosen = by_digest.or_else(by_name)?;
    Some(join(index, chosen.split('#').next()?))
}

/// An address relative to that of a page.
fn join(page: &str, link: &str) -> String {
    if link.contains("://") {
        return link.to_owned();
    }
    let start = page.find("://").map_or(0, |at| at + 3);
    let host_end = page[start..].find('/').map_or(page.len(), |at| start + at);
    let (host, path) = page.split_at(host_end);
    if let Some(rest) = link.strip_prefix("//") {
        return format!("{}//{rest}", page.split("//").next().unwrap_or("https:"));
    }
    if link.starts_with('/') {
        return format!("{host}{link}");
    }
    let mut parts: Vec<&str> = path
        .trim_end_matches('/')
        .split('/')
        .filter(|part| !part.is_empty())
        .collect();
    if !path.ends_with('/') {
        parts.pop();
    }
    for part in link.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    format!("{host}/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wheel_is_found_by_digest_or_name() {
        let page = r#"<a href="../../packages/uv-1.0-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl#sha256=aa">x</a>
            <a href="https://f/uv-1.0-py3-none-musllinux_1_1_x86_64.whl#sha256=bb">x</a>"#;
        let find = |digest| {
            find_wheel(
                page,
                "https://u:p@i.example/root/simple/uv/",
                "1.0",
                "x86_64",
                digest,
            )
        };
        let by_name = "https://u:p@i.example/root/packages/uv-1.0-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl";
        assert_eq!(find("aa").as_deref(), Some(by_name));
        assert_eq!(find("cc").as_deref(), Some(by_name));
        assert_eq!(
            find("bb").as_deref(),
            Some("https://f/uv-1.0-py3-none-musllinux_1_1_x86_64.whl")
        );
        assert_eq!(find_wheel(page, "https://i/", "2.0", "x86_64", "cc"), None);
    }

    #[test]
    fn relative_addresses() {
        for (link, address) in [
            ("a.whl", "https://h/x/uv/a.whl"),
            ("../a.whl", "https://h/x/a.whl"),
            ("/a.whl", "https://h/a.whl"),
            ("//g/a.whl", "https://g/a.whl"),
            ("http://g/a", "http://g/a"),
            ("../../../../a", "https://h/a"),
        ] {
            assert_eq!(join("https://h/x/uv/", link), address);
        }
    }

    #[test]
    fn a_login_is_never_shown() {
        assert_eq!(without_login("https://u:p@h/x"), "https://h/x");
        assert_eq!(without_login("https://h/x"), "https://h/x");
    }
}

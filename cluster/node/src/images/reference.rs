//! Image references.

/// The full form: `busybox` is `docker.io/library/busybox:latest`.
pub fn normalise(reference: &str) -> String {
    let (name, digest) = match reference.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (reference, None),
    };
    let (first, rest) = name.split_once('/').unwrap_or(("", name));
    let host = first.contains(['.', ':']) || first == "localhost";
    let full = match (first.is_empty(), host) {
        (true, _) => format!("docker.io/library/{rest}"),
        (false, true) => name.to_owned(),
        (false, false) => format!("docker.io/{name}"),
    };
    match digest {
        Some(digest) => format!("{full}@{digest}"),
        None if tag(&full).is_some() => full,
        None => format!("{full}:latest"),
    }
}

/// A full reference, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    pub host: String,
    pub repository: String,
    /// Tag or digest.
    pub version: String,
}

pub(super) fn parts(reference: &str) -> Option<Parts> {
    let full = normalise(reference);
    let (host, rest) = full.split_once('/')?;
    let (repository, version) = rest.split_once('@').or_else(|| rest.rsplit_once(':'))?;
    // A reference may name both; the digest decides.
    let repository = repository.split(':').next()?;
    let plain = |text: &str, extra: &[u8]| {
        !text.is_empty()
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || extra.contains(&b))
    };
    (plain(host, b".-:") && plain(repository, b"._-/") && plain(version, b"._-:")).then(|| Parts {
        host: host.into(),
        repository: repository.into(),
        version: version.into(),
    })
}

fn tag(name: &str) -> Option<&str> {
    let last = name.rsplit('/').next()?;
    last.split_once(':').map(|(_, tag)| tag)
}

/// What the image builder calls it: the last part of the name, without tag or digest.
pub fn builder_name(reference: &str) -> &str {
    let name = reference.split('@').next().unwrap_or(reference);
    let last = name.rsplit('/').next().unwrap_or(name);
    last.split(':').next().unwrap_or(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_apart() {
        let of = |text: &str| parts(text).map(|p| (p.host, p.repository, p.version));
        let expect = |host: &str, repository: &str, version: &str| {
            Some((host.to_owned(), repository.to_owned(), version.to_owned()))
        };
        assert_eq!(of("busybox"), expect("docker.io", "library/busybox", "latest"));
        assert_eq!(of("localhost:5000/x/y:z"), expect("localhost:5000", "x/y", "z"));
        assert_eq!(of("r.io/x:1@sha256:ab"), expect("r.io", "x", "sha256:ab"));
        assert_eq!(of("r.io/x y:1"), None);
        assert_eq!(of("r.io/../x:1"), expect("r.io", "../x", "1"));
    }

    #[test]
    fn references() {
        for (given, full, name) in [
            ("busybox", "docker.io/library/busybox:latest", "busybox"),
            ("busybox:1", "docker.io/library/busybox:1", "busybox"),
            ("a/b", "docker.io/a/b:latest", "b"),
            (
                "c5c3.local/keystone:28.1.0",
                "c5c3.local/keystone:28.1.0",
                "keystone",
            ),
            ("localhost:5000/x/y:z", "localhost:5000/x/y:z", "y"),
            ("localhost:5000/x", "localhost:5000/x:latest", "x"),
            ("r.io/x@sha256:ab", "r.io/x@sha256:ab", "x"),
        ] {
            assert_eq!(normalise(given), full);
            assert_eq!(normalise(full), full);
            assert_eq!(builder_name(given), name);
        }
    }
}

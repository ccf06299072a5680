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

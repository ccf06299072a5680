//! Which form of discovery a client takes.

/// Forms of the documents at `/api` and `/apis`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// One list for each group and version.
    Plain,
    /// Everything at once.
    V2,
    /// The same, for clients of 1.26 to 1.29.
    V2Beta1,
}

impl Form {
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Plain => "application/json",
            Self::V2 => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            Self::V2Beta1 => "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
        }
    }

    pub(super) fn version(self) -> &'static str {
        match self {
            Self::V2Beta1 => "v2beta1",
            Self::Plain | Self::V2 => "v2",
        }
    }
}

/// The form that the client likes best: the highest `q`, then the first. All three parameters of the
/// aggregated form must be there, and nothing else than `q` beside them.
pub(super) fn negotiate(accept: &str) -> Form {
    let mut best: Option<(f32, Form)> = None;
    for clause in accept.split(',') {
        let mut parts = clause.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let (mut quality, mut group, mut version, mut kind, mut foreign) = (1.0, "", "", "", false);
        for parameter in parts {
            match parameter.split_once('=') {
                Some(("q", value)) => quality = value.parse().unwrap_or(0.0),
                Some(("g", value)) => group = value,
                Some(("v", value)) => version = value,
                Some(("as", value)) => kind = value,
                Some(("charset" | "profile", _)) => {}
                _ => foreign = true,
            }
        }
        let json = matches!(media, "application/json" | "application/*" | "*/*");
        let form = match (media, group, version, kind) {
            _ if foreign || !json => continue,
            (_, "", "", "") => Form::Plain,
            ("application/json", "apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList") => Form::V2,
            ("application/json", "apidiscovery.k8s.io", "v2beta1", "APIGroupDiscoveryList") => Form::V2Beta1,
            _ => continue,
        };
        if quality > 0.0 && best.is_none_or(|(known, _)| quality > known) {
            best = Some((quality, form));
        }
    }
    // A client that takes nothing of ours still reads JSON.
    best.map_or(Form::Plain, |(_, form)| form)
}

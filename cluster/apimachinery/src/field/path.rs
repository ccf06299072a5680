use std::fmt;

/// A path to a field of an object: `spec.ports[0].name`.
///
/// The root prints as `<nil>`, as it does in Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Path(Option<String>);

impl Path {
    pub fn root() -> Self {
        Self(None)
    }

    pub fn new(name: &str) -> Self {
        Self::root().child(name)
    }

    pub fn child(&self, name: &str) -> Self {
        Self(Some(match &self.0 {
            _ if name.is_empty() => format!("{}[]", self.0.as_deref().unwrap_or_default()),
            None => name.to_owned(),
            Some(parent) => format!("{parent}.{name}"),
        }))
    }

    pub fn index(&self, index: usize) -> Self {
        Self(Some(format!(
            "{}[{index}]",
            self.0.as_deref().unwrap_or_default()
        )))
    }

    pub fn key(&self, key: &str) -> Self {
        Self(Some(format!("{}[{key}]", self.0.as_deref().unwrap_or_default())))
    }

    pub fn is_root(&self) -> bool {
        self.0.is_none()
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_deref().unwrap_or("<nil>"))
    }
}

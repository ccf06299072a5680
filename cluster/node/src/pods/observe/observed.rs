//! What the runtime shows of one pod.

use jiff::Timestamp;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    pub sandboxes: Vec<Sandbox>,
    pub containers: Vec<Container>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Sandbox {
    pub id: String,
    pub attempt: u32,
    pub ready: bool,
    pub created: Timestamp,
    /// Address of the pod; none yet or the node's own.
    pub ip: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Created,
    Running,
    Exited,
    Unknown,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Container {
    pub id: String,
    pub name: String,
    pub attempt: u32,
    pub sandbox: String,
    pub state: State,
    pub created: Timestamp,
    pub started: Option<Timestamp>,
    pub finished: Option<Timestamp>,
    pub exit_code: i32,
    pub reason: String,
    pub message: String,
    pub image: String,
    pub image_id: String,
}

impl Container {
    /// Whether processes of it may exist.
    pub fn lives(&self) -> bool {
        matches!(self.state, State::Running | State::Unknown)
    }
}

impl Observed {
    /// The newest sandbox, when it is ready.
    pub fn current(&self) -> Option<&Sandbox> {
        self.newest().filter(|s| s.ready)
    }

    pub fn newest(&self) -> Option<&Sandbox> {
        self.sandboxes.iter().max_by_key(|s| (s.attempt, s.created))
    }

    /// The last instance of a container in one sandbox.
    pub fn latest(&self, sandbox: &str, name: &str) -> Option<&Container> {
        self.containers
            .iter()
            .filter(|c| c.sandbox == sandbox && c.name == name)
            .max_by_key(|c| c.attempt)
    }

    /// The last instance of a container in any sandbox.
    pub fn last(&self, name: &str) -> Option<&Container> {
        let named = self.containers.iter().filter(|c| c.name == name);
        named.max_by_key(|c| c.attempt)
    }

    pub fn instances<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Container> {
        self.containers.iter().filter(move |c| c.name == name)
    }
}

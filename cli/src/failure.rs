//! How a command fails: a plain message, and an exit code that scripts can use.

use std::fmt;
use std::process::ExitCode;

use crate::output::say_aside;

#[derive(Debug)]
pub(crate) enum Failure {
    Failed(anyhow::Error),
    Usage(String),
    NotFound(String),
    NotReady(String),
    /// Not ready, and the output has said all there is to say.
    Unwell,
    /// Whoever read our output has seen enough: that is no failure.
    OutputClosed,
}

impl Failure {
    fn code(&self) -> u8 {
        match self {
            Failure::Failed(_) => 1,
            Failure::Usage(_) => 2,
            Failure::NotFound(_) => 3,
            Failure::NotReady(_) | Failure::Unwell => 4,
            Failure::OutputClosed => 0,
        }
    }

    /// Says it on standard error.
    pub(crate) fn report(&self) -> ExitCode {
        if !matches!(self, Failure::Unwell | Failure::OutputClosed) {
            say_aside(&format!("c5c3: {self}"));
        }
        ExitCode::from(self.code())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Failed(error) => write!(f, "{error:#}"),
            Failure::Usage(text) | Failure::NotFound(text) | Failure::NotReady(text) => f.write_str(text),
            Failure::Unwell => f.write_str("not ready"),
            Failure::OutputClosed => f.write_str("the output was closed"),
        }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::Failed(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_the_documented_ones() {
        let codes: Vec<u8> = [
            Failure::Failed(anyhow::anyhow!("x")),
            Failure::Usage("x".into()),
            Failure::NotFound("x".into()),
            Failure::NotReady("x".into()),
            Failure::Unwell,
        ]
        .iter()
        .map(Failure::code)
        .collect();
        assert_eq!(codes, [1, 2, 3, 4, 4]);
    }

    #[test]
    fn only_our_own_output_may_be_closed() {
        assert_eq!(Failure::OutputClosed.code(), 0);
        let connection = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert_eq!(Failure::from(connection).code(), 1);
    }
}

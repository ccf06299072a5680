//! How a command fails: in plain words, with an exit code that scripts can use.

use std::error::Error;
use std::fmt;
use std::io::ErrorKind;
use std::process::ExitCode;

use crate::output::say_aside;

#[derive(Debug)]
pub enum Failure {
    Failed(anyhow::Error),
    Usage(String),
    NotFound(String),
    NotReady(String),
    /// Not ready, and the output has said all there is to say.
    Unwell,
}

impl Failure {
    fn code(&self) -> u8 {
        match self {
            Failure::Failed(_) => 1,
            Failure::Usage(_) => 2,
            Failure::NotFound(_) => 3,
            Failure::NotReady(_) | Failure::Unwell => 4,
        }
    }

    /// Says it on standard error. Whoever closed our output has seen enough: that is no failure.
    pub fn tell(&self) -> ExitCode {
        if let Failure::Failed(error) = self
            && error.chain().any(closed)
        {
            return ExitCode::SUCCESS;
        }
        if !matches!(self, Failure::Unwell) {
            say_aside(&format!("c5c3: {self}"));
        }
        ExitCode::from(self.code())
    }
}

fn closed(error: &(dyn Error + 'static)) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|e| e.kind() == ErrorKind::BrokenPipe)
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Failed(error) => write!(f, "{error:#}"),
            Failure::Usage(text) | Failure::NotFound(text) | Failure::NotReady(text) => f.write_str(text),
            Failure::Unwell => f.write_str("not ready"),
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
    fn a_closed_pipe_is_no_failure() {
        let error = anyhow::Error::from(std::io::Error::from(ErrorKind::BrokenPipe)).context("printing");
        let told = Failure::Failed(error).tell();
        assert_eq!(format!("{told:?}"), format!("{:?}", ExitCode::SUCCESS));
    }
}

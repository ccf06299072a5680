//! The Common Expression Language as Kubernetes uses it in rules of custom resources.

pub mod ast;
pub mod check;
mod condition;
mod cost;
mod equality;
mod escape;
mod eval;
mod format;
mod functions;
mod kube;
mod lex;
mod library;
mod lists;
mod macros;
mod parse;
mod primary;
mod program;
mod rules;
mod semver;
mod strings;
mod types;
mod unify;
mod url;
mod value;

pub use condition::{Condition, Message};
pub use program::{CompileError, Program};
pub use rules::{CompiledRule, SELF_TYPE, Validator, compile};
pub use types::{Decl, MAX_REQUEST, with_meta};

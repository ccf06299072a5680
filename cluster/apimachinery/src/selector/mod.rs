//! Label and field selectors: reading, the canonical text, and what they match.

mod field;
mod label;
mod label_selector;
mod lexer;
mod parser;

pub use field::{FieldOperator, FieldRequirement, FieldSelector, FieldSelectorError};
pub use label::{LabelSelector, Operator, Requirement, SelectorError};
pub use label_selector::{LabelSelectorSpec, LabelSelectorTerm};

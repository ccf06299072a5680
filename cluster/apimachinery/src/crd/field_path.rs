//! Paths into a schema, as `fieldPath` and `selectableFields` have them.

use std::sync::LazyLock;

use crate::field::Path;
use crate::schema::{Additional, Schema};

/// What is below `additionalProperties: true`.
static ANYTHING: LazyLock<Schema> = LazyLock::new(Schema::default);

/// The path and the schema that it leads to.
pub fn parse<'a>(text: &str, schema: &'a Schema) -> Result<(Path, &'a Schema), String> {
    let mut path = Path::root();
    let mut at = schema;
    let mut rest = text;
    while !rest.is_empty() {
        let name;
        if let Some(after) = rest.strip_prefix('[') {
            let (quoted, tail) = quoted(after)?;
            rest = tail.strip_prefix(']').ok_or_else(|| expected("]", tail))?;
            name = quoted;
        } else if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            let end = if end == 0 {
                after.chars().next().map_or(0, char::len_utf8)
            } else {
                end
            };
            if end == 0 {
                return Err("unexpected end of JSON path".to_owned());
            }
            name = after[..end].to_owned();
            rest = &after[end..];
        } else {
            let end = rest.find(['.', '[', ']']).unwrap_or(rest.len()).max(1);
            return Err(format!("expected [ or . but got: {}", &rest[..end]));
        }
        if !at.properties.is_empty() {
            path = path.child(&name);
            at = at
                .properties
                .get(&name)
                .ok_or_else(|| "does not refer to a valid field".to_owned())?;
        } else if let Some(additional) = &at.additional_properties {
            path = path.key(&name);
            at = match additional {
                Additional::Schema(sub) => sub,
                Additional::Allowed(_) => &ANYTHING,
            };
        } else {
            return Err("does not refer to a valid field".to_owned());
        }
    }
    Ok((path, at))
}

fn expected(want: &str, tail: &str) -> String {
    if tail.is_empty() {
        "unexpected end of JSON path".to_owned()
    } else {
        format!("expected {want} but got {tail}")
    }
}

/// A text in single quotes and what comes after it.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let Some(body) = text.strip_prefix('\'') else {
        let end = text.find(['.', '[', ']']).unwrap_or(text.len());
        return Err(match &text[..end] {
            "" => "unexpected end of JSON path".to_owned(),
            other => format!("expected single quoted string but got {other}"),
        });
    };
    let mut out = String::new();
    let mut chars = body.char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            '\'' => return Ok((out, &body[i + 1..])),
            '\\' => match chars.next().map(|(_, c)| c) {
                Some('a') => out.push('\x07'),
                Some('b') => out.push('\x08'),
                Some('f') => out.push('\x0c'),
                Some('n') => out.push('\n'),
                Some('r') => out.push('\r'),
                Some('t') => out.push('\t'),
                Some('v') => out.push('\x0b'),
                Some(c @ ('\'' | '\\')) => out.push(c),
                other => {
                    let shown = other.map(String::from).unwrap_or_default();
                    return Err(format!("invalid string literal: invalid escape char \\{shown}"));
                }
            },
            c => out.push(c),
        }
    }
    Err("unexpected end of JSON path".to_owned())
}

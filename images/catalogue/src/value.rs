//! Whether a value fits an option.

use std::net::IpAddr;

use crate::{Kind, Opt};

impl Opt {
    /// Checks a value as it would stand in a configuration file. `Err` says what is wrong, without
    /// repeating the value of a secret.
    pub fn check(&self, value: &str) -> Result<(), String> {
        let value = value.trim();
        // oslo.config substitutes these when it reads the value.
        if value.contains('$') {
            return Ok(());
        }
        let wrong = |wanted: &str| {
            if self.secret {
                format!("not {wanted}")
            } else {
                format!("`{value}` is not {wanted}")
            }
        };
        match self.kind {
            Kind::Boolean => {
                let known = ["true", "1", "on", "yes", "false", "0", "off", "no"];
                if !known.contains(&value.to_ascii_lowercase().as_str()) {
                    return Err(wrong("a boolean (true or false)"));
                }
            }
            Kind::Integer | Kind::Port => {
                let number: i64 = value.parse().map_err(|_| wrong("a whole number"))?;
                if self.kind == Kind::Port && !(0..=65535).contains(&number) {
                    return Err(wrong("a port (0 to 65535)"));
                }
                self.bounds(number as f64, &wrong)?;
            }
            Kind::Float => {
                let number: f64 = value.parse().map_err(|_| wrong("a number"))?;
                self.bounds(number, &wrong)?;
            }
            Kind::Ip if value.parse::<IpAddr>().is_err() => return Err(wrong("an IP address")),
            Kind::Dict if !value.is_empty() => {
                // Braces and quotes may hold the separators; only the plain form is checked.
                let plain = !value.contains(['"', '\'', '{', '[', '\\']);
                if plain && value.split(',').any(|pair| !pair.contains(':')) {
                    return Err(wrong("a list of key:value pairs"));
                }
            }
            _ => {}
        }
        if self.choices.is_empty() || self.choices.iter().any(|choice| choice == value) {
            Ok(())
        } else {
            Err(wrong(&format!("one of {}", self.choices.join(", "))))
        }
    }

    fn bounds(&self, number: f64, wrong: &dyn Fn(&str) -> String) -> Result<(), String> {
        if let Some(min) = self
            .min
            .as_ref()
            .filter(|min| min.as_f64().is_some_and(|min| number < min))
        {
            return Err(wrong(&format!("at least {min}")));
        }
        if let Some(max) = self
            .max
            .as_ref()
            .filter(|max| max.as_f64().is_some_and(|max| number > max))
        {
            return Err(wrong(&format!("at most {max}")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::Opt;

    fn option(json: &str) -> Opt {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn values() {
        for (json, value, error) in [
            (r#"{"type":"boolean"}"#, "True", None),
            (
                r#"{"type":"boolean"}"#,
                "ja",
                Some("`ja` is not a boolean (true or false)"),
            ),
            (
                r#"{"type":"integer","min":1}"#,
                "0",
                Some("`0` is not at least 1"),
            ),
            (r#"{"type":"integer","max":5}"#, "6", Some("`6` is not at most 5")),
            (r#"{"type":"integer"}"#, "$workers", None),
            (
                r#"{"type":"integer"}"#,
                "1.5",
                Some("`1.5` is not a whole number"),
            ),
            (r#"{"type":"float","min":0.0}"#, "0.5", None),
            (
                r#"{"type":"port"}"#,
                "65536",
                Some("`65536` is not a port (0 to 65535)"),
            ),
            (
                r#"{"type":"string","choices":["a","b"]}"#,
                "c",
                Some("`c` is not one of a, b"),
            ),
            (
                r#"{"type":"string","choices":["a","b"],"secret":true}"#,
                "c",
                Some("not one of a, b"),
            ),
            (r#"{"type":"dict"}"#, "a:1,b:2", None),
            (
                r#"{"type":"dict"}"#,
                "a",
                Some("`a` is not a list of key:value pairs"),
            ),
            (r#"{"type":"ip"}"#, "::1", None),
            (r#"{"type":"ip"}"#, "host", Some("`host` is not an IP address")),
            (r#"{"type":"list"}"#, "a,b", None),
        ] {
            assert_eq!(
                option(json).check(value).err().as_deref(),
                error,
                "{json} {value}"
            );
        }
    }
}

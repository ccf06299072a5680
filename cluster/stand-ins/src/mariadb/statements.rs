//! SQL text. Everything that comes from an object is quoted.

/// `'text'`, safe for any text.
pub fn text(value: &str) -> String {
    let mut quoted = String::from("'");
    for c in value.chars() {
        match c {
            '\'' => quoted.push_str("''"),
            '\\' => quoted.push_str("\\\\"),
            '\0' => {}
            other => quoted.push(other),
        }
    }
    quoted.push('\'');
    quoted
}

/// `` `name` ``, safe for any name.
pub fn name(value: &str) -> String {
    format!("`{}`", value.replace('`', "``"))
}

pub fn database(own: &str, charset: Option<&str>, collate: Option<&str>) -> String {
    let charset = charset.unwrap_or("utf8mb4");
    let collate = collate
        .map(|collate| format!(" COLLATE {}", text(collate)))
        .unwrap_or_default();
    format!(
        "CREATE DATABASE IF NOT EXISTS {} CHARACTER SET {}{collate};\n",
        name(own),
        text(charset)
    )
}

pub fn user(own: &str, host: &str, password: &str) -> String {
    let account = format!("{}@{}", text(own), text(host));
    let password = text(password);
    format!(
        "CREATE USER IF NOT EXISTS {account} IDENTIFIED BY {password};\nALTER USER {account} IDENTIFIED BY {password};\n"
    )
}

pub fn grant(privileges: &[String], database: &str, table: &str, user: &str, host: &str) -> String {
    let star = |part: &str| if part == "*" { "*".to_owned() } else { name(part) };
    // Privileges are words of SQL: nothing but letters and spaces passes.
    let plain = |word: &&String| word.chars().all(|c| c.is_ascii_alphabetic() || c == ' ');
    let list: Vec<&str> = privileges.iter().filter(plain).map(String::as_str).collect();
    let list = if list.is_empty() {
        "ALL PRIVILEGES".to_owned()
    } else {
        list.join(", ")
    };
    format!(
        "GRANT {list} ON {}.{} TO {}@{};\n",
        star(database),
        star(table),
        text(user),
        text(host)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold() {
        assert_eq!(text("it's \\ me"), "'it''s \\\\ me'");
        assert_eq!(name("a`b"), "`a``b`");
        assert_eq!(
            user("ks", "%", "p'w"),
            "CREATE USER IF NOT EXISTS 'ks'@'%' IDENTIFIED BY 'p''w';\nALTER USER 'ks'@'%' IDENTIFIED BY 'p''w';\n"
        );
        let evil = vec!["SELECT; DROP".to_owned(), "SELECT".to_owned()];
        assert_eq!(
            grant(&evil, "keystone", "*", "ks", "%"),
            "GRANT SELECT ON `keystone`.* TO 'ks'@'%';\n"
        );
    }
}

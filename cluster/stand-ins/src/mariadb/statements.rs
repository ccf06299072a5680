//! SQL text. Everything that comes from an object is quoted.

/// `'text'`, safe for any text.
pub(crate) fn text(value: &str) -> String {
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
pub(crate) fn name(value: &str) -> String {
    format!("`{}`", value.replace('`', "``"))
}

fn account(user: &str, host: &str) -> String {
    format!("{}@{}", text(user), text(host))
}

/// The administrator, from anywhere and from the server's own pod.
pub(crate) fn root(password: &str) -> String {
    let mut sql = String::new();
    for host in ["%", "localhost"] {
        let account = account("root", host);
        sql.push_str(&identified(&account, password, 0));
        sql.push_str(&format!(
            "GRANT ALL PRIVILEGES ON *.* TO {account} WITH GRANT OPTION;\n"
        ));
    }
    sql
}

fn identified(account: &str, password: &str, connections: i32) -> String {
    let password = text(password);
    format!(
        "CREATE USER IF NOT EXISTS {account} IDENTIFIED BY {password};\n\
         ALTER USER {account} IDENTIFIED BY {password} WITH MAX_USER_CONNECTIONS {connections};\n"
    )
}

pub(crate) fn database(own: &str, charset: Option<&str>, collate: Option<&str>) -> String {
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

pub(crate) fn drop_database(own: &str) -> String {
    format!("DROP DATABASE IF EXISTS {};\n", name(own))
}

pub(crate) fn user(own: &str, host: &str, password: &str, connections: i32) -> String {
    identified(&account(own, host), password, connections)
}

pub(crate) fn drop_user(own: &str, host: &str) -> String {
    format!("DROP USER IF EXISTS {};\n", account(own, host))
}

/// What a grant is about; `*` for all databases or tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub privileges: &'a [String],
    pub database: &'a str,
    pub table: &'a str,
    pub user: &'a str,
    pub host: &'a str,
}

impl Target<'_> {
    fn list(&self) -> String {
        if self.privileges.is_empty() {
            "ALL PRIVILEGES".to_owned()
        } else {
            self.privileges.join(", ")
        }
    }

    fn place(&self) -> String {
        let star = |part: &str| if part == "*" { "*".to_owned() } else { name(part) };
        format!("{}.{}", star(self.database), star(self.table))
    }
}

/// Privileges are words of SQL: nothing but letters and spaces.
pub(crate) fn is_privilege(word: &str) -> bool {
    word.chars().any(|c| c.is_ascii_alphabetic()) && word.chars().all(|c| c.is_ascii_alphabetic() || c == ' ')
}

pub(crate) fn grant(target: &Target<'_>, may_grant: bool) -> String {
    format!(
        "GRANT {} ON {} TO {}{};\n",
        target.list(),
        target.place(),
        account(target.user, target.host),
        if may_grant { " WITH GRANT OPTION" } else { "" },
    )
}

pub(crate) fn revoke(target: &Target<'_>) -> String {
    format!(
        "REVOKE {} ON {} FROM {};\n",
        target.list(),
        target.place(),
        account(target.user, target.host)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quotes_hold() {
        assert_eq!(text("it's \\ me"), "'it''s \\\\ me'");
        assert_eq!(name("a`b"), "`a``b`");
        assert_eq!(
            user("ks", "%", "p'w", 5),
            "CREATE USER IF NOT EXISTS 'ks'@'%' IDENTIFIED BY 'p''w';\n\
             ALTER USER 'ks'@'%' IDENTIFIED BY 'p''w' WITH MAX_USER_CONNECTIONS 5;\n"
        );
        assert!(!is_privilege("SELECT; DROP") && !is_privilege(" ") && is_privilege("ALL PRIVILEGES"));
    }

    #[test]
    fn grants_and_their_end() {
        let privileges = ["SELECT".to_owned(), "INSERT".to_owned()];
        let target = Target {
            privileges: &privileges,
            database: "keystone",
            table: "*",
            user: "ks",
            host: "%",
        };
        assert_eq!(
            grant(&target, true),
            "GRANT SELECT, INSERT ON `keystone`.* TO 'ks'@'%' WITH GRANT OPTION;\n"
        );
        assert_eq!(
            revoke(&target),
            "REVOKE SELECT, INSERT ON `keystone`.* FROM 'ks'@'%';\n"
        );
    }

    proptest! {
        /// Taken out of its quotes and unescaped, any text is what it was.
        #[test]
        fn text_cannot_break_out(value in "[^\0]*") {
            let quoted = text(&value);
            let inner = quoted.strip_prefix('\'').and_then(|q| q.strip_suffix('\'')).expect("quotes");
            let mut chars = inner.chars();
            let mut read = String::new();
            while let Some(c) = chars.next() {
                match c {
                    '\'' | '\\' => read.push(chars.next().filter(|next| *next == c).expect("a pair")),
                    other => read.push(other),
                }
            }
            prop_assert_eq!(read, value);
        }
    }
}

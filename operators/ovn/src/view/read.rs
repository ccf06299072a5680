//! Pure. From rows to what they mean.

use std::collections::BTreeMap;

use c5c3_api::ovn::RaftRole;
use jiff::Timestamp;
use ovsdb_client::{Row, Tables};
use serde_json::Value;

use super::Registered;
use crate::names::Side;

fn text<'a>(row: &'a Row, column: &str) -> Option<&'a str> {
    row.get(column).and_then(Value::as_str)
}

fn time(row: &Row, column: &str) -> Option<Timestamp> {
    let at = row.get(column).and_then(Value::as_i64).filter(|at| *at > 0)?;
    Timestamp::from_millisecond(at).ok()
}

pub(super) fn chassis(tables: &Tables) -> BTreeMap<String, Registered> {
    let rows = |table: &str| tables.get(table).into_iter().flat_map(|rows| rows.values());
    let mut answers: BTreeMap<&str, Option<Timestamp>> = BTreeMap::new();
    for row in rows("Chassis_Private") {
        if let Some(name) = text(row, "name") {
            answers.insert(name, time(row, "nb_cfg_timestamp"));
        }
    }
    rows("Chassis")
        .filter_map(|row| text(row, "name"))
        .map(|name| {
            let answered = answers.get(name).copied().flatten();
            (name.to_owned(), Registered { answered })
        })
        .collect()
}

/// When northd was last done with what all chassis are to answer.
pub(super) fn asked(tables: &Tables) -> Option<Timestamp> {
    let mut rows = tables.get("NB_Global").into_iter().flat_map(|rows| rows.values());
    rows.find_map(|row| time(row, "nb_cfg_timestamp"))
}

pub(super) fn role(tables: &Tables, side: Side) -> RaftRole {
    let mut rows = tables.get("Database").into_iter().flat_map(|rows| rows.values());
    let Some(row) = rows.find(|row| text(row, "name") == Some(side.schema())) else {
        return RaftRole::Unknown;
    };
    let is = |column: &str| row.get(column).and_then(Value::as_bool).unwrap_or(false);
    match (is("connected"), is("leader")) {
        (true, true) => RaftRole::Leader,
        (true, false) => RaftRole::Follower,
        // It hears of no leader: it asks for votes.
        (false, _) => RaftRole::Candidate,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tables(all: Value) -> Tables {
        let table = |rows: &Value| {
            let rows = rows.as_array().into_iter().flatten().enumerate();
            rows.map(|(n, row)| (n.to_string(), row.as_object().cloned().unwrap_or_default()))
                .collect()
        };
        let all = all.as_object().cloned().unwrap_or_default();
        all.iter()
            .map(|(name, rows)| (name.clone(), table(rows)))
            .collect()
    }

    #[test]
    fn chassis_and_their_answers_belong_together_by_name() {
        let read = chassis(&tables(json!({
            "Chassis": [{"name": "a"}, {"name": "b"}, {"odd": 1}],
            "Chassis_Private": [{"name": "a", "nb_cfg_timestamp": 1_700_000_000_000_i64}, {"name": "c"}],
        })));
        assert_eq!(read.keys().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(read["a"].answered.map(Timestamp::as_second), Some(1_700_000_000));
        assert_eq!(read["b"].answered, None);
    }

    #[test]
    fn a_member_is_what_its_row_says() {
        for (row, expected) in [
            (json!({"connected": true, "leader": true}), RaftRole::Leader),
            (json!({"connected": true, "leader": false}), RaftRole::Follower),
            (json!({"connected": false, "leader": false}), RaftRole::Candidate),
        ] {
            let mut row = row;
            row["name"] = "OVN_Southbound".into();
            let read = tables(json!({"Database": [{"name": "_Server"}, row]}));
            assert_eq!(role(&read, Side::Southbound), expected);
            assert_eq!(role(&read, Side::Northbound), RaftRole::Unknown);
        }
    }
}

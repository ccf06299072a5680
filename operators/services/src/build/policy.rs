//! policy.yaml: rules of the ConfigMap with the inline ones over them.

use std::collections::BTreeMap;

use c5c3_api::common::PolicyOverrides;
use serde_json::json;

use crate::error::Error;
use crate::facts::Facts;

/// One rule a line, as JSON strings, which YAML reads too.
pub(super) fn policy(overrides: &PolicyOverrides, facts: &Facts) -> Result<String, Error> {
    let mut rules: BTreeMap<String, String> = BTreeMap::new();
    if let Some(reference) = &overrides.config_map_ref {
        let name = &reference.name;
        let Some(text) = &facts.policy else {
            return Err(Error::PolicyMissing {
                name: name.clone(),
                found: facts.policy_found,
            });
        };
        rules = serde_saphyr::from_str(text).map_err(|error| Error::PolicyInvalid {
            name: name.clone(),
            reason: error.to_string().lines().next().unwrap_or_default().to_owned(),
        })?;
    }
    rules.extend(overrides.rules.clone());
    let lines = rules
        .iter()
        .map(|(rule, check)| format!("{}: {}\n", json!(rule), json!(check)));
    Ok(lines.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use c5c3_api::common::LocalRef;

    fn overrides() -> PolicyOverrides {
        PolicyOverrides {
            rules: BTreeMap::from([("identity:get_user".to_owned(), "role:reader".to_owned())]),
            config_map_ref: Some(LocalRef::new("rules")),
        }
    }

    fn with(text: Option<&str>) -> Result<String, String> {
        let facts = Facts {
            policy: text.map(str::to_owned),
            policy_found: text.is_some(),
            ..Facts::default()
        };
        policy(&overrides(), &facts).map_err(|error| error.to_string())
    }

    #[test]
    fn inline_rules_win_over_those_of_the_config_map() {
        let text =
            "# ours\nidentity:get_user: \"!\"\n\"identity:list_users\": >-\n  role:admin or\n  role:reader\n";
        assert_eq!(
            with(Some(text)).expect("reads"),
            "\"identity:get_user\": \"role:reader\"\n\"identity:list_users\": \"role:admin or role:reader\"\n"
        );
    }

    #[test]
    fn what_is_wrong_with_the_config_map_is_said() {
        let missing = with(None).expect_err("missing");
        assert_eq!(
            missing,
            "policyOverrides.configMapRef: ConfigMap rules is missing"
        );
        let list = with(Some("- a\n- b\n")).expect_err("a list");
        assert!(
            list.starts_with("policyOverrides.configMapRef: policy.yaml of ConfigMap rules"),
            "{list}"
        );
    }
}

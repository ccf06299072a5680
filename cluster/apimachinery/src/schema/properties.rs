//! Properties that hold for every schema and object.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Structural, regexp};
use crate::cel::{Decl, Program, SELF_TYPE};

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-5_i64..10).prop_map(Value::from),
        (-2.0..4.0_f64).prop_map(Value::from),
        "[a-z0-9.:/é-]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[abc]|x-y|kind", inner, 0..4)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string", "maxLength": 3, "default": "d"})),
        Just(json!({"type": "integer", "minimum": 1, "nullable": true})),
        Just(json!({"type": "string", "format": "duration", "pattern": "^[0-9]"})),
        Just(json!({"type": "number", "multipleOf": 0.5, "enum": [1, 1.5]})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
        Just(
            json!({"type": "integer", "x-kubernetes-validations": [{"rule": "10 / self > 1 || self == oldSelf"}]})
        ),
    ];
    leaf.prop_recursive(3, 24, 3, |inner| {
        prop_oneof![
            inner
                .clone()
                .prop_map(|s| json!({"type": "array", "items": s, "maxItems": 2})),
            inner
                .clone()
                .prop_map(|s| json!({"type": "array", "items": s, "x-kubernetes-list-type": "set"})),
            inner
                .clone()
                .prop_map(|s| json!({"type": "object", "additionalProperties": s})),
            prop::collection::btree_map("[abc]|x-y", inner, 1..4).prop_map(|p| json!({
                "type": "object", "properties": p,
                "x-kubernetes-validations": [{"rule": "!has(self.a) || self == self"}]
            })),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Nothing that a client sends makes it panic, and what was stored once is stored again as it is.
    #[test]
    fn decoding_twice_is_decoding_once(schema in schema(), object in value()) {
        let root = json!({"type": "object", "properties": {"spec": schema}});
        let structural = Structural::from_json(&root).expect("readable");
        let mut once = json!({"spec": object});
        structural.prune(&mut once);
        structural.apply_defaults(&mut once);
        let mut twice = once.clone();
        let unknown = structural.prune(&mut twice);
        prop_assert!(unknown.is_empty(), "{unknown:?}");
        structural.apply_defaults(&mut twice);
        prop_assert_eq!(&once, &twice);
        structural.validate(&once, None);
    }

    /// An update that changes nothing is never refused for its values.
    #[test]
    fn an_unchanged_object_is_valid(object in value()) {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "a": {"type": "integer", "maximum": 1}, "b": {"type": "string", "pattern": "^x"}
            }}
        }});
        let structural = Structural::from_json(&schema).expect("readable");
        let mut object = json!({"spec": object});
        structural.prune(&mut object);
        prop_assert_eq!(structural.validate(&object, Some(&object)), vec![]);
    }

    #[test]
    fn expressions_never_panic(source in "[a-z0-9.()\\[\\]{}?:!&|<>=+*/%,'\" \\\\-]{0,40}") {
        let schema = super::Schema::parse(&json!({"type": "string"}), &crate::field::Path::root());
        let decl = Decl::of_schema(&schema.expect("readable"), SELF_TYPE).expect("a string");
        let _ = Program::compile_rule(&source, &decl);
    }

    #[test]
    fn patterns_never_panic(source in "[a-z0-9.()\\[\\]{}?:^$|*+,\\\\é-]{0,16}") {
        if let Ok(regex) = regexp::compile(&source) {
            regex.is_match("abc-1");
        }
    }
}

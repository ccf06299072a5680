use apimachinery::crd::validate_schema;
use apimachinery::field::{FieldError, Path};
use apimachinery::schema::{Schema, Structural};
use serde_json::{Value, json};
use std::io::BufRead;
fn errs(l: &[FieldError]) -> Value {
    let mut v: Vec<Value> = l.iter().map(|e| json!({"type": e.kind.reason(), "field": e.field, "detail": e.detail, "message": e.to_string()})).collect();
    v.sort_by_key(|e| e["message"].as_str().unwrap().to_owned());
    json!(v)
}
fn main() {
    for line in std::io::stdin().lock().lines() {
        let c: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let mut out = json!({"id": c["id"]});
        if c["kind"] == "accept" {
            let path = Path::new("spec").child("validation").child("openAPIV3Schema");
            match Schema::parse(&c["schema"], &path) {
                Ok(s) => out["errors"] = errs(&validate_schema(&s, false, &path)),
                Err(e) => out["decode"] = errs(&e),
            }
        } else {
            let s = Structural::from_json(&c["schema"]).unwrap();
            let mut obj = c["object"].clone();
            out["unknown"] = json!(apimachinery::schema::prune::prune(&mut obj, s.schema(), true));
            apimachinery::schema::prune::prune_nulls(&mut obj, Some(s.schema()));
            match apimachinery::schema::objectmeta::coerce(&mut obj, s.schema(), false, &Path::root()) {
                Err(e) => out["error"] = json!(e.to_string()),
                Ok(_) => {
                    s.apply_defaults(&mut obj);
                    out["object"] = obj.clone();
                    let old = (!c["old"].is_null()).then(|| {
                        let mut o = c["old"].clone();
                        s.prune(&mut o);
                        s.apply_defaults(&mut o);
                        o
                    });
                    out["errors"] = errs(&s.validate(&obj, old.as_ref()));
                }
            }
        }
        println!("{out}");
    }
}

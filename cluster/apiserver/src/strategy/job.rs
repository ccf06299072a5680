//! Jobs: a selector of their own pods, made from their uid.

use serde_json::Value;

pub(super) fn prepare(object: &mut Value, old: Option<&Value>) {
    if old.is_some() || object["spec"]["manualSelector"] == true {
        return;
    }
    let uid = object["metadata"]["uid"].clone();
    let name = object["metadata"]["name"].clone();
    let labels = &mut object["spec"]["template"]["metadata"]["labels"];
    for (key, value) in [
        ("controller-uid", &uid),
        ("job-name", &name),
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
    ] {
        labels[key] = value.clone();
    }
    object["spec"]["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"] = uid;
}

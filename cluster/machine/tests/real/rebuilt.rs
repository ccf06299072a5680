//! A tag that was rebuilt reaches every node that had the old image.

use std::path::Path;
use std::sync::Arc;

use embedded_node::images::{store, tiny};
use serde_json::{Value, json};

use super::memory_api::{Case, MemoryApi, host, pod};
use super::test_nodes::TestNodes;

const TOOL: &str = "c5c3.local/tool:1";

/// An image that says `text`.
fn build(directory: &Path, text: &str) {
    let busybox = std::fs::read("/usr/bin/busybox").unwrap();
    let entries = [
        tiny::Entry::directory("bin", 0o755),
        tiny::Entry::program("bin/busybox", &busybox),
        tiny::Entry::link("bin/cat", "busybox"),
        tiny::Entry::program("word", text.as_bytes()),
    ];
    let layer = tiny::layer(&entries).unwrap();
    store::add(directory, TOOL, &layer, json!({ "Env": ["PATH=/bin"] })).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuilt_tag_is_taken_by_every_node() {
    let test_nodes = TestNodes::new(&["a", "b"]);
    let (_fabric, nodes) = test_nodes.up().await;
    let store = test_nodes.layout.state().join("images");
    let spec = |policy: &str| -> Value {
        json!({ "restartPolicy": "Never", "containers": [{ "name": "main", "image": TOOL,
            "imagePullPolicy": policy, "command": ["cat", "/word"] }] })
    };
    let api = Arc::new(MemoryApi::default());
    let says = async |name: &str, index: usize, policy: &str| {
        let (node, cri) = &nodes[index];
        let host = host(&test_nodes, node, cri, &api);
        let mut case = Case::start(&host, &api, pod(name, spec(policy)));
        case.until_phase("Succeeded").await;
        let said = case.log("main", 0);
        case.delete(0).await;
        said
    };
    build(&store, "old\n");
    for index in [0, 1] {
        assert_eq!(
            says(&format!("first-{index}"), index, "IfNotPresent").await,
            "old\n"
        );
    }
    // Unchanged: nothing is brought again.
    assert_eq!(says("warm", 0, "IfNotPresent").await, "old\n");
    let events = api.events_of("warm");
    assert!(events.contains("already present on machine"), "{events}");

    build(&store, "new\n");
    assert_eq!(says("never", 0, "Never").await, "old\n", "what the node has");
    for index in [0, 1] {
        assert_eq!(
            says(&format!("second-{index}"), index, "IfNotPresent").await,
            "new\n"
        );
    }
    // Built back again: the parts of the old one may be there still.
    build(&store, "old\n");
    assert_eq!(says("third", 0, "IfNotPresent").await, "old\n");
    // A store that is being written, or gone, stops nobody.
    std::fs::write(store.join("index.json"), "{ half").unwrap();
    assert_eq!(says("fourth", 0, "IfNotPresent").await, "old\n");
}

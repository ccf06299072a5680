//! A real kubectl cannot tell the embedded server from Kubernetes.

mod access;
mod operators;
mod reading;
mod writing;

use end_to_end::Embedded;
use end_to_end::cli::Session;

const GARDENS: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gardens.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gardens, singular: garden, kind: Garden, shortNames: [gd], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    additionalPrinterColumns:
    - {name: Flower, type: string, jsonPath: .spec.flower}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
    - {name: Beds, type: integer, jsonPath: .spec.replicas, priority: 1}
    schema:
      openAPIV3Schema:
        description: Garden is a place where flowers grow.
        type: object
        properties:
          spec:
            description: What should grow.
            type: object
            required: [flower]
            properties:
              flower: {type: string, description: The kind of flower., enum: [rose, tulip]}
              replicas: {type: integer, default: 1, minimum: 0}
              beds: {type: array, items: {type: object, properties: {size: {type: integer}}}}
          status:
            type: object
            properties:
              replicas: {type: integer}
              conditions:
                type: array
                items: {type: object, properties: {type: {type: string}, status: {type: string}}}
"#;

const GARDEN: &str = r"
apiVersion: example.com/v1
kind: Garden
metadata: {name: g}
spec: {flower: rose}
";

const WEB: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: c, image: "nginx:1", ports: [{containerPort: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: conf}
data: {a: "1"}
"#;

async fn start() -> anyhow::Result<(Embedded, Session)> {
    let embedded = Embedded::with_clusters(&["alpha", "beta"]).await?;
    let kubectl = Session::new("kubectl", &embedded)?;
    Ok((embedded, kubectl))
}

async fn with_gardens() -> anyhow::Result<(Embedded, Session)> {
    let (embedded, kubectl) = start().await?;
    kubectl.run_with(&["apply", "-f", "-"], GARDENS).await?;
    kubectl
        .run(&[
            "wait",
            "--for=condition=Established",
            "crd/gardens.example.com",
            "--timeout=20s",
        ])
        .await?;
    Ok((embedded, kubectl))
}

#[track_caller]
fn contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}

//! Labels and annotations on sandboxes and containers, as other kubelets write them.

pub const POD_NAME: &str = "io.kubernetes.pod.name";
pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
pub const POD_UID: &str = "io.kubernetes.pod.uid";
pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";
pub const RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
pub const MESSAGE_PATH: &str = "io.kubernetes.container.terminationMessagePath";
pub const MESSAGE_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
pub const GRACE: &str = "io.kubernetes.pod.terminationGracePeriod";

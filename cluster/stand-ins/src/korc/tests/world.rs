//! An API server with K-ORC's kinds, a simulated Keystone, and the sentences that the tests are made of.

use std::time::Duration;

use c5c3_api::foreign::is_true;
use c5c3_api::foreign::korc::{ApplicationCredential, Domain, Project, Role, RoleAssignment, User};
use c5c3_kit::stop::Stopper;
use c5c3_kit::{Clusters, Metrics, Stop};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use openstack_client::{Auth, Connect, Identity, Simulator};
use serde_json::{Value, json};
use test_harness::{TestCluster, eventually};

use crate::korc::observe::value;
use crate::korc::resource::Resource;

/// Short here: drift is seen at once, and silence is tested against many checks.
pub(crate) const LOOK: Duration = Duration::from_millis(300);

pub(crate) struct World {
    pub cluster: TestCluster,
    pub namespace: String,
    pub simulator: Simulator,
    _stopper: Stopper,
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::looking(LOOK).await
    }

    pub(crate) async fn looking(look: Duration) -> Self {
        let cluster = TestCluster::start().await;
        for kind in c5c3_api::registry() {
            let definition = kind.crd();
            if definition.spec.group == "openstack.k-orc.cloud" {
                cluster.install(definition).await;
            }
        }
        let namespace = cluster.namespace("korc").await;
        let simulator = Simulator::new("admin");
        let (stopper, stop) = Stop::channel();
        let rules = crate::access().rules();
        let clusters = Clusters::of(cluster.client_with("stand-ins", rules).await);
        let connect = std::sync::Arc::new(simulator.clone());
        tokio::spawn(crate::korc::run(
            clusters,
            Metrics::default(),
            connect,
            look,
            stop,
        ));
        let world = World {
            cluster,
            namespace,
            simulator,
            _stopper: stopper,
        };
        world.clouds("admin").await;
        world
    }

    pub(crate) fn client(&self) -> Client {
        self.cluster.client()
    }

    pub(crate) fn api<R: Resource>(&self) -> Api<R> {
        Api::namespaced(self.client(), &self.namespace)
    }

    pub(crate) fn admin(&self) -> std::sync::Arc<dyn Identity> {
        self.simulator
            .connect(Simulator::admin("admin"))
            .expect("a session")
    }

    pub(crate) async fn secret(&self, name: &str, key: &str, text: &str) {
        let api: Api<Secret> = Api::namespaced(self.client(), &self.namespace);
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {key: text}});
        let params = PatchParams::apply("test").force();
        api.patch(name, &params, &Patch::Apply(&secret))
            .await
            .expect("a Secret");
    }

    pub(crate) async fn read(&self, name: &str) -> Option<Secret> {
        let api: Api<Secret> = Api::namespaced(self.client(), &self.namespace);
        api.get_opt(name).await.expect("an answer")
    }

    pub(crate) async fn clouds(&self, password: &str) {
        let text = format!(
            "clouds: {{admin: {{auth: {{auth_url: 'http://simulator:5000', username: admin, password: {password}, \
             project_name: admin, user_domain_name: Default, project_domain_name: Default}}, region_name: RegionOne}}}}"
        );
        self.secret("k-orc-clouds-yaml", "clouds.yaml", &text).await;
    }

    /// The login of Glance's user itself.
    pub(crate) async fn login(&self, password: &str) {
        let user = self.available::<User>("glance").await;
        let project = self.available::<Project>("service").await;
        let text = format!(
            "clouds: {{openstack: {{auth: {{auth_url: 'http://simulator:5000', user_id: '{user}', \
             password: {password}, project_id: '{project}'}}, region_name: RegionOne}}}}"
        );
        self.secret("glance-login", "clouds.yaml", &text).await;
    }

    pub(crate) async fn apply<R: Resource>(&self, name: &str, fields: Value) {
        // Only the user itself can make its credentials.
        let mut spec = if R::OWN_LOGIN {
            json!({"cloudCredentialsRef": {"cloudName": "openstack", "secretName": "glance-login"}})
        } else {
            json!({"cloudCredentialsRef": {"cloudName": "admin", "secretName": "k-orc-clouds-yaml"}})
        };
        let parts = spec.as_object_mut().zip(fields.as_object().cloned());
        if let Some((spec, fields)) = parts {
            spec.extend(fields);
        }
        let object = json!({"apiVersion": R::api_version(&()), "kind": R::kind(&()), "metadata": {"name": name}, "spec": spec});
        let params = PatchParams::apply("test").force();
        self.api::<R>()
            .patch(name, &params, &Patch::Apply(&object))
            .await
            .expect("accepted");
    }

    pub(crate) async fn managed<R: Resource>(&self, name: &str, resource: Value) {
        self.apply::<R>(name, json!({"resource": resource})).await;
    }

    pub(crate) async fn imported<R: Resource>(&self, name: &str, filter: Value) {
        let fields = json!({"managementPolicy": "unmanaged", "import": {"filter": filter}});
        self.apply::<R>(name, fields).await;
    }

    pub(crate) async fn available<R: Resource>(&self, name: &str) -> String {
        let what = format!("{} {name} is available", R::kind(&()));
        eventually(&what, async || {
            let live = self.api::<R>().get(name).await.ok()?;
            let head = live.head();
            head.id
                .filter(|_| is_true(head.conditions, "Available"))
                .map(str::to_owned)
        })
        .await
    }

    /// For what has no id.
    pub(crate) async fn assigned(&self, name: &str) {
        eventually(&format!("RoleAssignment {name} is available"), async || {
            let live = self.api::<RoleAssignment>().get(name).await.ok()?;
            is_true(live.head().conditions, "Available").then_some(())
        })
        .await;
    }

    /// Waits until the object says this.
    pub(crate) async fn says<R: Resource>(&self, name: &str, reason: &str, text: &str) {
        let what = format!("{} {name} says {text:?}", R::kind(&()));
        eventually(&what, async || {
            let live = self.api::<R>().get(name).await.ok()?;
            let conditions = live.head().conditions.to_vec();
            let progressing = conditions.into_iter().find(|c| c.type_ == "Progressing")?;
            let said = progressing.message.unwrap_or_default();
            (progressing.reason.as_deref() == Some(reason) && said.contains(text)).then_some(())
        })
        .await;
    }

    pub(crate) async fn gone<R: Resource>(&self, name: &str) {
        let api = self.api::<R>();
        api.delete(name, &DeleteParams::default())
            .await
            .expect("accepted");
        eventually("the object is gone", async || {
            api.get_opt(name).await.ok()?.is_none().then_some(())
        })
        .await;
    }

    /// A service user with a credential, as planner and rotation make them.
    pub(crate) async fn glance(&self) {
        self.glance_user().await;
        self.assigned("glance-service").await;
        self.login("one").await;
        self.credential().await;
    }

    pub(crate) async fn credential(&self) {
        let credential = json!({"userRef": "glance", "roleRefs": ["service"], "secretRef": "glance-1",
            "expiresAt": "2099-01-01T00:00:00Z"});
        self.managed::<ApplicationCredential>("glance-1", credential)
            .await;
    }

    pub(crate) async fn glance_user(&self) {
        self.imported::<Domain>("default", json!({"name": "Default"}))
            .await;
        self.imported::<Role>("service", json!({"name": "service"})).await;
        self.managed::<Project>("service", json!({"domainRef": "default"}))
            .await;
        self.secret("glance-service-user", "password", "one").await;
        let user = json!({"domainRef": "default", "defaultProjectRef": "service",
            "passwordRef": "glance-service-user"});
        self.managed::<User>("glance", user).await;
        let role = json!({"roleRef": "service", "userRef": "glance", "projectRef": "service"});
        self.managed::<RoleAssignment>("glance-service", role).await;
    }

    /// Logs in with what the Secret holds.
    pub(crate) async fn logs_in(&self, name: &str) -> bool {
        let Some(secret) = self.read(name).await else {
            return false;
        };
        let Some(clouds) = value(&secret, "clouds.yaml") else {
            return false;
        };
        let cloud = openstack_client::Cloud::parse(&clouds, "openstack", None).expect("a cloud");
        let Auth::ApplicationCredential { id, .. } = &cloud.auth else {
            panic!("{cloud:?}")
        };
        assert_eq!(Some(id), value(&secret, "application_credential_id").as_ref());
        let session = self.simulator.connect(cloud).expect("a session");
        session.identify().await.is_ok()
    }
}

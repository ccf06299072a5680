//! A cloud in memory, for tests.

use std::sync::Mutex;

use async_trait::async_trait;
use openstack_client::{
    Compute, ComputeService, Content, Entity, Fields, Flavour, Image, ImageDraft, Images, KeyPair,
    NetworkKind, Networking, Result, Server, ServerDraft,
};
use serde_json::{Value, json};

#[derive(Debug, Default)]
struct Kept {
    things: Vec<(NetworkKind, Entity)>,
    servers: Vec<Server>,
    flavours: Vec<Flavour>,
    keys: Vec<KeyPair>,
    images: Vec<Image>,
    uploaded: usize,
    changes: usize,
    nobody: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Fake(Mutex<Kept>);

impl Fake {
    pub(crate) fn without_hypervisor() -> Self {
        Self(Mutex::new(Kept {
            nobody: true,
            ..Kept::default()
        }))
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.0.lock().expect("no panic before")
    }

    /// Counts everything that was made or changed.
    pub(crate) fn changes(&self) -> usize {
        self.kept().changes
    }

    pub(crate) fn uploaded(&self) -> usize {
        self.kept().uploaded
    }

    pub(crate) fn count(&self, kind: &str) -> usize {
        let kept = self.kept();
        let same = kept.things.iter().filter(|(own, _)| format!("{own:?}") == kind);
        same.count()
    }

    pub(crate) fn add_server(&self, name: &str, status: &str) -> String {
        let mut kept = self.kept();
        kept.changes += 1;
        let id = format!("s-{}", kept.changes);
        let server = json!({"id": id, "name": name, "status": status});
        kept.servers
            .push(serde_json::from_value(server).expect("a server"));
        let port = Fields::new().with("device_id", id.as_str());
        kept.things
            .push((NetworkKind::Port, entity(&format!("p-{id}"), &port)));
        id
    }

    /// As if somebody had deleted them.
    pub(crate) fn forget_servers(&self) {
        let mut kept = self.kept();
        kept.servers.clear();
        kept.things
            .retain(|(kind, thing)| *kind != NetworkKind::Port || !thing.id.starts_with("p-s-"));
        for (_, thing) in &mut kept.things {
            thing.fields.0.remove("port_id");
        }
    }
}

fn entity(id: &str, fields: &Fields) -> Entity {
    Entity {
        id: id.to_owned(),
        fields: fields.clone().with("id", id),
    }
}

#[async_trait]
impl Networking for Fake {
    async fn found(&self, kind: NetworkKind, filter: &[(&str, &str)]) -> Result<Vec<Entity>> {
        let fits = |thing: &Entity| {
            filter
                .iter()
                .all(|(name, wanted)| match thing.fields.0.get(*name) {
                    Some(Value::String(text)) => text == wanted,
                    Some(other) => *other == json!(*wanted == "true"),
                    None => false,
                })
        };
        let kept = self.kept();
        let all = kept
            .things
            .iter()
            .filter(|(own, thing)| *own == kind && fits(thing));
        Ok(all.map(|(_, thing)| thing.clone()).collect())
    }

    async fn make(&self, kind: NetworkKind, fields: &Fields) -> Result<Entity> {
        let mut kept = self.kept();
        kept.changes += 1;
        let mut fields = fields.clone();
        if kind == NetworkKind::FloatingIp {
            fields = fields.with("floating_ip_address", "10.194.0.120");
        }
        let made = entity(&format!("n-{}", kept.changes), &fields);
        kept.things.push((kind, made.clone()));
        Ok(made)
    }

    async fn change(&self, _: NetworkKind, id: &str, fields: &Fields) -> Result<Entity> {
        let mut kept = self.kept();
        kept.changes += 1;
        let mut all = kept.things.iter_mut().map(|(_, thing)| thing);
        let thing = all.find(|thing| thing.id == id).expect("it is there");
        thing.fields.0.extend(fields.0.clone());
        Ok(thing.clone())
    }

    async fn add_router_interface(&self, router: &str, subnet: &str) -> Result<()> {
        let port = Fields::new()
            .with("device_id", router)
            .with("fixed_ips", json!([{"subnet_id": subnet}]));
        self.make(NetworkKind::Port, &port).await.map(drop)
    }
}

#[async_trait]
impl Compute for Fake {
    async fn flavours(&self) -> Result<Vec<Flavour>> {
        Ok(self.kept().flavours.clone())
    }

    async fn create_flavour(&self, flavour: &Flavour) -> Result<Flavour> {
        let mut kept = self.kept();
        kept.changes += 1;
        kept.flavours.push(flavour.clone());
        Ok(flavour.clone())
    }

    async fn key_pair(&self, name: &str) -> Result<Option<KeyPair>> {
        let kept = self.kept();
        Ok(kept.keys.iter().find(|pair| pair.name == name).cloned())
    }

    async fn create_key_pair(&self, pair: &KeyPair) -> Result<()> {
        let mut kept = self.kept();
        kept.changes += 1;
        kept.keys.push(pair.clone());
        Ok(())
    }

    async fn compute_services(&self, _: &str) -> Result<Vec<ComputeService>> {
        let state = if self.kept().nobody { "down" } else { "up" };
        Ok(vec![ComputeService {
            host: "node-2".into(),
            state: state.into(),
        }])
    }

    async fn servers(&self, name: &str) -> Result<Vec<Server>> {
        let kept = self.kept();
        let named = kept.servers.iter().filter(|server| server.name == name);
        Ok(named.cloned().collect())
    }

    async fn server(&self, id: &str) -> Result<Option<Server>> {
        let kept = self.kept();
        Ok(kept.servers.iter().find(|server| server.id == id).cloned())
    }

    async fn create_server(&self, draft: &ServerDraft) -> Result<String> {
        Ok(self.add_server(&draft.name, "ACTIVE"))
    }

    async fn console(&self, _: &str) -> Result<String> {
        Ok("booting\nc5c3-guest: ready hostname=demo keys=1 at 3.2 s\n".into())
    }
}

#[async_trait]
impl Images for Fake {
    async fn images(&self, name: Option<&str>) -> Result<Vec<Image>> {
        let kept = self.kept();
        let named = kept
            .images
            .iter()
            .filter(|image| name.is_none() || image.name.as_deref() == name);
        Ok(named.cloned().collect())
    }

    async fn image(&self, id: &str) -> Result<Option<Image>> {
        let kept = self.kept();
        Ok(kept.images.iter().find(|image| image.id == id).cloned())
    }

    async fn create_image(&self, draft: &ImageDraft) -> Result<Image> {
        let mut kept = self.kept();
        kept.changes += 1;
        let image = Image {
            id: format!("i-{}", kept.changes),
            name: Some(draft.name.clone()),
            status: "queued".into(),
            ..Image::default()
        };
        kept.images.push(image.clone());
        Ok(image)
    }

    async fn upload_image(&self, id: &str, content: Content) -> Result<()> {
        let bytes = content.collect(1 << 30).await.expect("bytes");
        let mut kept = self.kept();
        kept.changes += 1;
        kept.uploaded += bytes.len();
        for image in kept.images.iter_mut().filter(|image| image.id == id) {
            image.status = "active".into();
        }
        Ok(())
    }

    async fn download_image(&self, _: &str) -> Result<Content> {
        Ok(Content::bytes(Vec::new()))
    }

    async fn delete_image(&self, id: &str) -> Result<()> {
        self.kept().images.retain(|image| image.id != id);
        Ok(())
    }
}

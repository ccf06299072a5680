//! Glance in memory.

use async_trait::async_trait;
use bytes::Bytes;
use uuid::Uuid;

use super::{Act, Simulator, World};
use crate::error::{Cause, Error, Result};
use crate::images::{Content, Image, ImageDraft, Images};

/// Largest content that is kept.
const MOST: usize = 64 << 20;

fn missing(id: &str) -> (u16, String) {
    (404, format!("No image found with ID {id}"))
}

fn find<'w>(world: &'w mut World, id: &str) -> std::result::Result<&'w mut (Image, Bytes), (u16, String)> {
    world.images.get_mut(id).ok_or_else(|| missing(id))
}

#[async_trait]
impl Images for Simulator {
    async fn images(&self, name: Option<&str>) -> Result<Vec<Image>> {
        self.call("list images".to_owned(), Act::Read, |world| {
            let all = world.images.values().map(|(image, _)| image);
            let wanted = all.filter(|image| name.is_none() || image.name.as_deref() == name);
            Ok(wanted.cloned().collect())
        })
        .await
    }

    async fn image(&self, id: &str) -> Result<Option<Image>> {
        self.call(format!("read image {id}"), Act::Read, |world| {
            Ok(world.images.get(id).map(|(image, _)| image.clone()))
        })
        .await
    }

    async fn create_image(&self, draft: &ImageDraft) -> Result<Image> {
        self.call(format!("create image {}", draft.name), Act::Write, |world| {
            let image = Image {
                id: Uuid::new_v4().to_string(),
                name: Some(draft.name.clone()),
                status: "queued".to_owned(),
                disk_format: Some(draft.disk_format.clone()),
                container_format: Some(draft.container_format.clone()),
                visibility: Some(draft.visibility.clone()),
                ..Image::default()
            };
            world
                .images
                .insert(image.id.clone(), (image.clone(), Bytes::new()));
            Ok(image)
        })
        .await
    }

    async fn upload_image(&self, id: &str, content: Content) -> Result<()> {
        let doing = format!("upload image {id}");
        let broken = |e: std::io::Error| Error::new(&doing, Cause::Broken(e.to_string()));
        let bytes = Bytes::from(content.collect(MOST).await.map_err(broken)?);
        self.call(doing.clone(), Act::Write, |world| {
            let (image, stored) = find(world, id)?;
            if image.status != "queued" {
                return Err((
                    409,
                    format!(
                        "Image status transition from {} to saving is not allowed",
                        image.status
                    ),
                ));
            }
            "active".clone_into(&mut image.status);
            image.size = Some(bytes.len() as u64);
            *stored = bytes;
            Ok(())
        })
        .await
    }

    async fn download_image(&self, id: &str) -> Result<Content> {
        self.call(format!("download image {id}"), Act::Read, |world| {
            Ok(Content::bytes(find(world, id)?.1.clone()))
        })
        .await
    }

    async fn delete_image(&self, id: &str) -> Result<()> {
        self.call(format!("delete image {id}"), Act::Write, |world| {
            world.images.remove(id);
            Ok(())
        })
        .await
    }
}

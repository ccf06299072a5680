//! Glance: the catalogue of images and their content.

use std::fmt::{self, Debug};
use std::io;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use http::{Method, header};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::{Result, optional};
use crate::identity::{piece, query};
use crate::session::{Asked, Destination, Session};

/// uWSGI, in front of Glance, refuses a chunk of a mebibyte.
const PIECE: usize = 64 << 10;
const GLANCE: Destination = Destination::Service("image");

/// An image as Glance shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Image {
    pub id: String,
    #[serde(default)]
    pub name: Option<String>,
    /// `queued` until there is content, then `active`.
    pub status: String,
    #[serde(default)]
    pub size: Option<u64>,
    #[serde(default)]
    pub disk_format: Option<String>,
    #[serde(default)]
    pub container_format: Option<String>,
    #[serde(default)]
    pub visibility: Option<String>,
    /// SHA-512, or what `os_hash_algo` says.
    #[serde(default)]
    pub os_hash_value: Option<String>,
    #[serde(default)]
    pub os_hash_algo: Option<String>,
}

/// An image to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageDraft {
    pub name: String,
    pub disk_format: String,
    pub container_format: String,
    pub visibility: String,
}

impl ImageDraft {
    /// A private image in the raw format.
    pub fn raw(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            disk_format: "raw".to_owned(),
            container_format: "bare".to_owned(),
            visibility: "private".to_owned(),
        }
    }
}

/// The bytes of an image, never all in memory at once.
pub struct Content(BoxStream<'static, io::Result<Bytes>>);

impl Content {
    pub fn new(chunks: impl futures::Stream<Item = io::Result<Bytes>> + Send + 'static) -> Self {
        Self(chunks.boxed())
    }

    pub fn bytes(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self::new(futures::stream::once(async { Ok(bytes) }))
    }

    pub fn into_stream(self) -> BoxStream<'static, io::Result<Bytes>> {
        self.0
    }

    /// The same bytes in pieces of at most so many.
    fn in_pieces(self, most: usize) -> Self {
        let pieces = self.0.flat_map(move |chunk| {
            let pieces: Vec<io::Result<Bytes>> = match chunk {
                Ok(whole) => (0..whole.len())
                    .step_by(most)
                    .map(|at| Ok(whole.slice(at..whole.len().min(at + most))))
                    .collect(),
                Err(error) => vec![Err(error)],
            };
            futures::stream::iter(pieces)
        });
        Self::new(pieces)
    }

    /// All of it; an error beyond `most` bytes.
    pub async fn collect(mut self, most: usize) -> io::Result<Vec<u8>> {
        let mut whole = Vec::new();
        while let Some(chunk) = self.0.next().await {
            whole.extend_from_slice(&chunk?);
            if whole.len() > most {
                return Err(io::Error::other(format!("more than {most} bytes")));
            }
        }
        Ok(whole)
    }
}

impl Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Content")
    }
}

#[async_trait]
pub trait Images: Debug + Send + Sync {
    /// Images of that name, or all.
    async fn images(&self, name: Option<&str>) -> Result<Vec<Image>>;
    async fn image(&self, id: &str) -> Result<Option<Image>>;
    async fn create_image(&self, draft: &ImageDraft) -> Result<Image>;
    async fn upload_image(&self, id: &str, content: Content) -> Result<()>;
    async fn download_image(&self, id: &str) -> Result<Content>;
    /// One that is gone already is as good as deleted.
    async fn delete_image(&self, id: &str) -> Result<()>;
}

#[derive(Deserialize)]
struct Page {
    images: Vec<Image>,
    next: Option<String>,
}

/// Pages of a list; a service that never ends its list is not followed forever.
const PAGES: usize = 1000;

#[async_trait]
impl Images for Session {
    async fn images(&self, name: Option<&str>) -> Result<Vec<Image>> {
        let doing = "list images";
        let filter: Vec<(&str, &str)> = name.iter().map(|name| ("name", *name)).collect();
        let mut path = query("/v2/images", &filter);
        let mut all = Vec::new();
        for _ in 0..PAGES {
            let page: Page = self.read(GLANCE, Asked::new(doing, Method::GET, &path)).await?;
            all.extend(page.images);
            match page.next {
                Some(next) => path = next,
                None => break,
            }
        }
        Ok(all)
    }

    async fn image(&self, id: &str) -> Result<Option<Image>> {
        let (doing, path) = (format!("read image {id}"), one(id));
        optional(self.read(GLANCE, Asked::new(&doing, Method::GET, &path)).await)
    }

    async fn create_image(&self, draft: &ImageDraft) -> Result<Image> {
        let doing = format!("create image {}", draft.name);
        let body: Value = json!({
            "name": draft.name, "disk_format": draft.disk_format,
            "container_format": draft.container_format, "visibility": draft.visibility,
        });
        self.read(GLANCE, Asked::new(&doing, Method::POST, "/v2/images").body(&body))
            .await
    }

    async fn upload_image(&self, id: &str, content: Content) -> Result<()> {
        let (doing, path) = (format!("upload image {id}"), format!("{}/file", one(id)));
        let headers = [(header::CONTENT_TYPE, "application/octet-stream")];
        let asked = Asked::new(&doing, Method::PUT, &path).headers(&headers);
        self.upload(GLANCE, asked, content.in_pieces(PIECE).into_stream())
            .await
    }

    async fn download_image(&self, id: &str) -> Result<Content> {
        let (doing, path) = (format!("download image {id}"), format!("{}/file", one(id)));
        let chunks = self
            .download(GLANCE, Asked::new(&doing, Method::GET, &path))
            .await?;
        Ok(Content(chunks))
    }

    async fn delete_image(&self, id: &str) -> Result<()> {
        let (doing, path) = (format!("delete image {id}"), one(id));
        optional(self.send(GLANCE, Asked::new(&doing, Method::DELETE, &path)).await).map(drop)
    }
}

fn one(id: &str) -> String {
    format!("/v2/images/{}", piece(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_large_chunk_goes_out_in_small_pieces() {
        let content = Content::bytes((0..=255u8).collect::<Vec<_>>()).in_pieces(100);
        let pieces: Vec<Bytes> = content
            .into_stream()
            .map(|piece| piece.expect("bytes"))
            .collect()
            .await;
        let sizes: Vec<usize> = pieces.iter().map(Bytes::len).collect();
        assert_eq!(sizes, [100, 100, 56]);
        assert_eq!(pieces.concat(), (0..=255u8).collect::<Vec<_>>());
    }
}

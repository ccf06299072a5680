use c5c3_catalogue::{Release, releases};

use crate::Error;

/// The image of a server in the newest release of the catalogue, unless the object names one.
pub(crate) fn server_image(name: &str, wished: Option<&str>) -> Result<String, Error> {
    if let Some(image) = wished {
        return Ok(image.to_owned());
    }
    let found = releases()
        .into_iter()
        .rev()
        .find_map(|release| Release::load(&release).ok()?.image(name));
    found.ok_or_else(|| Error::Catalogue(format!("no release has an image {name}")))
}

//! `c5c3 image push`, `pull`, `mirror`, `key`, `sign`, `verify`.

use c5c3_catalogue::Release;

use super::actions::say;
use super::{Common, KeyArgs, MirrorArgs, PullArgs, PushArgs, SignArgs, VerifyArgs};
use crate::build::host::Host;
use crate::error::{Error, Result};
use crate::oci::key::{self, PrivateKey, PublicKey};
use crate::oci::registry::Repository;
use crate::oci::registry::pull::{self, Wanted};
use crate::oci::registry::push;
use crate::oci::store::{Descriptor, Store};
use crate::oci::{import, sign};

pub(super) fn push(common: &Common, args: &PushArgs) -> Result<()> {
    let store = Store::existing(&common.store)?;
    send(&store, &import::choose(&store, &args.names)?, &args.to)
}

pub(super) fn send(store: &Store, images: &[Descriptor], to: &str) -> Result<()> {
    let place = Repository::parse("--to", to)?;
    let host = Host::gather();
    for image in images {
        let reference = push::push(store, image, &place, host.ca.as_deref())?;
        say(&format!("{reference}@{}\n", image.digest));
    }
    Ok(())
}

pub(super) fn pull(common: &Common, args: &PullArgs) -> Result<Vec<Descriptor>> {
    let place = Repository::parse("--from", &args.from)?;
    let release = Release::load(&args.release.release)?;
    let references = references(&release, &args.names)?;
    let key = args.key.as_deref().map(PublicKey::read).transpose()?;
    let store = Store::open(&common.store)?;
    // Nothing is thrown away meanwhile.
    let _shared = store.share()?;
    let host = Host::gather();
    let mut images = Vec::new();
    for reference in &references {
        let wanted = Wanted {
            reference,
            release: &release.name,
            key: key.as_ref(),
        };
        let image = pull::pull(&store, &wanted, &place, host.ca.as_deref())?;
        say(&format!("{reference}@{}\n", image.digest));
        images.push(image);
    }
    Ok(images)
}

/// The full names of images of a release. Pure.
pub(super) fn references(release: &Release, names: &[String]) -> Result<Vec<String>> {
    if names.is_empty() {
        let all = release.versions.keys();
        return Ok(all.filter_map(|name| release.image(name)).collect());
    }
    let one = |name: &String| match name.split_once(':') {
        Some((name, tag)) => Ok(format!("{}/{name}:{tag}", release.registry)),
        None => release.image(name).ok_or_else(|| {
            let known: Vec<&str> = release.versions.keys().map(String::as_str).collect();
            Error::Request(format!(
                "release {} has no image `{name}`; it has {}",
                release.name,
                known.join(", ")
            ))
        }),
    };
    names.iter().map(one).collect()
}

pub(super) fn mirror(common: &Common, args: &MirrorArgs) -> Result<()> {
    // A wrong place is found before anything is fetched.
    Repository::parse("--to", &args.to)?;
    let images = pull(common, &args.pull)?;
    send(&Store::existing(&common.store)?, &images, &args.to)
}

pub(super) fn key(args: &KeyArgs) -> Result<()> {
    let public = key::make(&args.file)?;
    say(&format!(
        "{} signs and stays secret; {} verifies and may be given to everybody.\n",
        args.file.display(),
        public.display()
    ));
    Ok(())
}

pub(super) fn sign(common: &Common, args: &SignArgs) -> Result<()> {
    let key = PrivateKey::read(&args.key)?;
    let store = Store::existing(&common.store)?;
    for image in import::choose(&store, &args.names)? {
        sign::sign(&store, &image, &key)?;
        say(&format!("signed    {}\n", image.reference()));
    }
    Ok(())
}

pub(super) fn verify(common: &Common, args: &VerifyArgs) -> Result<()> {
    let key = PublicKey::read(&args.key)?;
    let store = Store::existing(&common.store)?;
    for image in import::choose(&store, &args.names)? {
        sign::verify(&store, &image, &key)?;
        say(&format!("verified  {}\n", image.reference()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_release() {
        let release = Release::load("2025.2").unwrap();
        let names = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            references(&release, &names)
        };
        assert_eq!(
            names(&["keystone"]).unwrap(),
            [release.image("keystone").unwrap()]
        );
        let own = format!("{}/keystone:28.1.0-p1", release.registry);
        assert_eq!(names(&["keystone:28.1.0-p1"]).unwrap(), [own]);
        assert_eq!(names(&[]).unwrap().len(), release.versions.len());
        let error = names(&["keystoen"]).unwrap_err().to_string();
        assert!(error.contains("has no image `keystoen`; it has"), "{error}");
    }
}

//! The images of others.

use std::fs;

use c5c3_image_builder::fuzzing;

/// Layers are small here: the header of a file may ask for any number of bytes.
const LONGEST: usize = 16 << 10;

/// Whatever a layer holds, nothing outside its directory changes.
pub(crate) fn layers(data: &[u8]) {
    let work = tempfile::tempdir().expect("a directory");
    let outside = work.path().join("outside");
    fs::create_dir(&outside).expect("made");
    fs::write(outside.join("file"), "as it was").expect("written");
    let _ = fuzzing::unpack(&data[..data.len().min(LONGEST)], &work.path().join("root"));
    let names: Vec<_> = fs::read_dir(&outside)
        .expect("still there")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(names, ["file"]);
    assert_eq!(fs::read(outside.join("file")).expect("read"), b"as it was");
    let beside = fs::read_dir(work.path()).expect("read").count();
    assert!(beside <= 2, "only the layer and what was there");
}

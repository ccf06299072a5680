//! Unified diffs: read and applied, with errors that name patch and hunk.

use crate::error::{Error, Result};

/// One patch file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Patch {
    pub name: String,
    pub files: Vec<FilePatch>,
}

/// What a patch does to one file; `None` stands for `/dev/null`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilePatch {
    pub old: Option<String>,
    pub new: Option<String>,
    pub hunks: Vec<Hunk>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hunk {
    header: String,
    /// First line of the old side, counted from 1; 0 for an empty old side.
    start: usize,
    lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Line {
    Keep(String),
    Delete(String),
    Insert(String),
}

impl Patch {
    /// Reads a patch as `diff -u` and `git format-patch` write it.
    pub(crate) fn parse(name: &str, text: &str) -> Result<Self> {
        let bad = |line: usize, reason: &str| Error::Patch {
            patch: name.to_owned(),
            reason: format!("line {line}: {reason}"),
        };
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let mut files: Vec<FilePatch> = Vec::new();
        let mut at = 0;
        while let Some(line) = lines.get(at) {
            at += 1;
            if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") {
                return Err(bad(at, "binary changes are not supported"));
            }
            if line.starts_with("rename from ") || line.starts_with("copy from ") {
                return Err(bad(
                    at,
                    "renames are not supported: make the patch with `git format-patch --no-renames`",
                ));
            }
            if let Some(old) = line.strip_prefix("--- ")
                && let Some(new) = lines.get(at).and_then(|next| next.strip_prefix("+++ "))
            {
                files.push(FilePatch {
                    old: target(old),
                    new: target(new),
                    hunks: Vec::new(),
                });
                at += 1;
            } else if line.starts_with("@@ ") {
                let file = files
                    .last_mut()
                    .ok_or_else(|| bad(at, "a hunk before any file name"))?;
                let (start, old, new) =
                    ranges(line).ok_or_else(|| bad(at, "the hunk's header is not valid"))?;
                let (body, next) =
                    hunk_lines(&lines, at, old, new).ok_or_else(|| bad(at, "the hunk is cut short"))?;
                file.hunks.push(Hunk {
                    header: line.trim_end().to_owned(),
                    start,
                    lines: body,
                });
                at = next;
            }
        }
        if !files.iter().any(|file| !file.hunks.is_empty()) {
            return Err(Error::Patch {
                patch: name.to_owned(),
                reason: "no change found in it".into(),
            });
        }
        Ok(Self {
            name: name.to_owned(),
            files,
        })
    }
}

/// The path of a `---` or `+++` line without its first part (`a/`, `b/`).
fn target(text: &str) -> Option<String> {
    let path = text.split('\t').next().unwrap_or(text).trim_end();
    if path == "/dev/null" {
        return None;
    }
    Some(path.split_once('/').map_or(path, |(_, rest)| rest).to_owned())
}

/// `@@ -start,count +start,count @@`: old start, old count, new count.
fn ranges(header: &str) -> Option<(usize, usize, usize)> {
    let mut words = header.split(' ').skip(1);
    let range = |word: &str| -> Option<(usize, usize)> {
        let (start, count) = word.split_once(',').unwrap_or((word, "1"));
        Some((start.parse().ok()?, count.parse().ok()?))
    };
    let (start, old) = range(words.next()?.strip_prefix('-')?)?;
    let (_, new) = range(words.next()?.strip_prefix('+')?)?;
    Some((start, old, new))
}

/// The body of a hunk and the index after it.
fn hunk_lines(lines: &[&str], mut at: usize, old: usize, new: usize) -> Option<(Vec<Line>, usize)> {
    let (mut old_left, mut new_left) = (old, new);
    let mut body: Vec<Line> = Vec::new();
    while old_left > 0 || new_left > 0 {
        let line = lines.get(at)?;
        at += 1;
        let text = line.get(1..).unwrap_or("\n").to_owned();
        match line.as_bytes().first()? {
            b' ' | b'\n' => {
                old_left = old_left.checked_sub(1)?;
                new_left = new_left.checked_sub(1)?;
                body.push(Line::Keep(if text.is_empty() { "\n".into() } else { text }));
            }
            b'-' => {
                old_left = old_left.checked_sub(1)?;
                body.push(Line::Delete(text));
            }
            b'+' => {
                new_left = new_left.checked_sub(1)?;
                body.push(Line::Insert(text));
            }
            b'\\' => unterminated(&mut body),
            _ => return None,
        }
    }
    if lines.get(at).is_some_and(|line| line.starts_with('\\')) {
        unterminated(&mut body);
        at += 1;
    }
    Some((body, at))
}

/// `\ No newline at end of file` speaks of the line before it.
fn unterminated(body: &mut [Line]) {
    if let Some(Line::Keep(text) | Line::Delete(text) | Line::Insert(text)) = body.last_mut()
        && text.ends_with('\n')
    {
        text.pop();
    }
}

impl Hunk {
    fn before(&self) -> Vec<&str> {
        let side = self.lines.iter().filter_map(|line| match line {
            Line::Keep(text) | Line::Delete(text) => Some(text.as_str()),
            Line::Insert(_) => None,
        });
        side.collect()
    }

    fn after(&self) -> Vec<&str> {
        let side = self.lines.iter().filter_map(|line| match line {
            Line::Keep(text) | Line::Insert(text) => Some(text.as_str()),
            Line::Delete(_) => None,
        });
        side.collect()
    }
}

impl FilePatch {
    /// The path that the patch is about.
    pub(crate) fn path(&self) -> &str {
        self.new.as_deref().or(self.old.as_deref()).unwrap_or("/dev/null")
    }

    /// The new content of the file (`None`: deleted). A hunk may lie at another line than its header
    /// says, but its text must fit exactly: a patch that is nearly right is wrong.
    pub(crate) fn apply(&self, patch: &str, original: Option<&str>) -> Result<Option<String>> {
        let failed = |hunk: usize, reason: String| Error::Hunk {
            patch: patch.to_owned(),
            hunk: hunk + 1,
            header: self
                .hunks
                .get(hunk)
                .map(|hunk| hunk.header.clone())
                .unwrap_or_default(),
            file: self.path().to_owned(),
            reason,
        };
        let original = match (original, &self.old) {
            (Some(text), Some(_)) => text,
            (None, None) => "",
            (None, Some(_)) => return Err(failed(0, "there is no such file".into())),
            (Some(_), None) => {
                return Err(failed(
                    0,
                    "the patch creates the file, but it already exists".into(),
                ));
            }
        };
        let lines: Vec<&str> = original.split_inclusive('\n').collect();
        let mut result = String::with_capacity(original.len());
        // Lines of the original that are already in the result, and how far the last hunk had moved.
        let (mut done, mut moved) = (0_usize, 0_isize);
        for (number, hunk) in self.hunks.iter().enumerate() {
            let old = hunk.before();
            let wanted = hunk.start.saturating_sub(usize::from(!old.is_empty()));
            let expected = wanted.saturating_add_signed(moved).max(done);
            let Some(place) = find(&lines, &old, expected, done) else {
                return Err(failed(
                    number,
                    misfit(&lines, &old, &hunk.after(), expected, done),
                ));
            };
            moved = place as isize - wanted as isize;
            result.extend(lines[done..place].iter().copied());
            result.extend(hunk.after());
            done = place + old.len();
        }
        result.extend(lines[done..].iter().copied());
        Ok(self.new.is_some().then_some(result))
    }
}

/// The place nearest to `expected`, not before `from`, where `wanted` stands in `lines`.
fn find(lines: &[&str], wanted: &[&str], expected: usize, from: usize) -> Option<usize> {
    let last = lines.len().checked_sub(wanted.len())?;
    let fits = |place: &usize| lines[*place..*place + wanted.len()] == *wanted;
    (from..=last)
        .filter(fits)
        .min_by_key(|place| place.abs_diff(expected))
}

fn misfit(lines: &[&str], old: &[&str], new: &[&str], expected: usize, from: usize) -> String {
    if find(lines, new, expected, from).is_some() {
        return "it seems to be applied already".into();
    }
    for (offset, wanted) in old.iter().enumerate() {
        match lines.get(expected + offset) {
            Some(found) if found == wanted => {}
            Some(found) => {
                let (found, wanted) = (found.trim_end(), wanted.trim_end());
                return format!(
                    "line {} is `{found}`, the patch wants `{wanted}`",
                    expected + offset + 1
                );
            }
            None => return format!("the file ends at line {}", lines.len()),
        }
    }
    "its lines were not found".into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PATCH: &str = "From 1234\nSubject: [PATCH] Fix\n\n---\n a.py | 2 +-\n\ndiff --git a/pkg/a.py b/pkg/a.py\n\
        index 1..2 100644\n--- a/pkg/a.py\n+++ b/pkg/a.py\n@@ -1,3 +1,4 @@ def x():\n one\n-two\n+TWO\n+half\n three\n-- \n2.39\n";

    fn apply(patch: &str, text: &str) -> Result<Option<String>> {
        let patch = Patch::parse("0001-fix.patch", patch)?;
        patch.files[0].apply(&patch.name, Some(text))
    }

    #[test]
    fn a_patch_applies_also_at_an_offset() {
        assert_eq!(
            apply(PATCH, "one\ntwo\nthree\n").unwrap().unwrap(),
            "one\nTWO\nhalf\nthree\n"
        );
        let moved = apply(PATCH, "zero\nzero\none\ntwo\nthree\nfour\n")
            .unwrap()
            .unwrap();
        assert_eq!(moved, "zero\nzero\none\nTWO\nhalf\nthree\nfour\n");
    }

    #[test]
    fn a_patch_that_does_not_fit_names_patch_hunk_and_line() {
        assert_eq!(
            apply(PATCH, "one\ndeux\nthree\n").unwrap_err().to_string(),
            "patch 0001-fix.patch, hunk 1 (@@ -1,3 +1,4 @@ def x():) does not fit pkg/a.py: \
             line 2 is `deux`, the patch wants `two`"
        );
        let again = apply(PATCH, "one\nTWO\nhalf\nthree\n").unwrap_err().to_string();
        assert!(again.contains("applied already"), "{again}");
        let short = apply(PATCH, "one\n").unwrap_err().to_string();
        assert!(short.contains("the file ends at line 1"), "{short}");
    }

    #[test]
    fn files_are_created_and_deleted() {
        let create = "--- /dev/null\n+++ b/x/new.py\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n";
        let patch = Patch::parse("p", create).unwrap();
        assert_eq!(patch.files[0].apply("p", None).unwrap().unwrap(), "a\nb");
        assert!(
            patch.files[0]
                .apply("p", Some(""))
                .unwrap_err()
                .to_string()
                .contains("already")
        );
        let delete = "--- a/x/old.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n";
        let patch = Patch::parse("p", delete).unwrap();
        assert_eq!(patch.files[0].apply("p", Some("a\n")).unwrap(), None);
        assert!(
            patch.files[0]
                .apply("p", None)
                .unwrap_err()
                .to_string()
                .contains("no such file")
        );
    }

    #[test]
    fn broken_patches_are_refused() {
        for (text, part) in [
            ("", "no change"),
            ("@@ -1 +1 @@\n-a\n+b\n", "before any file"),
            ("--- a/x\n+++ b/x\n@@ -1,5 +1 @@\n-a\n", "cut short"),
            ("--- a/x\n+++ b/x\n@@ nonsense @@\n", "header"),
            ("rename from a\nrename to b\n", "renames"),
            ("GIT binary patch\n", "binary"),
        ] {
            let error = Patch::parse("p", text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    /// The smallest honest diff: everything out, everything in.
    fn diff(old: &[String], new: &[String]) -> String {
        let mut text = format!(
            "--- a/f\n+++ b/f\n@@ -{},{} +1,{} @@\n",
            usize::from(!old.is_empty()),
            old.len(),
            new.len()
        );
        text.extend(old.iter().map(|line| format!("-{line}\n")));
        text.extend(new.iter().map(|line| format!("+{line}\n")));
        text
    }

    proptest! {
        #[test]
        fn any_text_becomes_any_other(old in prop::collection::vec("[a-c ]{0,3}", 0..6),
                                      new in prop::collection::vec("[a-c ]{0,3}", 1..6)) {
            let before: String = old.iter().map(|line| format!("{line}\n")).collect();
            let after: String = new.iter().map(|line| format!("{line}\n")).collect();
            prop_assert_eq!(apply(&diff(&old, &new), &before).unwrap().unwrap(), after);
        }

        #[test]
        fn no_text_makes_it_panic(text in "([-+ @\\\\a0-9,/\n]|@@ -|--- a/|\\+\\+\\+ b/){0,60}", file in "[a\n]{0,9}") {
            if let Ok(patch) = Patch::parse("p", &text) {
                for change in &patch.files {
                    let _ = change.apply("p", Some(&file));
                }
            }
        }
    }
}

//! Stored logs as files (capability `files`). Owns finding and damaging them; must never write while a process runs.

use std::io;
use std::path::{Path, PathBuf};

use crate::scenario::Harm;

/// The log of `session` below `store`: a plain JSONL file whose first line is a header with that id.
#[must_use]
pub fn find_log(store: &Path, session: &str) -> Option<PathBuf> {
    let mut dirs = vec![store.to_owned()];
    let mut found = Vec::new();
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|extension| extension == "jsonl")
                && header_id(&path).as_deref() == Some(session)
            {
                found.push(path);
            }
        }
    }
    // Two files with one id are left to the host; the suite takes the first by name.
    found.sort();
    found.into_iter().next()
}

fn header_id(path: &Path) -> Option<String> {
    let bytes = std::fs::read(path).ok()?;
    let first = bytes.split(|byte| *byte == b'\n').next()?;
    let header: serde_json::Value = serde_json::from_slice(first).ok()?;
    Some(header["id"].as_str()?.to_owned())
}

/// A digest of a stored log; 0 when it is absent. Only equality means something, and only within one evaluation.
#[must_use]
pub fn digest(bytes: Option<&[u8]>) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    bytes.map_or(0, |bytes| {
        let mut hasher = DefaultHasher::new();
        hasher.write(bytes);
        hasher.finish().max(1)
    })
}

/// Changes the file at `log`.
///
/// # Errors
/// What the file system says, or that there is no such line.
pub fn damage(log: &Path, how: &Harm) -> io::Result<()> {
    let bytes = std::fs::read(log)?;
    match how {
        Harm::CutTail { bytes: cut } => {
            let cut = usize::try_from(*cut).unwrap_or(usize::MAX);
            std::fs::write(log, &bytes[..bytes.len().saturating_sub(cut)])
        }
        Harm::AppendFragment { text } => std::fs::write(log, [&bytes[..], text.as_bytes()].concat()),
        Harm::ReplaceLine { line, text } => {
            let mut lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
            let count = i64::try_from(lines.len()).expect("a file that fits into memory");
            let index = if *line < 0 { count + line } else { line - 1 };
            let no_line = || io::Error::other(format!("the log has {count} lines, not line {line}"));
            let slot = usize::try_from(index).ok().and_then(|index| lines.get_mut(index)).ok_or_else(no_line)?;
            let new = format!("{text}\n");
            *slot = new.as_bytes();
            std::fs::write(log, lines.concat())
        }
        Harm::Delete {} => std::fs::remove_file(log),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_found_by_its_header_and_damaged_as_asked() {
        let store = tempfile::tempdir().expect("a directory");
        let dir = store.path().join("_no-cwd/x");
        std::fs::create_dir_all(&dir).expect("a directory");
        let text = "{\"type\":\"session\",\"id\":\"a\"}\n{\"seq\":0}\n{\"seq\":1}\n";
        std::fs::write(dir.join("session.jsonl"), text).expect("a file");
        assert_eq!(find_log(store.path(), "b"), None);
        let log = find_log(store.path(), "a").expect("it is there");
        damage(&log, &Harm::ReplaceLine { line: -1, text: "x".into() }).expect("there is such a line");
        assert_eq!(std::fs::read_to_string(&log).expect("text"), "{\"type\":\"session\",\"id\":\"a\"}\n{\"seq\":0}\nx\n");
        assert!(damage(&log, &Harm::ReplaceLine { line: 4, text: "x".into() }).is_err());
        damage(&log, &Harm::CutTail { bytes: 2 }).expect("a file");
        damage(&log, &Harm::AppendFragment { text: "{\"se".into() }).expect("a file");
        assert!(std::fs::read_to_string(&log).expect("text").ends_with("{\"seq\":0}\n{\"se"));
        damage(&log, &Harm::Delete {}).expect("a file");
        assert_eq!(find_log(store.path(), "a"), None);
    }
}

//! Schemas that are kept beside the types they come from. Owns the comparison, for every crate that has such a directory; included by path, since it is no part of any.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

/// Set to anything, it lets a test write the schemas again.
const UPDATE: &str = "HOSTPROOF_UPDATE_SCHEMAS";

/// Sees that `dir` holds these schemas by file name, and nothing else. `package` is whose tests write them.
///
/// # Panics
/// At the first that drifted.
pub fn assert_checked_in(dir: &Path, package: &str, schemas: impl IntoIterator<Item = (String, Value)>) {
    let mut expected = BTreeSet::new();
    for (name, schema) in schemas {
        let path = dir.join(&name);
        let text = format!("{}\n", serde_json::to_string_pretty(&schema).expect("plain data"));
        if std::env::var_os(UPDATE).is_some() {
            std::fs::create_dir_all(dir).and_then(|()| std::fs::write(&path, &text)).expect("a writable tree");
        }
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            stored == text,
            "{} is not what the types say; {UPDATE}=1 cargo test -p {package} --profile ci schema writes it again",
            path.display()
        );
        expected.insert(name);
    }
    let entries = std::fs::read_dir(dir).expect("the directory of the schemas");
    let found: BTreeSet<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(found, expected, "a schema that no type stands behind");
}

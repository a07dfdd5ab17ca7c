//! What the tests of the whole product share: the program, its output, and the schemas of what it prints. Owns no expectation of its own.
#![allow(dead_code, reason = "each test file uses its part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use hostproof_spec::bugs::Bug;
use serde_json::Value;

/// The program, with nothing of the caller's environment that changes what it prints.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hostproof"));
    for name in ["NO_COLOR", "RUST_BACKTRACE", "RUST_LOG", "GITHUB_ACTIONS", "GITHUB_SHA", "CI_COMMIT_SHA"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// How one command line ended.
pub struct Ended {
    pub exit: i32,
    pub out: String,
    pub err: String,
    /// For messages.
    line: String,
}

impl Ended {
    fn of(line: String, output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("everything that is printed is UTF-8");
        let ended = Self { exit: output.status.code().unwrap_or(-1), out: text(&output.stdout), err: text(&output.stderr), line };
        assert!((0..=4).contains(&ended.exit), "{ended}");
        assert!(!ended.err.contains("panicked"), "{ended}");
        ended
    }

    /// The same, once it is seen that it ended so.
    #[track_caller]
    pub fn with(self, exit: i32) -> Self {
        assert_eq!(self.exit, exit, "{self}");
        self
    }

    /// What is said about a command that did nothing: one line with the problem, at most one with help, and no result.
    #[track_caller]
    pub fn problem(&self) -> &str {
        assert_eq!(self.out, "", "{self}");
        assert!(self.err.starts_with("hostproof: ") && self.err.lines().count() <= 2, "{self}");
        self.err.lines().next().expect("a line")
    }

    /// The one object of `--json`, valid under the schema of its command.
    #[track_caller]
    pub fn json(&self, schema: &str) -> Value {
        assert_eq!(self.out.lines().count(), 1, "{self}");
        let value: Value = serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self}"));
        let schemas = hostproof_cli::data::schemas();
        let (_, schema) = schemas.iter().find(|(name, _)| *name == schema).expect(schema);
        let validator = jsonschema::draft202012::new(schema).expect("a sound schema");
        let errors: Vec<String> =
            validator.iter_errors(&value).map(|error| format!("{error} at {}", error.instance_path())).collect();
        assert_eq!(errors, Vec::<String>::new(), "{self}");
        assert_eq!((value["tool"].as_str(), value["exit"].as_i64()), (Some("hostproof"), Some(self.exit.into())), "{self}");
        assert_eq!(value["ok"].as_bool(), Some(self.exit == 0), "{self}");
        value
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cut = |text: &str| text.chars().take(3000).collect::<String>();
        write!(f, "`{}` ended with {}\n--- out\n{}\n--- err\n{}", self.line, self.exit, cut(&self.out), cut(&self.err))
    }
}

/// Runs one command line, its words set apart by blanks, in a directory.
pub fn run_in(dir: &Path, line: &str) -> Ended {
    run_words(dir, &line.split_whitespace().collect::<Vec<_>>())
}

/// Runs one command line in a directory.
pub fn run_words(dir: &Path, words: &[&str]) -> Ended {
    ended(program().args(words).current_dir(dir))
}

/// Runs a prepared command.
pub fn ended(command: &mut Command) -> Ended {
    let output = command.output().expect("the program was built");
    let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
    Ended::of(words.join(" "), &output)
}

/// The checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("cli/ lies in the checkout").to_owned()
}

/// A finding of a planted bug: the directory with its recording, the recording, and what `sim run` said.
pub struct Found {
    pub dir: tempfile::TempDir,
    pub recording: PathBuf,
    pub trial: String,
    pub said: Value,
}

impl Found {
    /// The recording of the trial as it was found.
    pub fn whole(&self) -> PathBuf {
        self.recording.with_extension("whole.json")
    }
}

/// Searches for a planted bug until it is found.
pub fn find(bug: Bug) -> Found {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let ended = run_in(dir.path(), &format!("sim run --bug {bug} --trials 5000 --jobs 1 --out found --json")).with(1);
    let said = ended.json("sim-run");
    let trial = said["data"]["found"][0]["trial"].as_str().expect("a trial id").to_owned();
    let recording = dir.path().join(said["data"]["recordings"][0].as_str().expect("a path"));
    assert_eq!(recording, dir.path().join("found").join(format!("{trial}.json")));
    Found { dir, recording, trial, said }
}

/// Every file below a directory with its bytes.
pub fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            all.push((path.clone(), std::fs::read(&path).expect("a file")));
        }
    }
    all.sort();
    all
}

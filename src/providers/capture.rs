//! The tool by which a child hands over its structured result. Owns the one value that counts; must never hand on a value whose call did not succeed in the child's own log.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

use serde_json::Value;

use crate::env::LocalFuture;
use crate::session::event::{Body, Record};
use crate::subagent::OutputSchema;
use crate::tools::{Tool, ToolAnswer, ToolError, ToolRun, ToolSpec};

/// Name of the tool.
pub(crate) const NAME: &str = "structured_output";

/// The capture of one run.
pub(crate) struct Capture {
    schema: Rc<OutputSchema>,
    /// The first value that satisfied the schema, with the call that brought it.
    first: RefCell<Option<(Rc<str>, Rc<str>)>>,
}

impl Capture {
    /// Nothing is captured yet.
    pub fn new(schema: Rc<OutputSchema>) -> Rc<Self> {
        Rc::new(Self { schema, first: RefCell::default() })
    }

    /// The value that counts: the first one, if the records say that its call succeeded.
    pub fn committed<'r>(&self, own: impl IntoIterator<Item = &'r Rc<Record>>) -> Option<Rc<str>> {
        let (wanted, value) = self.first.borrow().clone()?;
        let succeeded =
            |record: &Rc<Record>| matches!(&record.body, Body::ToolResult { call, error: None, .. } if *call == wanted);
        own.into_iter().any(succeeded).then_some(value)
    }

    fn take(&self, run: &ToolRun) -> ToolAnswer {
        if self.first.borrow().is_some() {
            return Err(ToolError::new("ALREADY_CAPTURED", "the result of this run was handed over already; finish now"));
        }
        let value: Value = serde_json::from_str(&run.input)
            .map_err(|_| ToolError::new("INVALID_ARGUMENT", "the input of structured_output is one JSON object"))?;
        self.schema.check(&value).map_err(|mismatch| ToolError::new("INVALID_ARGUMENT", mismatch.to_string()))?;
        *self.first.borrow_mut() = Some((run.call.clone(), Rc::from(value.to_string())));
        Ok(Rc::from("the result was handed over"))
    }
}

impl Tool for Capture {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: Cow::Borrowed(NAME),
            description: Cow::Borrowed(
                "Hands over the result of your task. Call it exactly once, with the whole result, before you finish.",
            ),
            schema: Cow::Owned(self.schema.text().to_owned()),
        }
    }

    fn run(&self, run: ToolRun) -> LocalFuture<ToolAnswer> {
        Box::pin(std::future::ready(self.take(&run)))
    }
}

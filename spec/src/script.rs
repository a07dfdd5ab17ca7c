//! Scripts of the model: what the model of a host under test answers. Owns the data form; must never depend on the host.
//!
//! A script is a list of replies per session, used in order; when a session's list is used up (or it has none), the
//! default reply is used. A reply that the model gives carries a text that is unique in the trial, so that an answer can be traced
//! to its request.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The whole script of a trial or case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelScript {
    /// Replies by session id, in order.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sessions: BTreeMap<String, Vec<Reply>>,
    /// What every other request gets; plain text `ok` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Reply>,
}

/// One answer of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "reply", rename_all = "kebab-case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Reply {
    /// Text, then a normal stop.
    Text {
        /// What it says; empty means an answer without content.
        text: String,
    },
    /// One call of a tool, after optional text; another step follows.
    ToolCall {
        /// Text before the call.
        #[serde(default)]
        text: String,
        /// Name of the tool, as the model says it, whether there is such a tool or not; `echo` when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        /// What the tool is given: the text to echo, or an object as JSON text.
        input: String,
    },
    /// The call fails, after optional partial text.
    Failure {
        /// Text that was streamed before the failure.
        #[serde(default)]
        text: String,
        /// What failed.
        message: String,
    },
    /// No answer until the turn is cancelled; the partial text was streamed before.
    Hang {
        /// Text that was streamed before.
        #[serde(default)]
        text: String,
    },
    /// Text, then a stop at the token ceiling.
    MaxTokens {
        /// What it says.
        text: String,
    },
    /// The model, or a policy in front of it, declines.
    Refusal,
}

impl Default for Reply {
    fn default() -> Self {
        Self::Text { text: "ok".to_owned() }
    }
}

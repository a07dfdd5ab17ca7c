//! Lines of the suite's wire: JSON-RPC framing around the shapes of `hostproof_spec::wire`. Owns framing and blame (which side broke a line, and how); must never
//! know what a message means.

use hostproof_spec::wire::{HostNote, LINE_LIMIT, Request, RpcError, SuiteNote};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// JSON-RPC code: the line is no JSON.
pub const PARSE_ERROR: i32 = -32700;
/// JSON-RPC code: the line is no request.
pub const INVALID_REQUEST: i32 = -32600;
/// JSON-RPC code: the host does not implement the method.
pub const METHOD_NOT_FOUND: i32 = -32601;
/// JSON-RPC code: the parameters have another shape.
pub const INVALID_PARAMS: i32 = -32602;
/// JSON-RPC code: the host cannot do what is asked, now.
pub const CANNOT: i32 = -32000;

/// A line of the host.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every line is a notification, and a line is taken apart as soon as it is read"
)]
pub enum FromHost {
    /// The answer to a request.
    Answer {
        /// Id of the request.
        id: u64,
        /// The result, or why there is none.
        result: Result<Value, RpcError>,
    },
    /// A notification.
    Note(HostNote),
}

/// A line of the suite.
#[derive(Clone, Debug, PartialEq)]
pub enum FromSuite {
    /// A request.
    Request {
        /// Its id.
        id: u64,
        /// What is asked.
        request: Box<Request>,
    },
    /// A notification.
    Note(SuiteNote),
}

/// Why a line of the suite cannot be served; answered to it.
#[derive(Clone, Debug, PartialEq)]
pub struct BadRequest {
    /// Id of the request, if the line had one.
    pub id: Option<u64>,
    /// The answer.
    pub error: RpcError,
}

/// The line of a request, without line feed.
#[must_use]
pub fn request_line(id: u64, request: &Request) -> String {
    with_frame(request, Some(id))
}

/// The line of a notification of the suite.
#[must_use]
pub fn suite_note_line(note: &SuiteNote) -> String {
    with_frame(note, None)
}

/// The line of a notification of the host.
#[must_use]
pub fn host_note_line(note: &HostNote) -> String {
    with_frame(note, None)
}

/// The line of an answer.
#[must_use]
pub fn answer_line(id: Option<u64>, result: &Result<Value, RpcError>) -> String {
    match result {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string(),
        Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string(),
    }
}

fn with_frame(message: &impl Serialize, id: Option<u64>) -> String {
    let Ok(Value::Object(members)) = serde_json::to_value(message) else {
        unreachable!("every message is an object with a method")
    };
    let mut framed = Map::new();
    framed.insert("jsonrpc".into(), "2.0".into());
    if let Some(id) = id {
        framed.insert("id".into(), id.into());
    }
    framed.extend(members);
    Value::Object(framed).to_string()
}

/// Reads a line of the host.
///
/// # Errors
/// What is wrong with it, for people.
pub fn from_host(line: &str) -> Result<FromHost, String> {
    let mut object = object(line)?;
    if object.contains_key("method") {
        if object.contains_key("id") {
            return Err("hosts send no requests, so a line with a `method` has no `id`".into());
        }
        return message(object).map(FromHost::Note).map_err(|(_, why)| why);
    }
    let Some(id) = object.get("id").and_then(Value::as_u64) else {
        return Err("neither a notification (`method`) nor an answer (`id` of a request)".into());
    };
    let result = match (object.remove("result"), object.remove("error")) {
        (Some(result), None) => Ok(result),
        (None, Some(error)) => Err(serde_json::from_value(error).map_err(|error| format!("`error` has another shape: {error}"))?),
        _ => return Err("an answer has exactly one of `result` and `error`".into()),
    };
    Ok(FromHost::Answer { id, result })
}

/// Reads a line of the suite.
///
/// # Errors
/// [`BadRequest`], to be answered.
pub fn from_suite(line: &str) -> Result<FromSuite, BadRequest> {
    let bad = |id, code, message: String| BadRequest { id, error: RpcError { code, message } };
    let object = object(line).map_err(|why| bad(None, PARSE_ERROR, why))?;
    let id = object.get("id").and_then(Value::as_u64);
    match id {
        None if object.contains_key("id") => Err(bad(None, INVALID_REQUEST, "`id` is a number from 0".into())),
        None => message(object).map(FromSuite::Note).map_err(|(code, why)| bad(None, code, why)),
        Some(id) => {
            message(object).map(|request| FromSuite::Request { id, request }).map_err(|(code, why)| bad(Some(id), code, why))
        }
    }
}

fn object(line: &str) -> Result<Map<String, Value>, String> {
    if line.len() > LINE_LIMIT {
        return Err(format!("the line is longer than {LINE_LIMIT} bytes"));
    }
    match serde_json::from_str(line) {
        Ok(Value::Object(object)) if object.get("jsonrpc").and_then(Value::as_str) == Some("2.0") => Ok(object),
        Ok(Value::Object(_)) => Err("`jsonrpc` must be \"2.0\"".into()),
        Ok(_) => Err("not a JSON object".into()),
        Err(error) => Err(format!("not JSON: {error}")),
    }
}

fn message<T: DeserializeOwned>(mut object: Map<String, Value>) -> Result<T, (i32, String)> {
    object.remove("jsonrpc");
    object.remove("id");
    let method = object.get("method").and_then(Value::as_str).map(str::to_owned);
    serde_json::from_value(Value::Object(object)).map_err(|error| {
        let why = error.to_string();
        // Parameters have variants too: only one that names the method says that there is no such method.
        let unknown = method.is_some_and(|method| why.starts_with(&format!("unknown variant `{method}`")));
        let code = if unknown { METHOD_NOT_FOUND } else { INVALID_PARAMS };
        (code, why)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostproof_spec::wire::{Cancel, Empty, Quiesce};

    #[test]
    fn a_request_comes_back_as_it_was_sent() {
        for request in [Request::CaseEnd(Empty {}), Request::Quiesce(Quiesce { budget_ms: 5 })] {
            let line = request_line(7, &request);
            assert_eq!(from_suite(&line), Ok(FromSuite::Request { id: 7, request: Box::new(request) }));
        }
        let note = SuiteNote::Cancel(Cancel { op: "a".into() });
        assert_eq!(from_suite(&suite_note_line(&note)), Ok(FromSuite::Note(note)));
    }

    #[test]
    fn a_bad_line_is_blamed_with_the_right_code() {
        let code = |line: &str| from_suite(line).expect_err("it is bad").error.code;
        assert_eq!(code("hello"), PARSE_ERROR);
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":1,"method":"fly","params":{}}"#), METHOD_NOT_FOUND);
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":1,"method":"quiesce","params":{"budgetMs":"soon"}}"#), INVALID_PARAMS);
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":1,"method":"quiesce","params":{"budgetMs":1,"extra":1}}"#), INVALID_PARAMS);
        let nowhere = r#"{"jsonrpc":"2.0","id":1,"method":"hold/arm","params":{"hold":"h","point":"nowhere","nth":1}}"#;
        assert_eq!(code(nowhere), INVALID_PARAMS);
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":1,"params":{}}"#), INVALID_PARAMS);
    }

    #[test]
    fn what_a_host_says_is_a_note_or_exactly_one_answer() {
        assert!(from_host(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).is_ok());
        assert!(from_host(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#).is_ok());
        for nonsense in [
            "ready!",
            "[]",
            r#"{"id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"op/done","params":{}}"#,
            r#"{"jsonrpc":"2.0","method":"op/done","params":{"op":"a"}}"#,
            r#"{"jsonrpc":"2.0","method":"observe","params":{"lc":1,"fact":{"kind":"sneezed"}}}"#,
        ] {
            assert!(from_host(nonsense).is_err(), "{nonsense}");
        }
    }
}

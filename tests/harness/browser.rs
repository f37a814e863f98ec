//! Headless Chromium, driven over chromedriver's WebDriver.

use super::certificates::Directory;
use super::http::{self, Answer};
use super::poll_until;
use super::processes::{Process, free_port};
use serde_json::{Value, json};
use std::net::TcpStream;
use std::process::Command;

/// A browser with one window. It ends with its value.
pub(crate) struct Browser {
    port: u16,
    session: String,
    _driver: Process,
    _folder: Directory,
}

impl Browser {
    /// Starts chromedriver and a browser without network services of its own.
    pub(crate) fn start() -> Browser {
        let (port, folder) = (free_port(), Directory::new());
        let mut command = Command::new("chromedriver");
        command.arg(format!("--port={port}"));
        let driver = Process::spawn(command, "chromedriver");
        poll_until("chromedriver listens", || TcpStream::connect(("127.0.0.1", port)).ok());
        let profile = format!("--user-data-dir={}", folder.path("profile").display());
        let flags = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--window-size=1280,1000",
            &profile,
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": flags},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let made = call(port, "POST", "/session", &wanted);
        let session = made["sessionId"].as_str().unwrap_or_else(|| panic!("no browser: {made}")).to_owned();
        Browser { port, session, _driver: driver, _folder: folder }
    }

    /// Goes to `address`.
    pub(crate) fn open(&self, address: &str) {
        self.post("url", &json!({"url": address}));
    }

    /// The value of an expression of JavaScript.
    pub(crate) fn value(&self, expression: &str) -> Value {
        self.post("execute/sync", &json!({"script": format!("return {expression};"), "args": []}))
    }

    /// The lines of the console so far that are errors.
    pub(crate) fn errors(&self) -> Vec<String> {
        let lines = self.post("se/log", &json!({"type": "browser"}));
        let lines = lines.as_array().cloned().unwrap_or_default();
        lines.iter().filter(|line| line["level"] == "SEVERE").map(Value::to_string).collect()
    }

    /// A picture of the window, PNG in base64.
    pub(crate) fn screenshot(&self) -> String {
        let path = format!("/session/{}/screenshot", self.session);
        let answer = call(self.port, "GET", &path, &Value::Null);
        answer.as_str().expect("an image").to_owned()
    }

    fn post(&self, what: &str, body: &Value) -> Value {
        call(self.port, "POST", &format!("/session/{}/{what}", self.session), body)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let path = format!("/session/{}", self.session);
        // The browser ends with its driver otherwise.
        let _ = std::panic::catch_unwind(|| call(self.port, "DELETE", &path, &Value::Null));
    }
}

/// The value that chromedriver answers.
fn call(port: u16, method: &str, path: &str, body: &Value) -> Value {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let len = body.len();
    let Answer { body, .. } = http::request(
        port,
        &format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n{body}"
        ),
    );
    let answer: Value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
    answer["value"].clone()
}

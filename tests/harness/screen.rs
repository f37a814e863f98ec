//! A real terminal, whose screen can be read: tmux.

use super::certificates::Directory;
use super::kernel::{children_of, has_ended};
use super::processes::{is_there, send_signal, shardis_binary};
use super::{PATIENCE, poll_for, poll_until};
use std::path::PathBuf;
use std::process::Command;

/// Printed before and after the program, where its terminal must be as it was.
const BEFORE: &str = "the line before";
const AFTER: &str = "the line after";

/// A terminal in which shardis runs.
pub(crate) struct Screen {
    /// tmux's own server listens there.
    folder: Directory,
}

impl Screen {
    /// Starts `shardis ARGS` in a terminal of 80 columns and 24 lines. `None` if there is no tmux.
    pub(crate) fn start(args: &[&str]) -> Option<Screen> {
        if !is_there("tmux", "-V") {
            return None;
        }
        let screen = Screen { folder: Directory::new() };
        let program = shardis_binary().get_program().to_string_lossy().into_owned();
        let shell = format!("echo {BEFORE}; {program} {}; echo {AFTER}; stty -a; cat", args.join(" "));
        screen.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "sh", "-c", &shell]);
        Some(screen)
    }

    fn socket(&self) -> PathBuf {
        self.folder.path("tmux")
    }

    /// The answer of tmux to a command of its own.
    fn tmux(&self, args: &[&str]) -> String {
        let output =
            Command::new("tmux").arg("-S").arg(self.socket()).args(args).output().expect("it starts");
        assert!(output.status.success(), "tmux {args:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The lines of the screen.
    pub(crate) fn text(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits for a screen that `is_wanted`.
    pub(crate) fn wait_for(&self, what: &str, is_wanted: impl Fn(&str) -> bool) -> String {
        let mut text = String::new();
        let found = poll_for(PATIENCE, || {
            text = self.text();
            is_wanted(&text).then_some(())
        });
        assert!(found.is_some(), "waited in vain for {what}:\n{text}");
        text
    }

    /// Presses keys, by tmux's names.
    pub(crate) fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Changes the size of the terminal.
    pub(crate) fn resize(&self, columns: u16, lines: u16) {
        self.tmux(&["resize-window", "-x", &columns.to_string(), "-y", &lines.to_string()]);
    }

    /// Sends a signal to shardis.
    pub(crate) fn end(&self, signal: &str) {
        send_signal(self.pid(), signal);
    }

    /// Takes the terminal away, and waits for the end of shardis.
    pub(crate) fn close(self) {
        let pid = self.pid();
        self.tmux(&["kill-server"]);
        poll_until("the end of a program without its terminal", || has_ended(pid).then_some(()));
    }

    fn pid(&self) -> u32 {
        let shell: u32 = self.tmux(&["list-panes", "-F", "#{pane_pid}"]).trim().parse().expect("a pid");
        poll_until("shardis in the terminal", || children_of(shell).first().copied())
    }

    /// Waits for the end of shardis, after which the terminal is as before.
    pub(crate) fn wait_for_end(&self) {
        let text = self.wait_for("the end", |text| text.contains("icanon"));
        assert!(text.contains(BEFORE) && text.contains(AFTER), "{text}");
        assert!(text.contains(" icanon") && text.contains(" echo "), "{text}");
        let flags = self.tmux(&["list-panes", "-F", "#{alternate_on} #{cursor_flag}"]);
        assert_eq!(flags.trim(), "0 1", "the usual screen, with a cursor");
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = Command::new("tmux").arg("-S").arg(self.socket()).arg("kill-server").output();
    }
}

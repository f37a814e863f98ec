//! Users: changed by ACL, or read from the file.

use crate::core::Core;
use crate::errors;
use crate::features::Session;
use crate::local::gathered::{Gathered, Question};
use crate::local::inquiry;
use crate::login::identity::Login;
use crate::login::job::ControlJob;
use crate::peers::Peer;
use crate::proxy::Proxy;
use crate::session::Phase;
use crate::transaction;
use std::sync::Arc;
use stdx::Instant;
use users::{DEFAULT, Users};

impl Core {
    /// CONFIG SET requirepass: from now on the default user has `password`, or, if that is empty, needs none.
    pub(crate) fn set_password(&mut self, session: &mut Session, password: &[u8]) {
        let rule = if password.is_empty() { b"nopass".to_vec() } else { [b">", password].concat() };
        match self.cx.settings.registry.set_user(
            DEFAULT,
            &[b"resetpass", &rule],
            self.cx.limits.user_bytes_max,
        ) {
            Ok(users) => self.spread_users(session, users, None),
            Err(text) => self.cx.refuse(session, &text),
        }
    }

    /// ACL SETUSER and DELUSER: `users` are the newest. The client is answered when all workers have them.
    pub(crate) fn spread_users(&mut self, session: &mut Session, users: Arc<Users>, deleted: Option<usize>) {
        // What stands behind this request in a pipeline knows of it already.
        self.cx.logins.users = Arc::clone(&users);
        inquiry::ask_workers(&mut self.cx, session, Question::Users(users), Gathered::Users { deleted });
        match session.features.login.among(&self.cx.logins.users) {
            Some(login) => session.features.login = login,
            None => {
                session.features.login = Login::newcomer(&self.cx.logins.users);
                session.phase = Phase::Closing { linger: false };
            }
        }
        // As in Redis, who has taken his own rights still gets his answer.
        if !self.subscriptions.may_stay_subscribed(session) {
            session.phase = Phase::Closing { linger: false };
        }
    }
}

impl Proxy {
    /// The ACL file was read: the users, which are in the registry already, or what is wrong with the file.
    pub fn handle_loaded(&mut self, job: ControlJob, outcome: Result<Arc<Users>, String>, now: Instant) {
        self.core.begin(now);
        match outcome {
            Ok(users) => {
                inquiry::replace_gathered(&mut self.core.cx, job.inquiry, Gathered::Users { deleted: None });
                self.core.cx.inquiries.questions.push_back((job.inquiry, Arc::new(Question::Users(users))));
            }
            Err(text) => {
                inquiry::replace_gathered(&mut self.core.cx, job.inquiry, Gathered::Refused(text));
                self.conclude(job.inquiry);
            }
        }
        self.follow_up();
    }

    /// The ACL file was written, or not.
    pub fn handle_saved(&mut self, job: ControlJob, is_saved: bool, now: Instant) {
        self.core.begin(now);
        let gathered = match is_saved {
            true => Gathered::Done,
            false => Gathered::Refused(errors::USERS_NOT_SAVED.to_owned()),
        };
        inquiry::replace_gathered(&mut self.core.cx, job.inquiry, gathered);
        self.conclude(job.inquiry);
        self.follow_up();
    }

    /// There are other users, which are in the registry already.
    pub fn handle_users(&mut self, users: &Arc<Users>, now: Instant) {
        self.core.begin(now);
        self.adopt_users(users);
        self.follow_up();
    }

    /// From now on the users are `users`, if this worker knows no newer ones. Clients whose user is gone, or may not listen
    /// any more to what they are subscribed to, are closed.
    pub(crate) fn adopt_users(&mut self, users: &Arc<Users>) {
        if users.version() < self.core.cx.logins.users.version() {
            return;
        }
        self.core.cx.logins.users = Arc::clone(users);
        for index in 0..self.peers.places() {
            let Some(conn) = self.peers.id_at(index) else { continue };
            let Some(Peer::Client(session)) = self.peers.get_mut(conn) else { continue };
            match session.features.login.among(users) {
                Some(login) if login.user == session.features.login.user => session.features.login = login,
                Some(login) => {
                    session.features.login = login;
                    // Redis looks with EXEC once more at what it has queued. What was queued is bytes here: none of it is
                    // carried out.
                    transaction::spoil_transaction(&mut self.core.cx, session);
                    if !self.core.subscriptions.may_stay_subscribed(session) {
                        self.close_client(conn);
                    }
                }
                None => self.close_client(conn),
            }
        }
    }
}

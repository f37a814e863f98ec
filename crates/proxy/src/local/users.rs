//! Changes of users, by ACL or by reading the file.

use crate::core::Core;
use crate::errors;
use crate::features::Session;
use crate::local::gathered::{Gathered, Question};
use crate::local::inquiry;
use crate::login;
use crate::login::identity::Login;
use crate::login::job::ControlJob;
use crate::namespace::route::ROUTES_FROM;
use crate::peers::Peer;
use crate::proxy::Proxy;
use crate::session::Phase;
use crate::transaction;
use std::sync::Arc;
use stdx::Instant;
use users::{DEFAULT, Users};

impl Core {
    /// CONFIG SET requirepass: sets the default user's `password`. An empty one removes the need for a password.
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

    /// ACL SETUSER and DELUSER: `users` are the newest. The client gets the reply once all workers have them.
    pub(crate) fn spread_users(&mut self, session: &mut Session, users: Arc<Users>, deleted: Option<usize>) {
        // Requests behind this one in a pipeline already use them.
        self.cx.logins.users = Arc::clone(&users);
        inquiry::ask_workers(&mut self.cx, session, Question::Users(users), Gathered::Users { deleted });
        match session.features.login.among(&self.cx.logins.users) {
            Some(login) => login::set_login(&self.cx, session, login),
            None => {
                login::set_login(&self.cx, session, Login::newcomer(&self.cx.logins.users));
                session.phase = Phase::Closing { linger: false };
            }
        }
        // As in Redis, a client that has removed its own permissions still gets its reply.
        if !self.subscriptions.may_stay_subscribed(session) {
            session.phase = Phase::Closing { linger: false };
        }
    }
}

impl Proxy {
    /// Ends the reading of the ACL file: `outcome` has the users, which are in the registry already, or the fault of
    /// the file.
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

    /// Ends the writing of the ACL file.
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

    /// Takes other users, which are in the registry already.
    pub fn handle_users(&mut self, users: &Arc<Users>, now: Instant) {
        self.core.begin(now);
        self.adopt_users(users);
        self.follow_up();
    }

    /// Uses `users` from now on, unless this worker has newer ones. Clients are closed if their user is gone or no
    /// longer permits their subscriptions.
    pub(crate) fn adopt_users(&mut self, users: &Arc<Users>) {
        if users.version() < self.core.cx.logins.users.version() {
            return;
        }
        self.core.cx.logins.users = Arc::clone(users);
        for index in 0..self.peers.places() {
            let Some(conn) = self.peers.id_at(index) else { continue };
            let Some(Peer::Client(session)) = self.peers.get_mut(conn) else { continue };
            // Another pool of this process has users of its own.
            if session.features.login.listener >= ROUTES_FROM {
                continue;
            }
            match session.features.login.among(users) {
                Some(login) if login.user == session.features.login.user => {
                    login::set_login(&self.core.cx, session, login);
                }
                Some(login) => {
                    login::set_login(&self.core.cx, session, login);
                    // With EXEC, Redis checks the queued commands once more. Here they are queued as bytes, so none of
                    // them is carried out.
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

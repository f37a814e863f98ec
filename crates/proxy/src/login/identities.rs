//! Who clients have said to be, where the nodes decide that: a number for each user and password that a node has taken,
//! for as long as a profile is theirs.

use crate::login::credentials::Credentials;
use std::collections::HashMap;
use std::sync::Arc;
use stdx::{Id, Slab};
use users::User;

/// All identities of a worker.
#[derive(Debug, Default)]
pub(crate) struct Identities {
    identities: Slab<Identity>,
    by_credentials: HashMap<Credentials, Id>,
}

#[derive(Debug)]
struct Identity {
    credentials: Credentials,
    user: Arc<User>,
    /// How many profiles are its own.
    profiles: usize,
}

impl Identities {
    /// The number of whoever is `name` by these `credentials`, which a node has taken. `None` if there are `max` others.
    pub(crate) fn enter(&mut self, credentials: &Credentials, name: &[u8], max: usize) -> Option<Id> {
        if let Some(&id) = self.by_credentials.get(credentials) {
            return Some(id);
        }
        if self.identities.len() >= max {
            return None;
        }
        let user = Arc::new(User::unlimited(name));
        let id = self.identities.insert(Identity { credentials: credentials.clone(), user, profiles: 0 });
        self.by_credentials.insert(credentials.clone(), id);
        Some(id)
    }

    /// With what its connections begin; `None` if it was forgotten.
    pub(crate) fn credentials(&self, id: Id) -> Option<&Credentials> {
        self.identities.get(id).map(|identity| &identity.credentials)
    }

    /// What it is called. What it may do, the nodes decide.
    pub(crate) fn user(&self, id: Id) -> Option<&Arc<User>> {
        self.identities.get(id).map(|identity| &identity.user)
    }

    /// One profile more is its own.
    pub(crate) fn add_profile(&mut self, id: Id) {
        if let Some(identity) = self.identities.get_mut(id) {
            identity.profiles += 1;
        }
    }

    /// One profile less is. Without any it is forgotten.
    pub(crate) fn remove_profile(&mut self, id: Id) {
        let Some(identity) = self.identities.get_mut(id) else { return };
        identity.profiles -= 1;
        self.forget_unused(id);
    }

    /// It has got no profile: it is forgotten, unless it has one from before.
    pub(crate) fn forget_unused(&mut self, id: Id) {
        if self.identities.get(id).is_some_and(|identity| identity.profiles == 0)
            && let Some(identity) = self.identities.remove(id)
        {
            self.by_credentials.remove(&identity.credentials);
        }
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.identities.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_lives_as_long_as_its_profiles() {
        let mut identities = Identities::default();
        let [one, other] = [b"a", b"b"].map(|password| Credentials::new(Some(b"bob"), password));
        let id = identities.enter(&one, b"bob", 1).expect("there is room");
        assert_eq!(identities.enter(&one, b"bob", 1), Some(id), "it is the same for all who say the same");
        assert_eq!(identities.enter(&other, b"bob", 1), None, "another password is another identity");
        identities.add_profile(id);
        identities.add_profile(id);
        identities.remove_profile(id);
        assert_eq!(identities.credentials(id), Some(&one));
        identities.remove_profile(id);
        assert_eq!((identities.credentials(id), identities.len()), (None, 0));
        let next = identities.enter(&other, b"bob", 1).expect("there is room again");
        assert_eq!((identities.credentials(id), identities.credentials(next)), (None, Some(&other)));
    }
}

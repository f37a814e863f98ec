//! The identities of clients if the nodes decide about users. A number stands for each user and password that a node
//! has accepted, as long as it has a profile.

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
    /// Number of its profiles.
    profiles: usize,
}

impl Identities {
    /// The number of `name` with `credentials`, which a node has accepted. `None` if there are `max` other identities.
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

    /// The credentials of its connections; `None` if it was forgotten.
    pub(crate) fn credentials(&self, id: Id) -> Option<&Credentials> {
        self.identities.get(id).map(|identity| &identity.credentials)
    }

    /// Its user. The nodes decide about its permissions.
    pub(crate) fn user(&self, id: Id) -> Option<&Arc<User>> {
        self.identities.get(id).map(|identity| &identity.user)
    }

    /// Adds one of its profiles.
    pub(crate) fn add_profile(&mut self, id: Id) {
        if let Some(identity) = self.identities.get_mut(id) {
            identity.profiles += 1;
        }
    }

    /// Removes one of its profiles. Without any, the identity is forgotten.
    pub(crate) fn remove_profile(&mut self, id: Id) {
        let Some(identity) = self.identities.get_mut(id) else { return };
        identity.profiles -= 1;
        self.forget_unused(id);
    }

    /// Forgets the identity unless it has a profile from before, since it has got no new one.
    pub(crate) fn forget_unused(&mut self, id: Id) {
        if self.identities.get(id).is_some_and(|identity| identity.profiles == 0)
            && let Some(identity) = self.identities.remove(id)
        {
            self.by_credentials.remove(&identity.credentials);
        }
    }

    /// Number of identities.
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

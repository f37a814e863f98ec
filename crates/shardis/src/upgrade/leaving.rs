//! Clients of one worker that leave for the new process.
//!
//! The worker looks at all its clients now and then. One that is idle leaves. From one that waits for replies nothing more is
//! read, so that it becomes idle soon. One with state that cannot leave is served as before, and looked at again.

use super::successor::{Courier, Parcel, Sender};
use crate::http::HttpClients;
use driver::Driver;
use proxy::{Proxy, Readiness};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use stdx::{Id, Instant};

/// Interval of the looks while clients leave.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// The same while none does.
const LOOK_EVERY_MAX: Duration = Duration::from_millis(64);

/// The clients of one worker.
pub(crate) struct Leaving {
    courier: Courier,
    /// The way back to the worker.
    sender: Sender,
    /// The number of the service's first listener among those of the process.
    first_door: usize,
    /// Clients from which nothing is read.
    paused: HashSet<Id>,
    /// Clients that the new process has declined.
    declined: HashSet<Id>,
    /// Number of clients that are under way.
    under_way: usize,
    look_every: Duration,
    look_at: Instant,
}

impl Leaving {
    /// Clients that may leave by `courier` from `now` on. Outcomes go to `sender`.
    pub(crate) fn new(courier: Courier, sender: Sender, first_door: usize, now: Instant) -> Leaving {
        let (paused, declined) = (HashSet::new(), HashSet::new());
        Leaving {
            courier,
            sender,
            first_door,
            paused,
            declined,
            under_way: 0,
            look_every: LOOK_EVERY,
            look_at: now,
        }
    }

    /// The instant of the next look.
    pub(crate) fn deadline(&self) -> Instant {
        self.look_at
    }

    /// Whether a client is under way, which may come back.
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way > 0
    }

    /// Notes that a client was taken over.
    pub(crate) fn note_taken(&mut self) {
        self.under_way -= 1;
    }

    /// Notes that a client came back, as `conn` if it is still connected.
    pub(crate) fn note_returned(&mut self, conn: Option<Id>) {
        self.under_way -= 1;
        self.declined.extend(conn);
    }

    /// Lets idle clients leave, if a look is due.
    pub(crate) fn look(&mut self, proxy: &mut Proxy, driver: &mut Driver, http: &HttpClients, now: Instant) {
        if self.look_at > now {
            return;
        }
        let is_open = self.courier.is_open();
        let (clients, _) = proxy::clients_from(proxy, 0, usize::MAX);
        self.paused.retain(|conn| proxy::listener_of(proxy, *conn).is_some());
        self.declined.retain(|conn| proxy::listener_of(proxy, *conn).is_some());
        let mut is_moving = false;
        for conn in clients {
            let may_leave =
                is_open && !self.declined.contains(&conn) && driver.may_release(conn) && !http.has(conn);
            match proxy::readiness(proxy, conn) {
                Readiness::Ready if may_leave => {
                    is_moving = true;
                    if self.courier.take_place() {
                        self.send(conn, proxy, driver);
                    }
                }
                Readiness::Busy if may_leave => {
                    is_moving = true;
                    self.paused.insert(conn);
                    driver.pause(conn);
                }
                _ => {
                    if self.paused.remove(&conn) && !proxy::is_paused(proxy, conn) {
                        driver.resume(conn);
                    }
                }
            }
        }
        self.look_every = if is_moving { LOOK_EVERY } else { (2 * self.look_every).min(LOOK_EVERY_MAX) };
        self.look_at = now + self.look_every;
    }

    /// Sends the client, for which there is a place.
    fn send(&mut self, conn: Id, proxy: &mut Proxy, driver: &mut Driver) {
        let listener = proxy::listener_of(proxy, conn).unwrap_or_default();
        let door = self.first_door + usize::from(listener);
        // The look has found that it is ready and has no TLS.
        let (Some(state), Some(stream)) = (proxy::give_up_client(proxy, conn), driver.release(conn)) else {
            return self.courier.free_place();
        };
        self.paused.remove(&conn);
        self.under_way += 1;
        self.courier.send(Parcel { door, listener, stream, state, sender: Arc::clone(&self.sender) });
    }
}

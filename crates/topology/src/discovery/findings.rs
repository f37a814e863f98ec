//! Results of a discovery machine until its driver takes them: views for workers, news for operators, counts for INFO.

use super::{News, Tally, View, changes};
use crate::{Address, ShardSpec};
use std::collections::{HashMap, VecDeque};
use stdx::Instant;

/// Results of either machine.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// The shards that were reported last; none before the first primary is known.
    told: Vec<ShardSpec>,
    view: Option<View>,
    /// The last complaint about each address, which is not repeated.
    complaints: HashMap<Address, News>,
    news: VecDeque<News>,
    tally: Tally,
}

/// Nodes and sentinels that are remembered as complained of.
const COMPLAINTS_MAX: usize = 1024;

impl Findings {
    /// The shards that were given out last.
    pub(super) fn told(&self) -> &[ShardSpec] {
        &self.told
    }

    /// Reports `view`, which `by` made known, if it differs from the last. The first one must have a primary. Returns whether
    /// it was reported.
    pub(super) fn tell(&mut self, view: View, by: &Address) -> bool {
        let is_first = self.told.is_empty();
        if view.shards == self.told || is_first && view.shards.iter().all(|shard| shard.primary.is_none()) {
            return false;
        }
        if is_first {
            let count = |shard: &ShardSpec| usize::from(shard.primary.is_some()) + shard.replicas.len();
            let (shards, nodes) = (view.shards.len(), view.shards.iter().map(count).sum());
            self.news.push_back(News::Found { by: by.clone(), shards, nodes });
        } else {
            self.news.extend(changes(&self.told, &view.shards).into_iter().map(News::Changed));
        }
        self.told.clone_from(&view.shards);
        self.view = Some(view);
        true
    }

    /// Reports a fault of the node at `address`, unless it was the last one reported.
    pub(super) fn complain(&mut self, address: &Address, news: News) {
        if self.complaints.len() >= COMPLAINTS_MAX {
            self.complaints.clear();
        }
        if self.complaints.get(address) != Some(&news) {
            self.complaints.insert(address.clone(), news.clone());
            self.news.push_back(news);
        }
    }

    /// Ends the fault of `address`: the next one is reported again.
    pub(super) fn forgive(&mut self, address: &Address) {
        self.complaints.remove(address);
    }

    /// An answer came that could be used.
    pub(super) fn count_answer(&mut self, now: Instant) {
        self.tally.answers += 1;
        self.tally.answered_at = Some(now);
    }

    /// A question got no answer.
    pub(super) fn count_failure(&mut self) {
        self.tally.failures += 1;
    }

    /// An answer was not believed.
    pub(super) fn count_refusal(&mut self) {
        self.tally.refusals += 1;
    }

    pub(super) fn poll_view(&mut self) -> Option<View> {
        self.view.take()
    }

    pub(super) fn poll_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    pub(super) fn tally(&self) -> Tally {
        self.tally
    }
}

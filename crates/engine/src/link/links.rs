//! All links of a worker, by index. A new link may get the index of one that is gone.

use crate::features::Features;
use crate::link::Link;
use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

/// The index of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkIx(NonZeroU32);

impl LinkIx {
    /// The first one.
    pub const FIRST: LinkIx = LinkIx(NonZeroU32::MIN);

    fn of(place: usize) -> LinkIx {
        LinkIx(NonZeroU32::MIN.saturating_add(place as u32))
    }

    /// The index as a number from 0.
    #[inline]
    pub fn to_u32(self) -> u32 {
        self.0.get() - 1
    }

    /// The index that [`LinkIx::to_u32`] gave as `number`.
    #[inline]
    pub fn from_u32(number: u32) -> LinkIx {
        LinkIx::of(number as usize)
    }
}

/// The links of a worker, of all uses.
#[derive(Debug)]
pub struct Links<F: Features> {
    links: Vec<Link<F>>,
    /// Indexes of links that are gone.
    vacant: Vec<LinkIx>,
    /// See [`Links::version`].
    version: u64,
}

impl<F: Features> Default for Links<F> {
    fn default() -> Links<F> {
        Links { links: Vec::new(), vacant: Vec::new(), version: 0 }
    }
}

impl<F: Features> Links<F> {
    /// Adds `link` at a free index.
    pub fn add(&mut self, link: Link<F>) -> LinkIx {
        self.version += 1;
        match self.vacant.pop() {
            Some(ix) => {
                self[ix] = link;
                ix
            }
            None => {
                self.links.push(link);
                LinkIx::of(self.links.len() - 1)
            }
        }
    }

    /// Frees the index of a link that is gone.
    pub fn vacate(&mut self, ix: LinkIx) {
        debug_assert!(!self.is_vacant(ix), "an index is given up once");
        self.version += 1;
        self.vacant.push(ix);
    }

    /// Swaps the links `one` and `other`.
    pub fn swap(&mut self, one: LinkIx, other: LinkIx) {
        self.version += 1;
        self.links.swap(one.to_u32() as usize, other.to_u32() as usize);
    }

    /// Notes that the connection of a link has ended: offsets begin anew.
    pub(crate) fn note_end(&mut self) {
        self.version += 1;
    }

    /// A number that changes when an index gets another link, or a link another connection. While it is the same, an
    /// index and an offset stand for one ticket.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whether no link has the index.
    pub fn is_vacant(&self, ix: LinkIx) -> bool {
        self.vacant.contains(&ix)
    }

    /// All indexes that were ever used.
    pub fn indexes(&self) -> impl Iterator<Item = LinkIx> + use<F> {
        (0..self.links.len()).map(LinkIx::of)
    }

    /// All links, by index.
    pub fn iter(&self) -> std::slice::Iter<'_, Link<F>> {
        self.links.iter()
    }

    /// The same, mutable.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, Link<F>> {
        self.links.iter_mut()
    }

    /// All links with their indexes.
    pub fn with_indexes(&self) -> impl Iterator<Item = (LinkIx, &Link<F>)> {
        self.indexes().zip(&self.links)
    }
}

impl<'a, F: Features> IntoIterator for &'a Links<F> {
    type Item = &'a Link<F>;
    type IntoIter = std::slice::Iter<'a, Link<F>>;

    fn into_iter(self) -> Self::IntoIter {
        self.links.iter()
    }
}

impl<'a, F: Features> IntoIterator for &'a mut Links<F> {
    type Item = &'a mut Link<F>;
    type IntoIter = std::slice::IterMut<'a, Link<F>>;

    fn into_iter(self) -> Self::IntoIter {
        self.links.iter_mut()
    }
}

impl<F: Features> Index<LinkIx> for Links<F> {
    type Output = Link<F>;

    #[inline]
    fn index(&self, ix: LinkIx) -> &Link<F> {
        &self.links[ix.to_u32() as usize]
    }
}

impl<F: Features> IndexMut<LinkIx> for Links<F> {
    #[inline]
    fn index_mut(&mut self, ix: LinkIx) -> &mut Link<F> {
        &mut self.links[ix.to_u32() as usize]
    }
}

//! A slab whose ids carry a generation. A late event for a removed entry, whose place another has taken, finds nothing instead
//! of that other entry.

/// Names one entry of a [`Slab`] for as long as that entry lives, and nothing afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// The place in the slab; reused.
    pub index: u32,
    /// Number of earlier uses of the place; wraps after 2^32 reuses of one place.
    pub generation: u32,
}

impl Id {
    /// Packs the id into one word, for tables that store words (an epoll token).
    pub fn to_u64(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// The inverse of [`Id::to_u64`].
    pub fn from_u64(word: u64) -> Id {
        Id { index: word as u32, generation: (word >> 32) as u32 }
    }
}

/// Entries by [`Id`]. Inserting reuses the place that was freed last.
#[derive(Debug)]
pub struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place<T> {
    generation: u32,
    entry: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Stores `entry` and names it.
    pub fn insert(&mut self, entry: T) -> Id {
        if let Some(index) = self.free.pop() {
            let place = &mut self.places[index as usize];
            place.entry = Some(entry);
            return Id { index, generation: place.generation };
        }
        let index = u32::try_from(self.places.len()).expect("fewer than 2^32 entries fit into memory");
        self.places.push(Place { generation: 0, entry: Some(entry) });
        Id { index, generation: 0 }
    }

    /// The entry that `id` names, if it still lives.
    pub fn get(&self, id: Id) -> Option<&T> {
        self.places.get(id.index as usize).filter(|place| place.generation == id.generation)?.entry.as_ref()
    }

    /// The entry that `id` names, if it still lives.
    pub fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        let place = self.places.get_mut(id.index as usize)?;
        if place.generation == id.generation { place.entry.as_mut() } else { None }
    }

    /// Takes the entry out; its id and every copy of it are invalid from now on.
    pub fn remove(&mut self, id: Id) -> Option<T> {
        let place = self.places.get_mut(id.index as usize)?;
        if place.generation != id.generation {
            return None;
        }
        let entry = place.entry.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(id.index);
        Some(entry)
    }

    /// Number of live entries.
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of places: an upper bound for [`Slab::id_at`].
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// All entries that live, in the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = (Id, &T)> {
        self.places.iter().zip(0..).filter_map(|(place, index)| {
            Some((Id { index, generation: place.generation }, place.entry.as_ref()?))
        })
    }

    /// The id of the entry at place `index`, if one lives there. For sweeps that change the slab on the way.
    pub fn id_at(&self, index: usize) -> Option<Id> {
        let place = self.places.get(index)?;
        place.entry.as_ref()?;
        Some(Id { index: index as u32, generation: place.generation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_id_names_nothing_after_its_place_was_reused() {
        let mut slab = Slab::default();
        let first = slab.insert("first");
        assert_eq!(slab.remove(first), Some("first"));
        let second = slab.insert("second");
        assert_eq!(second.index, first.index);
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.get_mut(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get(second), Some(&"second"));
    }

    #[test]
    fn ids_survive_the_round_trip_through_a_word() {
        let id = Id { index: 7, generation: u32::MAX };
        assert_eq!(Id::from_u64(id.to_u64()), id);
    }

    #[test]
    fn len_counts_live_entries() {
        let mut slab = Slab::default();
        let id = slab.insert(1);
        let kept = slab.insert(2);
        slab.remove(id);
        assert_eq!(slab.len(), 1);
        assert_eq!((slab.id_at(0), slab.id_at(1), slab.get(kept)), (None, Some(kept), Some(&2)));
        assert_eq!(slab.iter().collect::<Vec<_>>(), [(kept, &2)]);
    }
}

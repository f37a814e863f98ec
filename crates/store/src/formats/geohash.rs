//! Places on the earth as integers of 52 bits, which are the scores of GEO's sorted sets. A search looks for them in the cells
//! of a grid. All arithmetic is in Redis's order: replies show four digits of metres and all digits of scores.

/// A place in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Place {
    pub(crate) longitude: f64,
    pub(crate) latitude: f64,
}

/// The bounds of coordinates, those of web maps. They exclude the poles.
pub(crate) const LONGITUDE_MAX: f64 = 180.0;
pub(crate) const LATITUDE_MAX: f64 = 85.051_128_78;

/// Bits of each coordinate in a score.
const STEP_MAX: u32 = 26;

const EARTH_RADIUS_M: f64 = 6_372_797.560_856;

/// Half of the width of a web map at the equator.
const MERCATOR_MAX_M: f64 = 20_037_726.37;

const RADIANS_PER_DEGREE: f64 = std::f64::consts::PI / 180.0;

impl Place {
    /// The place of a score, in the middle of its cell.
    pub(crate) fn from_score(score: f64) -> Place {
        // A score that is no place is cast to an unsigned integer as in C on x86.
        let bits = match score {
            _ if score < 2_f64.powi(63) => score as i64 as u64,
            _ if score < 2_f64.powi(64) => score as u64,
            _ => 0,
        };
        let area = Cell { bits, step: STEP_MAX }.area();
        let middle = |(min, max): (f64, f64), bound: f64| ((min + max) / 2.0).clamp(-bound, bound);
        Place {
            longitude: middle(area.longitude, LONGITUDE_MAX),
            latitude: middle(area.latitude, LATITUDE_MAX),
        }
    }

    pub(crate) fn score(self) -> f64 {
        Cell::of(self, STEP_MAX, LATITUDE_MAX).bits as f64
    }

    /// The eleven letters by which maps know the place. The last one is always a zero: we have no bits for it.
    pub(crate) fn letters(self) -> [u8; 11] {
        const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        let bits = Cell::of(self, STEP_MAX, 90.0).bits;
        std::array::from_fn(|at| match at {
            10 => b'0',
            _ => ALPHABET[(bits >> (52 - (at + 1) * 5)) as usize & 31],
        })
    }

    /// Metres along the surface (haversine).
    pub(crate) fn distance_m(self, other: Place) -> f64 {
        let (lat, other_lat) = (radians(self.latitude), radians(other.latitude));
        let (lon, other_lon) = (radians(self.longitude), radians(other.longitude));
        let u = ((other_lat - lat) / 2.0).sin();
        let v = ((other_lon - lon) / 2.0).sin();
        // On one meridian Redis uses a shorter formula, which gives other last digits.
        if v == 0.0 {
            return EARTH_RADIUS_M * (other_lat - lat).abs();
        }
        2.0 * EARTH_RADIUS_M * (u * u + lat.cos() * other_lat.cos() * v * v).sqrt().asin()
    }
}

fn radians(degrees: f64) -> f64 {
    degrees * RADIANS_PER_DEGREE
}

fn degrees(radians: f64) -> f64 {
    radians / RADIANS_PER_DEGREE
}

/// The shape of a search.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    Circle { radius_m: f64 },
    Box { width_m: f64, height_m: f64 },
}

impl Shape {
    /// Distance of `place` from `center`; `None` if it is outside of the shape.
    pub(crate) fn distance_m(self, center: Place, place: Place) -> Option<f64> {
        match self {
            Shape::Circle { radius_m } => {
                let distance = center.distance_m(place);
                (distance <= radius_m).then_some(distance)
            }
            Shape::Box { width_m, height_m } => {
                let beside = place.distance_m(Place { longitude: center.longitude, ..place });
                let above = EARTH_RADIUS_M * (radians(center.latitude) - radians(place.latitude)).abs();
                let is_inside = beside <= width_m / 2.0 && above <= height_m / 2.0;
                is_inside.then(|| center.distance_m(place))
            }
        }
    }

    /// A circle that covers it.
    fn radius_m(self) -> f64 {
        match self {
            Shape::Circle { radius_m } => radius_m,
            Shape::Box { width_m, height_m } => {
                let (width, height) = (width_m / 2.0, height_m / 2.0);
                (width * width + height * height).sqrt()
            }
        }
    }

    /// An area that covers the shape approximately.
    fn bounds(self, center: Place) -> Area {
        let (width_m, height_m) = match self {
            Shape::Circle { radius_m } => (radius_m, radius_m),
            Shape::Box { width_m, height_m } => (width_m / 2.0, height_m / 2.0),
        };
        let above = degrees(height_m / EARTH_RADIUS_M);
        // Towards a pole the same width spans more degrees.
        let widest = if center.latitude < 0.0 { center.latitude - above } else { center.latitude + above };
        let beside = degrees(width_m / EARTH_RADIUS_M / radians(widest).cos());
        Area {
            longitude: (center.longitude - beside, center.longitude + beside),
            latitude: (center.latitude - above, center.latitude + above),
        }
    }
}

/// The half-open ranges of scores that a search visits: the cell of the center, and its neighbours as far as the shape reaches.
/// They are in Redis's order, which is the order of unsorted replies.
pub(crate) fn score_ranges(center: Place, shape: Shape) -> Vec<(f64, f64)> {
    let bounds = shape.bounds(center);
    let mut step = step_for(shape.radius_m(), center.latitude);
    let mut cell = Cell::of(center, step, LATITUDE_MAX);
    if step > 1 && !cell.neighbours_cover(&bounds) {
        step -= 1;
        cell = Cell::of(center, step, LATITUDE_MAX);
    }
    let area = cell.area();
    // In a coarse grid all cells touch each other around the earth.
    let is_fine = step >= 2;
    let no_south = is_fine && area.latitude.0 < bounds.latitude.0;
    let no_north = is_fine && area.latitude.1 > bounds.latitude.1;
    let no_west = is_fine && area.longitude.0 < bounds.longitude.0;
    let no_east = is_fine && area.longitude.1 > bounds.longitude.1;
    let mut cells: Vec<Cell> = Vec::with_capacity(NEIGHBOURS.len());
    for (east, north) in NEIGHBOURS {
        let is_useless = (east < 0 && no_west)
            || (east > 0 && no_east)
            || (north < 0 && no_south)
            || (north > 0 && no_north);
        let next = cell.moved(east, north);
        // Only the previous cell is compared, and never the first. As in Redis, a cell may occur twice.
        let is_repeated = cells.len() > 1 && cells.last() == Some(&next);
        if !is_useless && !is_repeated {
            cells.push(next);
        }
    }
    cells.iter().map(|cell| cell.scores()).collect()
}

/// Steps to the east and to the north.
const NEIGHBOURS: [(i8, i8); 9] =
    [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];

/// The finest grid in which nine cells cover a circle.
fn step_for(radius_m: f64, latitude: f64) -> u32 {
    if radius_m == 0.0 {
        return STEP_MAX;
    }
    let (mut step, mut range_m) = (-1_i32, radius_m);
    while range_m < MERCATOR_MAX_M {
        range_m *= 2.0;
        step += 1;
    }
    // Towards the poles the cells are narrow.
    step -= i32::from(latitude.abs() > 66.0) + i32::from(latitude.abs() > 80.0);
    step.clamp(1, STEP_MAX as i32) as u32
}

/// A rectangle in degrees: from, to.
struct Area {
    longitude: (f64, f64),
    latitude: (f64, f64),
}

/// A cell of the grid that has 2^step columns and rows. Bits of the latitude are the even ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    bits: u64,
    step: u32,
}

impl Cell {
    fn of(place: Place, step: u32, latitude_max: f64) -> Cell {
        let grid = (1_u64 << step) as f64;
        let row = (place.latitude + latitude_max) / (latitude_max + latitude_max) * grid;
        let column = (place.longitude + LONGITUDE_MAX) / (LONGITUDE_MAX + LONGITUDE_MAX) * grid;
        Cell { bits: spread(row as u32) | spread(column as u32) << 1, step }
    }

    fn area(self) -> Area {
        let grid = (1_u64 << self.step) as f64;
        let span = |number: u32, bound: f64| {
            let edge = |number: u32| -bound + (f64::from(number) / grid) * (bound + bound);
            (edge(number), edge(number.wrapping_add(1)))
        };
        Area {
            longitude: span(gather(self.bits >> 1), LONGITUDE_MAX),
            latitude: span(gather(self.bits), LATITUDE_MAX),
        }
    }

    /// The cell at this distance in columns and rows, around the earth if necessary. A cell on the very edge lies outside of
    /// the grid. Without movement in a direction, its coordinate stays.
    fn moved(self, east: i8, north: i8) -> Cell {
        let mask = ((1_u64 << self.step) - 1) as u32;
        let along = |number: u32, by: i8| match by {
            0 => number,
            _ => number.wrapping_add_signed(i32::from(by)) & mask,
        };
        let (row, column) = (along(gather(self.bits), north), along(gather(self.bits >> 1), east));
        Cell { bits: spread(row) | spread(column) << 1, ..self }
    }

    /// Whether the neighbours together cover `area`.
    fn neighbours_cover(self, area: &Area) -> bool {
        self.moved(0, 1).area().latitude.1 >= area.latitude.1
            && self.moved(0, -1).area().latitude.0 <= area.latitude.0
            && self.moved(1, 0).area().longitude.1 >= area.longitude.1
            && self.moved(-1, 0).area().longitude.0 <= area.longitude.0
    }

    /// The half-open range of the scores of all places in it.
    fn scores(self) -> (f64, f64) {
        let shift = 52 - self.step * 2;
        ((self.bits << shift) as f64, ((self.bits + 1) << shift) as f64)
    }
}

/// Inserts a zero in front of each bit.
fn spread(number: u32) -> u64 {
    let mut bits = u64::from(number);
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ] {
        bits = (bits | bits << shift) & mask;
    }
    bits
}

/// Every second bit, from the lowest: the inverse of [`spread`].
fn gather(bits: u64) -> u32 {
    let mut bits = bits & 0x5555_5555_5555_5555;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ] {
        bits = (bits | bits >> shift) & mask;
    }
    bits as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_leads_back_to_its_place() {
        let palermo = Place { longitude: 13.361389, latitude: 38.115556 };
        assert_eq!(palermo.score(), 3_479_099_956_230_698.0);
        let back = Place::from_score(palermo.score());
        assert!(back.distance_m(palermo) < 0.6, "{back:?}");
        assert_eq!(&back.letters(), b"sqc8b49rny0");
        assert_eq!(gather(spread(0xdead_beef)), 0xdead_beef);
    }

    #[test]
    fn a_circle_is_covered_by_its_cells() {
        for (longitude, latitude) in [(0.0, 0.0), (179.9, 10.0), (-60.0, 84.0), (13.0, -66.5)] {
            for radius_m in [1.0, 5_000.0, 900_000.0] {
                let center = Place { longitude, latitude };
                let ranges = score_ranges(center, Shape::Circle { radius_m });
                let is_found = |score: f64| ranges.iter().any(|(from, to)| (*from..*to).contains(&score));
                assert!(is_found(center.score()), "{center:?}, {radius_m}");
                assert!(ranges.len() <= NEIGHBOURS.len());
            }
        }
    }
}

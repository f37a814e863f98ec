//! Commands on places: sorted sets whose scores encode coordinates.

use std::cmp::Ordering;
use std::sync::Arc;

use resp::Request;

use crate::args::{float, integer, is};
use crate::commands::zsets::{self, Options, store};
use crate::error::Error;
use crate::formats::geohash::{LATITUDE_MAX, LONGITUDE_MAX, Place, Shape, score_ranges};
use crate::keyspace::Keyspace;
use crate::replies::Reply;
use crate::values::zset::Zset;

type Done = Result<(), Error>;

pub(crate) fn geoadd(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let (mut options, mut first) = (Options::default(), 2);
    while let Some(word) = request.get(first) {
        match word {
            _ if is(word, "NX") => options.if_absent = true,
            _ if is(word, "XX") => options.if_present = true,
            _ if is(word, "CH") => options.counts_changed = true,
            _ => break,
        }
        first += 1;
    }
    let len = request.len() - first;
    if len == 0 || !len.is_multiple_of(3) || (options.if_absent && options.if_present) {
        return Err(Error::Syntax);
    }
    let triples = (first..request.len()).step_by(3);
    let pairs = triples.map(|at| Ok((place(request, at)?.score(), request.arg(at + 2))));
    let pairs: Vec<(f64, &[u8])> = pairs.collect::<Result<_, Error>>()?;
    let added = zsets::add(keyspace, request.arg(1), options, &pairs)?;
    out.integer(added.new + if options.counts_changed { added.changed } else { 0 });
    Ok(())
}

pub(crate) fn geopos(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let zset = keyspace.read::<Zset>(request.arg(1))?;
    out.array(request.len() - 2);
    for member in request.args().skip(2) {
        match zset.and_then(|zset| zset.score(member)) {
            Some(score) => write_place(Place::from_score(score), out),
            None => out.nil_array(),
        }
    }
    Ok(())
}

pub(crate) fn geohash(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let zset = keyspace.read::<Zset>(request.arg(1))?;
    out.array(request.len() - 2);
    for member in request.args().skip(2) {
        match zset.and_then(|zset| zset.score(member)) {
            Some(score) => out.bulk(&Place::from_score(score).letters()),
            None => out.nil(),
        }
    }
    Ok(())
}

pub(crate) fn geodist(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let unit_m = match request.len() {
        4 => 1.0,
        5 => unit_m(request.arg(4))?,
        _ => return Err(Error::Syntax),
    };
    let zset = keyspace.read::<Zset>(request.arg(1))?;
    let place = |member| zset.and_then(|zset| zset.score(member)).map(Place::from_score);
    match (place(request.arg(2)), place(request.arg(3))) {
        (Some(one), Some(other)) => write_distance(one.distance_m(other) / unit_m, out),
        _ => out.nil(),
    }
    Ok(())
}

pub(crate) fn georadius(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    search(keyspace, request, Form { key: 1, by: Origin::Place, may_store: true }, out)
}

pub(crate) fn georadius_ro(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    search(keyspace, request, Form { key: 1, by: Origin::Place, may_store: false }, out)
}

pub(crate) fn georadiusbymember(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    search(keyspace, request, Form { key: 1, by: Origin::Member, may_store: true }, out)
}

pub(crate) fn georadiusbymember_ro(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    search(keyspace, request, Form { key: 1, by: Origin::Member, may_store: false }, out)
}

pub(crate) fn geosearch(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    search(keyspace, request, Form { key: 1, by: Origin::Options, may_store: false }, out)
}

pub(crate) fn geosearchstore(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    search(keyspace, request, Form { key: 2, by: Origin::Options, may_store: true }, out)
}

/// The differences between the commands that search.
#[derive(Clone, Copy)]
struct Form {
    /// Index of the key.
    key: usize,
    by: Origin,
    may_store: bool,
}

/// Source of the center.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// Two arguments after the key.
    Place,
    /// One argument after the key.
    Member,
    /// FROMMEMBER or FROMLONLAT, at any position.
    Options,
}

/// A parsed search.
#[derive(Default)]
struct Query<'a> {
    center: Option<Place>,
    /// The center was named as a member. Without the key, there is no center.
    by_member: bool,
    shape: Option<Shape>,
    /// Metres of the unit in which distances are shown.
    unit_m: f64,
    with_distance: bool,
    with_hash: bool,
    with_place: bool,
    order: Option<Ordering>,
    /// Number of results; 0 for all.
    count: usize,
    any: bool,
    target: Option<&'a [u8]>,
    stores_distance: bool,
}

/// One result.
struct Found {
    member: Arc<[u8]>,
    score: f64,
    place: Place,
    distance: f64,
}

impl<'a> Query<'a> {
    fn parse(request: &Request<'a>, form: Form, zset: Option<&Zset>) -> Result<Query<'a>, Error> {
        let mut query = Query::default();
        let mut at = form.key + 1;
        match form.by {
            Origin::Place => {
                query.center = Some(place(request, at)?);
                query.set_circle(request, at + 2)?;
                at += 4;
            }
            Origin::Member => {
                query.set_member(zset, request.arg(at))?;
                if zset.is_some() {
                    query.set_circle(request, at + 1)?;
                }
                at += 3;
            }
            Origin::Options if form.may_store => query.target = Some(request.arg(1)),
            Origin::Options => {}
        }
        while at < request.len() {
            at += 1 + match query.parse_flag(request.arg(at), form) {
                true => 0,
                false => query.parse_option(request, at, form, zset)?,
            };
        }
        query.check(request, form)?;
        Ok(query)
    }

    fn parse_flag(&mut self, word: &[u8], form: Form) -> bool {
        let flag = match word {
            _ if is(word, "WITHDIST") => &mut self.with_distance,
            _ if is(word, "WITHHASH") => &mut self.with_hash,
            _ if is(word, "WITHCOORD") => &mut self.with_place,
            _ if is(word, "ANY") => &mut self.any,
            _ if is(word, "STOREDIST") && form.by == Origin::Options && form.may_store => {
                &mut self.stores_distance
            }
            _ if is(word, "ASC") || is(word, "DESC") => {
                let order = if is(word, "ASC") { Ordering::Less } else { Ordering::Greater };
                self.order = Some(order);
                return true;
            }
            _ => return false,
        };
        *flag = true;
        true
    }

    /// Parses an option with values. Returns the number of arguments that it took.
    fn parse_option(
        &mut self,
        request: &Request<'a>,
        at: usize,
        form: Form,
        zset: Option<&Zset>,
    ) -> Result<usize, Error> {
        let (word, values) = (request.arg(at), request.len() - at - 1);
        let searches = form.by == Origin::Options;
        let (is_box, is_circle) = match self.shape {
            Some(Shape::Box { .. }) => (true, false),
            Some(Shape::Circle { .. }) => (false, searches),
            None => (false, false),
        };
        if is(word, "COUNT") && values >= 1 {
            let count = integer(request.arg(at + 1))?;
            self.count = usize::try_from(count).ok().filter(|&count| count > 0).ok_or(Error::GEO_COUNT)?;
            return Ok(1);
        }
        if !searches && form.may_store && values >= 1 && (is(word, "STORE") || is(word, "STOREDIST")) {
            self.target = Some(request.arg(at + 1));
            self.stores_distance = is(word, "STOREDIST");
            return Ok(1);
        }
        if !searches {
            return Err(Error::Syntax);
        }
        // Each of the two options may be repeated, but only one of them may be given.
        if is(word, "FROMMEMBER") && values >= 1 && (self.center.is_none() || self.by_member) {
            self.set_member(zset, request.arg(at + 1))?;
            return Ok(1);
        }
        if is(word, "FROMLONLAT") && values >= 2 && !self.by_member {
            self.center = Some(place(request, at + 1)?);
            return Ok(2);
        }
        if is(word, "BYRADIUS") && values >= 2 && !is_box {
            self.set_circle(request, at + 1)?;
            return Ok(2);
        }
        if is(word, "BYBOX") && values >= 3 && !is_circle {
            self.set_box(request, at + 1)?;
            return Ok(3);
        }
        Err(Error::Syntax)
    }

    fn set_member(&mut self, zset: Option<&Zset>, member: &[u8]) -> Done {
        self.by_member = true;
        if let Some(zset) = zset {
            self.center = Some(Place::from_score(zset.score(member).ok_or(Error::GEO_MEMBER)?));
        }
        Ok(())
    }

    fn set_circle(&mut self, request: &Request<'_>, at: usize) -> Done {
        let radius = float(request.arg(at)).map_err(|_| Error::GEO_RADIUS)?;
        if radius < 0.0 {
            return Err(Error::GEO_RADIUS_NEGATIVE);
        }
        self.unit_m = unit_m(request.arg(at + 1))?;
        self.shape = Some(Shape::Circle { radius_m: radius * self.unit_m });
        Ok(())
    }

    fn set_box(&mut self, request: &Request<'_>, at: usize) -> Done {
        let width = float(request.arg(at)).map_err(|_| Error::GEO_WIDTH)?;
        let height = float(request.arg(at + 1)).map_err(|_| Error::GEO_HEIGHT)?;
        if width < 0.0 || height < 0.0 {
            return Err(Error::GEO_BOX_NEGATIVE);
        }
        self.unit_m = unit_m(request.arg(at + 2))?;
        self.shape = Some(Shape::Box { width_m: width * self.unit_m, height_m: height * self.unit_m });
        Ok(())
    }

    fn check(&self, request: &Request<'_>, form: Form) -> Done {
        let searches = form.by == Origin::Options;
        if self.target.is_some() && (self.with_distance || self.with_hash || self.with_place) {
            let what = if searches { "GEOSEARCHSTORE" } else { "STORE option in GEORADIUS" };
            return Err(Error::GeoStoreWith(what));
        }
        let name = || String::from_utf8_lossy(request.arg(0)).into_owned();
        if searches && self.center.is_none() && !self.by_member {
            return Err(Error::GeoNeeds("FROMMEMBER or FROMLONLAT", name()));
        }
        if searches && self.shape.is_none() {
            return Err(Error::GeoNeeds("BYRADIUS and BYBOX", name()));
        }
        if self.any && self.count == 0 { Err(Error::GEO_ANY) } else { Ok(()) }
    }

    /// The members within the shape, in the wanted order.
    fn run(&self, zset: &Zset) -> Vec<Found> {
        let (Some(center), Some(shape)) = (self.center, self.shape) else { return Vec::new() };
        let mut found = Vec::new();
        let enough = if self.any { self.count } else { usize::MAX };
        for (from, to) in score_ranges(center, shape) {
            let (from, to) = (zset.rank_where(|one| one.score < from), zset.rank_where(|one| one.score < to));
            let covered = zset.range(from, to.max(from)).filter_map(|scored| {
                let place = Place::from_score(scored.score);
                let distance = shape.distance_m(center, place)?;
                Some(Found { member: scored.member.clone(), score: scored.score, place, distance })
            });
            found.extend(covered.take(enough.saturating_sub(found.len())));
        }
        // A count without an order selects the nearest members.
        let nearest = Some(Ordering::Less).filter(|_| self.count > 0 && !self.any);
        if let Some(order) = self.order.or(nearest) {
            found.sort_by(|one, other| {
                let nearer = one.distance.partial_cmp(&other.distance).unwrap_or(Ordering::Equal);
                if order == Ordering::Less { nearer } else { nearer.reverse() }
            });
        }
        if self.count > 0 {
            found.truncate(self.count);
        }
        found.iter_mut().for_each(|one| one.distance /= self.unit_m);
        found
    }

    fn write(&self, found: &[Found], out: &mut Reply) {
        let details = [self.with_distance, self.with_hash, self.with_place];
        let details = details.iter().filter(|wanted| **wanted).count();
        out.array(found.len());
        for one in found {
            if details > 0 {
                out.array(details + 1);
            }
            out.bulk(&one.member);
            if self.with_distance {
                write_distance(one.distance, out);
            }
            if self.with_hash {
                out.integer(one.score as i64);
            }
            if self.with_place {
                write_place(one.place, out);
            }
        }
    }
}

fn search(keyspace: &mut Keyspace, request: &Request<'_>, form: Form, out: &mut Reply) -> Done {
    let zset = keyspace.read::<Zset>(request.arg(form.key))?;
    let query = Query::parse(request, form, zset)?;
    let found = zset.map(|zset| query.run(zset)).unwrap_or_default();
    let Some(target) = query.target else {
        query.write(&found, out);
        return Ok(());
    };
    let mut result: Zset = keyspace.empty();
    let score = |one: &Found| if query.stores_distance { one.distance } else { one.score };
    found.iter().for_each(|one| result.set(&one.member, score(one)));
    let name = if form.key == 2 { "geosearchstore" } else { "georadiusstore" };
    store(keyspace, target, result, name, out);
    Ok(())
}

/// The place whose longitude is argument `at`.
fn place(request: &Request<'_>, at: usize) -> Result<Place, Error> {
    let place = Place { longitude: float(request.arg(at))?, latitude: float(request.arg(at + 1))? };
    if place.longitude.abs() > LONGITUDE_MAX || place.latitude.abs() > LATITUDE_MAX {
        return Err(Error::GeoPlace(place.longitude, place.latitude));
    }
    Ok(place)
}

/// Metres of a unit.
fn unit_m(arg: &[u8]) -> Result<f64, Error> {
    let units = [("m", 1.0), ("km", 1_000.0), ("ft", 0.3048), ("mi", 1_609.34)];
    units.iter().find(|(name, _)| is(arg, name)).map(|(_, metres)| *metres).ok_or(Error::GEO_UNIT)
}

fn write_place(place: Place, out: &mut Reply) {
    out.array(2);
    for degrees in [place.longitude, place.latitude] {
        let text = format!("{degrees:.17}");
        out.double_as(text.trim_end_matches('0').trim_end_matches('.').as_bytes());
    }
}

fn write_distance(distance: f64, out: &mut Reply) {
    out.bulk(format!("{distance:.4}").as_bytes());
}

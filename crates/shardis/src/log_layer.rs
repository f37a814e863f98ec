//! The way of a line from its call: bounds, level, then stderr and the lines kept for the admin listener.
//!
//! One layer does all of it. Filters of tracing-subscriber remember verdicts about an event between calls, and lose the next
//! event if a bound between them drops one.

use crate::events;
use crate::log_bounds::{Bounds, Suppressed};
use crate::log_messages;
use std::fmt::{Debug, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Span, Subscriber, error_span};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

/// The level of the lines that are written.
static LEVEL: Mutex<LevelFilter> = Mutex::new(LevelFilter::INFO);
/// Like the log itself, there is one in a process.
static BOUNDS: Mutex<Bounds> = Mutex::new(Bounds::new());

/// See the module. `lines` formats and writes a line.
pub(crate) struct Log<L> {
    pub(crate) lines: L,
}

/// The name of the pool that a span stands for.
struct PoolName(String);

/// The span of the pool `name`: each line within it names the pool. Without a name, there are no pools.
pub(crate) fn pool_span(name: Option<&str>) -> Span {
    name.map_or_else(Span::none, |name| error_span!("pool", name))
}

/// The pool that `event` is about, if there are pools.
fn pool_of<S>(event: &Event<'_>, context: &Context<'_, S>) -> Option<String>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    pool_of_span(&context.event_span(event)?)
}

/// The pool that `span` stands for.
pub(crate) fn pool_of_span<'a, S: LookupSpan<'a>>(span: &SpanRef<'a, S>) -> Option<String> {
    span.extensions().get::<PoolName>().map(|name| name.0.clone())
}

impl<S: Subscriber + for<'a> LookupSpan<'a>, L: Layer<S>> Layer<S> for Log<L> {
    /// The level can change, so no call is ruled out for ever.
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    /// Lines from info up are kept, whatever the level.
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        *metadata.level() <= level().max(LevelFilter::INFO)
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut name = PoolName(String::new());
            attributes.record(&mut name);
            span.extensions_mut().insert(name);
        }
        self.lines.on_new_span(attributes, id, context);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut name = Name::default();
        event.record(&mut name);
        let message = log_messages::find(&name.0);
        let pool = pool_of(event, &context);
        let subject = pool.clone().unwrap_or_default();
        let details = pool.map(|pool| format!("pool={pool:?}")).unwrap_or_default();
        let mut line = Line { per: message.per, subject, details };
        event.record(&mut line);
        let level_of_line = *event.metadata().level();
        if !bounds().admits(message, level_of_line, &line.subject, Instant::now()) {
            return;
        }
        if level_of_line <= level() {
            self.lines.on_event(event, context);
        }
        if level_of_line <= LevelFilter::INFO {
            events::keep(message, level_of_line, line.details);
        }
    }
}

/// The level of the lines that are written.
pub(crate) fn level() -> LevelFilter {
    *LEVEL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Changes it.
pub(crate) fn set_level(level: LevelFilter) {
    *LEVEL.lock().unwrap_or_else(PoisonError::into_inner) = level;
}

/// See [`Bounds::poll_suppressed`].
pub(crate) fn poll_suppressed(now: Instant, ends: bool) -> Vec<Suppressed> {
    bounds().poll_suppressed(now, ends)
}

fn bounds() -> MutexGuard<'static, Bounds> {
    BOUNDS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Visit for PoolName {
    fn record_str(&mut self, _: &Field, value: &str) {
        value.clone_into(&mut self.0);
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

/// The name of a line.
#[derive(Default)]
struct Name(String);

impl Visit for Name {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            // Writing to a `String` cannot fail.
            let _ = write!(self.0, "{value:?}");
        }
    }
}

/// The fields of a line.
struct Line {
    /// The keys of its subject.
    per: &'static [&'static str],
    subject: String,
    /// All of its fields, as key=value.
    details: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let name = field.name();
        if name == "message" {
            return;
        }
        let blank = if self.details.is_empty() { "" } else { " " };
        // Writing to a `String` cannot fail.
        let _ = write!(self.details, "{blank}{name}={value:?}");
        if self.per.contains(&name) {
            let _ = write!(self.subject, "{value:?} ");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tracing::{debug, error, info, warn};
    use tracing_subscriber::layer::SubscriberExt;

    /// The names of the lines that were written.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<String>>>);

    impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Written {
        fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
            let mut name = Name::default();
            event.record(&mut name);
            let pool = pool_of(event, &context).map(|pool| format!("{pool}: ")).unwrap_or_default();
            self.0.lock().expect("no panic").push(pool + &name.0);
        }
    }

    #[test]
    fn lines_about_pools_name_them_and_have_bounds_of_their_own() {
        let written = Written::default();
        let subscriber = tracing_subscriber::registry().with(Log { lines: written.clone() });
        tracing::subscriber::with_default(subscriber, || {
            for pool in ["one", "other"] {
                let span = pool_span(Some(pool));
                let _in_pool = span.enter();
                (0..30).for_each(|_| warn!(shard = "a-shard-of-two-pools", "node down"));
            }
        });
        let written = written.0.lock().expect("no panic").clone();
        assert_eq!(written, [["one: node down"; 10], ["other: node down"; 10]].concat());
        let kept = events::last();
        let is_of_other =
            |event: &&admin::Event| event.details == r#"pool="other" shard="a-shard-of-two-pools""#;
        assert_eq!(kept.iter().filter(is_of_other).count(), 10);
    }

    #[test]
    fn lines_are_bounded_written_and_kept() {
        let written = Written::default();
        let subscriber = tracing_subscriber::registry().with(Log { lines: written.clone() });
        tracing::subscriber::with_default(subscriber, || {
            (0..30).for_each(|_| warn!(shard = "a-shard-of-this-test", "node down"));
            error!(shard = "a-shard-of-this-test", "node refused");
            info!(shard = "another-shard-of-this-test", "node up");
            debug!(reason = "idle timeout", "client closed");
        });
        let written = written.0.lock().expect("no panic").clone();
        assert_eq!(written[..10], ["node down"; 10]);
        assert_eq!(written[10..], ["node refused", "node up"], "and no line below the level");
        let kept = events::last();
        let of_test = |name: &str| {
            kept.iter().filter(|event| event.name == name && event.details.contains("of-this-test")).count()
        };
        assert_eq!([of_test("node down"), of_test("node refused"), of_test("node up")], [10, 1, 1]);
        let is_of_test =
            |event: &&admin::Event| event.name == "node down" && event.details.contains("of-this-test");
        let down = kept.iter().find(is_of_test).expect("it is kept");
        assert_eq!((down.level, down.details.as_str()), ("WARN", r#"shard="a-shard-of-this-test""#));
        assert!(down.cure.starts_with("Start the node"));
    }
}

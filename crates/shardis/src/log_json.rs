//! Lines of the log for programs: an object in each line, with the stable name in `name`.

use crate::log_layer;
use serde::ser::{SerializeMap, Serializer};
use std::fmt::{self, Debug};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// See the module.
pub(crate) struct JsonFormat;

impl<S, N> FormatEvent<S, N> for JsonFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let pool = context.parent_span().and_then(|span| log_layer::pool_of_span(&span));
        let line = line(&time, pool.as_deref(), event).map_err(|_| fmt::Error)?;
        writeln!(out, "{line}")
    }
}

fn line(time: &str, pool: Option<&str>, event: &Event<'_>) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::new(&mut bytes);
    let mut map = serializer.serialize_map(None)?;
    map.serialize_entry("timestamp", time)?;
    map.serialize_entry("level", event.metadata().level().as_str())?;
    if let Some(pool) = pool {
        map.serialize_entry("pool", pool)?;
    }
    let mut keys = Keys { map, outcome: Ok(()) };
    event.record(&mut keys);
    keys.outcome?;
    keys.map.end()?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Writes the fields of a line.
struct Keys<M: SerializeMap> {
    map: M,
    outcome: Result<(), M::Error>,
}

impl<M: SerializeMap> Keys<M> {
    fn write(&mut self, field: &Field, value: &(impl serde::Serialize + ?Sized)) {
        // tracing calls the text of a line its message.
        let key = if field.name() == "message" { "name" } else { field.name() };
        if self.outcome.is_ok() {
            self.outcome = self.map.serialize_entry(key, value);
        }
    }
}

impl<M: SerializeMap> Visit for Keys<M> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.write(field, &value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.write(field, &value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.write(field, &value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.write(field, &value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.write(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.write(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use tracing::{info, warn};
    use tracing_subscriber::Layer;
    use tracing_subscriber::layer::{Context, SubscriberExt};

    /// Keeps lines.
    struct Lines(std::sync::Arc<Mutex<Vec<String>>>);

    impl<S: Subscriber> Layer<S> for Lines {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            self.0.lock().expect("no panic").push(line("now", None, event).expect("it can be written"));
        }
    }

    #[test]
    fn a_line_is_an_object_with_its_name() {
        let lines = std::sync::Arc::new(Mutex::new(Vec::new()));
        let subscriber = tracing_subscriber::registry().with(Lines(lines.clone()));
        tracing::subscriber::with_default(subscriber, || {
            let error = std::io::Error::other("a \"b\"");
            warn!(worker = 1usize, step_ms = -5i64, %error, hint = None::<&str>, "node down");
            info!("users saved");
        });
        let expected = [
            r#"{"timestamp":"now","level":"WARN","name":"node down","worker":1,"step_ms":-5,"error":"a \"b\""}"#,
            r#"{"timestamp":"now","level":"INFO","name":"users saved"}"#,
        ];
        assert_eq!(*lines.lock().expect("no panic"), expected);
    }
}

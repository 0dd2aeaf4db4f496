//! A subscriber that keeps the events it receives.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// An event with the target `millpond`: level, message, and fields as text.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) level: Level,
    pub(crate) message: String,
    pub(crate) fields: BTreeMap<&'static str, String>,
}

impl Told {
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.get(name).unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }
}

/// All events that the global subscriber received.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<Told>>>);

impl Log {
    /// Installs itself as the global subscriber. Call it once.
    pub(crate) fn install() -> Log {
        let log = Log::default();
        let subscriber = tracing_subscriber::registry().with(log.clone());
        tracing::subscriber::set_global_default(subscriber).expect("no other subscriber");
        log
    }

    /// The events of a pool.
    pub(crate) fn of(&self, pool: &str) -> Vec<Told> {
        let told = self.0.lock().unwrap();
        told.iter().filter(|told| told.fields.get("pool").is_some_and(|name| name == pool)).cloned().collect()
    }
}

impl<S: Subscriber> Layer<S> for Log {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() != "millpond" {
            return;
        }
        let mut told =
            Told { level: *event.metadata().level(), message: String::new(), fields: BTreeMap::new() };
        event.record(&mut told);
        self.0.lock().unwrap().push(told);
    }
}

impl Visit for Told {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = format!("{value:?}");
        match field.name() {
            "message" => self.message = text,
            name => drop(self.fields.insert(name, text)),
        }
    }
}

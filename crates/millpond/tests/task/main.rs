//! Task handles and scoped tasks.

#[path = "../support/mod.rs"]
mod support;

mod handle;
mod handle_async;
mod handle_drop;
mod handle_nested;
mod scope;
mod scope_hostile;

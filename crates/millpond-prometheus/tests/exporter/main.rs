//! The exported text, and what is written about it: documentation, Grafana board, alert rules.

mod board;
mod docs;
mod fixture;
mod promtool;
mod reader;
mod text;

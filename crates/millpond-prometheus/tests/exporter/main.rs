//! The exported text and everything that refers to it: documentation, Grafana board, alert rules.

mod board;
mod docs;
mod fixture;
mod promtool;
mod reader;
mod text;

//! The engines through their contract, with the power cut everywhere.

mod classic;
mod compressed;
mod contract;
mod older_journal;
mod scalable;
mod scalable_home;
mod scalable_pages;

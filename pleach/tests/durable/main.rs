//! Durable runs: resumes, effects, waits, values and undos.

#[path = "../common/mod.rs"]
mod common;

mod answer_taken;
mod control;
mod control_undo;
mod crash;
mod deep_state;
mod effect_begun;
mod effects;
mod faults;
mod finish_in_flight;
mod given_up;
mod grace_ends;
mod inbox;
mod known;
mod late_lost;
mod late_notes;
mod moments;
mod options;
mod pause_resume;
mod recorded;
mod refused;
mod second_reading;
mod select;
mod sleep;
mod spawned;
mod spawned_ends;
mod undo;
mod undo_cut_off;
mod undo_payload;
mod undo_told;
mod undo_unknown;
mod undo_unread;
mod values;

//! What a view wants to know, and what the process answered.

use pleach::actor::ActorPath;
use pleach::inspect::{Cursor, Followed, Health, Hello, InspectAction, MemberInfo, Rates, Snapshot, Top, TopBy, Why};
use pleach::store::Timestamp;
use std::time::Duration;

/// What the view wants to know. The newest wish counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Wish {
    /// What is shown now. A change is asked for at once.
    pub shown: Shown,
    /// A member that must be in the answer also if it is not among the first rows.
    pub selected: Option<ActorPath>,
    /// The wait between two rounds of requests.
    pub interval: Duration,
    /// Ask nothing.
    pub is_frozen: bool,
}

/// What the picture shows.
#[derive(Clone, Debug, PartialEq)]
pub enum Shown {
    List(ListWish),
    /// The visible pages of the tree.
    Tree(Vec<PageWish>),
    Problems,
    Detail(ActorPath),
}

/// A sorted list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListWish {
    pub by: TopBy,
    pub below: Option<ActorPath>,
    pub contains: String,
    pub limit: usize,
}

/// A page of the children of a member.
#[derive(Clone, Debug, PartialEq)]
pub struct PageWish {
    pub path: ActorPath,
    /// The number of the page.
    pub index: usize,
    /// Where it begins.
    pub cursor: Option<Cursor>,
}

/// What came from the process.
#[derive(Debug)]
pub enum Update {
    Connected(Hello),
    Round(Box<Round>),
    /// The connection is lost or cannot be made, for this reason.
    Lost(String),
    /// An action was ordered, or refused with this text.
    Acted(Order, Result<(), String>),
    /// An event about the member at this path or below it.
    Event(ActorPath, Followed),
    /// Events of this path cannot be followed, for this reason.
    NoEvents(ActorPath, String),
}

/// The answers to one round of requests.
#[derive(Debug)]
pub struct Round {
    /// When the last answer came.
    pub at: Timestamp,
    pub general: Option<General>,
    pub answer: Answer,
    /// The selected member, if it was asked for; `None` if it has ended.
    pub selected: Option<(ActorPath, Option<MemberInfo>)>,
    /// How long the sorted list took, if it was asked for.
    pub list_took: Option<Duration>,
}

/// What every picture shows. Asked for once per interval.
#[derive(Debug)]
pub struct General {
    pub hello: Hello,
    pub health: Health,
    pub rates: Rates,
}

/// The answer to [`Shown`].
#[derive(Debug)]
pub enum Answer {
    /// `None` if no member has the path of the wish any more.
    List(ListWish, Option<Top>),
    Tree(Vec<(PageWish, Option<Snapshot>)>),
    /// The members that call for a look.
    Problems(Vec<MemberInfo>),
    /// `None` if no member has the path any more.
    Detail(ActorPath, Option<Box<(MemberInfo, Why)>>),
}

/// An action on a member.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    pub action: InspectAction,
    pub path: ActorPath,
    pub id: u64,
}

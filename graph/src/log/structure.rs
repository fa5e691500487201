//! A structural hash of a serialisable value, with more detail than JSON preserves.
//!
//! JSON writes `None`, `Some(None)`, `Some(())` and `Some(NaN)` all as `null`. This hash
//! distinguishes them, so a value that JSON changed has another hash after it was read back. Rules:
//!
//! 1. The order of sequence elements and map entries is ignored: a `HashSet` or `HashMap` may
//!    return in another order.
//! 2. Everything else counts exactly: names of variants, `Some` and `None`, the bits of floats.
//! 3. A field that is not serialised (`#[serde(skip)]`) is invisible. `Graph::compare_states` sees
//!    it.

use serde::ser::{self, Serialize};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Returns the structural hash of a value. Returns `None` if its `Serialize` fails.
pub(crate) fn hash_of<T: Serialize + ?Sized>(value: &T) -> Option<u64> {
    value.serialize(Structure).ok()
}

/// The kind of a value, hashed before its content.
#[derive(Clone, Copy, Hash)]
enum ValueKind {
    Bool,
    Integer,
    F32,
    F64,
    Char,
    Text,
    Bytes,
    None,
    Some,
    Unit,
    Variant,
    Sequence,
    Tuple,
    Map,
    Struct,
}

fn leaf(kind: ValueKind, content: impl Hash) -> Result<u64, Refused> {
    let mut hasher = DefaultHasher::new();
    (kind, content).hash(&mut hasher);
    Ok(hasher.finish())
}

/// The serialiser: every value becomes a hash.
struct Structure;

/// The error of a value whose `Serialize` fails.
#[derive(Debug)]
struct Refused;

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the value cannot be serialised")
    }
}

impl std::error::Error for Refused {}

impl ser::Error for Refused {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

/// The hash of several parts, ordered or unordered.
struct Compound {
    kind: ValueKind,
    /// The name of the variant, or empty.
    name: &'static str,
    in_order: bool,
    count: u64,
    sum: u64,
    key: u64,
}

impl Compound {
    fn new(kind: ValueKind, name: &'static str, in_order: bool) -> Self {
        Self { kind, name, in_order, count: 0, sum: 0, key: 0 }
    }

    fn add(&mut self, part: u64) -> Result<(), Refused> {
        self.count += 1;
        let counted = if self.in_order { leaf(self.kind, (self.sum, part))? } else { self.sum.wrapping_add(part) };
        self.sum = counted;
        Ok(())
    }

    fn finish(self) -> Result<u64, Refused> {
        leaf(self.kind, (self.name, self.count, self.sum))
    }
}

macro_rules! leaves {
    ($($method:ident: $type:ty => $kind:ident, $content:expr;)*) => {
        $(fn $method(self, value: $type) -> Result<u64, Refused> {
            leaf(ValueKind::$kind, $content(value))
        })*
    };
}

impl ser::Serializer for Structure {
    type Ok = u64;
    type Error = Refused;
    type SerializeSeq = Compound;
    type SerializeTuple = Compound;
    type SerializeTupleStruct = Compound;
    type SerializeTupleVariant = Compound;
    type SerializeMap = Compound;
    type SerializeStruct = Compound;
    type SerializeStructVariant = Compound;

    leaves! {
        serialize_bool: bool => Bool, |value| value;
        serialize_i8: i8 => Integer, i128::from;
        serialize_i16: i16 => Integer, i128::from;
        serialize_i32: i32 => Integer, i128::from;
        serialize_i64: i64 => Integer, i128::from;
        serialize_i128: i128 => Integer, |value: i128| value;
        serialize_u8: u8 => Integer, i128::from;
        serialize_u16: u16 => Integer, i128::from;
        serialize_u32: u32 => Integer, i128::from;
        serialize_u64: u64 => Integer, i128::from;
        serialize_u128: u128 => Integer, |value: u128| (value, 0);
        serialize_f32: f32 => F32, f32::to_bits;
        serialize_f64: f64 => F64, f64::to_bits;
        serialize_char: char => Char, |value: char| value;
        serialize_str: &str => Text, |value| value;
        serialize_bytes: &[u8] => Bytes, |value| value;
    }

    fn serialize_none(self) -> Result<u64, Refused> {
        leaf(ValueKind::None, ())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<u64, Refused> {
        leaf(ValueKind::Some, value.serialize(Self)?)
    }

    fn serialize_unit(self) -> Result<u64, Refused> {
        leaf(ValueKind::Unit, ())
    }

    fn serialize_unit_struct(self, name: &'static str) -> Result<u64, Refused> {
        leaf(ValueKind::Unit, name)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<u64, Refused> {
        leaf(ValueKind::Variant, variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<u64, Refused> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<u64, Refused> {
        leaf(ValueKind::Variant, (variant, value.serialize(Self)?))
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Compound, Refused> {
        Ok(Compound::new(ValueKind::Sequence, "", false))
    }

    fn serialize_tuple(self, _: usize) -> Result<Compound, Refused> {
        Ok(Compound::new(ValueKind::Tuple, "", true))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Compound, Refused> {
        Ok(Compound::new(ValueKind::Tuple, "", true))
    }

    fn serialize_tuple_variant(self, _: &'static str, _: u32, variant: &'static str, _: usize) -> Result<Compound, Refused> {
        Ok(Compound::new(ValueKind::Variant, variant, true))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Compound, Refused> {
        Ok(Compound::new(ValueKind::Map, "", false))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Compound, Refused> {
        Ok(Compound::new(ValueKind::Struct, "", true))
    }

    fn serialize_struct_variant(self, _: &'static str, _: u32, variant: &'static str, _: usize) -> Result<Compound, Refused> {
        Ok(Compound::new(ValueKind::Variant, variant, true))
    }
}

macro_rules! in_sequence {
    ($($trait:ident, $method:ident;)*) => {
        $(impl ser::$trait for Compound {
            type Ok = u64;
            type Error = Refused;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refused> {
                self.add(value.serialize(Structure)?)
            }

            fn end(self) -> Result<u64, Refused> {
                self.finish()
            }
        })*
    };
}

in_sequence! {
    SerializeSeq, serialize_element;
    SerializeTuple, serialize_element;
    SerializeTupleStruct, serialize_field;
    SerializeTupleVariant, serialize_field;
}

macro_rules! by_name {
    ($($trait:ident;)*) => {
        $(impl ser::$trait for Compound {
            type Ok = u64;
            type Error = Refused;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Refused> {
                self.add(leaf(self.kind, (name, value.serialize(Structure)?))?)
            }

            fn end(self) -> Result<u64, Refused> {
                self.finish()
            }
        })*
    };
}

by_name! {
    SerializeStruct;
    SerializeStructVariant;
}

impl ser::SerializeMap for Compound {
    type Ok = u64;
    type Error = Refused;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Refused> {
        self.key = key.serialize(Structure)?;
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refused> {
        self.add(leaf(self.kind, (self.key, value.serialize(Structure)?))?)
    }

    fn end(self) -> Result<u64, Refused> {
        self.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, HashMap, HashSet};

    #[test]
    fn c2_values_with_equal_json_differ_in_structure() {
        let nulls = [
            hash_of(&None::<Option<u8>>),
            hash_of(&Some(None::<u8>)),
            hash_of(&Some(())),
            hash_of(&Some(f64::NAN)),
            hash_of(&()),
        ];
        for (at, null) in nulls.iter().enumerate() {
            assert_eq!(nulls.iter().position(|other| other == null), Some(at));
        }
        assert_ne!(hash_of(&0.1_f64), hash_of(&f64::from_bits(0.1_f64.to_bits() + 1)));
        assert_ne!(hash_of(&[1, 2]), hash_of(&[2, 1]), "arrays have an order");
    }

    #[test]
    fn c2_order_of_maps_and_sets_is_ignored() {
        let numbers: HashSet<u32> = (0..100).collect();
        let again: HashSet<u32> = (0..100).rev().collect();
        assert_eq!(hash_of(&numbers), hash_of(&again));
        let map: HashMap<u32, u32> = (0..100).map(|n| (n, n + 1)).collect();
        let tree: BTreeMap<u32, u32> = (0..100).map(|n| (n, n + 1)).collect();
        assert_eq!(hash_of(&map), hash_of(&tree));
        // The same JSON bytes, equally often, in other places.
        assert_ne!(hash_of(&HashMap::from([("a", 1), ("b", 2)])), hash_of(&HashMap::from([("a", 2), ("b", 1)])));
        assert_ne!(hash_of(&vec![vec![1, 2], vec![3]]), hash_of(&vec![vec![1, 3], vec![2]]));
    }
}

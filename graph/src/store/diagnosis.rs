//! What the diagnoses of both databases share.

/// Returns the names of the indexes that these statements create.
pub(super) fn index_names(statements: &str) -> impl Iterator<Item = &str> {
    statements.split("CREATE INDEX ").skip(1).filter_map(|rest| rest.split_whitespace().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o10_indexes_are_found_in_the_statements_that_create_them() {
        let statements = "CREATE TABLE a (b TEXT);\nCREATE INDEX a_b ON a (b);\n    CREATE INDEX a_c\n ON a (c);";
        assert_eq!(index_names(statements).collect::<Vec<_>>(), ["a_b", "a_c"]);
    }
}

//! Small nodes and a merge, for graphs whose state is a number.

/// A node that returns its state unchanged.
pub async fn pass(n: u32) -> Result<u32, String> {
    Ok(n)
}

/// A node that adds one.
pub async fn add_one(n: u32) -> Result<u32, String> {
    Ok(n + 1)
}

/// A merge that adds up the states of the branches.
pub fn sum(_before: u32, branches: Vec<u32>) -> u32 {
    branches.into_iter().sum()
}

//! The shards of racks whose nodes have tokens.

/// A shard: one node in each rack, and the tokens of its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenShard {
    /// The node's place in each rack.
    pub nodes: Vec<usize>,
    /// The ends of its parts of the ring: a hash belongs to the first token at or after it.
    pub tokens: Vec<u32>,
}

/// A node that shares keys with more than one node of another rack, by the places of its rack and in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The rack.
    pub rack: usize,
    /// The node.
    pub node: usize,
}

/// The shards of `racks`, of each of which the tokens of its nodes are given.
///
/// All tokens of all racks cut the ring into parts, and a part has one node in each rack. A node has to be in one shard only.
/// Otherwise KEYS, SCAN and DBSIZE would count it twice, and writes of two shards would reach it in two orders.
pub fn token_shards(racks: &[Vec<u32>]) -> Result<Vec<TokenShard>, Overlap> {
    let mut cuts: Vec<u32> = racks.iter().flatten().copied().collect();
    cuts.sort_unstable();
    cuts.dedup();
    let mut shards: Vec<TokenShard> = Vec::new();
    for cut in cuts {
        let nodes: Vec<usize> = racks.iter().map(|tokens| owner(tokens, cut)).collect();
        match shards.iter_mut().find(|shard| shard.nodes == nodes) {
            Some(shard) => shard.tokens.push(cut),
            None => shards.push(TokenShard { nodes, tokens: vec![cut] }),
        }
    }
    for (rack, tokens) in racks.iter().enumerate() {
        let times = |node: usize| shards.iter().filter(|shard| shard.nodes[rack] == node).count();
        if let Some(node) = (0..tokens.len()).find(|&node| times(node) > 1) {
            return Err(Overlap { rack, node });
        }
    }
    Ok(shards)
}

/// The place of the first token at or after `hash`; behind the last one, that of the first.
fn owner(tokens: &[u32], hash: u32) -> usize {
    let nearest = (0..tokens.len()).filter(|&node| tokens[node] >= hash).min_by_key(|&node| tokens[node]);
    nearest.or_else(|| (0..tokens.len()).min_by_key(|&node| tokens[node])).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_with_equal_tokens_are_one_shard() {
        let shards = token_shards(&[vec![100, 300], vec![300, 100]]).expect("they fit");
        let shard =
            |nodes: &[usize], tokens: &[u32]| TokenShard { nodes: nodes.to_vec(), tokens: tokens.to_vec() };
        assert_eq!(shards, [shard(&[0, 1], &[100]), shard(&[1, 0], &[300])]);
    }

    #[test]
    fn racks_of_one_node_fit_with_any_token() {
        let shards = token_shards(&[vec![100], vec![7]]).expect("they fit");
        assert_eq!(shards, [TokenShard { nodes: vec![0, 0], tokens: vec![7, 100] }]);
    }

    #[test]
    fn a_node_that_shares_keys_with_two_is_refused() {
        assert_eq!(token_shards(&[vec![100, 300], vec![200]]), Err(Overlap { rack: 1, node: 0 }));
        assert_eq!(token_shards(&[vec![100, 300], vec![100, 250]]), Err(Overlap { rack: 0, node: 1 }));
    }
}

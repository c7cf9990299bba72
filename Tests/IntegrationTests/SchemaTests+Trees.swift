extension SchemaTests {
    private static func tree(size: Int = 256, chain: String = "sha256('c')") -> String {
        "insert into subledger.head_tree (stream_id, size, chain) values (1, \(size), \(chain))"
    }

    private static func tile(
        level: Int = 0, number: Int = 0, root: String = "sha256('r')",
        hashes: String = "decode(repeat('00', 8192), 'hex')"
    ) -> String {
        """
        insert into subledger.head_tile (stream_id, level, number, root, hashes)
        values (1, \(level), \(number), \(root), \(hashes))
        """
    }

    private static func checkpoint(size: Int = 1, root: String = "sha256('r')") -> String {
        """
        insert into subledger.head_checkpoint (stream_id, origin, size, root, note, signed_at)
        values (1, 'o', \(size), \(root), 'n', now())
        """
    }

    private static func cosignature(size: Int = 1) -> String {
        """
        insert into subledger.head_cosignature (stream_id, witness, origin, size, note, cosigned_at)
        values (1, 'w', 'o', \(size), 'n', now())
        """
    }

    static let brokenTrees = [
        Broken(constraint: "head_tree_pkey", sqlstate: "23505", statement: "\(tree()); \(tree())"),
        Broken(constraint: "head_tree_size_check", sqlstate: "23514", statement: tree(size: 255)),
        Broken(constraint: "head_tree_size_check", sqlstate: "23514", statement: tree(size: -256)),
        Broken(constraint: "head_tree_chain_check", sqlstate: "23514", statement: tree(chain: "'c'")),
        Broken(constraint: "head_tile_pkey", sqlstate: "23505", statement: "\(tile()); \(tile())"),
        Broken(constraint: "head_tile_level_check", sqlstate: "23514", statement: tile(level: 8)),
        Broken(constraint: "head_tile_number_check", sqlstate: "23514", statement: tile(number: -1)),
        Broken(constraint: "head_tile_root_check", sqlstate: "23514", statement: tile(root: "'r'")),
        Broken(constraint: "head_tile_hashes_check", sqlstate: "23514", statement: tile(hashes: "sha256('h')")),
        Broken(constraint: "head_checkpoint_pkey", sqlstate: "23505", statement: "\(checkpoint()); \(checkpoint())"),
        Broken(constraint: "head_checkpoint_size_check", sqlstate: "23514", statement: checkpoint(size: 0)),
        Broken(constraint: "head_checkpoint_root_check", sqlstate: "23514", statement: checkpoint(root: "'r'")),
        Broken(
            constraint: "head_cosignature_pkey", sqlstate: "23505", statement: "\(cosignature()); \(cosignature())"),
        Broken(constraint: "head_cosignature_size_check", sqlstate: "23514", statement: cosignature(size: 0)),
    ]
}

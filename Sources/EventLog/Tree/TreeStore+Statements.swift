import Postgres

extension TreeStore {
    enum Statements {
        static let streams = Statement(
            "tree_streams",
            """
            select stream.stream_id, stream.app, stream.environment, stream.created_at, stream_head.position,
              head_tree.size, head_tree.chain, event.chain, head_checkpoint.size
            from subledger.stream_head
            join subledger.stream on stream.stream_id = stream_head.stream_id
            left join subledger.head_tree on head_tree.stream_id = stream_head.stream_id
            left join subledger.event
              on event.stream_id = stream_head.stream_id and event.position = head_tree.size
            left join subledger.head_checkpoint on head_checkpoint.stream_id = stream_head.stream_id
            order by stream.app, stream.environment
            """)

        private static let endOfTiles: SQL = """
            select size, chain
            from subledger.head_tree
            where stream_id = $1
            """

        static let end = Statement("tree_end", "\(endOfTiles)")
        static let lock = Statement("tree_lock", "\(endOfTiles) for update")
        static let tryLock = Statement("tree_try_lock", "\(endOfTiles) for update skip locked")

        static let begin = Statement(
            "tree_begin",
            """
            insert into subledger.head_tree (stream_id, size, chain)
            values ($1, 0, $2)
            on conflict (stream_id) do nothing
            """)

        static let setEnd = Statement(
            "tree_set_end",
            """
            update subledger.head_tree
            set size = $3, chain = $4
            where stream_id = $1
              and size = $2
            returning size
            """)

        static let insert = Statement(
            "tree_insert",
            """
            insert into subledger.head_tile (stream_id, level, number, root, hashes)
            select $1, input.level, input.number, input.root, input.hashes
            from unnest($2::integer[], $3::bigint[], $4::bytea[], $5::bytea[]) as input (level, number, root, hashes)
            """)

        static let tiles = Statement(
            "tree_tiles",
            """
            select head_tile.level, head_tile.number, head_tile.hashes
            from unnest($2::integer[], $3::bigint[]) as input (level, number)
            join subledger.head_tile
              on head_tile.stream_id = $1 and head_tile.level = input.level and head_tile.number = input.number
            """)

        static let roots = Statement(
            "tree_roots",
            """
            select root
            from subledger.head_tile
            where stream_id = $1
              and level = $2
              and number >= $3
              and number < $4
            order by number
            """)

        static let last = Statement(
            "tree_last",
            """
            select coalesce(max(position), 0)
            from subledger.stream_head
            where stream_id = $1
            """)

        static let checkpoint = Statement(
            "tree_checkpoint",
            """
            select note
            from subledger.head_checkpoint
            where stream_id = $1
              and origin = $2
            """)

        static let checkpoints = Statement(
            "tree_checkpoints",
            """
            select note
            from subledger.head_checkpoint
            where stream_id = $1
            union
            select note
            from subledger.head_cosignature
            where stream_id = $1
            """)

        static let keepCheckpoint = Statement(
            "tree_keep_checkpoint",
            """
            insert into subledger.head_checkpoint (stream_id, origin, size, root, note, signed_at)
            values ($1, $2, $3, $4, $5, $6)
            on conflict (stream_id) do update
            set origin = excluded.origin, size = excluded.size, root = excluded.root, note = excluded.note,
              signed_at = excluded.signed_at
            """)

        static let cosigned = Statement(
            "tree_cosigned",
            """
            select note
            from subledger.head_cosignature
            where stream_id = $1
              and origin = $2
            order by size desc, witness
            """)

        static let keepCosignature = Statement(
            "tree_keep_cosignature",
            """
            insert into subledger.head_cosignature as kept (stream_id, witness, origin, size, note, cosigned_at)
            values ($1, $2, $3, $4, $5, $6)
            on conflict (stream_id, witness) do update
            set origin = excluded.origin, size = excluded.size, note = excluded.note,
              cosigned_at = excluded.cosigned_at
            where kept.origin <> excluded.origin
              or kept.size <= excluded.size
            """)
    }
}

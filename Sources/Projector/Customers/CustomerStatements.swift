import EventLog
import Postgres

/// SQL for folding customers. As in ``ProjectionStatements``, tables are named without a schema.
enum CustomerStatements {
    /// All keys of the store accounts that some keys belong to. An account token that is not shared leads to the
    /// subscriptions that it is on, but joins no store accounts.
    static let reach = Statement(
        "customer_reach",
        """
        with recursive reached (kind, id) as (
          select kind, id
          from unnest($2::text[], $3::text[]) as seed (kind, id)
          union
          select tied.kind, tied.id
          from reached
          cross join lateral (
            \(CustomerTies.step(in: "", where: "customer_edge.kind <> 'account'"))
          ) as tied
        )
        select kind, id
        from reached
        """)

    /// Looks up the rows of a table by a key that two arrays give. `offset 0` makes PostgreSQL look up each one.
    private static func found(_ columns: SQL, in table: SQL) -> SQL {
        found(columns, in: table, by: ["kind", "id"], of: "input (kind, id)", from: "$2::text[], $3::text[]")
    }

    /// - Parameters:
    ///   - key: The columns by which rows are looked up. They should begin an index.
    ///   - input: The name `input` and the columns that the arrays give, which may be more.
    private static func found(
        _ columns: SQL, in table: SQL, by key: [SQL], of input: SQL, from arrays: SQL
    ) -> SQL {
        let isSame = key.map { column -> SQL in "\(table).\(column) = input.\(column)" }.joined(separator: " and ")
        return """
            unnest(\(arrays)) as \(input)
            cross join lateral (
              select \(columns)
              from \(table)
              where \(table).stream_id = $1
                and \(isSame)
              offset 0
            ) as found
            """
    }

    /// The links on some keys, and all links of some customers.
    static let loadLinks = Statement(
        "customer_load_links",
        """
        select found.backend_customer_id, found.kind, found.id, found.position, found.replaced_position, found.basis
        from \(found("backend_customer_id, kind, id, position, replaced_position, basis", in: "customer_link"))
        union all
        select backend_customer_id, kind, id, position, replaced_position, basis
        from customer_link
        where stream_id = $1
          and backend_customer_id = any ($4::text[])
        """)

    static let loadOwnership = Statement(
        "customer_load_ownership",
        """
        select original_transaction_id, customer_kind, customer_id, starts_at, ends_at, reason, position
        from ownership
        where stream_id = $1
          and original_transaction_id = any ($2::text[])
        """)

    static let deleteOwnership = Statement(
        "customer_delete_ownership",
        """
        delete from ownership
        where stream_id = $1
          and original_transaction_id = any ($2::text[])
        """)

    static let writeOwnership = Statement("customer_write_ownership", insertOwnership)
    /// The same for rows of which another connection may write some.
    static let addOwnership = Statement("customer_add_ownership", "\(insertOwnership) on conflict do nothing")

    private static let insertOwnership: SQL = """
        insert into ownership (
          stream_id, original_transaction_id, starts_at, ends_at, customer_kind, customer_id, reason, position
        )
        select $1, unnest($2::text[]), unnest($3::timestamptz[]), unnest($4::timestamptz[]), unnest($5::text[]),
          unnest($6::text[]), unnest($7::text[]), unnest($8::bigint[])
        """

    static let loadIdentities = Statement(
        "customer_load_identities",
        """
        select found.kind, found.id, found.customer_kind, found.customer_id, found.starts_at, found.ends_at
        from \(found("kind, id, customer_kind, customer_id, starts_at, ends_at", in: "customer_identity"))
        """)

    static let deleteIdentities = Statement(
        "customer_delete_identities",
        """
        delete from customer_identity
        where stream_id = $1
          and ctid = any (array(
            select found.ctid
            from \(found("ctid", in: "customer_identity"))
          ))
        """)

    static let writeIdentities = Statement("customer_write_identities", insertIdentities)
    /// See ``addOwnership``.
    static let addIdentities = Statement("customer_add_identities", "\(insertIdentities) on conflict do nothing")

    private static let insertIdentities: SQL = """
        insert into customer_identity (stream_id, kind, id, starts_at, ends_at, customer_kind, customer_id)
        select $1, unnest($2::text[]), unnest($3::text[]), unnest($4::timestamptz[]), unnest($5::timestamptz[]),
          unnest($6::text[]), unnest($7::text[])
        """

    /// A page of the keys that links name, after a key.
    static let pageLinkedKeys = Statement(
        "customer_page_linked_keys",
        """
        select distinct kind, id
        from customer_link
        where stream_id = $1
          and (kind, id) > ($2, $3)
        order by kind, id
        limit $4
        """)

    static let writeEdges = Statement(
        "customer_write_edges",
        """
        insert into customer_edge (stream_id, original_transaction_id, kind, id, position, store_account)
        select $1, unnest($2::text[]), unnest($3::text[]), unnest($4::text[]), unnest($5::bigint[]), unnest($6::text[])
        on conflict (stream_id, original_transaction_id, kind, id) do update
        set position = excluded.position,
          store_account = excluded.store_account
        """)

    /// The lookup of edges by their subscription, which has few: by the id, PostgreSQL could read all edges of a token.
    private static let edgesOfSubscriptions = found(
        "ctid, kind, id", in: "customer_edge", by: ["original_transaction_id"],
        of: "input (original_transaction_id, kind, id)", from: "$2::text[], $3::text[], $4::text[]")

    static let deleteEdges = Statement(
        "customer_delete_edges",
        """
        delete from customer_edge
        where stream_id = $1
          and ctid = any (array(
            select found.ctid
            from \(edgesOfSubscriptions)
            where found.kind = input.kind
              and found.id = input.id
          ))
        """)

    /// Ends the links of some customers, each at the position of its new complete statement, and returns the links that
    /// it ended. Grants and seats are no links of the backend's, and stay.
    static let replaceLinks = Statement(
        "customer_replace_links",
        """
        update customer_link
        set replaced_position = input.position
        from unnest($2::text[], $3::bigint[]) as input (backend_customer_id, position)
        where customer_link.stream_id = $1
          and customer_link.backend_customer_id = input.backend_customer_id
          and customer_link.replaced_position is null
          and customer_link.id not like 'grant:%'
          and customer_link.basis <> 'seat'
        returning customer_link.backend_customer_id, customer_link.kind, customer_link.id
        """)

    static let writeLinks = Statement(
        "customer_write_links",
        """
        insert into customer_link (stream_id, backend_customer_id, position, kind, id, replaced_position, basis)
        select $1, unnest($2::text[]), unnest($3::bigint[]), unnest($4::text[]), unnest($5::text[]),
          unnest($6::bigint[]), unnest($7::text[])
        """)
}

import Postgres

/// SQL for configured products.
enum ProductStatements {
    /// The products of one app or of all, including those that have only entitlements, configured by SQL.
    static let list = Statement(
        "product_list",
        """
        select listed.app, listed.product_id, product.kind, product.duration,
          array(
            select product_entitlement.entitlement
            from subledger.product_entitlement
            where product_entitlement.app = listed.app
              and product_entitlement.product_id = listed.product_id
          ),
          product.level, product.name
        from (
          select app, product_id
          from subledger.product
          where app = coalesce($1, app)
          union
          select app, product_id
          from subledger.product_entitlement
          where app = coalesce($1, app)
        ) as listed
        left join subledger.product using (app, product_id)
        order by listed.app collate "C", listed.product_id collate "C"
        """)

    /// Also locks the rows, so that two sessions that set the same products take turns.
    static let state = Statement(
        "product_state",
        """
        insert into subledger.product (app, product_id, kind, duration, level, name)
        select app, product_id, kind, duration, level, name
        from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::integer[], $6::text[])
          as stated (app, product_id, kind, duration, level, name)
        order by app collate "C", product_id collate "C"
        on conflict (app, product_id) do update
        set kind = excluded.kind,
          duration = excluded.duration,
          level = excluded.level,
          name = excluded.name
        """)

    static let clearEntitlements = Statement(
        "product_clear_entitlements",
        """
        delete from subledger.product_entitlement
        using unnest($1::text[], $2::text[]) as stated (app, product_id)
        where product_entitlement.app = stated.app
          and product_entitlement.product_id = stated.product_id
        """)

    static let stateEntitlements = Statement(
        "product_state_entitlements",
        """
        insert into subledger.product_entitlement (app, product_id, entitlement)
        select app, product_id, entitlement
        from unnest($1::text[], $2::text[], $3::text[]) as stated (app, product_id, entitlement)
        """)

    static let remove = Statement(
        "product_remove",
        """
        delete from subledger.product
        where app = $1
          and product_id = $2
        """)

    static let removeEntitlements = Statement(
        "product_remove_entitlements",
        """
        delete from subledger.product_entitlement
        where app = $1
          and product_id = $2
        """)
}

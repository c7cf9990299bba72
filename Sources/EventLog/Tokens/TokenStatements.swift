import Postgres

enum TokenStatements {
    static let active = Statement(
        "token_active",
        """
        select token_id, scope, secret_sha256, app
        from subledger.token
        where revoked_at is null
        """)
    static let record = Statement(
        "token_record",
        """
        insert into subledger.token (token_id, secret_sha256, scope, name, app)
        select $1, $2, $3, $4, $6
        where (
          select count(*)
          from subledger.token
          where revoked_at is null
        ) < $5
        returning token_id
        """)
    static let all = Statement(
        "token_all",
        """
        select token_id, scope, name, created_at, revoked_at, app
        from subledger.token
        order by created_at, token_id
        """)
    static let revoke = Statement(
        "token_revoke",
        """
        update subledger.token
        set revoked_at = now()
        where token_id = $1
          and revoked_at is null
        returning token_id
        """)
    static let find = Statement(
        "token_find",
        """
        select token_id
        from subledger.token
        where token_id = $1
        """)
}

import Crypto
import Encoding
import Postgres

/// 256 random bits that log in, as text in a cookie or an address. Only their SHA-256 is stored.
package struct ConsoleSecret: Sendable {
    package let text: String

    package init(using generator: inout some RandomNumberGenerator) {
        text = Hex.text((0..<Self.bytes).map { _ in UInt8.random(in: 0...255, using: &generator) })
    }

    /// Parses a secret; nil if the text does not have its form.
    package init?(_ text: String) {
        let digits = Array(text.utf8)
        guard digits.count == 2 * Self.bytes, digits.withUnsafeBufferPointer({ Hex.bytes($0) }) != nil else {
            return nil
        }
        self.text = text
    }

    var digest: [UInt8] { Array(SHA256.hash(data: Array(text.utf8))) }

    /// Shows the database that this secret is known, and nothing to a reader of the database's log.
    fileprivate func proof(for session: ConsoleSecret) -> [UInt8] {
        let digits = Array(text.utf8)
        return LoginProof.bytes(
            of: digits.withUnsafeBufferPointer { Hex.bytes($0) } ?? [], digest: digest, session: session.digest)
    }

    private static let bytes = 32
}

/// A login to the console that is in force.
package struct ConsoleSession: Sendable {
    package let tokenId: String
    /// The holder of the token, in the operator's words.
    package let name: String
    package let scope: TokenScope
    /// Forms that change something must contain it.
    package let csrf: String

    package func matches(csrf text: String) -> Bool {
        SHA256.hash(data: Array(csrf.utf8)) == SHA256.hash(data: Array(text.utf8))
    }
}

/// Keeps the logins to the console.
package struct ConsoleSessions: Sendable {
    private let pool: PostgresPool

    /// - Parameter pool: With the rights of `subledger_authenticator`.
    package init(pool: PostgresPool) {
        self.pool = pool
    }

    /// Begins a session of an active token, and removes those that have ended.
    ///
    /// - Returns: The text of the cookie; nil if the token is unknown or revoked.
    package func begin(_ token: AccessToken) async throws(ReadError) -> ConsoleSecret? {
        try await begin(ConsoleSessionStatements.begin) { session in
            [Parameter(token.id), Parameter(token.proof(for: session.digest))]
        }
    }

    /// Uses a one-time login up, and begins a session of its token.
    ///
    /// - Returns: The text of the cookie; nil if the ticket is unknown, used or expired, or its token is revoked.
    package func redeem(_ ticket: ConsoleSecret) async throws(ReadError) -> ConsoleSecret? {
        try await begin(ConsoleSessionStatements.redeem) { session in
            [Parameter(ticket.digest), Parameter(ticket.proof(for: session))]
        }
    }

    /// - Parameter proof: What the session is begun for, and the proof that it is known.
    private func begin(
        _ statement: Statement, _ proof: (ConsoleSecret) -> [Parameter]
    ) async throws(ReadError) -> ConsoleSecret? {
        var random = SystemRandomNumberGenerator()
        let secret = ConsoleSecret(using: &random)
        let csrf = ConsoleSecret(using: &random)
        try await pool.run(ConsoleSessionStatements.sweep, within: Limits.readWaitMax)
        return try await pool.read(
            statement,
            proof(secret) + [
                Parameter(secret.digest), Parameter(csrf.text),
                Parameter(Int64(Limits.consoleSessionMax.components.seconds)),
            ], within: Limits.readWaitMax
        ) { (rows) throws(PostgresError) -> ConsoleSecret? in
            try rows.first?.value(Bool.self, at: 0) == true ? secret : nil
        }
    }

    /// The session of a cookie; nil if it has ended: it expired, was idle, was logged out, or its token was revoked.
    package func session(of secret: ConsoleSecret) async throws(ReadError) -> ConsoleSession? {
        let idle = Parameter(Int64(Limits.consoleIdleMax.components.seconds))
        let found = try await pool.read(
            ConsoleSessionStatements.find, [Parameter(secret.digest), idle], within: Limits.readWaitMax
        ) { (rows) throws(PostgresError) -> (session: ConsoleSession?, isStale: Bool)? in
            guard let row = rows.first else { return nil }
            let (tokenId, csrf): (String, String) = (try row.value(at: 0), try row.value(at: 2))
            let name: String = try row.value(at: 4)
            let session = TokenScope(rawValue: try row.value(at: 1)).map {
                ConsoleSession(tokenId: tokenId, name: name, scope: $0, csrf: csrf)
            }
            return (session, try row.value(at: 3))
        }
        if found?.isStale == true {
            try await pool.run(ConsoleSessionStatements.see, [Parameter(secret.digest)], within: Limits.readWaitMax)
        }
        return found?.session
    }

    package func end(_ secret: ConsoleSecret) async throws(ReadError) {
        try await pool.run(ConsoleSessionStatements.end, [Parameter(secret.digest)], within: Limits.readWaitMax)
    }
}

extension TokenStore {
    /// Makes a one-time login to the console for an active token, which can be used for ``Limits/consoleTicketMax``.
    ///
    /// - Throws: ``TokenRefusal``; ``PostgresError``.
    package func makeTicket(id: String) async throws -> ConsoleSecret {
        var random = SystemRandomNumberGenerator()
        let ticket = ConsoleSecret(using: &random)
        let made = try await connection.query(
            ConsoleSessionStatements.makeTicket,
            [
                Parameter(ticket.digest), Parameter(id),
                Parameter(Int64(Limits.consoleTicketMax.components.seconds)),
            ], deadline: .now + Limits.readWaitMax)
        guard made.count != 1 else { return ticket }
        let found = try await connection.query(
            TokenStatements.find, [Parameter(id)], deadline: .now + Limits.readWaitMax)
        throw found.count == 0 ? TokenRefusal.unknown(id) : TokenRefusal.revokedAlready(id)
    }
}

private enum ConsoleSessionStatements {
    static let sweep = Statement(
        "console_session_sweep",
        """
        delete from subledger.console_session
        where expires < now()
        """)

    static let begin = Statement(
        "console_session_begin",
        """
        select subledger.begin_console_session($1, $2, $3, $4, $5)
        """)

    static let find = Statement(
        "console_session_find",
        """
        select console_session.token_id, token.scope, console_session.csrf,
          console_session.seen < now() - interval '1 minute', token.name
        from subledger.console_session
        join subledger.token using (token_id)
        where console_session.session_sha256 = $1
          and console_session.expires > now()
          and console_session.seen > now() - make_interval(secs => $2::bigint)
          and token.revoked_at is null
        """)

    static let see = Statement(
        "console_session_see",
        """
        update subledger.console_session
        set seen = now()
        where session_sha256 = $1
        """)

    static let end = Statement(
        "console_session_end",
        """
        delete from subledger.console_session
        where session_sha256 = $1
        """)

    static let makeTicket = Statement(
        "console_ticket_make",
        """
        insert into subledger.console_ticket (ticket_sha256, token_id, expires)
        select $1, token_id, now() + make_interval(secs => $3::bigint)
        from subledger.token
        where token_id = $2
          and revoked_at is null
        returning token_id
        """)

    static let redeem = Statement(
        "console_ticket_redeem",
        """
        select subledger.redeem_console_ticket($1, $2, $3, $4, $5)
        """)
}

import Encoding
import Postgres

/// An active token, with the values that requests are checked against.
package struct ActiveToken: Sendable {
    package let id: String
    package let scope: TokenScope
    /// SHA-256 of the secret.
    package let digest: [UInt8]
    /// The app of a publishable token; nil for the others.
    package let app: String?

    package init(id: String, scope: TokenScope, digest: [UInt8], app: String? = nil) {
        self.id = id
        self.scope = scope
        self.digest = digest
        self.app = app
    }
}

/// A token as operators see it, active or revoked.
package struct TokenRecord: Sendable {
    package let id: String
    package let scope: TokenScope
    package let name: String
    /// The app of a publishable token; nil for the others.
    package let app: String?
    package let createdAt: Instant
    /// Nil while it is active.
    package let revokedAt: Instant?
}

/// Why a token was not created or revoked.
package enum TokenRefusal: Error, Hashable, CustomStringConvertible {
    case tooMany
    case unknown(String)
    case revokedAlready(String)

    package var description: String {
        switch self {
        case .tooMany: "there are \(Limits.tokensMax) active tokens, which is the maximum: revoke unused ones"
        case .unknown(let id): "there is no token \(id): see `subledger token list`"
        case .revokedAlready(let id): "token \(id) is already revoked"
        }
    }
}

/// Reads the active tokens, to authenticate requests.
package struct TokenReader: Sendable {
    private let pool: PostgresPool

    /// - Parameter pool: Must have the privileges of role `subledger_authenticator`.
    package init(pool: PostgresPool) {
        self.pool = pool
    }

    /// The active tokens, at most ``Limits/tokensMax``.
    ///
    /// - Throws: ``ReadError``.
    package func active() async throws(ReadError) -> [ActiveToken] {
        try await pool.read(TokenStatements.active, within: Limits.readWaitMax) { rows throws(PostgresError) in
            var tokens: [ActiveToken] = []
            for index in 0..<rows.count {
                // A scope that only a newer release knows grants nothing.
                guard let scope = TokenScope(rawValue: try rows[index].value(at: 1)) else { continue }
                tokens.append(
                    ActiveToken(
                        id: try rows[index].value(at: 0), scope: scope, digest: try rows[index].value(at: 2),
                        app: try rows[index].optional(at: 3)))
            }
            return tokens
        }
    }
}

/// Creates, lists and revokes tokens. Requires the owner of the schema.
package struct TokenStore: Sendable {
    let connection: PostgresConnection

    package init(connection: PostgresConnection) {
        self.connection = connection
    }

    /// Stores a new token.
    ///
    /// - Parameter app: For a publishable token, and for no other.
    /// - Throws: ``TokenRefusal/tooMany``; ``PostgresError``.
    package func record(_ token: AccessToken, scope: TokenScope, name: String, app: String? = nil) async throws {
        let made = try await connection.query(
            TokenStatements.record,
            [
                Parameter(token.id), Parameter(token.digest), Parameter(scope.rawValue), Parameter(name),
                Parameter(Int64(Limits.tokensMax)), Parameter(app),
            ], deadline: .now + Limits.readWaitMax)
        guard made.count == 1 else { throw TokenRefusal.tooMany }
    }

    /// All tokens, revoked ones included, oldest first. Omits tokens whose scope this release does not know.
    package func all() async throws -> [TokenRecord] {
        let rows = try await connection.query(TokenStatements.all, [], deadline: .now + Limits.readWaitMax)
        var tokens: [TokenRecord] = []
        for index in 0..<rows.count {
            let row = rows[index]
            guard let scope = TokenScope(rawValue: try row.value(at: 1)) else { continue }
            tokens.append(
                TokenRecord(
                    id: try row.value(at: 0), scope: scope, name: try row.value(at: 2),
                    app: try row.optional(at: 5), createdAt: try row.value(at: 3), revokedAt: try row.optional(at: 4)))
        }
        return tokens
    }

    /// Revokes a token. Servers reject it within ``Limits/tokensAgeMax``.
    ///
    /// - Throws: ``TokenRefusal``; ``PostgresError``.
    package func revoke(id: String) async throws {
        let revoked = try await connection.query(
            TokenStatements.revoke, [Parameter(id)], deadline: .now + Limits.readWaitMax)
        guard revoked.count == 0 else { return }
        let found = try await connection.query(
            TokenStatements.find, [Parameter(id)], deadline: .now + Limits.readWaitMax)
        throw found.count == 0 ? TokenRefusal.unknown(id) : TokenRefusal.revokedAlready(id)
    }
}

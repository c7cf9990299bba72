import Postgres

/// The id of a purchase of Google Play in facts and checks: its token, or `sha256:` and the digest of a token that is too
/// long for an index.
package enum PurchaseKey {
    /// The key as SQL.
    ///
    /// - Parameters:
    ///   - token: An expression with the token; may be null.
    ///   - other: An expression for the rows without a token.
    package static func sql(_ token: SQL, else other: SQL = "null") -> SQL {
        """
        case
          when \(token) is null then \(other)
          when octet_length(\(token)) > 255 then 'sha256:' || encode(sha256(convert_to(\(token), 'UTF8')), 'hex')
          else \(token)
        end
        """
    }

    /// The SHA-256 of the token as SQL.
    ///
    /// - Parameter key: An expression with the key.
    package static func digest(_ key: SQL) -> SQL {
        """
        case
          when \(key) like 'sha256:%' then decode(substr(\(key), 8), 'hex')
          else sha256(convert_to(\(key), 'UTF8'))
        end
        """
    }
}

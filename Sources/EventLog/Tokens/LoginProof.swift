import Crypto

/// The form in which a secret is shown to the database, see function `proven_secret` in schema.sql.
enum LoginProof {
    /// - Parameters:
    ///   - secret: 32 bytes.
    ///   - digest: As the database stores it.
    ///   - session: The digest of the session.
    static func bytes(of secret: [UInt8], digest: [UInt8], session: [UInt8]) -> [UInt8] {
        zip(secret, SHA256.hash(data: digest + session)).map { $0 ^ $1 }
    }
}

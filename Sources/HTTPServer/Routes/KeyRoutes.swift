import Encoding
import EventLog
import Hummingbird

/// `GET /.well-known/jwks.json` returns the public keys of signed answers (RFC 7517), of which there is one or none.
struct KeyRoutes: Sendable {
    let key: HeadKey?

    func add(to routes: PrivateRoutes) {
        routes.open.get("/.well-known/jwks.json") { _, _ in
            JSONResponse.json(.ok) { writer in
                writer.key("keys")
                writer.array([key?.publicKey].compactMap(\.self)) { $1.writeJWK(to: &$0) }
            }
        }
    }
}

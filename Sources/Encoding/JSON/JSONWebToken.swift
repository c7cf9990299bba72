/// JSON Web Tokens in compact form: header, claims and signature in base64url, with full stops between them.
///
/// - Source: RFC 7515, section 3.1.
package enum JSONWebToken {
    /// - Parameters:
    ///   - header: Writes the members of the header.
    ///   - claims: Writes the members of the claims.
    ///   - signature: Signs header and claims, as they are in the token.
    package static func text(
        header: (inout JSONWriter) -> Void, claims: (inout JSONWriter) -> Void,
        signature: (_ signed: [UInt8]) throws -> [UInt8]
    ) rethrows -> String {
        var (head, body) = (JSONWriter(), JSONWriter())
        head.object(header)
        body.object(claims)
        let signed = "\(Base64.text(head.bytes, .url)).\(Base64.text(body.bytes, .url))"
        return "\(signed).\(Base64.text(try signature(Array(signed.utf8)), .url))"
    }
}
